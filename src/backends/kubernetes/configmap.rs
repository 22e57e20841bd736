//! The record in an annotation of a ConfigMap.

use super::object::{Codec, ObjectStore};

/// A store in the ConfigMaps of a namespace; a key is the name of a ConfigMap.
///
/// Use this store if other candidates of the election use ConfigMaps. The record is JSON in the annotation
/// `control-plane.alpha.kubernetes.io/leader`. client-go's lock `configmaps` (last in v0.23) and Python's client use
/// the same annotation.
///
/// An update keeps the object's data, labels and other annotations, and unknown fields of the record. Each renewal
/// sends the whole ConfigMap, so the ConfigMap should contain little else.
///
/// An object without the annotation, or with an empty annotation, has no holder. If the annotation has any other text
/// that is not a record, requests fail with [`StoreErrorKind::Malformed`](crate::store::StoreErrorKind::Malformed) and
/// the store does not overwrite the text.
///
/// Requires the verbs `get`, `create`, `update` and `watch` on `configmaps` of the API group `""`. Any number of
/// electors may share one store behind an `Arc`.
///
/// # Examples
///
/// ```no_run
/// use leasehold::kubernetes::{Client, ClientConfig};
/// use leasehold::kubernetes::ConfigMapStore;
/// use leasehold::LeaderElector;
///
/// let client = Client::new(ClientConfig::infer()?)?;
/// let elector = LeaderElector::builder("my-controller").start_on(ConfigMapStore::new(client, "kube-system")?)?;
/// # Ok::<(), leasehold::Error>(())
/// ```
pub type ConfigMapStore = ObjectStore<ConfigMapKind>;

/// The type parameter of [`ObjectStore`] for the kind `ConfigMap`.
#[derive(Debug)]
pub struct ConfigMapKind;

impl Codec for ConfigMapKind {
    const API_VERSION: &'static str = "v1";
    const KIND: &'static str = "ConfigMap";
    const NAME: &'static str = "config map";
    const RESOURCE: &'static str = "configmaps";
}
