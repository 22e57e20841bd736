//! The kinds of objects that hold a record, by the names that client-go has for them.

use std::str::FromStr;

use serde::de::IntoDeserializer;
use serde::de::value::Error;
use serde::{Deserialize, Serialize};

use super::configmap::ConfigMapStore;
use super::endpoints::EndpointsStore;
use super::lease::LeaseStore;
use super::metadata::Metadata;
use super::object::ObjectStore;
use crate::backends::kubernetes::client::Client;
use crate::util::config_error::ConfigError;
use crate::util::sync::Arc;

/// The kind of object that holds a record, or two kinds at once, by the name that client-go has for it: see
/// [`LeaderElectorBuilder::resource_lock`](crate::LeaderElectorBuilder::resource_lock).
///
/// # Examples
///
/// ```
/// use leasehold::ResourceLock;
///
/// assert_eq!("configmaps".parse(), Ok(ResourceLock::ConfigMaps));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ResourceLock {
    /// `leases`; also where it is empty.
    #[default]
    #[serde(alias = "")]
    Leases,
    /// `configmaps`.
    ConfigMaps,
    /// `endpoints`.
    Endpoints,
    /// `configmapsleases`: a ConfigMap and a Lease at once, to move from the one to the other.
    ConfigMapsLeases,
    /// `endpointsleases`: Endpoints and a Lease at once.
    EndpointsLeases,
}

/// Where an election takes place: the primary, and the secondary if there is one.
pub(crate) type Places = (Arc<dyn ObjectStore>, Option<Arc<dyn ObjectStore>>);

impl ResourceLock {
    pub(crate) fn stores(self, client: Client, namespace: &str, metadata: Metadata) -> Result<Places, ConfigError> {
        let core: Arc<dyn ObjectStore> = match self {
            Self::Leases => return Ok((Arc::new(LeaseStore::with_metadata(client, namespace, metadata)?), None)),
            Self::ConfigMaps | Self::ConfigMapsLeases => {
                Arc::new(ConfigMapStore::with_metadata(client.clone(), namespace, metadata.clone())?)
            }
            Self::Endpoints | Self::EndpointsLeases => {
                Arc::new(EndpointsStore::with_metadata(client.clone(), namespace, metadata.clone())?)
            }
        };
        let lease: Option<Arc<dyn ObjectStore>> = match self {
            Self::ConfigMapsLeases | Self::EndpointsLeases => {
                Some(Arc::new(LeaseStore::with_metadata(client, namespace, metadata)?))
            }
            _ => None,
        };
        Ok((core, lease))
    }
}

impl FromStr for ResourceLock {
    type Err = ConfigError;

    fn from_str(name: &str) -> Result<Self, ConfigError> {
        let known = Self::deserialize(IntoDeserializer::<Error>::into_deserializer(name));
        let rule = "there are leases, configmaps, endpoints, configmapsleases and endpointsleases";
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
