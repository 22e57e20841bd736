//! What an election says to its driver, and is told by it.

use std::fmt;
use std::time::Duration;

use crate::clock::Moment;
use crate::deadline::Deadline;
use crate::lock::LockError;
use crate::record::{LeaderElectionRecord, Observed};
use crate::sync::Arc;

/// What the driver is to do next.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a step lives for one turn of a loop")]
pub enum Step {
    /// Carry this out and tell [`Election::answered`](super::Election::answered).
    Send(Request),
    /// Nothing is to be done before this moment, unless the driver is told something.
    Wait(Moment),
    /// The election is closed and owes nobody anything.
    Finished,
}

/// One request to the store.
#[derive(Debug)]
pub struct Request {
    /// Names the request in [`Election::answered`](super::Election::answered).
    pub id: u64,
    /// What to ask.
    pub verb: Verb,
    /// How long to wait for the answer.
    pub timeout: Duration,
}

/// The verbs of a [`Lock`](crate::Lock) with what they need.
#[derive(Debug)]
pub enum Verb {
    /// Read the record.
    Get(Look),
    /// Create this record.
    Create(LeaderElectionRecord),
    /// Replace what was observed by this record.
    Update(Observed, LeaderElectionRecord),
}

/// What was known when a read was sent: only what it says beyond that is news.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    pub(super) newest: u64,
    /// Whether it was known that nothing is there.
    pub(super) absent: bool,
    pub(super) sent_at: Moment,
}

/// What the store said.
#[derive(Debug)]
pub enum Answer {
    /// To a read.
    Read(Look, Option<Observed>),
    /// To a write.
    Written(Observed),
    /// To either: no, or nothing at all.
    Failed(LockError),
}

/// What the driver is to tell others.
#[derive(Debug)]
pub enum Event {
    /// The store shows another holder than before, or none.
    Leader(Option<String>),
    /// A term began. It ends with [`Election::guard_gone`](super::Election::guard_gone), whatever happens to it before.
    Elected {
        /// Until when it is valid.
        deadline: Arc<Deadline>,
        /// The version at which the election learned of the write that won it.
        fencing_token: u64,
    },
    /// The term is not valid any more.
    Lost(StopReason),
    /// After the end of a term: its record is not ours any more.
    Settled,
    /// A campaign for one round ended without a term.
    RoundOver,
    /// Another process uses our identity.
    IdentityConflict,
    /// The record has our identity, we did not write it, and nobody has renewed it since we look.
    Predecessor,
    /// The watch does not tell what it should: it is to be opened anew.
    WatchStale,
}

/// Why a term ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The guard was dropped or released, or nobody took the term.
    Released,
    /// [`LeaderGuard::step_down`](crate::LeaderGuard::step_down) was called, or protected work panicked.
    SteppedDown,
    /// No renewal succeeded within the renew deadline.
    Expired,
    /// The record is another's now (`by`), or nobody's.
    Superseded {
        /// Who holds the lease instead.
        by: Option<String>,
    },
    /// The lease was deleted.
    Deleted,
    /// The record has our identity and is none of our writes: another process uses the same identity.
    IdentityConflict,
    /// The store went back to a state from before the term.
    StoreRestored,
    /// The elector's thread ended by a panic, in a [`Lock`](crate::Lock) or a logger.
    ElectorPanicked,
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Released => f.write_str("the lease was released"),
            Self::SteppedDown => f.write_str("the leader stepped down"),
            Self::Expired => f.write_str("no renewal succeeded within the renew deadline"),
            Self::Superseded { by: Some(by) } => write!(f, "the lease is held by {by:?} now"),
            Self::Superseded { by: None } => f.write_str("somebody else released the lease"),
            Self::Deleted => f.write_str("the lease was deleted"),
            Self::IdentityConflict => f.write_str("another process uses the same identity"),
            Self::StoreRestored => f.write_str("the store was restored to an older state"),
            Self::ElectorPanicked => f.write_str("the elector's thread panicked"),
        }
    }
}
