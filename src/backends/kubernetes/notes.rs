//! Notes in the annotations of an object.

use serde_json::{Map, Value, json};

use super::metadata::annotations;
use crate::backends::notes::{self, JOB, NOTE, is_valid};
use crate::store::notes::RecordNotes;
use crate::store::record::{LeaderElectionRecord, RecordWrite};

/// The annotations with a field of the notes in JSON.
const TERM_ANNOTATION: &str = "leasehold.dev/note";
const JOB_ANNOTATION: &str = "leasehold.dev/job";

/// The annotation with the identity of the holder that is asked to step down.
const STEP_DOWN: &str = "leasehold.dev/step-down";

/// The total length of all annotations in bytes, above which an API server rejects an object.
const LONGEST_ANNOTATIONS: usize = 256 * 1024;

/// Returns the notes of a record. An invalid note counts as absent.
pub(super) fn read(object: &Map<String, Value>, record: &LeaderElectionRecord) -> RecordNotes {
    let annotations = object.get("metadata").and_then(|metadata| metadata.get("annotations"));
    let text = |name| annotations.and_then(|annotations| annotations.get(name)?.as_str());
    let step_down = text(STEP_DOWN).filter(|identity| is_valid(identity)).map(str::to_owned);
    notes::read(text(TERM_ANNOTATION), step_down, text(JOB_ANNOTATION), record)
}

/// Replaces the notes of an object.
///
/// Returns `false` if the object has no room for the notes of the term, which are then left out.
pub(super) fn write(object: &mut Value, write: &RecordWrite<'_>) -> bool {
    let mut fields = notes::fields(write);
    let mut json = |name| fields.remove(name).map(|field| field.get().to_owned());
    let step_down = write.notes.step_down.clone().filter(|identity| is_valid(identity));
    for (name, text) in [(TERM_ANNOTATION, json(NOTE)), (JOB_ANNOTATION, json(JOB)), (STEP_DOWN, step_down)] {
        if let Some(text) = text {
            annotations(object).insert(name.to_owned(), json!(text));
        } else if let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") {
            annotations.remove(name);
        }
    }
    let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") else { return true };
    let length = |(name, text): (&String, &Value)| name.len() + text.as_str().unwrap_or_default().len();
    let fits = annotations.iter().map(length).sum::<usize>() <= LONGEST_ANNOTATIONS;
    fits || annotations.remove(TERM_ANNOTATION).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backends::notes::{LONGEST, LONGEST_FIELD};
    use crate::store::notes::TermNotes;
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
        let term = TermNotes { address: address.map(str::to_owned), ..TermNotes::default() };
        RecordNotes { term, step_down: step_down.map(str::to_owned), ..RecordNotes::default() }
    }

    fn read_from(annotations: &Value) -> RecordNotes {
        read(json!({ "metadata": { "annotations": annotations } }).as_object().expect("an object"), &record())
    }

    #[test]
    fn notes_round_trip_and_absent_ones_are_removed() {
        let mut object = json!({ "metadata": { "name": "x", "annotations": { "other": "kept" } } });
        let mut job = notes(None, None);
        job.job.get_or_insert_default().attempts = Some(1);
        for expected in [
            notes(Some("h\"o\nst:1"), Some("a")),
            notes(None, Some("b")),
            notes(Some("c"), None),
            job,
            notes(None, None),
        ] {
            assert!(write(&mut object, &record().with_notes(&expected)));
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

    /// The annotation as the version dbb48711 wrote the address.
    #[test]
    fn annotation_of_an_earlier_version_is_read() {
        let note = format!(r#"{{"acquireTime":"{ACQUIRED}","address":"host:1"}}"#);
        assert_eq!(read_from(&json!({ TERM_ANNOTATION: note })), notes(Some("host:1"), None));
    }

    #[test]
    fn notes_of_the_term_leave_room_for_other_annotations() {
        for (room, is_written) in [(1_000, true), (80, false)] {
            let foreign = "x".repeat(LONGEST_ANNOTATIONS - "other".len() - STEP_DOWN.len() - 1 - room);
            let mut object = json!({ "metadata": { "annotations": { "other": foreign, STEP_DOWN: "a" } } });
            let before = object.clone();
            let noted = notes(Some("host:1"), Some("a"));
            assert_eq!(write(&mut object, &record().with_notes(&noted)), is_written);
            assert!(is_written || object == before);
            assert_eq!(read(object.as_object().expect("an object"), &record()).term == noted.term, is_written);
        }
    }

    #[test]
    fn invalid_note_counts_as_absent() {
        let note = |address: Value| json!({ "acquireTime": ACQUIRED, "address": address }).to_string();
        for text in [
            String::new(),
            "\u{0}\u{1b}".to_owned(),
            note(json!("x".repeat(LONGEST + 1))),
            note(json!("x".repeat(LONGEST_FIELD))),
        ] {
            assert_eq!(read_from(&json!({ TERM_ANNOTATION: text })), RecordNotes::default(), "{text:.60}");
        }
        let annotations = json!({ TERM_ANNOTATION: 7, STEP_DOWN: {}, JOB_ANNOTATION: ["x"] });
        assert_eq!(read_from(&annotations), RecordNotes::default());
        for text in [String::new(), "x".repeat(LONGEST + 1), "x".repeat(1 << 20)] {
            assert_eq!(read_from(&json!({ STEP_DOWN: text })), RecordNotes::default(), "{text:.60}");
        }
        let longest = note(json!("\u{1}".repeat(LONGEST)));
        assert_eq!(read_from(&json!({ TERM_ANNOTATION: longest })).term.address.map(|it| it.len()), Some(LONGEST));
    }
}
