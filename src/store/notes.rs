//! The notes beside a record: those of a term, and those of the record.

use std::sync::LazyLock;
use std::time::Duration;

use crate::store::micro_time::MicroTime;

/// Values beside a record, which other candidates and operators may read.
///
/// Notes are not part of the record: a changed note does not end a term, and does not restart the wait of a standby.
/// [`term`](Self::term) has the notes of the holder's term. A release removes them. All other notes belong to the
/// record, and every write of a candidate keeps them, even if this version of the library does not know them.
/// [STORES.md] has the form of notes in each store.
///
/// [STORES.md]: https://docs.rs/crate/leasehold/latest/source/docs/STORES.md
///
/// # Examples
///
/// ```
/// use leasehold::store::RecordNotes;
///
/// let mut notes = RecordNotes::default();
/// notes.term.address = Some("10.0.3.7:9000".to_owned());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordNotes {
    /// The notes of the holder's term.
    pub term: TermNotes,
    /// The identity of the holder that is asked to step down. An acquisition removes the request.
    pub step_down: Option<String>,
    /// The history of a periodic job, or `None` if the record has none.
    pub job: Option<Box<JobNotes>>,
    pub(crate) unknown: UnknownNotes,
}

/// The notes of one term, which are bound to the holder and the `acquire_time` of the record.
///
/// A store reads no notes of the term if the record has another holder or another `acquire_time`. These notes therefore
/// never belong to an earlier term.
///
/// # Examples
///
/// ```
/// use leasehold::store::TermNotes;
///
/// assert_eq!(TermNotes::default().max_shards, None, "no limit");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TermNotes {
    /// The address that the holder [advertises](crate::LeaderElectorBuilder::advertise).
    pub address: Option<String>,
    /// Whether the holder accepts requests to step down. `None` if unknown.
    pub accepts_requests: Option<RequestAcceptance>,
    /// In a slot of a group: the number of the group's shards.
    pub shards: Option<u32>,
    /// In a slot of a group: the largest number of shards for the member. `None` for no limit.
    pub max_shards: Option<u32>,
    pub(crate) unknown: UnknownNotes,
}

/// The holder's answer to requests to step down.
///
/// # Examples
///
/// ```
/// use leasehold::store::{MemoryStore, RequestAcceptance};
/// use leasehold::LeaderElector;
/// # use leasehold::store::{CallContext, CancelToken, Store};
/// # use std::{sync::Arc, time::Duration};
///
/// let store = Arc::new(MemoryStore::new());
/// let elector = LeaderElector::builder("jobs").accept_requests(true).start_on(Arc::clone(&store))?;
/// let guard = elector.block_until_leader()?;
/// # let call = CallContext::new(Duration::from_secs(1), CancelToken::new());
/// let observed = store.get("jobs", &call).expect("an answer").expect("a record");
/// assert_eq!(observed.notes.term.accepts_requests, Some(RequestAcceptance::After(Duration::ZERO)));
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestAcceptance {
    /// The holder ignores requests.
    Never,
    /// The holder accepts requests from this time after the record's `acquire_time` on.
    ///
    /// A store keeps whole seconds, rounded up.
    After(Duration),
}

/// The history of a periodic job, which every write of a candidate keeps.
///
/// # Examples
///
/// ```
/// use leasehold::store::JobNotes;
///
/// let job = JobNotes::default();
/// assert!(job.last_success_end.is_none(), "no success yet");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobNotes {
    /// The time from the start of a period to the start of the next one, in whole seconds.
    pub period: Option<Duration>,
    /// The start of the first attempt in the current period.
    pub first_attempt_start: Option<MicroTime>,
    /// The number of attempts in the current period.
    pub attempts: Option<u32>,
    /// The host of the last attempt.
    pub last_attempt_host: Option<String>,
    /// The start of the last attempt.
    pub last_attempt_start: Option<MicroTime>,
    /// The exit code of the last attempt. `None` if the attempt is running or was killed.
    pub last_attempt_exit_code: Option<i32>,
    /// The host of the last success.
    pub last_success_host: Option<String>,
    /// The start of the last success.
    pub last_success_start: Option<MicroTime>,
    /// The end of the last success.
    pub last_success_end: Option<MicroTime>,
    pub(crate) unknown: UnknownNotes,
}

/// The text of a JSON object with the notes of a later version, or `None` without such notes.
pub(crate) type UnknownNotes = Option<Box<str>>;

impl RecordNotes {
    /// Returns the notes of a record that has none.
    pub(crate) fn none() -> &'static Self {
        static NONE: LazyLock<RecordNotes> = LazyLock::new(RecordNotes::default);
        &NONE
    }

    /// Returns the notes of an acquisition, which removes a request because the request concerns an earlier term.
    pub(crate) fn acquired(&self, term: TermNotes) -> Self {
        Self { term, step_down: None, ..self.clone() }
    }

    /// Returns the notes of a renewal, which keeps unknown notes of the term.
    pub(crate) fn renewed(&self, term: TermNotes) -> Self {
        Self { term: TermNotes { unknown: self.term.unknown.clone(), ..term }, ..self.clone() }
    }

    /// Returns the notes of a release.
    pub(crate) fn released(&self) -> Self {
        Self { term: TermNotes::default(), ..self.clone() }
    }
}
