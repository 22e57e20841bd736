//! One process of a group: its state machine, the session of its slot, its watch and its workers.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold::election::ReadContext;
use leasehold::election::candidate::session::Session;
use leasehold::election::deadline::Deadline;
use leasehold::election::group::{Group, GroupKey};
use leasehold::util::clock::Moment;

use crate::clock::{Nanos, NodeClock};
use crate::network::Cut;

pub struct Process {
    pub identity: String,
    pub clock: NodeClock,
    pub incarnation: u32,
    pub is_alive: bool,
    pub paused_until: Option<Nanos>,
    pub cut: Option<(Cut, Nanos)>,
    /// The time until which no watch can be opened.
    pub blind_until: Nanos,
    pub group: Group,
    pub wake: u64,
    pub in_flight: Option<(u64, GroupKey)>,
    /// `true` while the process is to be a member.
    pub wants: bool,
    pub elector: Option<Elector>,
    pub deadline: Option<Arc<Deadline>>,
    pub stream: Stream,
    /// The newest version that the process knows.
    pub knows: u64,
    /// The shards of which the process is the owner, as bits, apart from the validity of the ownership.
    pub owned: u64,
    pub workers: BTreeMap<usize, Worker>,
}

/// The elector of one slot, for one campaign and its term.
pub struct Elector {
    pub serial: u64,
    pub slot: usize,
    pub session: Session,
    /// The number and the send time of the request under way, and the context of a read.
    pub in_flight: Option<(u64, Moment, Option<ReadContext>)>,
    pub wake: u64,
    /// `true` while the group waits for the outcome of the campaign.
    pub is_campaign: bool,
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
    pub is_wanted: bool,
    /// The time that the worker needs to return.
    pub delay: Nanos,
    /// `true` if the worker also needs this time after the end of its ownership.
    pub is_stubborn: bool,
    /// `true` if the worker hangs after the end of the term.
    pub hangs: bool,
}

impl Process {
    /// Returns the shards that the process owns at `truth`, as bits.
    ///
    /// The deadline is read as of the beginning of time, so the read never ends the term.
    pub fn owns(&self, truth: Nanos) -> u64 {
        let beginning = Moment::from_nanos(2);
        let now = self.clock.local(truth);
        let is_owner = self.is_alive
            && self.owned != 0
            && now < self.group.valid_until()
            && self.deadline.as_ref().is_some_and(|deadline| {
                let remaining = deadline.remaining(beginning);
                !remaining.is_zero() && now < beginning + remaining
            });
        if is_owner { self.owned } else { 0 }
    }

    /// Returns `true` if a worker of the process hangs.
    pub fn is_hung(&self) -> bool {
        self.workers.values().any(|worker| worker.hangs)
    }

    pub fn is_paused(&self, truth: Nanos) -> bool {
        self.paused_until.is_some_and(|until| until > truth)
    }
}
