//! One process: a session, and a user who holds the guard.

use std::collections::VecDeque;
use std::sync::Arc;

use leasehold::election::Change;
use leasehold::election::candidate::candidacy::Candidacy;
use leasehold::election::candidate::side::Side;
use leasehold::election::deadline::Deadline;
use leasehold::util::clock::Moment;
use leasehold::{LeaderElectionRecord, Settings, StopReason};

use crate::clock::{Nanos, NodeClock};
use crate::network::Cut;
use crate::plan::Kind;
use crate::queue::Sent;
use crate::stream::Watcher;
use crate::two_objects::multi_lock::MultiLock;

pub struct Node {
    pub identity: String,
    pub settings: Arc<Settings>,
    pub clock: NodeClock,
    pub kind: Kind,
    pub mind: Mind,
    /// What its threads do about each of its records.
    pub records: Vec<Record>,
    /// Counts the processes that this node has been.
    pub incarnation: u32,
    pub alive: bool,
    /// When it was closed.
    pub closed_at: Option<Nanos>,
    pub paused_until: Option<Nanos>,
    /// What the clock said when the thread was held up before it acted by that.
    pub reading: Option<Moment>,
    pub cut: Option<(Cut, Nanos)>,
    /// What the user said, and what the watch told, while a request was under way, in order.
    pub commands: VecDeque<(Side, Command)>,
    /// What the user waits for, and how many campaigns that makes.
    pub wants: Option<Wants>,
    pub campaigns: u64,
    pub term: Option<Term>,
    /// Whether it has heard that it is fit, and whether its work makes progress.
    pub is_fit: bool,
    pub works: bool,
    pub steps_in_second: (Nanos, u32),
    pub requests: Requests,
    /// By when, on a network without faults, the record of a term that is over must not be ours any more.
    pub release_by: Option<Nanos>,
    /// On two objects: it has led when each was to lead once.
    pub had_turn: bool,
}

pub enum Mind {
    Ours(Box<Candidacy>),
    ClientGo(Box<MultiLock>),
}

/// A record of a candidacy of ours.
pub struct Record {
    pub side: Side,
    /// Which of the objects it is.
    pub object: usize,
    pub in_flight: Option<u64>,
    pub wake: u64,
    pub finished: bool,
    /// The driver's second thread; `None` where the lock cannot watch.
    pub watcher: Option<Watcher>,
    /// The newest version that an answer or an event brought, and the record at it.
    pub known: (u64, Option<LeaderElectionRecord>),
    /// What events brought that a read may have to bear out: the election knows it, or does not believe it.
    pub hinted: Vec<(u64, Option<LeaderElectionRecord>)>,
    /// The object that was there before it was found to be gone.
    pub gone: Option<String>,
    /// When the read was sent by which it found that the store went back.
    pub doubts_since: Option<Nanos>,
    /// And what that read showed.
    pub restored: Option<LeaderElectionRecord>,
    /// It hears of what was before that, from a server that was not restarted.
    pub hears_of_former: bool,
}

/// How many requests a node may send: a few at once, one more for each quarter of its shortest pause, and for what it is told.
#[derive(Debug)]
pub struct Requests {
    left: u64,
    pause: Nanos,
    /// Up to when pauses have been counted.
    counted: Nanos,
}

impl Requests {
    const AT_ONCE: u64 = 12;

    pub fn new(settings: &Settings) -> Self {
        let pause = settings.retry_period.min(settings.renew_interval).as_nanos() as Nanos / 4;
        Self { left: Self::AT_ONCE, pause, counted: 0 }
    }

    /// The node is told something that may be a reason for some.
    pub fn told(&mut self) {
        self.left = (self.left + 2).min(Self::AT_ONCE);
    }

    /// Whether it may send one now.
    pub fn allow(&mut self, truth: Nanos) -> bool {
        let pauses = truth.saturating_sub(self.counted) / self.pause;
        self.counted += pauses * self.pause;
        self.left = self.left.saturating_add(pauses).min(Self::AT_ONCE);
        let allowed = self.left > 0;
        self.left = self.left.saturating_sub(1);
        allowed
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wants {
    Term,
    Round,
}

#[derive(Debug)]
pub enum Command {
    Campaign(u64, Wants),
    Withdraw(u64),
    StepDown,
    Fitness(bool),
    GuardGone { at: Moment },
    Close,
    Heard { received_at: Moment, change: Change, former_since: Option<Nanos> },
    WatchOpened { from_scratch: bool },
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
    /// Whether it leads, by all-knowing eyes.
    pub fn valid(&self, truth: Nanos) -> bool {
        let leads = match &self.mind {
            Mind::ClientGo(candidate) => candidate.leads(self.clock.local(truth)),
            Mind::Ours(_) => self.term.as_ref().is_some_and(|term| truth < term.valid_until),
        };
        self.alive && leads
    }

    pub fn candidacy(&mut self) -> &mut Candidacy {
        match &mut self.mind {
            Mind::Ours(candidacy) => candidacy,
            Mind::ClientGo(_) => unreachable!("it is of client-go"),
        }
    }

    pub fn client_go(&mut self) -> &mut MultiLock {
        match &mut self.mind {
            Mind::ClientGo(candidate) => candidate,
            Mind::Ours(_) => unreachable!("it is ours"),
        }
    }

    pub fn is_ours(&self) -> bool {
        matches!(self.mind, Mind::Ours(_))
    }

    pub fn sides(&self) -> Vec<Side> {
        self.records.iter().map(|record| record.side).collect()
    }

    pub fn finished(&self) -> bool {
        !self.records.is_empty() && self.records.iter().all(|record| record.finished)
    }

    /// Whether its work has made no progress for too long.
    pub fn hangs_at(&self, truth: Nanos) -> bool {
        let limit = self.term.as_ref().and_then(|term| term.deadline.progress_limit());
        limit.is_some_and(|limit| limit.until() <= self.clock.local(truth))
    }

    /// The user asks for a term.
    pub fn campaign(&mut self, wants: Wants) -> Command {
        self.wants = Some(wants);
        self.campaigns += 1;
        Command::Campaign(self.campaigns, wants)
    }

    /// The user tells the candidacy.
    pub fn order(&mut self, command: Command) {
        self.commands.push_back((Side::Primary, command));
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

    /// What is heard costs a step, however much is.
    pub fn heard_in_second(&mut self) {
        self.steps_in_second.1 = self.steps_in_second.1.saturating_sub(1);
    }

    pub fn cut(&self, truth: Nanos) -> Option<Cut> {
        self.cut.filter(|(_, until)| truth < *until).map(|(cut, _)| cut)
    }
}

impl Record {
    /// The object that is known to be there.
    pub fn known_uid(&self) -> Option<&String> {
        self.known.1.as_ref()?.uid.as_ref()
    }

    /// Notes what was shown, if it is news.
    pub fn note(&mut self, version: u64, record: Option<&LeaderElectionRecord>) -> bool {
        let news = version > self.known.0 && !record.is_some_and(|record| self.is_gone(record));
        if news {
            self.learn(version, record);
        }
        news
    }

    fn learn(&mut self, version: u64, record: Option<&LeaderElectionRecord>) {
        if record.is_none() {
            self.gone = self.known_uid().cloned().or(self.gone.take());
        }
        self.known = (version, record.cloned());
        self.hinted.retain(|(hinted, _)| *hinted > version);
    }

    /// Notes what a write has left. What was sent when less was known may be closed, and its answer ignored.
    pub fn note_written(&mut self, sent: Sent, version: u64, record: &LeaderElectionRecord) {
        match version > self.known.0 && self.known.0 > sent.knowing {
            true => self.hinted.push((version, Some(record.clone()))),
            false => drop(self.note(version, Some(record))),
        }
    }

    /// A read found nothing at the version that was known.
    pub fn note_absence(&mut self) {
        self.learn(self.known.0, None);
    }

    /// A read has proved that the store went back: what was known before counts for nothing.
    fn start_over(&mut self, sent_at: Nanos, version: u64, record: &LeaderElectionRecord) {
        self.known = (version, Some(record.clone()));
        self.hinted.clear();
        self.gone = None;
        self.doubts_since = Some(sent_at);
        self.restored = Some(record.clone());
    }

    /// The election acts by this version: if it was hinted at, it is known.
    pub fn acts_by(&mut self, version: u64) {
        let hint = self.hinted.iter().rfind(|(hinted, _)| *hinted == version).cloned();
        if let Some((version, record)) = hint {
            self.learn(version, record.as_ref());
        }
    }

    /// Whether it is the object that is known to be gone.
    fn is_gone(&self, record: &LeaderElectionRecord) -> bool {
        self.known.1.is_none() && record.uid.is_some() && record.uid == self.gone
    }

    /// Notes what a read shows, and whether it shows that the store went back.
    pub fn note_read(&mut self, sent: Sent, version: u64, record: &LeaderElectionRecord) -> bool {
        if self.proves_restored(sent, version, record) {
            self.start_over(sent.at, version, record);
            return true;
        }
        if self.is_another(version, record) {
            // It shows that to whoever does not believe what was hinted at since.
            self.hinted.push((version, Some(record.clone())));
        } else {
            self.note(version, Some(record));
        }
        false
    }

    /// Whether a read shows that the store went back: by a version below one that was known when it was sent, by anything
    /// at one after which nothing was there then, by an object that was gone then, or by another record than the one that
    /// is known to have its version, for no two writes have the same, whichever of them was heard of first.
    fn proves_restored(&self, sent: Sent, version: u64, record: &LeaderElectionRecord) -> bool {
        let was_gone = sent.knowing == self.known.0 && self.is_gone(record);
        version < sent.knowing
            || (sent.absent && (version == sent.knowing || was_gone))
            || (self.is_another(version, record) && self.hinted.is_empty())
    }

    fn is_another(&self, version: u64, record: &LeaderElectionRecord) -> bool {
        version == self.known.0 && self.known.1.as_ref().is_some_and(|known| known != record)
    }

    /// What an event shows, if that is news.
    pub fn note_event(&mut self, event: &Change) -> Option<(u64, Option<String>)> {
        let (version, record) = match event {
            Change::Written(observed) => (observed.version, Some(&observed.record)),
            Change::Deleted { version } => (*version, None),
        };
        if self.doubts_since.is_some() || record.is_some_and(|record| self.is_gone(record)) {
            if version > self.known.0 {
                self.hinted.push((version, record.cloned()));
            }
            return None;
        }
        self.note(version, record).then(|| (version, self.known_uid().cloned()))
    }
}
