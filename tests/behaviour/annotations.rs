//! Elections on ConfigMaps and Endpoints, with the record in an annotation, on both servers.

use std::sync::Arc;
use std::time::Duration;

use crate::support::api::Method;
use leasehold::client_go::ResourceLock;
use leasehold::kubernetes::OwnerReference;
use leasehold::store::{CallContext, CancelToken, LeaderElectionRecord, Store, StoreErrorKind};
use leasehold::{LeaderElector, LeaderElectorBuilder};
use serde_json::{Value, json};

use crate::on_both_servers;
use crate::support::cluster::{Cluster, NAMESPACE, brief};
use crate::support::kind::Kind;
use crate::support::{SOON, wait_until};

const KEY: &str = "control-plane.alpha.kubernetes.io/leader";

const KINDS: [Kind; 2] = [Kind::ConfigMap, Kind::Endpoints];

on_both_servers! {
    handover_leaves_a_record_in_client_go_format,
    foreign_content_of_the_object_survives,
    object_without_a_holder_is_updated,
    a_record_of_python_is_waited_out,
    invalid_record_is_never_overwritten,
    candidate_without_rights_learns_which_to_grant,
    metadata_is_added_to_an_existing_object,
}

/// An object of one kind for one test.
struct Object<'a> {
    cluster: &'a Cluster,
    kind: Kind,
    name: String,
}

impl<'a> Object<'a> {
    fn of_each_kind(cluster: &'a Cluster) -> impl Iterator<Item = Self> {
        KINDS.into_iter().map(move |kind| Object { cluster, kind, name: cluster.lease.clone() })
    }

    fn store(&self, user: &str) -> Arc<dyn Store> {
        self.kind.store(self.cluster.client(user))
    }

    fn builder(&self, identity: &str) -> LeaderElectorBuilder {
        brief(&self.name, identity).release_timeout(Duration::from_secs(20))
    }

    fn elector(&self, identity: &str) -> LeaderElector {
        self.builder(identity).start_on(self.store("admin")).expect("an elector")
    }

    fn request(&self, method: Method, body: Option<&Value>) -> Value {
        let path = match method {
            Method::POST => self.kind.collection(),
            _ => format!("{}/{}", self.kind.collection(), self.name),
        };
        self.cluster.api("admin").request(method, &path, body).expect("an answer")
    }

    /// Creates the object with other content, and with `annotation` as its record, if given.
    fn create(&self, annotation: Option<&str>) -> Value {
        let (kind, more) = match self.kind {
            Kind::Lease => unreachable!("a Lease holds no record in an annotation"),
            Kind::ConfigMap => ("ConfigMap", json!({ "data": { "a": "1" }, "binaryData": { "b": "AQI=" } })),
            Kind::Endpoints => (
                "Endpoints",
                json!({ "subsets": [{ "addresses": [{ "ip": "192.0.2.7" }], "ports": [{ "port": 80 }] }] }),
            ),
        };
        let mut object = json!({
            "apiVersion": "v1", "kind": kind,
            "metadata": { "name": self.name, "labels": { "team": "blue" }, "annotations": { "other": "kept" } },
        });
        object.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("an object"));
        if let Some(annotation) = annotation {
            object["metadata"]["annotations"][KEY] = json!(annotation);
        }
        self.request(Method::POST, Some(&object))
    }

    fn get(&self) -> Value {
        self.request(Method::GET, None)
    }

    fn record(&self) -> Value {
        let object = self.get();
        let text = object["metadata"]["annotations"][KEY].as_str().expect("an annotation");
        serde_json::from_str(text).expect("JSON")
    }
}

/// Returns the parts of the object that the library does not own.
fn others(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().expect("metadata");
    metadata.retain(|name, _| !["resourceVersion", "managedFields"].contains(&name.as_str()));
    metadata["annotations"].as_object_mut().expect("annotations").remove(KEY);
    object
}

fn handover_leaves_a_record_in_client_go_format(cluster: &Cluster) {
    for object in Object::of_each_kind(cluster) {
        let (a, b) = (object.elector("a"), object.elector("b"));
        let first = a.block_until_leader().expect("a term");
        let record = object.record();
        let names: Vec<_> = record.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(names, ["acquireTime", "holderIdentity", "leaderTransitions", "leaseDurationSeconds", "renewTime"]);
        assert_eq!((&record["holderIdentity"], &record["leaseDurationSeconds"]), (&json!("a"), &json!(4)));
        let time = record["renewTime"].as_str().expect("a text");
        assert!(time.len() == "2026-11-21T11:01:10.000000Z".len() && time.ends_with('Z'), "{time}");
        let campaign = b.campaign().expect("a campaign");
        let token = first.fencing_token();
        drop(first);
        let second = campaign.receiver().recv_timeout(SOON).expect("an answer").expect("a term");
        assert!(second.fencing_token() > token, "{:?}", object.kind);
        assert_eq!(object.record()["leaderTransitions"], 1);
        second.release().expect("a release");
        let released = object.record();
        assert_eq!((&released["holderIdentity"], &released["leaderTransitions"]), (&json!(""), &json!(1)));
    }
}

fn foreign_content_of_the_object_survives(cluster: &Cluster) {
    for object in Object::of_each_kind(cluster) {
        let before = object.create(Some(r#"{"holderIdentity":"","strategy":"x"}"#));
        let guard = object.elector("a").block_until_leader().expect("a term");
        let first = object.get();
        wait_until("a renewal", || object.get()["metadata"]["annotations"] != first["metadata"]["annotations"]);
        guard.release().expect("a release");
        let after = object.get();
        assert_eq!(others(after), others(before));
        assert_eq!(object.record()["strategy"], "x");
    }
}

fn object_without_a_holder_is_updated(cluster: &Cluster) {
    let free = [None, Some(""), Some("{}"), Some("null"), Some(r#"{"holderIdentity":"","leaseDurationSeconds":3600}"#)];
    for (number, annotation) in free.into_iter().enumerate() {
        for mut object in Object::of_each_kind(cluster) {
            object.name = format!("{}-{number}", object.name);
            let uid = object.create(annotation)["metadata"]["uid"].clone();
            // A request may take as long as the renew deadline, so a busy machine does not fail the test.
            let builder = object.builder("a").lease_duration(2 * SOON).renew_deadline(SOON);
            let elector = builder.start_on(object.store("admin")).expect("an elector");
            let guard = elector.try_acquire().expect("an answer").expect("a term");
            assert_eq!(object.get()["metadata"]["uid"], uid);
            assert_eq!(object.record()["holderIdentity"], "a");
            drop(guard);
        }
    }
}

/// A record of Python's client has local times, and its duration is a text.
///
/// The duration of 0.5 s is rounded up to one second.
fn a_record_of_python_is_waited_out(cluster: &Cluster) {
    let python = r#"{"holderIdentity": "py1", "leaseDurationSeconds": "0.5", "acquireTime": "2026-11-21 11:07:56.574492", "renewTime": "2026-11-21 11:07:57"}"#;
    for object in Object::of_each_kind(cluster) {
        object.create(Some(python));
        let elector = object.elector("a");
        assert!(elector.try_acquire().expect("an answer").is_none(), "it is held");
        assert_eq!(elector.current_leader().as_deref(), Some("py1"));
        let guard = elector.block_until_leader().expect("a term");
        let record = object.record();
        assert_eq!((&record["leaseDurationSeconds"], &record["leaderTransitions"]), (&json!(4), &json!(1)));
        drop(guard);
    }
}

fn invalid_record_is_never_overwritten(cluster: &Cluster) {
    let texts =
        ["[]", "nobody", r#"{"HolderIdentity":"b"}"#, r#"{"holderIdentity":"b","leaseDurationSeconds":"soon"}"#];
    for (number, text) in texts.into_iter().enumerate() {
        for mut object in Object::of_each_kind(cluster) {
            object.name = format!("{}-{number}", object.name);
            let before = object.create(Some(text));
            let elector = object.elector("a");
            let error = elector.try_acquire().expect_err("it is no record").to_string();
            assert!(error.contains(KEY) && error.contains(&object.name), "{error}");
            let waited = elector.block_until_leader_timeout(Duration::from_secs(1)).expect_err("what it waits for");
            assert!(waited.to_string().contains(KEY), "{waited}");
            assert_eq!(object.get()["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
            // The store must neither read nor overwrite an annotation that is not a record.
            let store = object.store("admin");
            let call = CallContext::new(SOON, CancelToken::new());
            let error = store.get(&object.name, &call).expect_err("it is no record");
            assert_eq!(error.kind(), StoreErrorKind::Malformed);
            let created = store.create(&object.name, LeaderElectionRecord::default().as_write(), &call);
            assert_eq!(created.expect_err("it exists").kind(), StoreErrorKind::AlreadyExists);
        }
    }
}

fn candidate_without_rights_learns_which_to_grant(cluster: &Cluster) {
    for object in Object::of_each_kind(cluster) {
        let elector = object.builder("a").start_on(object.store("nobody")).expect("an elector");
        let error = elector.try_acquire().expect_err("no rights").to_string();
        let resource = object.kind.collection().rsplit('/').next().unwrap_or_default().to_owned();
        let advice =
            format!("grant the verb `get` on the resource `{resource}` of the API group `\"\"` in the namespace");
        assert!(error.contains(&advice), "{error}");
    }
}

/// `both` tests the labels and owners of new objects, on every kind.
fn metadata_is_added_to_an_existing_object(cluster: &Cluster) {
    let owner = OwnerReference::new("apps/v1", "Deployment", "jobs", "c2a1a9f0-6a8f-4f4e-9d54-0f1e6b8f7a11");
    let object = Object { cluster, kind: Kind::ConfigMap, name: cluster.lease.clone() };
    object.create(None);
    let builder = object.builder("a").namespace(NAMESPACE).resource_lock(ResourceLock::ConfigMaps);
    let builder = builder.label("team", "red").annotation("a/b", "c").owner_reference(owner);
    let elector = builder.start_with_client(cluster.client("admin")).expect("an elector");
    let _guard = elector.block_until_leader().expect("a term");
    let metadata = &object.get()["metadata"];
    assert_eq!(metadata["labels"]["team"], "red");
    assert_eq!((&metadata["annotations"]["a/b"], &metadata["annotations"]["other"]), (&json!("c"), &json!("kept")));
    assert_eq!(metadata["ownerReferences"][0]["kind"], "Deployment");
    assert_eq!(object.record()["holderIdentity"], "a");
}
