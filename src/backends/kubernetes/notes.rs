//! Notes in the annotations of an object.

use serde_json::{Map, Value, json};

use super::metadata::annotations;
use crate::backends::notes;
use crate::store::record::{LeaderElectionRecord, RecordNotes, RecordWrite};

/// The annotation with the holder's address, in JSON.
const ADDRESS: &str = "leasehold.dev/note";

/// The annotation with the identity of the holder that is asked to step down.
const STEP_DOWN: &str = "leasehold.dev/step-down";

/// Returns the notes of a record. An invalid note counts as absent.
pub(super) fn read(object: &Map<String, Value>, record: &LeaderElectionRecord) -> RecordNotes {
    let annotations = object.get("metadata").and_then(|metadata| metadata.get("annotations"));
    let text = |name| annotations.and_then(|annotations| annotations.get(name)?.as_str());
    RecordNotes {
        address: text(ADDRESS).and_then(|note| notes::address(note, record)),
        step_down: text(STEP_DOWN).and_then(notes::text),
    }
}

/// Replaces the notes of an object.
pub(super) fn write(object: &mut Value, write: &RecordWrite<'_>) {
    let address = notes::bound_address(write).map(|note| note.to_string());
    for (name, text) in [(ADDRESS, &address), (STEP_DOWN, &write.notes.step_down)] {
        if let Some(text) = text {
            annotations(object).insert(name.to_owned(), json!(text));
        } else if let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") {
            annotations.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::record::MicroTime;

    const ACQUIRED: &str = "2026-01-02T03:04:05.000006Z";

    fn record() -> LeaderElectionRecord {
        LeaderElectionRecord {
            holder_identity: Some("a".to_owned()),
            acquire_time: Some(MicroTime::from_text(ACQUIRED)),
            ..Default::default()
        }
    }

    fn notes(address: Option<&str>, step_down: Option<&str>) -> RecordNotes {
        RecordNotes { address: address.map(str::to_owned), step_down: step_down.map(str::to_owned) }
    }

    fn read_from(annotations: &Value) -> RecordNotes {
        read(json!({ "metadata": { "annotations": annotations } }).as_object().expect("an object"), &record())
    }

    #[test]
    fn notes_round_trip_and_absent_ones_are_removed() {
        let mut object = json!({ "metadata": { "name": "x", "annotations": { "other": "kept" } } });
        for expected in
            [notes(Some("h\"o\nst:1"), Some("a")), notes(None, Some("b")), notes(Some("c"), None), notes(None, None)]
        {
            write(&mut object, &record().with_notes(&expected));
            assert_eq!(read(object.as_object().expect("an object"), &record()), expected);
        }
        assert_eq!(object, json!({ "metadata": { "name": "x", "annotations": { "other": "kept" } } }));
    }

    #[test]
    fn object_without_notes_is_not_changed() {
        for object in
            [json!({}), json!({ "metadata": { "name": "x" } }), json!({ "metadata": { "annotations": null } })]
        {
            let mut written = object.clone();
            write(&mut written, &record().as_write());
            assert_eq!(written, object);
        }
    }

    #[test]
    fn invalid_annotations_are_replaced() {
        for annotations in [json!(null), json!("x"), json!([1])] {
            let mut object = json!({ "metadata": { "annotations": annotations } });
            write(&mut object, &record().with_notes(&notes(Some("host:1"), None)));
            assert_eq!(read(object.as_object().expect("an object"), &record()), notes(Some("host:1"), None));
        }
    }

    #[test]
    fn address_of_another_term_is_ignored() {
        let note = json!({ ADDRESS: json!({ "acquireTime": ACQUIRED, "address": "host:1" }).to_string() });
        let object = json!({ "metadata": { "annotations": note } });
        let object = object.as_object().expect("an object");
        assert_eq!(read(object, &record()), notes(Some("host:1"), None));
        for record in [
            LeaderElectionRecord { acquire_time: Some(MicroTime::from_unix_micros(7)), ..record() },
            LeaderElectionRecord { acquire_time: None, ..record() },
            LeaderElectionRecord { holder_identity: Some(String::new()), ..record() },
        ] {
            assert_eq!(read(object, &record), notes(None, None));
        }
    }

    #[test]
    fn invalid_note_counts_as_absent() {
        let note = |address: Value| json!({ "acquireTime": ACQUIRED, "address": address }).to_string();
        for text in [
            String::new(),
            "{".to_owned(),
            "null".to_owned(),
            "\u{0}\u{1b}".to_owned(),
            note(json!(null)),
            note(json!(7)),
            note(json!("")),
            note(json!("x".repeat(notes::LONGEST + 1))),
            note(json!("x".repeat(notes::LONGEST_JSON))),
            format!("{{\"acquireTime\":\"{ACQUIRED}\",\"address\":\"x\",\"a\":{}}}", "[".repeat(4_000)),
        ] {
            assert_eq!(read_from(&json!({ ADDRESS: text })), RecordNotes::default(), "{text:.60}");
        }
        assert_eq!(read_from(&json!({ ADDRESS: 7, STEP_DOWN: {} })), RecordNotes::default());
        for text in [String::new(), "x".repeat(notes::LONGEST + 1), "x".repeat(1 << 20)] {
            assert_eq!(read_from(&json!({ STEP_DOWN: text })), RecordNotes::default(), "{text:.60}");
        }
        assert_eq!(
            read_from(&json!({ ADDRESS: note(json!("\u{1}".repeat(notes::LONGEST))) })).address.map(|it| it.len()),
            Some(notes::LONGEST)
        );
    }
}
