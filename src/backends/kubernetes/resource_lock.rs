//! The kinds of objects that hold a record, with their client-go names.

use std::str::FromStr;

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error;

use super::configmap::ConfigMapKind;
use super::endpoints;
use super::lease::LeaseKind;
use super::metadata::Metadata;
use super::multi_lock::MultiLock;
use super::object::{Codec, ObjectStore};
use crate::backends::kubernetes::client::Client;
use crate::backends::kubernetes::events::EventRecorder;
use crate::election::settings::Settings;
use crate::store::Store;
use crate::util::config_error::ConfigError;
use crate::util::sync::Arc;

/// The kind of object that holds the record, or two kinds at once.
///
/// The kinds have the names of client-go's locks.
///
/// See [`LeaderElectorBuilder::resource_lock`](crate::LeaderElectorBuilder::resource_lock). Defaults to `Leases`.
///
/// # Examples
///
/// ```
/// use leasehold::client_go::ResourceLock;
///
/// assert_eq!("configmaps".parse(), Ok(ResourceLock::ConfigMaps));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ResourceLock {
    /// `leases`, or an empty name: a Lease.
    #[default]
    #[serde(alias = "")]
    Leases,
    /// `configmaps`: a ConfigMap.
    ConfigMaps,
    /// `endpoints`: an Endpoints object.
    Endpoints,
    /// `configmapsleases`: a ConfigMap and a Lease together, for a migration.
    ConfigMapsLeases,
    /// `endpointsleases`: an Endpoints object and a Lease together, for a migration.
    EndpointsLeases,
}

/// The objects of an election that hold the record.
#[derive(Clone, Default)]
pub(crate) struct ObjectChoice {
    pub(crate) lock: ResourceLock,
    pub(crate) metadata: Metadata,
    pub(crate) events: bool,
}

/// The store of one or two objects, and a recorder of the candidate's events for each object.
pub(crate) struct ElectionObjects {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) events: Vec<EventRecorder>,
}

impl ObjectChoice {
    /// Returns the store of the objects, which have the name `key`.
    pub(crate) fn objects(
        &self,
        client: &Client,
        namespace: &str,
        key: &str,
        settings: &Settings,
    ) -> Result<ElectionObjects, ConfigError> {
        use ResourceLock::{ConfigMaps, ConfigMapsLeases, Endpoints, EndpointsLeases, Leases};
        let of = match self.lock {
            Leases => Self::of::<LeaseKind>,
            ConfigMaps | ConfigMapsLeases => Self::of::<ConfigMapKind>,
            Endpoints | EndpointsLeases => Self::of::<endpoints::EndpointsKind>,
        };
        let identity = &settings.identity;
        let (primary, events) = of(self, client, namespace, key, identity)?;
        if !self.lock.has_two_objects() {
            return Ok(ElectionObjects { store: primary, events: vec![events] });
        }
        let (lease, lease_events) = self.of::<LeaseKind>(client, namespace, key, identity)?;
        let store = Arc::new(MultiLock::new([primary, lease], identity, settings.published_seconds()));
        Ok(ElectionObjects { store, events: vec![events, lease_events] })
    }

    fn of<C: Codec>(
        &self,
        client: &Client,
        namespace: &str,
        key: &str,
        identity: &str,
    ) -> Result<(Arc<dyn Store>, EventRecorder), ConfigError> {
        let store = ObjectStore::<C>::with_metadata(client.clone(), namespace, self.metadata.clone())?;
        store.check_key(key)?;
        let events = store.event_recorder(key, identity)?;
        Ok((Arc::new(store), events))
    }
}

impl ResourceLock {
    /// Returns `true` if the record consists of two objects.
    pub(crate) fn has_two_objects(self) -> bool {
        matches!(self, Self::ConfigMapsLeases | Self::EndpointsLeases)
    }
}

impl FromStr for ResourceLock {
    type Err = ConfigError;

    fn from_str(name: &str) -> Result<Self, ConfigError> {
        let known = Self::deserialize(IntoDeserializer::<Error>::into_deserializer(name));
        let rule = "must be leases, configmaps, endpoints, configmapsleases or endpointsleases";
        known.map_err(|_| ConfigError::new("resourceLock", format_args!("{name:?}"), rule))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_have_the_names_of_client_go() {
        for (name, lock) in [
            ("", ResourceLock::Leases),
            ("leases", ResourceLock::Leases),
            ("configmaps", ResourceLock::ConfigMaps),
            ("endpoints", ResourceLock::Endpoints),
            ("configmapsleases", ResourceLock::ConfigMapsLeases),
            ("endpointsleases", ResourceLock::EndpointsLeases),
        ] {
            assert_eq!(name.parse(), Ok(lock));
            assert_eq!(serde_json::from_value::<ResourceLock>(name.into()).unwrap(), lock);
        }
        for name in ["Leases", "lease", "pods", "leases "] {
            let error = name.parse::<ResourceLock>().unwrap_err().to_string();
            assert!(error.contains(&format!("{name:?}")) && error.contains("endpointsleases"), "{error}");
        }
    }
}
