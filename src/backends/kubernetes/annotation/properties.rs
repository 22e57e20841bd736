//! Properties that every text in the annotation must have, checked by fuzzing.

use super::*;
use crate::fuzzing::target::{Target, assert_loggable};
use crate::store::record::MicroTime;

pub(crate) const TARGET: Target =
    Target { name: "annotation", base: 64 * 1024, read: |input| drop(record(&object(input))), check };

fn object(input: &[u8]) -> Value {
    json!({
        "metadata": { "annotations": { KEY: String::from_utf8_lossy(input), "other": "kept" } },
        "data": { "a": "b" },
    })
}

fn record(object: &Value) -> Result<LeaderElectionRecord, String> {
    read(object.as_object().expect("an object"))
}

/// Returns the record of the term that follows the term in `record`.
pub(crate) fn next_record(record: &LeaderElectionRecord) -> LeaderElectionRecord {
    LeaderElectionRecord {
        uid: record.uid.clone(),
        holder_identity: Some("somebody".to_owned()),
        lease_duration_seconds: Some(15),
        acquire_time: Some(MicroTime::from_unix_micros(1)),
        renew_time: Some(MicroTime::from_unix_micros(2)),
        lease_transitions: Some(record.lease_transitions.unwrap_or_default().saturating_add(1)),
    }
}

/// Checks that a record is read back unchanged, and that a write changes nothing else.
fn check(input: &[u8]) {
    let object = object(input);
    let read = match record(&object) {
        Ok(record) => record,
        Err(what) => {
            assert!(what.contains(KEY));
            return assert_loggable(&what, 1024);
        }
    };
    let next = next_record(&read);
    for expected in [&read, &next] {
        let mut written = object.clone();
        write(&mut written, expected);
        assert_eq!(record(&written).as_ref(), Ok(expected));
        assert_eq!(others(&written), others(&object));
    }
}

/// Returns `true` if the value has a fraction, whose last digit may change in a round trip.
fn has_fraction(value: &Value) -> bool {
    match value {
        Value::Array(elements) => elements.iter().any(has_fraction),
        Value::Object(members) => members.values().any(has_fraction),
        _ => value.is_f64(),
    }
}

/// Returns the object and the foreign fields of the record, which a write must not change.
fn others(object: &Value) -> (Value, Map<String, Value>) {
    let mut strange = fields(object.as_object().expect("an object")).expect("a record");
    strange.retain(|name, value| !FIELDS.contains(&name.as_str()) && !has_fraction(value));
    let mut object = object.clone();
    object["metadata"]["annotations"][KEY] = Value::Null;
    (object, strange)
}
