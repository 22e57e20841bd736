//! One process: a candidate, and a user who holds the guard.

use std::collections::VecDeque;
use std::sync::Arc;

use leasehold::election::Change;
use leasehold::election::candidate::Candidate;
use leasehold::election::deadline::Deadline;
use leasehold::store::{LeaderElectionRecord, MicroTime};
use leasehold::util::clock::Moment;
use leasehold::{Settings, StopReason};

use crate::clock::{Nanos, NodeClock};
use crate::jobs::NodeJob;
use crate::network::Cut;
use crate::pace::Connection;
use crate::plan::Kind;
use crate::queue::Sent;
use crate::stream::Watcher;
use crate::two_objects::candidate::Lock;
use crate::two_objects::multi_lock::MultiLock;

pub struct Node {
    pub identity: String,
    pub settings: Arc<Settings>,
    pub clock: NodeClock,
    pub kind: Kind,
    pub mind: Mind,
    /// The record of the candidate, with the state of its threads.
    pub record: Record,
    /// The lock of two objects, if the node competes for both.
    pub lock: Option<Lock>,
    /// The number of the node's current process.
    pub incarnation: u32,
    pub alive: bool,
    /// The time at which the user closed the candidate.
    pub closed_at: Option<Nanos>,
    pub paused_until: Option<Nanos>,
    /// The clock reading by which a thread that was held up still acts.
    pub reading: Option<Moment>,
    pub cut: Option<(Cut, Nanos)>,
    /// Commands from the user and from watches that the candidate has not handled yet, in order.
    pub commands: VecDeque<Command>,
    /// The user's current request, if there is one.
    pub wants: Option<Wants>,
    /// The number of campaigns that the user has started.
    pub campaigns: u64,
    pub term: Option<Term>,
    pub job: NodeJob,
    /// `true` if the latest fitness report was fit.
    pub is_fit: bool,
    /// `true` if the work makes progress.
    pub works: bool,
    /// The time of the last request that ended a term, and the version that was known then.
    pub requested: Option<(Moment, u64)>,
    /// The `acquireTime` of the last attempt, and the earliest time from which its writes accept requests.
    pub accepts_at: Option<(MicroTime, Moment)>,
    /// `true` while the node reports that it is unfit only because of a request.
    pub is_aside: bool,
    /// `true` if the node last reported another holder.
    pub is_led_by_another: bool,
    /// `true` after an obeyed request, until another candidate leads.
    pub awaits_successor: bool,
    pub steps_in_second: (Nanos, u32),
    pub requests: Requests,
    /// On a network without faults, the time by which an ended term must be released.
    pub release_by: Option<Nanos>,
    /// On two objects: `true` once the node has led in the phase in which each node leads once.
    pub had_turn: bool,
}

pub enum Mind {
    Ours(Box<Candidate>),
    ClientGo(Box<MultiLock>),
}

/// One record of a candidate, with the state of the threads that handle it.
pub struct Record {
    /// The index of the object that contains the record. Without effect for two objects, which have no watch.
    pub object: usize,
    pub in_flight: Option<u64>,
    pub connection: Connection,
    pub wake: u64,
    pub finished: bool,
    /// The thread that watches, or `None` if the store has no watch.
    pub watcher: Option<Watcher>,
    /// The newest version that an answer or an event contained, and the record at that version.
    pub known: (u64, Option<LeaderElectionRecord>),
    /// Versions from events or answers that the election may not have accepted.
    ///
    /// The election may accept such a version at once, or only after a read confirms it.
    pub hinted: Vec<(u64, Option<LeaderElectionRecord>)>,
    /// The uid of the last object that was found to be deleted.
    pub gone: Option<String>,
    /// The time at which the read was sent that revealed a restore of the store.
    pub doubts_since: Option<Nanos>,
    /// The record that was read when the restore was revealed.
    pub restored: Option<LeaderElectionRecord>,
    /// `true` while the node handles an event from before a restore that it has noticed.
    ///
    /// Such an event comes from a server that was not restarted.
    pub hears_of_former: bool,
}

/// The limit for the number of requests that a node sends.
///
/// A node may send a few requests at once. Each quarter of its shortest pause permits one more request, and each input
/// permits two.
#[derive(Debug)]
pub struct Requests {
    left: u64,
    pause: Nanos,
    /// The time up to which pauses have been counted.
    counted: Nanos,
}

impl Requests {
    const AT_ONCE: u64 = 12;

    pub fn new(settings: &Settings) -> Self {
        let pause = settings.retry_period.min(settings.renew_interval).as_nanos() as Nanos / 4;
        Self { left: Self::AT_ONCE, pause, counted: 0 }
    }

    /// Permits more requests, because the node received an input that may require some.
    pub fn told(&mut self) {
        self.left = (self.left + 2).min(Self::AT_ONCE);
    }

    /// Counts one request, and returns `true` if the node may send it.
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
    JobEnded(i32),
    Fitness(bool),
    GuardDropped { at: Moment },
    Close,
    Heard { received_at: Moment, change: Change, former_since: Option<Nanos> },
    WatchOpened { from_scratch: bool },
    WatchLost,
}

/// A term, as the simulation sees it.
pub struct Term {
    pub serial: u64,
    pub deadline: Arc<Deadline>,
    pub token: u64,
    pub uid: Option<String>,
    /// The true time at which the term expires by the node's clock, or zero if it is over.
    pub valid_until: Nanos,
    /// `true` once the simulation has seen the end of the term, even if the node has not.
    pub over: bool,
    pub lost: Option<StopReason>,
    pub stepped_down: bool,
    pub guard_held: bool,
    /// In a restored store, the time since which the record no longer names this node.
    pub astray_since: Option<Nanos>,
}

impl Node {
    /// Returns `true` if the node leads at `truth`, which no node can read.
    pub fn valid(&self, truth: Nanos) -> bool {
        let leads = match &self.mind {
            Mind::ClientGo(candidate) => candidate.leads(self.clock.local(truth)),
            Mind::Ours(_) => self.term.as_ref().is_some_and(|term| truth < term.valid_until),
        };
        self.alive && leads
    }

    pub fn candidate(&mut self) -> &mut Candidate {
        match &mut self.mind {
            Mind::Ours(candidate) => candidate,
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

    pub fn finished(&self) -> bool {
        self.record.finished
    }

    /// Returns `true` if the node's work has made no progress for too long.
    pub fn hangs_at(&self, truth: Nanos) -> bool {
        let limit = self.term.as_ref().and_then(|term| term.deadline.progress_limit());
        limit.is_some_and(|limit| limit.until() <= self.clock.local(truth))
    }

    /// Creates the command by which the user campaigns.
    pub fn campaign(&mut self, wants: Wants) -> Command {
        self.wants = Some(wants);
        self.campaigns += 1;
        Command::Campaign(self.campaigns, wants)
    }

    /// Returns `true` if the node has obeyed a request within a lease duration before `now`.
    pub fn obeyed_recently(&self, now: Moment) -> bool {
        self.requested.is_some_and(|(at, _)| now < at + self.settings.lease_duration)
    }

    /// Queues a command from the user.
    pub fn order(&mut self, command: Command) {
        self.commands.push_back(command);
    }

    pub fn holds_guard(&self) -> bool {
        self.term.as_ref().is_some_and(|term| term.guard_held)
    }

    /// Updates the end of the term's validity from the deadline.
    ///
    /// The deadline is read as of the beginning of time, when no term has expired yet. So the read never ends a term.
    pub fn refresh(&mut self) {
        let beginning = Moment::from_nanos(2);
        if let Some(term) = &mut self.term {
            let remaining = term.deadline.remaining(beginning);
            term.valid_until = if remaining.is_zero() { 0 } else { self.clock.when(beginning + remaining) };
        }
    }

    /// Allows one more step in this second, because each event costs a step.
    pub fn heard_in_second(&mut self) {
        self.steps_in_second.1 = self.steps_in_second.1.saturating_sub(1);
    }

    pub fn cut(&self, truth: Nanos) -> Option<Cut> {
        self.cut.filter(|(_, until)| truth < *until).map(|(cut, _)| cut)
    }
}

impl Record {
    /// Returns the uid of the object that is known to exist.
    pub fn known_uid(&self) -> Option<&String> {
        self.known.1.as_ref()?.uid.as_ref()
    }

    /// Notes a version and its record, and returns `true` if they are new.
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

    /// Notes the result of a write.
    ///
    /// If a newer version became known after the write was sent, the election may ignore the answer.
    pub fn note_written(&mut self, sent: Sent, version: u64, record: &LeaderElectionRecord) {
        match version > self.known.0 && self.known.0 > sent.knowing {
            true => self.hinted.push((version, Some(record.clone()))),
            false => drop(self.note(version, Some(record))),
        }
    }

    /// Notes that a read found no object at the known version.
    pub fn note_absence(&mut self) {
        self.learn(self.known.0, None);
    }

    /// Forgets everything known so far, because a read has proved a restore of the store.
    fn start_over(&mut self, sent_at: Nanos, version: u64, record: &LeaderElectionRecord) {
        self.known = (version, Some(record.clone()));
        self.hinted.clear();
        self.gone = None;
        self.doubts_since = Some(sent_at);
        self.restored = Some(record.clone());
    }

    /// Notes that the election acts by `version`.
    ///
    /// If the version was only hinted at, it is now known.
    pub fn acts_by(&mut self, version: u64) {
        let hint = self.hinted.iter().rfind(|(hinted, _)| *hinted == version).cloned();
        if let Some((version, record)) = hint {
            self.learn(version, record.as_ref());
        }
    }

    /// Returns `true` if `record` belongs to the object that is known to be deleted.
    fn is_gone(&self, record: &LeaderElectionRecord) -> bool {
        self.known.1.is_none() && record.uid.is_some() && record.uid == self.gone
    }

    /// Notes the result of a read, and returns `true` if the read proves a restore of the store.
    pub fn note_read(&mut self, sent: Sent, version: u64, record: &LeaderElectionRecord) -> bool {
        if self.proves_restored(sent, version, record) {
            self.start_over(sent.at, version, record);
            return true;
        }
        if self.is_another(version, record) {
            // This read proves a restore only to an election that has accepted none of the hinted versions.
            self.hinted.push((version, Some(record.clone())));
        } else {
            self.note(version, Some(record));
        }
        false
    }

    /// Returns `true` if a read proves a restore of the store.
    ///
    /// Each of these facts is a proof:
    ///
    /// - The version is below the version that was known when the read was sent.
    /// - The read found an object at a version at which none existed.
    /// - The read found an object that was known to be deleted when the read was sent.
    /// - No version was hinted at, and the read found another record than the known one at the same version. No two
    ///   writes have the same version.
    fn proves_restored(&self, sent: Sent, version: u64, record: &LeaderElectionRecord) -> bool {
        let was_gone = sent.knowing == self.known.0 && self.is_gone(record);
        version < sent.knowing
            || (sent.absent && (version == sent.knowing || was_gone))
            || (self.is_another(version, record) && self.hinted.is_empty())
    }

    fn is_another(&self, version: u64, record: &LeaderElectionRecord) -> bool {
        version == self.known.0 && self.known.1.as_ref().is_some_and(|known| known != record)
    }

    /// Notes an event, and returns its version and the object's uid if they are certainly new.
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
