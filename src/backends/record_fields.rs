//! The fields of a record in JSON, with the names that a Lease has for them.

use serde_json::{Value, json};

use crate::store::record::{LeaderElectionRecord, MicroTime};

pub(crate) const HOLDER: &str = "holderIdentity";

/// Returns the fields of a record with their values.
pub(crate) fn values(record: &LeaderElectionRecord) -> [(&'static str, Option<Value>); 5] {
    let time = |time: &Option<MicroTime>| time.as_ref().map(|time| json!(time.as_str()));
    [
        (HOLDER, record.holder_identity.as_ref().map(|holder| json!(holder))),
        ("leaseDurationSeconds", record.lease_duration_seconds.map(|seconds| json!(seconds))),
        ("acquireTime", time(&record.acquire_time)),
        ("renewTime", time(&record.renew_time)),
        ("leaseTransitions", record.lease_transitions.map(|transitions| json!(transitions))),
    ]
}

/// Returns the text in a field. An absent or null field has none. Returns `None` if the value has another type.
#[cfg(feature = "kubernetes")]
pub(crate) fn text(value: Option<&Value>) -> Option<Option<String>> {
    match value {
        None | Some(Value::Null) => Some(None),
        Some(value) => value.as_str().map(|text| Some(text.to_owned())),
    }
}
