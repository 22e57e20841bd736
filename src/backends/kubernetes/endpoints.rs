//! The record in an annotation of an Endpoints object.

use super::object::{Codec, ObjectStore};

/// A store in the Endpoints of a namespace; a key is the name of an Endpoints object.
///
/// Use this store if other candidates of the election use Endpoints. The record is JSON in the annotation
/// `control-plane.alpha.kubernetes.io/leader`, as in client-go's lock `endpoints` (last in v0.23). The store otherwise
/// works like a [`ConfigMapStore`](crate::kubernetes::ConfigMapStore), with rights on `endpoints`.
///
/// The name must not be the name of a Service, because the endpoints controller would overwrite labels and subsets.
/// Since Kubernetes 1.33, API servers warn that this kind is deprecated. The client logs this warning once.
///
/// # Examples
///
/// ```no_run
/// use leasehold::kubernetes::{Client, ClientConfig};
/// use leasehold::kubernetes::EndpointsStore;
/// use leasehold::LeaderElector;
///
/// let client = Client::new(ClientConfig::infer()?)?;
/// let elector = LeaderElector::builder("my-controller").start_on(EndpointsStore::new(client, "kube-system")?)?;
/// # Ok::<(), leasehold::Error>(())
/// ```
pub type EndpointsStore = ObjectStore<EndpointsKind>;

/// The type parameter of [`ObjectStore`] for the kind `Endpoints`.
#[derive(Debug)]
pub struct EndpointsKind;

impl Codec for EndpointsKind {
    const API_VERSION: &'static str = "v1";
    const KIND: &'static str = "Endpoints";
    const NAME: &'static str = "endpoints";
    const RESOURCE: &'static str = "endpoints";
}
