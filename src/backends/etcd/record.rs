//! Conversion between a record and the JSON value of its key.
//!
//! The fields have the names and the time format of a Lease. The store keeps fields that other programs have added.
//!
//! A value that is not such a JSON document is an error. The store never overwrites such a value, because the value
//! belongs to another program.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::backends::notes::{self, JOB, NOTE, STEP_DOWN};
use crate::backends::record_fields;
use crate::store::notes::RecordNotes;
use crate::store::record::{LeaderElectionRecord, MicroTime, RecordWrite};

/// Maximum length of a value without its notes in bytes.
///
/// A record usually has a few hundred bytes, but users may choose long identities.
pub(super) const LARGEST: usize = 64 * 1024;

/// The longest name of a note in bytes, with its quotes, colon and comma.
const NAME: usize = STEP_DOWN.len() + 4;

/// The fields of a record. Other fields may contain any JSON.
///
/// A field with an unexpected type is an error, because its meaning is unknown.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordFields {
    /// The field that distinguishes a record from other JSON.
    ///
    /// The field is always present. It is null if there is no holder.
    #[serde(deserialize_with = "present")]
    holder_identity: Option<String>,
    lease_duration_seconds: Option<i32>,
    acquire_time: Option<String>,
    renew_time: Option<String>,
    lease_transitions: Option<i32>,
}

/// The JSON texts of notes, which may be invalid notes.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NoteFields<'a> {
    #[serde(borrow)]
    note: Option<&'a RawValue>,
    #[serde(borrow)]
    step_down: Option<&'a RawValue>,
    #[serde(borrow)]
    job: Option<&'a RawValue>,
}

/// Rejects an absent field, which an `Option` would otherwise accept.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Option::deserialize(deserializer)
}

/// Returns the record in a value, without its uid, and its notes, or the reason why the value is invalid.
///
/// An invalid note counts as absent.
pub(super) fn read(text: &[u8]) -> Result<(LeaderElectionRecord, RecordNotes), &'static str> {
    let NoteFields { note, step_down, job } = serde_json::from_slice(text).unwrap_or_default();
    let of_notes: usize = [note, step_down, job].into_iter().flatten().map(|note| note.get().len() + NAME).sum();
    if text.len() - of_notes > LARGEST {
        return Err("the value is longer than 64 KiB");
    }
    let fields: RecordFields = serde_json::from_slice(text)
        .map_err(|_| "the value is not JSON with a holderIdentity; delete the key, or choose another prefix")?;
    let record = LeaderElectionRecord {
        uid: None,
        holder_identity: fields.holder_identity,
        lease_duration_seconds: fields.lease_duration_seconds,
        acquire_time: fields.acquire_time.map(MicroTime::from_text),
        renew_time: fields.renew_time.map(MicroTime::from_text),
        lease_transitions: fields.lease_transitions,
    };
    let step_down = step_down.and_then(|identity| serde_json::from_str(identity.get()).ok());
    let step_down = step_down.filter(|identity: &String| notes::is_valid(identity));
    let notes = notes::read(note.map(RawValue::get), step_down, job.map(RawValue::get), &record);
    Ok((record, notes))
}

/// Returns the value for a record, or the reason why the record is invalid.
///
/// The value keeps the unknown fields of `base`.
pub(super) fn write(write: &RecordWrite<'_>, base: Option<&[u8]>) -> Result<Vec<u8>, &'static str> {
    let base = String::from_utf8_lossy(base.unwrap_or_default());
    let mut fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&base).unwrap_or_default();
    [NOTE, STEP_DOWN, JOB].iter().for_each(|name| drop(fields.remove(*name)));
    for (name, value) in record_fields::NAMES.into_iter().zip(record_fields::values(write.record)) {
        fields.remove(name);
        let value = value.or((name == record_fields::HOLDER).then_some(Value::Null));
        fields.extend(value.and_then(|value| Some((name.to_owned(), to_raw_value(&value).ok()?))));
    }
    let is_small = serde_json::to_vec(&fields).is_ok_and(|text| text.len() <= LARGEST);
    // Notes have limits of their own, so that fields of other programs never leave too little room for notes.
    fields.append(&mut notes::fields(write));
    serde_json::to_vec(&fields).ok().filter(|_| is_small).ok_or("longer than 64 KiB")
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
        let record = LeaderElectionRecord { holder_identity: Some("b".to_owned()), ..Default::default() };
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for kept in [r#"{"b": [1]}"#, "1e999", "0.10", r#""\ud800""#, &deep] {
            let base = format!(r#"{{"holderIdentity":"a","renewTime":"x","strategy":{kept}}}"#);
            assert_eq!(read(base.as_bytes()).unwrap().0.holder(), Some("a"), "{base}");
            let text = write(&record.as_write(), Some(base.as_bytes())).unwrap();
            let expected = format!(r#"{{"holderIdentity":"b","strategy":{kept}}}"#);
            assert_eq!(str::from_utf8(&text).unwrap(), expected);
        }
        let text =
            write(&record.as_write(), Some(b"{\"holderIdentity\":\"a\",\"other\":7,\"note\":\"\xff\"}")).unwrap();
        assert_eq!(str::from_utf8(&text).unwrap(), r#"{"holderIdentity":"b","other":7}"#);
    }

    #[test]
    fn notes_round_trip_and_absent_ones_are_removed() {
        let record = LeaderElectionRecord {
            holder_identity: Some("a".to_owned()),
            acquire_time: Some(MicroTime::from_unix_micros(1)),
            ..Default::default()
        };
        let mut notes = RecordNotes { step_down: Some("a".to_owned()), ..RecordNotes::default() };
        notes.term.address = Some("host:1".to_owned());
        notes.job.get_or_insert_default().attempts = Some(1);
        let text = write(&record.with_notes(&notes), None).unwrap();
        assert_eq!(
            str::from_utf8(&text).unwrap(),
            r#"{"acquireTime":"1970-01-01T00:00:00.000001Z","holderIdentity":"a","job":{"attempts":1},"note":{"acquireTime":"1970-01-01T00:00:00.000001Z","address":"host:1","holder":"a"},"stepDown":"a"}"#
        );
        assert_eq!(read(&text), Ok((record.clone(), notes.clone())));
        let later = LeaderElectionRecord { acquire_time: Some(MicroTime::from_unix_micros(2)), ..record.clone() };
        let text = String::from_utf8(text).unwrap().replacen("000001Z", "000002Z", 1);
        assert_eq!(read(text.as_bytes()), Ok((later, notes.released())), "the address of an earlier term");
        let text = write(&record.as_write(), Some(text.as_bytes())).unwrap();
        assert_eq!(read(&text), Ok((record, RecordNotes::default())));
        assert!(!str::from_utf8(&text).unwrap().contains("note"));
    }

    /// The value as the version dbb48711 wrote the address.
    #[test]
    fn value_of_an_earlier_version_is_read() {
        let text = br#"{"acquireTime":"x","holderIdentity":"a","note":{"acquireTime":"x","address":"host:1"}}"#;
        assert_eq!(read(text).unwrap().1.term.address.as_deref(), Some("host:1"));
    }

    #[test]
    fn fields_of_others_leave_room_for_notes() {
        let record = LeaderElectionRecord {
            holder_identity: Some("a".to_owned()),
            acquire_time: Some(MicroTime::from_unix_micros(1)),
            ..Default::default()
        };
        let mut notes = RecordNotes { step_down: Some("a".repeat(1_000)), ..RecordNotes::default() };
        notes.term.address = Some("x".repeat(1_000));
        notes.job.get_or_insert_default().attempts = Some(1);
        let empty = write(&record.as_write(), Some(br#"{"strategy":""}"#)).unwrap().len();
        for (length, fits) in [(LARGEST, true), (LARGEST + 1, false)] {
            let base = format!(r#"{{"strategy":"{}"}}"#, "x".repeat(length - empty));
            let text = write(&record.with_notes(&notes), Some(base.as_bytes()));
            assert_eq!(text.is_ok(), fits);
            assert!(text.is_err() || read(&text.unwrap()) == Ok((record.clone(), notes.clone())));
        }
    }

    #[test]
    fn invalid_note_counts_as_absent() {
        let long = format!("\"{}\"", "x".repeat(1 << 20));
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let invalid = ["7", r#"{"address":[]}"#, r#""""#, "null", r#""\ud800""#, "1e999", &long, &deep];
        let pairs = invalid.iter().flat_map(|one| invalid.map(|other| (*one, other)));
        let mut texts: Vec<_> =
            pairs.map(|(note, step_down)| format!(r#""note":{note},"stepDown":{step_down}"#)).collect();
        texts.push(r#""stepDown":"a","stepDown":"a""#.to_owned());
        for notes in texts {
            let text = format!(r#"{{"holderIdentity":"a","acquireTime":"x",{notes}}}"#);
            let (record, read) = read(text.as_bytes()).unwrap();
            assert_eq!((record.holder(), read), (Some("a"), RecordNotes::default()), "{text:.90}");
        }
        let text = format!(r#"{{"holderIdentity":"a","note":{long},"stepDown":"a"}}"#);
        assert_eq!(read(text.as_bytes()).unwrap().1.step_down.as_deref(), Some("a"), "the other note");
    }

    #[test]
    fn invalid_record_is_an_error() {
        let long = format!(r#"{{"holderIdentity":"{}"}}"#, "x".repeat(LARGEST));
        let long_other = format!(r#"{{"holderIdentity":"a","note":1,"other":"{}"}}"#, "x".repeat(LARGEST));
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
            &long_other,
        ] {
            assert!(read(text.as_bytes()).is_err(), "{text:.60}");
        }
        let record = LeaderElectionRecord { holder_identity: Some("x".repeat(LARGEST)), ..Default::default() };
        assert!(write(&record.as_write(), None).is_err());
    }
}
