//! The form of notes in JSON.

use serde_json::{Value, json};

use crate::net::json;
use crate::store::record::{LeaderElectionRecord, RecordWrite};

/// The longest address and the longest requested identity in bytes. Longer texts are ignored.
pub(crate) const LONGEST: usize = 1024;

/// The longest JSON of a note in bytes. JSON may need six bytes for each byte of a text.
pub(crate) const LONGEST_JSON: usize = 8 * 1024;

/// Memory limit for the values of a note.
const LARGEST_VALUES: usize = 64 * 1024;

const ACQUIRE_TIME: &str = "acquireTime";
const ADDRESS: &str = "address";

/// Returns the address with the `acquireTime` of its term, or `None` if the write has no address.
pub(crate) fn bound_address(write: &RecordWrite<'_>) -> Option<Value> {
    let acquire_time = write.record.acquire_time.as_ref()?.as_str();
    write.notes.address.as_ref().map(|address| json!({ ACQUIRE_TIME: acquire_time, ADDRESS: address }))
}

/// Returns the value in the JSON of a note. Returns `None` if the JSON is invalid or too long.
pub(crate) fn parse(note: &str) -> Option<Value> {
    if note.len() > LONGEST_JSON { None } else { json::read(note.as_bytes(), LARGEST_VALUES).ok() }
}

/// Returns the address in the JSON of a note of the record's term.
pub(crate) fn address(note: &str, record: &LeaderElectionRecord) -> Option<String> {
    let note = parse(note)?;
    let acquire_time = record.acquire_time.as_ref()?.as_str();
    let is_of_term = record.holder().is_some() && note.get(ACQUIRE_TIME)? == acquire_time;
    text(note.get(ADDRESS)?.as_str()?).filter(|_| is_of_term)
}

/// Returns a text of valid length.
pub(crate) fn text(text: &str) -> Option<String> {
    (1..=LONGEST).contains(&text.len()).then(|| text.to_owned())
}
