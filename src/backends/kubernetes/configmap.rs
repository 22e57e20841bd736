//! The record in an annotation of a ConfigMap.

use super::object::{Codec, ObjectStore};

/// Records in the ConfigMaps of a namespace, for clusters and peers that elect on these: a key is the name of a ConfigMap.
///
/// The record is JSON in the annotation `control-plane.alpha.kubernetes.io/leader`, as client-go's lock `configmaps` had it
/// (last in v0.23) and as Python's client has it. Data, labels, other annotations and fields of the record that others put
/// there survive. Each renewal sends the whole ConfigMap, so it should hold little else.
///
/// It takes the verbs `get`, `create`, `update` and `watch` on `configmaps` of the API group `""`. Behind an `Arc` any number of
/// electors may share one.
///
/// An object without the annotation, or with an empty one, is held by nobody. Any other text that is no record is an error
/// ([`StoreErrorKind::Malformed`](crate::StoreErrorKind::Malformed)), and is never overwritten.
///
/// # Examples
///
/// ```no_run
/// use leasehold::kubernetes::{Client, ClientConfig};
/// use leasehold::{ConfigMapStore, LeaderElector};
///
/// let client = Client::new(ClientConfig::infer()?)?;
/// let elector = LeaderElector::builder("my-controller").start_on(ConfigMapStore::new(client, "kube-system")?)?;
/// # Ok::<(), leasehold::Error>(())
/// ```
pub type ConfigMapStore = ObjectStore<ConfigMapKind>;

/// The kind `ConfigMap`.
#[derive(Debug)]
pub struct ConfigMapKind;

impl Codec for ConfigMapKind {
    const GROUP: &'static str = "";
    const API_VERSION: &'static str = "v1";
    const PATH: &'static str = "/api/v1";
    const KIND: &'static str = "ConfigMap";
    const NAME: &'static str = "config map";
    const RESOURCE: &'static str = "configmaps";
}
