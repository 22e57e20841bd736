//! The JSON fields of a record, which have the same names as the fields of a Lease.

#[cfg(feature = "kubernetes")]
use serde_json::Map;
use serde_json::{Value, json};

use crate::store::record::{LeaderElectionRecord, MicroTime};

pub(crate) const HOLDER: &str = "holderIdentity";

/// The names of the fields in a Lease and in etcd.
pub(crate) const NAMES: [&str; 5] = [HOLDER, "leaseDurationSeconds", "acquireTime", "renewTime", "leaseTransitions"];

/// Returns the JSON values of the record's fields, in the order of [`NAMES`].
pub(crate) fn values(record: &LeaderElectionRecord) -> [Option<Value>; 5] {
    let time = |time: &Option<MicroTime>| time.as_ref().map(|time| json!(time.as_str()));
    [
        record.holder_identity.as_ref().map(|holder| json!(holder)),
        record.lease_duration_seconds.map(|seconds| json!(seconds)),
        time(&record.acquire_time),
        time(&record.renew_time),
        record.lease_transitions.map(|transitions| json!(transitions)),
    ]
}

/// A function that reads a number from JSON, or returns the rule that the value violates.
#[cfg(feature = "kubernetes")]
pub(crate) type ReadNumber = fn(&Value) -> Result<i32, &'static str>;

/// Reads a record from JSON fields with the given names.
///
/// The given names are in the order of [`NAMES`]. Absent and null fields become `None`. The error contains the name of
/// the invalid field.
#[cfg(feature = "kubernetes")]
pub(crate) fn read(
    fields: &Map<String, Value>,
    [holder, duration, acquired, renewed, transitions]: [&str; 5],
    read_duration: ReadNumber,
    read_transitions: ReadNumber,
) -> Result<LeaderElectionRecord, String> {
    let text = |value: &Value| value.as_str().map(str::to_owned).ok_or("is not a text");
    Ok(LeaderElectionRecord {
        uid: None,
        holder_identity: field(fields, holder, text)?,
        lease_duration_seconds: field(fields, duration, read_duration)?,
        acquire_time: field(fields, acquired, text)?.map(MicroTime::from_text),
        renew_time: field(fields, renewed, text)?.map(MicroTime::from_text),
        lease_transitions: field(fields, transitions, read_transitions)?,
    })
}

#[cfg(feature = "kubernetes")]
fn field<T>(
    fields: &Map<String, Value>,
    name: &str,
    read: impl Fn(&Value) -> Result<T, &'static str>,
) -> Result<Option<T>, String> {
    let value = fields.get(name).filter(|value| !value.is_null());
    value.map(read).transpose().map_err(|rule| format!("{name} {rule}"))
}
