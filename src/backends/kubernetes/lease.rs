//! The record in a Lease of `coordination.k8s.io/v1`.

use serde_json::{Map, Value, json};

use super::object::{Codec, ObjectStore};
use crate::backends::record_fields::{self, NAMES};
use crate::store::record::LeaderElectionRecord;

/// A store in the Leases of a namespace; a key is the name of a Lease.
///
/// Reads have no `resourceVersion` and are therefore linearizable. An update contains the version and the `uid` of the
/// observed Lease, and the API server compares both. An update keeps labels, annotations and spec fields of other
/// writers.
///
/// Requires the verbs `get`, `create`, `update` and `watch` on `leases` of the API group `coordination.k8s.io`. Any
/// number of electors may share one store behind an `Arc`.
///
/// # Examples
///
/// Two leases on one client:
///
/// ```no_run
/// use std::sync::Arc;
/// use leasehold::kubernetes::{Client, ClientConfig};
/// use leasehold::kubernetes::LeaseStore;
/// use leasehold::LeaderElector;
///
/// let client = Client::new(ClientConfig::infer()?)?;
/// let leases = Arc::new(LeaseStore::new(client, "kube-system")?);
/// let controller = LeaderElector::builder("my-controller").start_on(Arc::clone(&leases))?;
/// let scheduler = LeaderElector::builder("my-scheduler").start_on(leases)?;
/// # Ok::<(), leasehold::Error>(())
/// ```
pub type LeaseStore = ObjectStore<LeaseKind>;

/// The type parameter of [`ObjectStore`] for the kind `Lease`.
#[derive(Debug)]
pub struct LeaseKind;

impl Codec for LeaseKind {
    const API_VERSION: &'static str = "coordination.k8s.io/v1";
    const KIND: &'static str = "Lease";
    const NAME: &'static str = "lease";
    const RESOURCE: &'static str = "leases";

    fn read(object: &Map<String, Value>) -> Result<LeaderElectionRecord, String> {
        let nothing = Map::new();
        let spec = match object.get("spec") {
            None | Some(Value::Null) => &nothing,
            Some(spec) => spec.as_object().ok_or("spec is not an object")?,
        };
        record_fields::read(spec, NAMES, number, number)
    }

    fn write(object: &mut Value, record: &LeaderElectionRecord) {
        // If the spec is absent or null, the first write of a field creates an object.
        let spec = &mut object["spec"];
        for (name, value) in NAMES.into_iter().zip(record_fields::values(record)) {
            spec[name] = json!(value);
        }
    }
}

fn number(value: &Value) -> Result<i32, &'static str> {
    value.as_i64().and_then(|number| i32::try_from(number).ok()).ok_or("is not a 32-bit integer")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backends::kubernetes::object::parse;

    fn lease(change: impl FnOnce(&mut Value)) -> Value {
        let mut object = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": "x", "namespace": "n", "uid": "u", "resourceVersion": "7" },
            "spec": { "holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 3 },
        });
        change(&mut object);
        object
    }

    #[test]
    fn a_lease_gives_its_record_and_version() {
        let (record, version) = parse::<LeaseKind>(&lease(|_| {}), "x").unwrap();
        assert_eq!(version, 7);
        assert_eq!(record.uid.as_deref(), Some("u"));
        assert_eq!(record.holder(), Some("a"));
        assert_eq!(record.lease_duration_seconds, Some(15));
        assert_eq!(record.lease_transitions, Some(3));
    }

    #[test]
    fn a_missing_or_null_spec_and_null_fields_are_an_empty_record() {
        for spec in [json!(null), json!({}), json!({ "holderIdentity": null, "renewTime": null })] {
            let (record, _) = parse::<LeaseKind>(&lease(|object| object["spec"] = spec), "x").unwrap();
            assert_eq!(record, LeaderElectionRecord { uid: Some("u".into()), ..Default::default() });
        }
        assert!(parse::<LeaseKind>(&lease(|object| drop(object.as_object_mut().unwrap().remove("spec"))), "x").is_ok());
    }

    #[test]
    fn invalid_lease_is_an_error() {
        for (what, change) in [
            ("JSON object", (|object| *object = json!([1])) as fn(&mut Value)),
            ("kind", |object| object["kind"] = json!("Status")),
            ("no metadata", |object| object["metadata"] = json!(null)),
            ("name", |object| object["metadata"]["name"] = json!("y")),
            ("resourceVersion", |object| object["metadata"]["resourceVersion"] = json!("abc")),
            ("resourceVersion", |object| object["metadata"]["resourceVersion"] = json!(7)),
            ("resourceVersion", |object| object["metadata"]["resourceVersion"] = json!("0")),
            ("resourceVersion", |object| object["metadata"]["resourceVersion"] = json!("+7")),
            ("resourceVersion", |object| object["metadata"]["resourceVersion"] = json!("007")),
            ("resourceVersion", |object| object["metadata"]["resourceVersion"] = json!("9223372036854775808")),
            ("uid", |object| object["metadata"]["uid"] = json!("")),
            ("spec", |object| object["spec"] = json!("x")),
            ("holderIdentity", |object| object["spec"]["holderIdentity"] = json!(5)),
            ("leaseDurationSeconds", |object| object["spec"]["leaseDurationSeconds"] = json!("15")),
            ("leaseDurationSeconds", |object| object["spec"]["leaseDurationSeconds"] = json!(1e12)),
            ("leaseTransitions", |object| object["spec"]["leaseTransitions"] = json!(1u64 << 40)),
            ("renewTime", |object| object["spec"]["renewTime"] = json!({})),
        ] {
            let error = parse::<LeaseKind>(&lease(change), "x").expect_err(what);
            assert!(error.contains(what), "{error} should name {what}");
        }
    }

    #[test]
    fn update_keeps_foreign_content_of_the_object() {
        let mut object = lease(|object| {
            object["metadata"]["labels"] = json!({ "team": "blue" });
            object["spec"]["strategy"] = json!("OldestEmulationVersion");
            object["spec"]["someday"] = json!([1, 2]);
        });
        let record = LeaderElectionRecord { holder_identity: Some("b".into()), ..Default::default() };
        LeaseKind::write(&mut object, &record);
        assert_eq!(object["metadata"]["labels"]["team"], "blue");
        assert_eq!(object["spec"]["strategy"], "OldestEmulationVersion");
        assert_eq!(object["spec"]["someday"], json!([1, 2]));
        assert_eq!(object["spec"]["holderIdentity"], "b");
        assert_eq!(object["spec"]["leaseDurationSeconds"], json!(null));
    }
}
