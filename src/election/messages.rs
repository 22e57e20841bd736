//! The requests, responses and events of a record.

use std::time::Duration;

use crate::election::stop_reason::StopReason;
use crate::store::notes::RecordNotes;
use crate::store::record::{LeaderElectionRecord, VersionedRecord};
use crate::store::{StoreError, StoreOperation};
use crate::util::clock::Moment;

/// The next action of the driver.
#[derive(Debug)]
pub enum Step<R = StoreRequest> {
    /// Send this request, and report the response.
    Send(R),
    /// Wait until this moment or until the next input.
    Wait(Moment),
    /// The candidate is closed, and no work is left.
    Finished,
}

/// One request to the store.
#[derive(Debug)]
pub struct StoreRequest {
    /// The number of the request, which its response must name.
    pub id: u64,
    /// The operation.
    pub operation: Operation,
    /// The notes of a write.
    pub notes: RecordNotes,
    /// The longest time to wait for the answer.
    pub timeout: Duration,
}

/// An operation of a [`Store`](crate::store::Store) with its data.
///
/// A read has the context `C`.
#[derive(Debug, Clone)]
pub enum Operation<C = ReadContext> {
    /// Read the record.
    Get(C),
    /// Create this record.
    Create(LeaderElectionRecord),
    /// Replace the observed record by the second record.
    Update(VersionedRecord, LeaderElectionRecord),
}

impl<C> Operation<C> {
    /// Returns the operation without its data.
    pub fn kind(&self) -> StoreOperation {
        match self {
            Self::Get(_) => StoreOperation::Get,
            Self::Create(_) => StoreOperation::Create,
            Self::Update(..) => StoreOperation::Update,
        }
    }
}

/// The state that was known when a read was sent. The answer is compared with this state.
#[derive(Debug, Clone, Copy)]
pub struct ReadContext {
    pub(super) newest: u64,
    /// `true` if the record was known to be absent.
    pub(super) absent: bool,
    pub(super) sent_at: Moment,
}

/// The response of the store.
#[derive(Debug)]
pub enum StoreResponse {
    /// The result of a read.
    Read(ReadContext, Option<VersionedRecord>),
    /// The result of a write.
    Written(VersionedRecord),
    /// The failure of a read or a write, or a missing answer.
    Failed(StoreError),
}

/// An event of a claim.
#[derive(Debug)]
pub(super) enum ClaimEvent {
    /// A write has won the lease.
    Won {
        /// The send time of the write.
        sent_at: Moment,
        /// The version of the record at which the claim observed the winning write.
        fencing_token: u64,
    },
    /// A write has renewed the lease.
    Renewed {
        /// The send time of the write.
        sent_at: Moment,
    },
    /// The record is lost, so the claim no longer renews the lease.
    Lost(StopReason),
    /// A winning write took this duration, which is longer than the progress timeout. The lease is released.
    TooLateForProgress(Duration),
    /// A campaign for one round ended without a win.
    RoundOver,
    /// Another running process uses the identity of this candidate.
    IdentityConflict,
    /// The first observed record has this candidate's identity, probably from an earlier process.
    Predecessor,
    /// The own record contains a request to step down that names this candidate.
    StepDownRequested,
    /// The watch misses changes and must be restarted.
    WatchStale,
}

/// The holder of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderInfo {
    /// The identity in the record.
    pub identity: String,
    /// The address that the holder advertises.
    pub address: Option<String>,
}

/// An event of a watch.
#[derive(Debug, Clone)]
pub enum Change {
    /// The record, or another part of its object, was created or changed.
    Written(VersionedRecord),
    /// The record was deleted.
    Deleted {
        /// The version of the deletion.
        version: u64,
    },
}
