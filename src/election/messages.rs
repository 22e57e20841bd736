//! What an election says to its driver, and is told by it.

use std::time::Duration;

use crate::election::deadline::Deadline;
use crate::election::stop_reason::StopReason;
use crate::store::record::{LeaderElectionRecord, VersionedRecord};
use crate::store::{StoreError, StoreOperation};
use crate::util::clock::Moment;
use crate::util::sync::Arc;

/// What the driver is to do next.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a step lives for one turn of a loop")]
pub enum Step {
    /// Carry this out and tell [`Election::on_response`](super::Election::on_response).
    Send(StoreRequest),
    /// Nothing is to be done before this moment, unless the driver is told something.
    Wait(Moment),
    /// The election is closed and owes nobody anything.
    Finished,
}

/// One request to the store.
#[derive(Debug)]
pub struct StoreRequest {
    /// Names the request in [`Election::on_response`](super::Election::on_response).
    pub id: u64,
    /// What to ask.
    pub operation: Operation,
    /// How long to wait for the answer.
    pub timeout: Duration,
}

/// The verbs of a [`Store`](crate::Store) with what they need.
#[derive(Debug)]
pub enum Operation {
    /// Read the record.
    Get(ReadContext),
    /// Create this record.
    Create(LeaderElectionRecord),
    /// Replace what was observed by this record.
    Update(VersionedRecord, LeaderElectionRecord),
}

impl Operation {
    /// What of it is the same for all records.
    pub fn kind(&self) -> StoreOperation {
        match self {
            Self::Get(_) => StoreOperation::Get,
            Self::Create(_) => StoreOperation::Create,
            Self::Update(..) => StoreOperation::Update,
        }
    }
}

/// What was known when a read was sent: only what it says beyond that is news.
#[derive(Debug, Clone, Copy)]
pub struct ReadContext {
    pub(super) newest: u64,
    /// Whether it was known that nothing is there.
    pub(super) absent: bool,
    pub(super) sent_at: Moment,
}

/// What the store said.
#[derive(Debug)]
pub enum StoreResponse {
    /// To a read.
    Read(ReadContext, Option<VersionedRecord>),
    /// To a write.
    Written(VersionedRecord),
    /// To either: no, or nothing at all.
    Failed(StoreError),
}

/// What the driver is to tell others.
#[derive(Debug)]
pub enum ElectionEvent {
    /// The store shows another holder than before, or none.
    Leader(Option<String>),
    /// A term began. It ends with [`Election::guard_gone`](super::Election::guard_gone), whatever happens to it before.
    Elected {
        /// Until when it is valid.
        deadline: Arc<Deadline>,
        /// The version at which the election learned of the write that won it.
        fencing_token: u64,
    },
    /// A write has prolonged the term. It was sent then.
    Renewed {
        /// When it was sent.
        sent_at: Moment,
    },
    /// The term is not valid any more.
    TermEnded(StopReason),
    /// The record of a term that had ended is not renewed any more, while the guard is there: by this, or because it was to be for so
    /// long and no longer.
    CoverLost(Option<StopReason>),
    /// A write that would have won was answered after so long that its work would have had to make progress already.
    TooLateForProgress(Duration),
    /// After the end of a term: its record is not ours any more.
    Released,
    /// A campaign for one round ended without a term.
    RoundOver,
    /// Another process uses our identity.
    IdentityConflict,
    /// The record has our identity, we did not write it, and nobody has renewed it since we look.
    Predecessor,
    /// The watch does not tell what it should: it is to be opened anew.
    WatchStale,
}

/// What a watch told of.
#[derive(Debug, Clone)]
pub enum Change {
    /// The record was created or changed, or something else in its object.
    Written(VersionedRecord),
    /// The record was deleted, by a write to the store with this version.
    Deleted {
        /// The version of the deletion.
        version: u64,
    },
}
