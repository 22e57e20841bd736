//! One process: a candidacy of ours or of client-go's, and a user.

use std::sync::Arc;

use leasehold::StopReason;
use leasehold::election::candidate::candidacy::Candidacy;
use leasehold::election::candidate::pair::Pair;
use leasehold::election::candidate::session::Session;
use leasehold::election::candidate::side::Side;
use leasehold::election::deadline::Deadline;
use leasehold::util::clock::Moment;

use super::multi_lock::MultiLock;
use super::plan::{Kind, Plan};
use crate::clock::{Nanos, NodeClock};

pub struct Node {
    pub kind: Kind,
    pub identity: String,
    pub clock: NodeClock,
    pub mind: Mind,
    pub incarnation: u32,
    pub alive: bool,
    pub paused_until: Nanos,
    /// What the user waits for, and how many campaigns that makes.
    pub wants: Option<u64>,
    pub campaigns: u64,
    pub is_fit: bool,
    pub term: Option<Term>,
    pub had_turn: bool,
}

pub enum Mind {
    Ours(Ours),
    ClientGo(Box<MultiLock>),
}

/// A candidacy of ours, with what its threads do about each of its records.
pub struct Ours {
    pub candidacy: Candidacy,
    pub records: Vec<Record>,
}

pub struct Record {
    pub side: Side,
    /// Which of the objects it is.
    pub object: usize,
    pub in_flight: Option<u64>,
    pub wake: u64,
    pub stream: Option<Stream>,
    pub streams: u64,
    pub finished: bool,
}

/// A watch that stands.
pub struct Stream {
    /// How many of the object's changes it has told, or is about to.
    pub told: usize,
    /// When what comes next is told at the earliest.
    pub last: Nanos,
    pub stalled: bool,
}

pub struct Term {
    pub deadline: Arc<Deadline>,
    pub guard_held: bool,
    pub stepped_down: bool,
    pub lost: Option<StopReason>,
    pub over: bool,
}

impl Ours {
    /// Whether it holds a record that it has no guard for.
    pub fn is_giving_back(&self) -> bool {
        matches!(&self.candidacy, Candidacy::Both(pair) if pair.is_giving_back())
    }

    pub fn new(kind: Kind, plan: &Plan, identity: &str, random: &mut fastrand::Rng) -> Self {
        let settings = plan.settings(identity);
        let (candidacy, objects) = match kind {
            Kind::Both => {
                let pair = Pair::new(settings, [random.u64(..), random.u64(..)]);
                (Candidacy::Both(Box::new(pair)), vec![0, 1])
            }
            Kind::Primary | Kind::Secondary | Kind::MultiLock => {
                let session = Session::new(settings, random.u64(..));
                (Candidacy::One(Box::new(session)), vec![usize::from(kind != Kind::Primary)])
            }
        };
        let record = |(object, side)| Record {
            side,
            object,
            in_flight: None,
            wake: 0,
            stream: None,
            streams: 0,
            finished: false,
        };
        Self { candidacy, records: objects.into_iter().zip(Side::BOTH).map(record).collect() }
    }
}

impl Node {
    /// Whether it leads by what it believes itself, as nobody can ask it who would change that.
    pub fn leads(&self, truth: Nanos) -> bool {
        let leads = match &self.mind {
            Mind::ClientGo(candidate) => candidate.leads(self.clock.local(truth)),
            Mind::Ours(_) => self.term.as_ref().is_some_and(|term| self.clock.local(truth) < term.valid_until()),
        };
        self.alive && leads
    }
}

impl Term {
    /// Without the latch of whoever asks for what is left of it.
    pub fn valid_until(&self) -> Moment {
        let beginning = Moment::from_nanos(2);
        beginning + self.deadline.remaining(beginning)
    }
}
