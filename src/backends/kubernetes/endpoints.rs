//! The record in an annotation of an Endpoints object.

use serde_json::{Map, Value};

use super::annotation;
use super::metadata::{Metadata, OwnerReference};
use super::object::{Codec, ObjectStore, Objects, object_store};
use crate::backends::kubernetes::client::Client;
use crate::backends::kubernetes::events::EventRecorder;
use crate::store::record::{LeaderElectionRecord, Observed};
use crate::store::{Call, Cursor, Store, StoreError, WatchEvent, WatchScope, delegate_store};
use crate::util::cancel::Cancel;
use crate::util::config_error::ConfigError;

object_store! {
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
    /// use leasehold::kube::{Client, ClientConfig};
    /// use leasehold::{EndpointsStore, LeaderElector};
    ///
    /// let client = Client::new(ClientConfig::infer()?)?;
    /// let elector = LeaderElector::builder("my-controller").start_on(EndpointsStore::new(client, "kube-system")?)?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub struct EndpointsStore(Endpoints), of "Endpoints";
}

#[derive(Debug)]
pub(crate) struct Endpoints;

impl Codec for Endpoints {
    const GROUP: &'static str = "";
    const API_VERSION: &'static str = "v1";
    const PATH: &'static str = "/api/v1";
    const KIND: &'static str = "Endpoints";
    const NAME: &'static str = "endpoints";
    const RESOURCE: &'static str = "endpoints";

    fn read(object: &Map<String, Value>) -> Result<LeaderElectionRecord, &'static str> {
        annotation::read(object)
    }

    fn write(object: &mut Value, record: &LeaderElectionRecord) {
        annotation::write(object, record);
    }
}
