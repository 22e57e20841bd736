//! The form of notes in JSON.

use serde_json::{Value, json};

use crate::store::record::{LeaderElectionRecord, RecordWrite};

/// The longest address and the longest requested identity in bytes. Longer texts are ignored.
pub(crate) const LONGEST: usize = 1024;

const ACQUIRE_TIME: &str = "acquireTime";
const ADDRESS: &str = "address";

/// Returns the address with the `acquireTime` of its term, or `None` if the write has no address.
pub(crate) fn bound_address(write: &RecordWrite<'_>) -> Option<Value> {
    let acquire_time = write.record.acquire_time.as_ref()?.as_str();
    write.notes.address.as_ref().map(|address| json!({ ACQUIRE_TIME: acquire_time, ADDRESS: address }))
}

/// Returns the address in a note of the record's term.
pub(crate) fn address(note: &Value, record: &LeaderElectionRecord) -> Option<String> {
    let acquire_time = record.acquire_time.as_ref()?.as_str();
    let is_of_term = record.holder().is_some() && note.get(ACQUIRE_TIME)? == acquire_time;
    text(note.get(ADDRESS)?.as_str()?).filter(|_| is_of_term)
}

/// Returns a text of valid length.
pub(crate) fn text(text: &str) -> Option<String> {
    (1..=LONGEST).contains(&text.len()).then(|| text.to_owned())
}
