//! Conversion between a record and the JSON value of its key.
//!
//! The fields have the names and the time format of a Lease. The store keeps fields that other programs have added.
//!
//! A value that is not such a JSON document is an error. The store never overwrites such a value, because the value
//! belongs to another program.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use crate::backends::{notes, record_fields};
use crate::net::json;
use crate::store::record::{LeaderElectionRecord, MicroTime, RecordNotes, RecordWrite};

/// Maximum length of a value in bytes.
///
/// A record usually has a few hundred bytes, but users may choose long identities.
pub(super) const LARGEST: usize = 64 * 1024;

/// The names of the fields of notes.
const NOTE: &str = "note";
const STEP_DOWN: &str = "stepDown";

/// Memory limit for the parsed values of a record, in bytes.
const LARGEST_VALUES: usize = 1024 * 1024;

/// The JSON document of a record.
///
/// A field with an unexpected type is an error, because its meaning is unknown.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    /// The field that distinguishes a record from other JSON.
    ///
    /// The field is always present. It is null if there is no holder.
    #[serde(deserialize_with = "present")]
    holder_identity: Option<String>,
    lease_duration_seconds: Option<i32>,
    acquire_time: Option<String>,
    renew_time: Option<String>,
    lease_transitions: Option<i32>,
    note: Option<Value>,
    step_down: Option<Value>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// Rejects an absent field, which an `Option` would otherwise accept.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Option::deserialize(deserializer)
}

fn parse(text: &[u8]) -> Result<Document, &'static str> {
    if text.len() > LARGEST {
        return Err("the value is longer than 64 KiB");
    }
    json::read(text, LARGEST_VALUES)
        .map_err(|_| "the value is not JSON with a holderIdentity; delete the key, or choose another prefix")
}

/// Returns the record in a value, without its uid, and its notes, or the reason why the value is invalid.
///
/// An invalid note counts as absent.
pub(super) fn read(text: &[u8]) -> Result<(LeaderElectionRecord, RecordNotes), &'static str> {
    let document = parse(text)?;
    let record = LeaderElectionRecord {
        uid: None,
        holder_identity: document.holder_identity,
        lease_duration_seconds: document.lease_duration_seconds,
        acquire_time: document.acquire_time.map(MicroTime::from_text),
        renew_time: document.renew_time.map(MicroTime::from_text),
        lease_transitions: document.lease_transitions,
    };
    let notes = RecordNotes {
        address: document.note.and_then(|note| notes::address(&note, &record)),
        step_down: document.step_down.and_then(|identity| notes::text(identity.as_str()?)),
    };
    Ok((record, notes))
}

/// Returns the value for a record, or the reason why the record is invalid.
///
/// The value keeps the unknown fields of `base`.
pub(super) fn write(write: &RecordWrite<'_>, base: Option<&[u8]>) -> Result<Vec<u8>, &'static str> {
    let mut fields = base.and_then(|base| parse(base).ok()).map(|document| document.others).unwrap_or_default();
    let step_down = write.notes.step_down.as_ref().map(|identity| json!(identity));
    let notes = [(NOTE, notes::bound_address(write)), (STEP_DOWN, step_down)];
    let values = record_fields::NAMES.into_iter().zip(record_fields::values(write.record)).chain(notes);
    fields.extend(values.filter_map(|(name, value)| Some((name.to_owned(), value?))));
    fields.entry(record_fields::HOLDER).or_insert(Value::Null);
    let text = Value::Object(fields).to_string().into_bytes();
    if text.len() > LARGEST { Err("longer than 64 KiB") } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_round_trips_with_the_field_names_of_a_lease() {
        let record = LeaderElectionRecord {
            uid: None,
            holder_identity: Some("a \"b\" é\n".to_owned()),
            lease_duration_seconds: Some(15),
            acquire_time: Some(MicroTime::from_unix_micros(1)),
            renew_time: Some(MicroTime::from_unix_micros(2)),
            lease_transitions: Some(3),
        };
        let text = write(&record.as_write(), None).unwrap();
        let expected = r#"{"acquireTime":"1970-01-01T00:00:00.000001Z","holderIdentity":"a \"b\" é\n","leaseDurationSeconds":15,"leaseTransitions":3,"renewTime":"1970-01-01T00:00:00.000002Z"}"#;
        assert_eq!(str::from_utf8(&text).unwrap(), expected);
        assert_eq!(read(&text), Ok((record, RecordNotes::default())));
        for record in [
            LeaderElectionRecord::default(),
            LeaderElectionRecord { holder_identity: Some(String::new()), ..Default::default() },
        ] {
            assert_eq!(read(&write(&record.as_write(), None).unwrap()), Ok((record, RecordNotes::default())));
        }
    }

    #[test]
    fn fields_of_others_are_kept() {
        let base = br#"{"holderIdentity":"a","renewTime":"x","strategy":{"b":[1]}}"#;
        let record = LeaderElectionRecord { holder_identity: Some("b".to_owned()), ..Default::default() };
        let text = write(&record.as_write(), Some(base)).unwrap();
        assert_eq!(str::from_utf8(&text).unwrap(), r#"{"holderIdentity":"b","strategy":{"b":[1]}}"#);
    }

    #[test]
    fn notes_round_trip_and_absent_ones_are_removed() {
        let record = LeaderElectionRecord {
            holder_identity: Some("a".to_owned()),
            acquire_time: Some(MicroTime::from_unix_micros(1)),
            ..Default::default()
        };
        let notes = RecordNotes { address: Some("host:1".to_owned()), step_down: Some("a".to_owned()) };
        let text = write(&record.with_notes(&notes), None).unwrap();
        assert_eq!(
            str::from_utf8(&text).unwrap(),
            r#"{"acquireTime":"1970-01-01T00:00:00.000001Z","holderIdentity":"a","note":{"acquireTime":"1970-01-01T00:00:00.000001Z","address":"host:1"},"stepDown":"a"}"#
        );
        assert_eq!(read(&text), Ok((record.clone(), notes.clone())));
        let later = LeaderElectionRecord { acquire_time: Some(MicroTime::from_unix_micros(2)), ..record.clone() };
        let text = String::from_utf8(text).unwrap().replacen("000001Z", "000002Z", 1);
        let expected = RecordNotes { address: None, ..notes };
        assert_eq!(read(text.as_bytes()), Ok((later, expected)), "the address of an earlier term");
        let text = write(&record.as_write(), Some(text.as_bytes())).unwrap();
        assert_eq!(read(&text), Ok((record, RecordNotes::default())));
        assert!(!str::from_utf8(&text).unwrap().contains("note"));
    }

    #[test]
    fn invalid_note_counts_as_absent() {
        for notes in [r#""note":7"#, r#""note":{"address":[]}"#, r#""stepDown":7"#, r#""stepDown":"","note":null"#] {
            let text = format!(r#"{{"holderIdentity":"a","acquireTime":"x",{notes}}}"#);
            let (record, read) = read(text.as_bytes()).unwrap();
            assert_eq!((record.holder(), read), (Some("a"), RecordNotes::default()), "{text}");
        }
    }

    #[test]
    fn invalid_record_is_an_error() {
        let long = format!(r#"{{"holderIdentity":"{}"}}"#, "x".repeat(LARGEST));
        for text in [
            "",
            "a",
            "{}",
            "[]",
            "null",
            r#"{"holder":"a"}"#,
            r#"{"holderIdentity":1}"#,
            r#"{"holderIdentity":"a"} x"#,
            r#"{"holderIdentity":"a","holderIdentity":"b"}"#,
            r#"{"holderIdentity":"a","leaseDurationSeconds":"15"}"#,
            r#"{"holderIdentity":"a","leaseDurationSeconds":1.5}"#,
            r#"{"holderIdentity":"a","leaseTransitions":2147483648}"#,
            r#"{"holderIdentity":"a","renewTime":1}"#,
            &long,
        ] {
            assert!(read(text.as_bytes()).is_err(), "{text:.60}");
        }
        let record = LeaderElectionRecord { holder_identity: Some("x".repeat(LARGEST)), ..Default::default() };
        assert!(write(&record.as_write(), None).is_err());
    }
}
