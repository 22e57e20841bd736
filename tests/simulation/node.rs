//! One process: an election, the driver's part of it, and a user who holds the guard.

use std::collections::VecDeque;
use std::sync::Arc;

use leasehold::clock::Moment;
use leasehold::deadline::Deadline;
use leasehold::election::Election;
use leasehold::{Settings, StopReason, WatchEvent};

use crate::clock::{Nanos, NodeClock};
use crate::network::Cut;
use crate::queue::Sent;
use crate::stream::Watcher;

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
    /// What the user said, and what the watch told, while a request was under way, in order.
    pub commands: VecDeque<Command>,
    pub wake: u64,
    /// The driver's second thread; `None` where the lock cannot watch.
    pub watcher: Option<Watcher>,
    /// What the user waits for.
    pub wants: Option<Wants>,
    pub term: Option<Term>,
    /// The newest version that an answer or an event brought, and the object's uid in it.
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

#[derive(Debug)]
pub enum Command {
    Campaign(Wants),
    Withdraw,
    StepDown,
    GuardGone,
    Close,
    Heard { received_at: Moment, event: WatchEvent },
    WatchOpened { afresh: bool },
    WatchLost,
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
    /// Since when, in a store that was restored, the record is not this node's.
    pub astray_since: Option<Nanos>,
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

    /// Notes what was shown of the object, if it is news.
    pub fn note(&mut self, version: u64, uid: Option<String>) -> bool {
        let news = version > self.known.0;
        if news {
            self.known = (version, uid);
        }
        news
    }

    /// Whether a read shows that the store went back: by a version below one that was known when it was sent, or by
    /// another object at one.
    pub fn proves_restored(&self, sent: Sent, version: u64, uid: &Option<String>) -> bool {
        version < sent.knowing || (version == self.known.0 && version == sent.knowing && *uid != self.known.1)
    }

    /// What an event shows of the object, if that is news.
    pub fn note_event(&mut self, event: &WatchEvent) -> Option<(u64, Option<String>)> {
        let (version, uid) = match event {
            WatchEvent::Changed(observed) => (observed.version, observed.record.uid.clone()),
            WatchEvent::Deleted { version } => (*version, None),
            _ => return None,
        };
        self.note(version, uid).then(|| self.known.clone())
    }

    pub fn cut(&self, truth: Nanos) -> Option<Cut> {
        self.cut.filter(|(_, until)| truth < *until).map(|(cut, _)| cut)
    }
}
