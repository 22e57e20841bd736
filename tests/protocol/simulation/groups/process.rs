//! One process of a group: its state machine, the candidate of its slot, its watch and its workers.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use leasehold::election::ReadContext;
use leasehold::election::candidate::Candidate;
use leasehold::election::deadline::Deadline;
use leasehold::election::group::{Group, GroupKey, MAX_MEMBERS};
use leasehold::store::{StoreError, StoreErrorKind};
use leasehold::util::clock::Moment;

use crate::clock::{Nanos, NodeClock};
use crate::network::Cut;

pub struct Process {
    pub identity: String,
    /// The lease duration, the renew deadline and the retry period.
    pub times: (Duration, Duration, Duration),
    pub clock: NodeClock,
    pub incarnation: u32,
    pub is_alive: bool,
    pub paused_until: Option<Nanos>,
    pub cut: Option<(Cut, Nanos)>,
    /// The time until which no watch can be opened.
    pub blind_until: Nanos,
    pub group: Group,
    pub wake: u64,
    /// The number and the key of the group's request under way, and `true` for a read.
    pub in_flight: Option<(u64, GroupKey, bool)>,
    /// `true` while the process is to be a member.
    pub wants: bool,
    pub elector: Option<Elector>,
    pub deadline: Option<Arc<Deadline>>,
    pub stream: Stream,
    /// The newest version that the process knows.
    pub knows: u64,
    /// The time of the newest snapshot or own slot that the watch has reported.
    pub proven_at: Nanos,
    /// The end of the pause after a failed request.
    pub quiet_until: Moment,
    /// The earliest times of the next campaigns.
    pub campaign_at: [Moment; MAX_MEMBERS],
    /// The shards of which the process is the owner, as bits, apart from the validity of the ownership.
    pub owned: u64,
    pub workers: BTreeMap<usize, Worker>,
}

/// The elector of one slot, for one campaign and its term.
pub struct Elector {
    pub serial: u64,
    pub slot: usize,
    pub candidate: Candidate,
    /// The number and the send time of the request under way, and the context of a read.
    pub in_flight: Option<(u64, Moment, Option<ReadContext>)>,
    pub wake: u64,
    /// `true` while the group waits for the outcome of the campaign.
    pub is_campaign: bool,
    /// The number of requests of the campaign, or `None` after the campaign.
    pub requests: Option<u8>,
    /// The last failure of the campaign.
    pub error: Option<StoreError>,
    /// `true` while the group waits for the release of the slot.
    pub is_leaving: bool,
}

/// The watch of all records.
#[derive(Default)]
pub struct Stream {
    pub serial: u64,
    /// `true` if the store delivers changes to the stream.
    pub is_attached: bool,
    pub is_silent: bool,
    /// The time of the last event, of all records or of each record.
    pub last_at: Nanos,
    pub last_of: BTreeMap<GroupKey, Nanos>,
}

/// The worker of one shard.
#[derive(Debug, Clone, Copy)]
pub struct Worker {
    pub token: u64,
    pub is_recalled: bool,
    /// The time at which the ownership ended, although the worker still runs.
    pub ended_at: Option<Moment>,
    /// The time that the worker needs to return.
    pub delay: Nanos,
    /// `true` if the worker also needs this time after the end of its ownership.
    pub is_stubborn: bool,
    /// `true` if the worker hangs after the end of its ownership.
    pub hangs: bool,
}

impl Process {
    /// Returns the shards that the process owns at `truth`, as bits.
    pub fn owns(&self, truth: Nanos) -> u64 {
        let now = self.clock.local(truth);
        let is_owner = self.is_alive
            && self.owned != 0
            && now < self.group.valid_until()
            && self.term_until().is_some_and(|until| now < until);
        if is_owner { self.owned } else { 0 }
    }

    /// Returns the end of the term, or `None` without a valid term.
    ///
    /// The deadline is read as of the beginning of time, so the read never ends the term.
    fn term_until(&self) -> Option<Moment> {
        let beginning = Moment::from_nanos(2);
        let remaining = self.deadline.as_ref()?.remaining(beginning);
        (!remaining.is_zero()).then_some(beginning + remaining)
    }

    /// Gives the outcome of a failed campaign to the group.
    pub fn not_joined(&mut self, now: Moment, slots: Range<usize>, pause: Duration) {
        self.campaign_at[slots.clone()].fill(now + pause);
        self.group.not_joined(now, slots, pause);
    }

    /// Notes the pause after a failed request.
    ///
    /// A member that must empty a shard shortens a pause after which no request would fit into its term.
    pub fn failed(&mut self, now: Moment, is_read: bool, error: &StoreError) {
        let (lease, _, retry) = self.times;
        let delays_one_record = match error.kind() {
            StoreErrorKind::Conflict | StoreErrorKind::AlreadyExists | StoreErrorKind::NotApplied => true,
            kind => kind == StoreErrorKind::Malformed && is_read,
        };
        if delays_one_record {
            return;
        }
        let pause = error.retry_after().unwrap_or_default().min(lease).max(retry);
        let is_kept = self.term_until().is_none_or(|until| pause + lease / 3 <= until.since(now));
        self.quiet_until = now + if is_kept { pause } else { retry / 8 };
    }

    /// Returns `true` if a worker of the process hangs.
    pub fn is_hung(&self) -> bool {
        self.workers.values().any(|worker| worker.hangs)
    }

    pub fn is_paused(&self, truth: Nanos) -> bool {
        self.paused_until.is_some_and(|until| until > truth)
    }
}
