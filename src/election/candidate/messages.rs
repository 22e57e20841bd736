//! The inputs and the effects of a candidate.

use std::time::Duration;

use crate::election::candidate::fitness::FitnessSource;
use crate::election::candidate::job::{JobDue, JobPlan};
use crate::election::candidate::notice::Notice;
use crate::election::deadline::Deadline;
use crate::election::drain::DrainLimit;
use crate::election::stop_reason::StopReason;
use crate::election::{Change, LeaderInfo, StoreResponse};
use crate::store::StoreError;
use crate::store::notes::JobNotes;
use crate::util::clock::Moment;
use crate::util::sync::Arc;

/// The input of a candidate.
#[derive(Debug)]
pub enum Input {
    /// Start a campaign for one term.
    Campaign {
        /// The number of the campaign, which no earlier campaign has.
        id: u64,
        /// `true` if the campaign ends after one round: a read and at most one write.
        once: bool,
    },
    /// Start a campaign for one term, in which a job runs.
    JobCampaign {
        /// The number of the campaign, which no earlier campaign has.
        id: u64,
        /// The job.
        plan: JobPlan,
    },
    /// The job of the term has ended.
    JobEnded {
        /// The exit code. Zero is a success.
        exit_code: i32,
    },
    /// The time of the store at its newest answer.
    StoreTime {
        /// The microseconds since the start of 1970.
        unix_micros: u64,
    },
    /// Withdraw this campaign.
    ///
    /// If the store applies a write of the campaign later, the candidate releases the record.
    Withdraw(u64),
    /// No campaign took the offered term.
    NotTaken,
    /// The holder stepped down. The lease is renewed up to this limit.
    StepDown(DrainLimit),
    /// A source of fitness reports whether this candidate is fit.
    Fitness(FitnessSource, bool),
    /// The guard of the term was dropped.
    GuardDropped {
        /// The time of the drop.
        at: Moment,
    },
    /// Close the candidate, which gets no more campaigns.
    Close,
    /// The response to the request with this number.
    Response(u64, StoreResponse),
    /// The idle time after which the connection must be used again to stay open.
    ///
    /// `None` if the connection stays open by itself, or if opening another connection is fast.
    IdleTimeout(Option<Duration>),
    /// A watch is open.
    WatchOpened {
        /// `true` if the watch starts with the current state.
        from_scratch: bool,
    },
    /// The watch delivered an event.
    Watched {
        /// The time at which the event was received.
        received_at: Moment,
        /// The event.
        change: Change,
    },
    /// The watch has ended or was refused.
    WatchEnded,
}

/// The leader that a candidate observes.
#[derive(Debug, Clone, Copy, Default)]
pub struct LeaderFacts<'a> {
    /// The holder in the record, even after the lease has expired.
    pub leader: Option<&'a LeaderInfo>,
    /// The time when the lease expires without another renewal, or `None` if unknown.
    pub until: Option<Moment>,
    /// `true` if another process wrote the record under this candidate's identity.
    pub identity_is_shared: bool,
}

/// The output of a candidate.
#[derive(Debug)]
pub enum Effect {
    /// A term is won. If no campaign takes the term, the driver must send [`Input::NotTaken`].
    Offer {
        /// The campaign.
        campaign: u64,
        /// The validity of the term.
        deadline: Arc<Deadline>,
        /// The fencing token of the term.
        fencing_token: u64,
    },
    /// The store refuses a campaign permanently.
    Refuse {
        /// The campaign.
        campaign: u64,
        /// The error.
        error: StoreError,
    },
    /// A campaign for one round ended because the candidate is unfit.
    NotFit {
        /// The campaign.
        campaign: u64,
    },
    /// A campaign for a job ended because the job is not due.
    JobNotDue {
        /// The campaign.
        campaign: u64,
        /// The reason.
        due: JobDue,
        /// The history of the job.
        history: Box<JobNotes>,
    },
    /// `true` if the record contains the result of the job. `false` if this is not known, and stays so.
    JobRecorded(bool),
    /// The fitness of the candidate has changed.
    Fitness {
        /// `true` if the candidate is fit.
        is_fit: bool,
        /// The delay before a fit candidate may acquire the lease.
        pause: Duration,
    },
    /// A campaign for one round ended without a term.
    RoundOver {
        /// The campaign.
        campaign: u64,
        /// The last failure, if a request failed.
        error: Option<StoreError>,
    },
    /// A write has extended the term. The duration is the time of the write.
    Renewed(Duration),
    /// The term is no longer valid. The error is the last failure since the last renewal.
    TermEnded(StopReason, Option<Box<StoreError>>),
    /// The renewals of an ended term have stopped while its guard exists. `None` means that the drain limit has passed.
    DrainEnded(Option<StopReason>),
    /// The record of the last term is released, or another candidate holds the record.
    Released,
    /// Cancel the request with this number at this time, unless the request ends before. The earliest of several times
    /// counts.
    ///
    /// The release of a record waits for the request, or a watch event about another candidate.
    CancelAt(u64, Moment),
    /// The record has another holder, the holder has another address, or the holder renewed its expired lease.
    NewLeader {
        /// The holder.
        leader: Box<LeaderInfo>,
        /// `true` if only the address of the leader has changed.
        is_new_address: bool,
    },
    /// The record no longer has a holder, or the lease of the holder has expired on the local clock.
    NoLeader {
        /// The identity of the last leader.
        previous: String,
        /// `true` if the lease has expired.
        is_expiry: bool,
    },
    /// Every write has met a conflict for three renew deadlines.
    WritesRefused(StoreError),
    /// The watch must be restarted with the current state.
    RestartWatch,
    /// A log line about another process with the identity of this candidate.
    IdentityConflict(Notice),
    /// A log line.
    Log(Notice),
}
