//! The kinds of Kubernetes objects that can contain records.

use std::sync::Arc;

use leasehold::kubernetes::Client;
use leasehold::kubernetes::{ConfigMapStore, EndpointsStore, LeaseStore};
use leasehold::store::Store;
use serde_json::Value;

use super::cluster::NAMESPACE;

const ANNOTATION: &str = "control-plane.alpha.kubernetes.io/leader";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Lease,
    ConfigMap,
    Endpoints,
}

impl Kind {
    pub fn store(self, client: Client) -> Arc<dyn Store> {
        match self {
            Kind::Lease => Arc::new(LeaseStore::new(client, NAMESPACE).expect("a store")),
            Kind::ConfigMap => Arc::new(ConfigMapStore::new(client, NAMESPACE).expect("a store")),
            Kind::Endpoints => Arc::new(EndpointsStore::new(client, NAMESPACE).expect("a store")),
        }
    }

    pub fn collection(self) -> String {
        match self {
            Kind::Lease => format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"),
            Kind::ConfigMap => format!("/api/v1/namespaces/{NAMESPACE}/configmaps"),
            Kind::Endpoints => format!("/api/v1/namespaces/{NAMESPACE}/endpoints"),
        }
    }

    /// Returns the record in an object of this kind.
    pub fn record(self, object: &Value) -> Value {
        match self {
            Kind::Lease => object["spec"].clone(),
            Kind::ConfigMap | Kind::Endpoints => {
                let text = object["metadata"]["annotations"][ANNOTATION].as_str().expect("the annotation");
                serde_json::from_str(text).expect("a record in JSON")
            }
        }
    }
}
