//! The supported resources, verbs and API groups.

use std::fmt;

/// A kind of object that the server stores.
///
/// # Examples
///
/// ```
/// use leasehold_testing::{ApiServer, Resource};
///
/// let server = ApiServer::start()?;
/// assert!(server.list(Resource::Leases, "default").is_empty());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Resource {
    /// `coordination.k8s.io/v1` leases.
    Leases,
    /// `v1` config maps.
    ConfigMaps,
    /// `v1` endpoints.
    Endpoints,
    /// Events, one collection with the two forms `v1` and `events.k8s.io/v1`.
    ///
    /// [`ApiServer::get`](crate::ApiServer::get) and similar methods use the `v1` form.
    Events,
}

/// The operation of a request, named as in RBAC rules.
///
/// # Examples
///
/// ```
/// use leasehold_testing::{Resource, User, Verb};
///
/// let reader = User::new("reader", "s3cret").grant(Verb::Get, Resource::Leases);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// GET of one object.
    Get,
    /// GET of a collection.
    List,
    /// GET of a collection with `watch=true`.
    Watch,
    /// POST.
    Create,
    /// PUT.
    Update,
    /// DELETE.
    Delete,
}

/// The API group that serves a [`Resource`], and the kind of the objects in that group.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Api {
    pub resource: Resource,
    /// The name of the group, which is empty for the core group.
    pub group: &'static str,
    pub kind: &'static str,
    /// `true` if PUT accepts an object without `metadata.resourceVersion`.
    pub unconditional_update: bool,
    /// `true` if PUT of an absent object creates the object.
    pub create_on_update: bool,
    /// The deprecation warning in every response of this API.
    pub deprecation: Option<&'static str>,
}

pub(crate) const LEASES: Api = Api {
    resource: Resource::Leases,
    group: "coordination.k8s.io",
    kind: "Lease",
    unconditional_update: false,
    create_on_update: true,
    deprecation: None,
};

pub(crate) const CONFIG_MAPS: Api = Api {
    resource: Resource::ConfigMaps,
    group: "",
    kind: "ConfigMap",
    unconditional_update: true,
    create_on_update: false,
    deprecation: None,
};

pub(crate) const ENDPOINTS: Api = Api {
    resource: Resource::Endpoints,
    kind: "Endpoints",
    create_on_update: true,
    deprecation: Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
    ..CONFIG_MAPS
};

pub(crate) const EVENTS: Api = Api { resource: Resource::Events, kind: "Event", create_on_update: true, ..CONFIG_MAPS };

pub(crate) const EVENTS_K8S: Api = Api { group: "events.k8s.io", ..EVENTS };

pub(crate) const APIS: [&Api; 5] = [&LEASES, &CONFIG_MAPS, &ENDPOINTS, &EVENTS, &EVENTS_K8S];

impl Resource {
    /// Returns the plural name, as in URLs and RBAC rules.
    pub fn plural(self) -> &'static str {
        match self {
            Resource::Leases => "leases",
            Resource::ConfigMaps => "configmaps",
            Resource::Endpoints => "endpoints",
            Resource::Events => "events",
        }
    }

    /// Returns the API in whose form objects are stored.
    pub(crate) fn storage_api(self) -> &'static Api {
        match self {
            Resource::Leases => &LEASES,
            Resource::ConfigMaps => &CONFIG_MAPS,
            Resource::Endpoints => &ENDPOINTS,
            Resource::Events => &EVENTS,
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.plural())
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Delete => "delete",
        })
    }
}

impl Api {
    pub fn find(group: &str, plural: &str) -> Option<&'static Api> {
        APIS.into_iter().find(|api| api.group == group && api.resource.plural() == plural)
    }

    pub fn plural(&self) -> &'static str {
        self.resource.plural()
    }

    /// Returns the plural and the group, such as `leases.coordination.k8s.io`.
    ///
    /// Returns only the plural for the core group.
    pub fn qualified(&self) -> String {
        self.qualify(self.plural())
    }

    /// Returns the kind and the group, such as `Lease.coordination.k8s.io`.
    ///
    /// Returns only the kind for the core group.
    pub fn qualified_kind(&self) -> String {
        self.qualify(self.kind)
    }

    pub fn api_version(&self) -> String {
        if self.group.is_empty() { "v1".to_owned() } else { format!("{}/v1", self.group) }
    }

    fn qualify(&self, name: &str) -> String {
        if self.group.is_empty() { name.to_owned() } else { format!("{name}.{}", self.group) }
    }
}
