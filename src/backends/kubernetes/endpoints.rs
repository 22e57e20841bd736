//! The record in an annotation of an Endpoints object.

use super::object::{Codec, ObjectStore};

/// Records in the Endpoints of a namespace, for clusters and peers that elect on these: a key is the name of an Endpoints object.
///
/// The record is JSON in the annotation `control-plane.alpha.kubernetes.io/leader`, as client-go's lock `endpoints` had it
/// (last in v0.23). All else is as in a [`ConfigMapStore`](crate::ConfigMapStore). The name must be no Service's: the controller
/// of its endpoints would overwrite labels and subsets. API servers warn of this kind as deprecated since 1.33, which goes to
/// the log once.
///
/// # Examples
///
/// ```no_run
/// use leasehold::kubernetes::{Client, ClientConfig};
/// use leasehold::{EndpointsStore, LeaderElector};
///
/// let client = Client::new(ClientConfig::infer()?)?;
/// let elector = LeaderElector::builder("my-controller").start_on(EndpointsStore::new(client, "kube-system")?)?;
/// # Ok::<(), leasehold::Error>(())
/// ```
pub type EndpointsStore = ObjectStore<EndpointsKind>;

/// The kind `Endpoints`.
#[derive(Debug)]
pub struct EndpointsKind;

impl Codec for EndpointsKind {
    const GROUP: &'static str = "";
    const API_VERSION: &'static str = "v1";
    const PATH: &'static str = "/api/v1";
    const KIND: &'static str = "Endpoints";
    const NAME: &'static str = "endpoints";
    const RESOURCE: &'static str = "endpoints";
}
