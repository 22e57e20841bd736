//! One process: an election, the driver's part of it, and a user who holds the guard.

use std::collections::VecDeque;
use std::sync::Arc;

use leasehold::clock::Moment;
use leasehold::deadline::Deadline;
use leasehold::election::Election;
use leasehold::{Settings, StopReason};

use crate::clock::{Nanos, NodeClock};
use crate::network::Cut;

pub struct Node {
    pub identity: String,
    pub settings: Settings,
    pub clock: NodeClock,
    pub election: Election,
    /// Counts the processes that this node has been.
    pub incarnation: u32,
    pub alive: bool,
    pub finished: bool,
    pub closing: bool,
    pub paused_until: Option<Nanos>,
    pub cut: Option<(Cut, Nanos)>,
    pub in_flight: Option<u64>,
    /// What the user said while a request was under way, in order.
    pub commands: VecDeque<Command>,
    pub wake: u64,
    /// What the user waits for.
    pub wants: Option<Wants>,
    pub term: Option<Term>,
    /// The newest version that an answer brought, and the object's uid in it.
    pub known: (u64, Option<String>),
    pub steps_in_second: (Nanos, u32),
    /// By when, on a network without faults, the record of a term that is over must not be ours any more.
    pub release_by: Option<Nanos>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wants {
    Term,
    Round,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    Campaign(Wants),
    Withdraw,
    StepDown,
    GuardGone,
    Close,
}

/// A term as the world sees it.
pub struct Term {
    pub serial: u64,
    pub deadline: Arc<Deadline>,
    pub token: u64,
    pub uid: Option<String>,
    /// The true instant at which it runs out by the node's own clock; zero once it is over.
    pub valid_until: Nanos,
    /// It was seen invalid, by all-knowing eyes if by no others.
    pub over: bool,
    pub lost: Option<StopReason>,
    pub stepped_down: bool,
    pub guard_held: bool,
}

impl Node {
    pub fn valid(&self, truth: Nanos) -> bool {
        self.alive && self.term.as_ref().is_some_and(|term| truth < term.valid_until)
    }

    pub fn holds_guard(&self) -> bool {
        self.term.as_ref().is_some_and(|term| term.guard_held)
    }

    /// Reads the deadline without latching it: at the beginning of time nothing has run out that was not ended.
    pub fn refresh(&mut self) {
        let beginning = Moment::from_nanos(2);
        if let Some(term) = &mut self.term {
            let remaining = term.deadline.remaining(beginning);
            term.valid_until = if remaining.is_zero() { 0 } else { self.clock.when(beginning + remaining) };
        }
    }

    pub fn cut(&self, truth: Nanos) -> Option<Cut> {
        self.cut.filter(|(_, until)| truth < *until).map(|(cut, _)| cut)
    }
}
