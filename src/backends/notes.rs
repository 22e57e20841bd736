//! The form of notes in JSON, for stores on a server or in a file.
//!
//! The form is an object with the fields `note` (the notes of the term), `stepDown` and `job`. A store may keep each
//! field in a place of its own. [PROTOCOL.md] has the table of all keys.
//!
//! A value of an unexpected type or length counts as absent. Unknown keys are kept.
//!
//! [PROTOCOL.md]: https://docs.rs/crate/leasehold/latest/source/docs/internals/PROTOCOL.md#notes

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};

use crate::store::micro_time::MicroTime;
use crate::store::notes::{JobNotes, RecordNotes, RequestAcceptance, TermNotes, UnknownNotes};
use crate::store::record::{LeaderElectionRecord, RecordWrite};

/// The longest text of a note in bytes. Longer texts are ignored.
pub(crate) const LONGEST: usize = 1024;

/// The longest JSON of a field in bytes. JSON may need six bytes for each byte of a text.
pub(crate) const LONGEST_FIELD: usize = 8 * 1024;

/// The longest JSON of all notes in bytes.
pub(crate) const LONGEST_NOTES: usize = 32 * 1024;

/// The field with the notes of the term.
pub(crate) const NOTE: &str = "note";
/// The field with the identity of the holder that is asked to step down.
pub(crate) const STEP_DOWN: &str = "stepDown";
/// The field with the history of a periodic job.
pub(crate) const JOB: &str = "job";

const HOLDER: &str = "holder";
const ACQUIRE_TIME: &str = "acquireTime";

/// JSON fields whose values are not parsed yet.
pub(crate) type Fields = BTreeMap<String, Box<RawValue>>;

impl RecordNotes {
    /// Returns all notes as JSON of at most 32 KiB, or `None` if there are no notes.
    ///
    /// With this form, a [`Store`](crate::store::Store) of your own can [keep notes](crate::store::Store::keeps_notes)
    /// of any version of this crate. The notes of a term are bound to the holder and the `acquire_time` of `record`.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::store::{LeaderElectionRecord, MicroTime, RecordNotes};
    ///
    /// let mut record = LeaderElectionRecord::default();
    /// record.holder_identity = Some("a".into());
    /// record.acquire_time = Some(MicroTime::from_unix_micros(1));
    /// let mut notes = RecordNotes::default();
    /// notes.term.address = Some("10.0.3.7:9000".into());
    /// let json = notes.to_json(&record).expect("notes");
    /// assert_eq!(RecordNotes::from_json(&json, &record), notes);
    /// ```
    pub fn to_json(&self, record: &LeaderElectionRecord) -> Option<String> {
        object(fields(&record.with_notes(self)), &self.unknown, LONGEST_NOTES).map(|json| json.get().to_owned())
    }

    /// Returns the notes beside `record` from the text of [`to_json`](Self::to_json).
    ///
    /// Notes that are invalid, too long or of another term count as absent.
    pub fn from_json(json: &str, record: &LeaderElectionRecord) -> Self {
        let mut fields = parse(json, LONGEST_NOTES).unwrap_or_default();
        let [note, job] = [NOTE, JOB].map(|name| fields.remove(name));
        let step_down = text(&mut fields, STEP_DOWN);
        let notes = read(note.as_deref().map(RawValue::get), step_down, job.as_deref().map(RawValue::get), record);
        Self { unknown: rest(fields), ..notes }
    }
}

/// Returns the notes from the texts of the fields.
pub(crate) fn read(
    note: Option<&str>,
    step_down: Option<String>,
    job: Option<&str>,
    record: &LeaderElectionRecord,
) -> RecordNotes {
    let object = |text: Option<&str>| text.and_then(|text| parse(text, LONGEST_FIELD));
    RecordNotes {
        term: object(note).and_then(|fields| term(fields, record)).unwrap_or_default(),
        step_down,
        job: object(job).map(self::job).filter(|job| *job != JobNotes::default()).map(Box::new),
        unknown: None,
    }
}

/// Returns the known fields of a write. Leaves out notes that are absent or too long.
pub(crate) fn fields(write: &RecordWrite<'_>) -> Fields {
    let RecordNotes {
        term: TermNotes { address, accepts_requests, shards, max_shards, unknown }, step_down, job, ..
    } = &write.stored_notes();
    let mut term = Fields::new();
    put(&mut term, "address", address.as_ref());
    put(&mut term, "acceptsRequests", accepts_requests.map(|accepts| accepts != RequestAcceptance::Never));
    if let Some(RequestAcceptance::After(delay)) = accepts_requests {
        put(&mut term, "acceptsRequestsAfterSeconds", Some(seconds(*delay)));
    }
    put(&mut term, "shards", *shards);
    put(&mut term, "maxShards", *max_shards);
    if !term.is_empty() || unknown.is_some() {
        put(&mut term, HOLDER, write.record.holder());
        put(&mut term, ACQUIRE_TIME, write.record.acquire_time.as_ref().map(MicroTime::as_str));
    }
    let mut fields = Fields::new();
    put(&mut fields, NOTE, object(term, unknown, LONGEST_FIELD));
    put(&mut fields, STEP_DOWN, step_down.as_ref().filter(|identity| is_valid(identity)));
    put(&mut fields, JOB, job.as_deref().and_then(job_object));
    fields
}

fn job_object(job: &JobNotes) -> Option<Box<RawValue>> {
    let mut of_job = Fields::new();
    put(&mut of_job, "periodSeconds", job.period.map(seconds));
    put(&mut of_job, "attempts", job.attempts);
    put(&mut of_job, "lastAttemptExitCode", job.last_attempt_exit_code);
    for (name, host) in [("lastAttemptHost", &job.last_attempt_host), ("lastSuccessHost", &job.last_success_host)] {
        put(&mut of_job, name, host.as_ref());
    }
    for (name, time) in [
        ("firstAttemptStart", &job.first_attempt_start),
        ("lastAttemptStart", &job.last_attempt_start),
        ("lastSuccessStart", &job.last_success_start),
        ("lastSuccessEnd", &job.last_success_end),
    ] {
        put(&mut of_job, name, time.as_ref().map(MicroTime::as_str));
    }
    object(of_job, &job.unknown, LONGEST_FIELD)
}

/// Returns the notes of the record's term, or `None` if the fields belong to another term.
///
/// A note of an earlier version has no holder, and is bound to the `acquireTime` alone.
fn term(mut fields: Fields, record: &LeaderElectionRecord) -> Option<TermNotes> {
    let (holder, acquire_time) = (record.holder()?, record.acquire_time.as_ref()?.as_str());
    let is_holder = |raw: Box<RawValue>| serde_json::from_str(raw.get()).is_ok_and(|text: String| text == holder);
    if !fields.remove(HOLDER).is_none_or(is_holder) || take::<String>(&mut fields, ACQUIRE_TIME)? != acquire_time {
        return None;
    }
    let delay: u32 = take(&mut fields, "acceptsRequestsAfterSeconds").unwrap_or(0);
    Some(TermNotes {
        address: text(&mut fields, "address"),
        accepts_requests: take(&mut fields, "acceptsRequests").map(|accepts| match accepts {
            true => RequestAcceptance::After(Duration::from_secs(delay.into())),
            false => RequestAcceptance::Never,
        }),
        shards: take(&mut fields, "shards"),
        max_shards: take(&mut fields, "maxShards"),
        unknown: rest(fields),
    })
}

fn job(mut fields: Fields) -> JobNotes {
    let time = |fields: &mut Fields, name| text(fields, name).map(MicroTime::from_text);
    JobNotes {
        period: take::<NonZeroU32>(&mut fields, "periodSeconds").map(|it| Duration::from_secs(it.get().into())),
        first_attempt_start: time(&mut fields, "firstAttemptStart"),
        attempts: take(&mut fields, "attempts"),
        last_attempt_host: text(&mut fields, "lastAttemptHost"),
        last_attempt_start: time(&mut fields, "lastAttemptStart"),
        last_attempt_exit_code: take(&mut fields, "lastAttemptExitCode"),
        last_success_host: text(&mut fields, "lastSuccessHost"),
        last_success_start: time(&mut fields, "lastSuccessStart"),
        last_success_end: time(&mut fields, "lastSuccessEnd"),
        unknown: rest(fields),
    }
}

/// Parses a JSON object without its values, which therefore need little more memory than the text.
fn parse(text: &str, longest: usize) -> Option<Fields> {
    if text.len() > longest { None } else { serde_json::from_str(text).ok() }
}

/// Returns the value of a field, or `None` if it is absent or of another type.
fn take<T: DeserializeOwned>(fields: &mut Fields, name: &str) -> Option<T> {
    serde_json::from_str(fields.remove(name)?.get()).ok()
}

fn text(fields: &mut Fields, name: &str) -> Option<String> {
    take(fields, name).filter(|text: &String| is_valid(text))
}

/// Returns `true` if the text of a note has a valid length.
pub(crate) fn is_valid(text: &str) -> bool {
    (1..=LONGEST).contains(&text.len())
}

fn rest(fields: Fields) -> UnknownNotes {
    if fields.is_empty() { None } else { serde_json::to_string(&fields).ok().map(String::into_boxed_str) }
}

fn put<T: Serialize>(fields: &mut Fields, name: &str, value: Option<T>) {
    fields.extend(value.and_then(|value| Some((name.to_owned(), to_raw_value(&value).ok()?))));
}

/// Returns an object with the known and the unknown fields, or `None` without fields.
///
/// Leaves out the unknown fields, and then all fields, if the object would be longer than `longest`.
fn object(known: Fields, unknown: &UnknownNotes, longest: usize) -> Option<Box<RawValue>> {
    let mut all: Fields = unknown.as_ref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    all.extend(known.clone());
    [all, known]
        .iter()
        .filter(|fields| !fields.is_empty())
        .find_map(|fields| to_raw_value(fields).ok().filter(|object| object.get().len() <= longest))
}

fn seconds(duration: Duration) -> u32 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0)).try_into().unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACQUIRED: &str = "2026-01-02T03:04:05.000006Z";

    fn record() -> LeaderElectionRecord {
        LeaderElectionRecord {
            holder_identity: Some("a".to_owned()),
            acquire_time: Some(MicroTime::from_text(ACQUIRED)),
            ..Default::default()
        }
    }

    /// Every key of this version, and a key of a later version in each object.
    const ALL: &str = concat!(
        r#"{"job":{"attempts":2,"firstAttemptStart":"t1","lastAttemptExitCode":-1,"lastAttemptHost":"h1","#,
        r#""lastAttemptStart":"t2","lastSuccessEnd":"t4","lastSuccessHost":"h2","lastSuccessStart":"t3","#,
        r#""periodSeconds":86400,"z":1e999},"later":"\ud800","note":{"acceptsRequests":true,"#,
        r#""acceptsRequestsAfterSeconds":15,"acquireTime":"2026-01-02T03:04:05.000006Z","address":"host:1","#,
        r#""holder":"a","maxShards":0,"shards":64,"z":[[]]},"stepDown":"b"}"#
    );

    #[test]
    fn notes_round_trip_with_keys_of_a_later_version() {
        let notes = RecordNotes::from_json(ALL, &record());
        assert_eq!(notes.to_json(&record()).as_deref(), Some(ALL));
        assert_eq!(notes.term.accepts_requests, Some(RequestAcceptance::After(Duration::from_secs(15))));
        assert_eq!((notes.term.shards, notes.term.max_shards), (Some(64), Some(0)));
        let job = notes.job.as_deref().expect("a job");
        assert_eq!((job.attempts, job.last_attempt_exit_code), (Some(2), Some(-1)));
        let kept = notes.renewed(TermNotes::default()).to_json(&record()).expect("notes");
        let [acquire_time, holder] = [format!(r#""acquireTime":"{ACQUIRED}""#), r#""holder":"a""#.to_owned()];
        assert!(kept.contains(&format!(r#"{{{acquire_time},{holder},"z":[[]]}}"#)), "{kept}");
        let kept = notes.released().to_json(&record()).expect("notes");
        assert!(kept.contains(r#""z":1e999"#) && kept.contains(r#""later":"\ud800""#) && !kept.contains("note"));
        assert_eq!(RecordNotes::default().to_json(&record()), None);
        let never = TermNotes { accepts_requests: Some(RequestAcceptance::Never), ..TermNotes::default() };
        let never = RecordNotes { term: never, ..RecordNotes::default() };
        assert_eq!(RecordNotes::from_json(&never.to_json(&record()).expect("notes"), &record()), never);
    }

    #[test]
    fn notes_of_another_term_are_absent() {
        let of_record = RecordNotes::from_json(ALL, &record()).released();
        for record in [
            LeaderElectionRecord { holder_identity: Some("b".to_owned()), ..record() },
            LeaderElectionRecord { acquire_time: Some(MicroTime::from_unix_micros(7)), ..record() },
            LeaderElectionRecord { acquire_time: None, ..record() },
            LeaderElectionRecord { holder_identity: Some(String::new()), ..record() },
        ] {
            assert_eq!(RecordNotes::from_json(ALL, &record), of_record, "{record:?}");
        }
        let note = |holder: &str| {
            let note = format!(r#"{{"note":{{{holder}"acquireTime":"{ACQUIRED}","address":"host:1"}}}}"#);
            RecordNotes::from_json(&note, &record()).term.address
        };
        assert_eq!(note("").as_deref(), Some("host:1"), "an earlier version writes no holder");
        for holder in [r#""holder":"A","#, r#""holder":null,"#, r#""holder":["a"],"#] {
            assert_eq!(note(holder), None, "{holder}");
        }
    }

    #[test]
    fn invalid_notes_count_as_absent() {
        let deep = "[".repeat(250) + &"]".repeat(250);
        let long = format!("\"{}\"", "x".repeat(LONGEST + 1));
        for value in ["null", "-1", "1.5", "\"\"", "[\"x\"]", "4294967296", "{}", &deep, &long] {
            let of_term =
                ["address", "acceptsRequests", "shards", "maxShards"].map(|name| format!("\"{name}\":{value}"));
            let note = format!(r#"{{"holder":"a","acquireTime":"{ACQUIRED}",{}}}"#, of_term.join(","));
            let of_job = ["periodSeconds", "attempts", "lastAttemptHost", "lastSuccessEnd", "firstAttemptStart"];
            let job = of_job.map(|name| format!("\"{name}\":{value}")).join(",");
            let notes = format!(r#"{{"note":{note},"stepDown":{value},"job":{{{job}}},"later":7}}"#);
            let expected = RecordNotes { unknown: Some(r#"{"later":7}"#.into()), ..RecordNotes::default() };
            assert_eq!(RecordNotes::from_json(&notes, &record()), expected, "{value:.20}");
        }
        for notes in ["", "{", "null", "[]", "\u{0}", r#"{"note":7,"job":[],"stepDown":{}}"#] {
            assert_eq!(RecordNotes::from_json(notes, &record()), RecordNotes::default(), "{notes}");
        }
    }

    #[test]
    fn notes_have_a_longest_form() {
        let filler = |length: usize| format!(r#""z":"{}""#, "x".repeat(length));
        let job =
            |length| RecordNotes::from_json(&format!(r#"{{"job":{{"attempts":1,{}}}}}"#, filler(length)), &record());
        assert_eq!(job(LONGEST_FIELD - 21).job.expect("a job").attempts, Some(1));
        assert_eq!(job(LONGEST_FIELD - 20), RecordNotes::default());
        // The own notes are written even if those of a later version leave no room.
        let mut notes = job(LONGEST_FIELD - 21);
        notes.job.get_or_insert_default().last_attempt_host = Some("\u{1}".repeat(LONGEST));
        notes.unknown = Some(format!("{{{}}}", filler(LONGEST_NOTES)).into());
        notes.step_down = Some("x".repeat(LONGEST + 1));
        let json = notes.to_json(&record()).expect("notes");
        let read = RecordNotes::from_json(&json, &record());
        let [read_job, job] = [read.job, notes.job].map(|job| job.expect("a job"));
        assert_eq!((read_job.last_attempt_host, read_job.unknown), (job.last_attempt_host, None));
        assert_eq!((read.unknown, read.step_down), (None, None));
        let too_long = format!("{{{}}}", filler(LONGEST_NOTES));
        assert_eq!(RecordNotes::from_json(&too_long, &record()), RecordNotes::default());
    }
}
