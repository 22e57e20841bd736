//! The state of an elector, which performs the effects of the candidate under one lock.

use std::convert::Infallible;
use std::mem;
use std::time::Duration;

use log::Level;

use crate::election::Step;
use crate::election::candidate::Candidate;
use crate::election::candidate::messages::{CancelReason, Effect, Input};
use crate::election::candidate::notice::{LogEvent, LogRecord, Notice};
use crate::election::deadline::Deadline;
use crate::election::stop_reason::StopReason;
use crate::leadership::campaign::slot::{CampaignSlot, Unsent};
use crate::leadership::error::Error;
use crate::leadership::guard::LeaderGuard;
use crate::leadership::handle::{Cancellation, Command, Link, ReleaseAck, ReleaseSender};
use crate::leadership::term::Term;
use crate::observe::observations::Observations;
use crate::observe::observer::{Fact, RequestOutcome};
use crate::observe::transition::Subscriptions;
use crate::runtime::lines::{Item, Lines};
use crate::runtime::observing::Observing;
use crate::store::{StoreError, StoreOperation};
use crate::util::cancel::CancelToken;
use crate::util::clock::{self, Moment, Now};
use crate::util::sync::Arc;
use crate::util::sync::channel::{Receiver, Sender};

/// The parts that an elector shares with its threads.
#[derive(Clone)]
pub(crate) struct SharedParts {
    pub(crate) link: Arc<Link>,
    pub(crate) pending: Arc<CampaignSlot>,
    pub(crate) subscriptions: Arc<Subscriptions>,
    pub(crate) observations: Arc<Observations>,
}

pub(crate) struct ElectorState {
    candidate: Candidate,
    pub(crate) shared: SharedParts,
    observers: Vec<Observing>,
    /// Dropping the sender ends the thread of the probe.
    probing: Option<Sender<Infallible>>,
    term: Option<Arc<Term>>,
    /// Notifies the caller that waits for the release of the last term.
    releasing: Option<ReleaseSender>,
    /// Notify the callers that wait until the closed elector holds no record.
    closing: Vec<ReleaseSender>,
    /// The request that the request thread is sending.
    in_flight: Option<InFlight>,
    deferred: Deferred,
    lines: Arc<Lines>,
    /// The fencing token of the current term.
    fencing_token: Option<u64>,
    /// `true` while [`work`](Self::work) runs. Stays `true` after a panic or the elector's end, so that no more work
    /// runs.
    at_work: bool,
}

/// The work to do after the state is unlocked.
///
/// Under the lock, a hook of the store could wait forever for a thread that waits for the lock.
#[derive(Default)]
pub(crate) struct Deferred {
    /// The requests that delay a release for which no caller waits.
    pub(crate) cancel: Vec<CancelToken>,
    pub(crate) restart_watch: bool,
}

/// The request that a thread is sending.
struct InFlight {
    id: u64,
    cancel: CancelToken,
    ended: Receiver<Infallible>,
    /// When to cancel the request. `None` if no release and no event waits for the request.
    cancel_at: Option<Moment>,
}

impl ElectorState {
    pub(crate) fn new(
        candidate: Candidate,
        observers: Vec<Observing>,
        probing: Option<Sender<Infallible>>,
        shared: SharedParts,
        lines: Arc<Lines>,
    ) -> Self {
        Self {
            candidate,
            shared,
            observers,
            probing,
            term: None,
            releasing: None,
            closing: Vec::new(),
            in_flight: None,
            deferred: Deferred::default(),
            lines,
            fencing_token: None,
            at_work: false,
        }
    }

    /// Runs `work` on the state. Returns `None` after a panic, because the state may be inconsistent.
    pub(crate) fn work<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if mem::replace(&mut self.at_work, true) {
            return None;
        }
        let done = work(self);
        self.shared.observations.leader_until(self.candidate.leader_until(), self.candidate.has_twin());
        self.at_work = false;
        Some(done)
    }

    pub(crate) fn take_deferred(&mut self) -> Deferred {
        mem::take(&mut self.deferred)
    }

    pub(crate) fn next(&mut self, commands: &Receiver<Command>) -> Step {
        loop {
            self.take_all(commands);
            let step = self.candidate.next(Now::read());
            if !(self.act() && matches!(step, Step::Wait(_))) {
                return step;
            }
        }
    }

    /// Records that the request thread starts to send a request.
    pub(crate) fn sends(&mut self, id: u64, cancel: CancelToken, ended: Receiver<Infallible>) {
        self.in_flight = Some(InFlight { id, cancel, ended, cancel_at: None });
    }

    /// Records that the request has ended.
    pub(crate) fn has_sent(&mut self, commands: &Receiver<Command>) {
        self.in_flight = None;
        // A withdrawal that arrived during the request must be processed before the answer to the request.
        self.take_all(commands);
    }

    pub(crate) fn take_all(&mut self, commands: &Receiver<Command>) {
        while let Ok(command) = commands.try_recv() {
            self.take(command);
        }
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Input(input) => self.handle(input),
            Command::GuardGone { ack, at } => {
                self.shared.observations.guard_gone();
                self.releasing = ack;
                self.handle(Input::GuardGone { at });
            }
            Command::Close { ack } => {
                self.closing.extend(ack);
                self.handle(Input::Close);
            }
            Command::Watched { received_at, change, taken } => {
                self.shared.observations.heard();
                self.handle(Input::Watched { received_at, change });
                let _ = taken.try_send(self.cancellation());
            }
            Command::WatchOpened { from_scratch } => {
                self.watches(true);
                self.handle(Input::WatchOpened { from_scratch });
            }
            Command::WatchLost => {
                self.watches(false);
                self.handle(Input::WatchEnded);
            }
        }
    }

    /// Notifies a caller that waits for a release.
    fn tell_released(&self, ack: ReleaseSender) {
        let _ = ack.acks.try_send(ReleaseAck::Released(ack.number));
        self.lines.push(Item::Released(ack));
    }

    fn watches(&mut self, is_watched: bool) {
        self.shared.observations.watching(is_watched);
        self.observe(if is_watched { &Fact::WatchOpened } else { &Fact::WatchLost });
    }

    /// Returns the cancellation of the request in flight, if a release or an event waits for the request.
    fn cancellation(&self) -> Option<Cancellation> {
        let InFlight { cancel, ended, cancel_at, .. } = self.in_flight.as_ref()?;
        cancel_at.map(|at| Cancellation { at, cancel: cancel.clone(), ended: ended.clone() })
    }

    pub(crate) fn handle(&mut self, input: Input) {
        self.candidate.handle(clock::now(), input);
        self.act();
    }

    /// Performs the effects of the candidate. Returns `true` if there was an effect.
    fn act(&mut self) -> bool {
        let mut has_acted = false;
        while let Some(effect) = self.candidate.effect() {
            has_acted = true;
            match effect {
                Effect::Offer { campaign, deadline, fencing_token } => self.offer(campaign, deadline, fencing_token),
                Effect::Refuse { campaign, error } => self.fail(campaign, Error::Store(error)),
                Effect::RoundOver { campaign, error } => {
                    self.shared.pending.round_over(campaign, error.map(Error::Store), &self.shared.link);
                }
                Effect::NotFit { campaign } => self.fail(campaign, Error::Unfit),
                Effect::Fitness { is_fit, pause } => self.observe(&Fact::Fitness { is_fit, pause }),
                Effect::Renewed(latency) => self.observe(&Fact::Renewed(latency)),
                Effect::TermEnded(reason, error) => self.term_ended(reason, error.as_deref()),
                Effect::DrainEnded(reason) => {
                    self.shared.observations.cover_lost();
                    let why = reason.map_or_else(|| "the drain timeout elapsed".to_owned(), |it| it.to_string());
                    let line = format!(
                        "renewals of the ended term stopped: {why}; another candidate can lead once the lease expires"
                    );
                    self.log(Notice::new(Level::Warn, line));
                }
                Effect::Released => {
                    self.term = None;
                    self.shared.observations.released();
                    self.releasing.take().into_iter().for_each(|ack| self.tell_released(ack));
                }
                Effect::CancelAt(request, at, reason) => self.cancel_at(request, at, reason),
                Effect::Leader(leader) => {
                    let leader = leader.map(|leader| *leader);
                    let (identity, has_twin) = (self.candidate.identity(), self.candidate.has_twin());
                    self.shared.observations.leader(leader.clone(), self.candidate.leader_until(), identity);
                    let holder = leader.as_ref().map(|leader| leader.identity.clone());
                    let notice = Notice::of_leader(holder.clone(), identity, has_twin);
                    // A changed address is only a transition.
                    if self.shared.subscriptions.new_leader(leader) {
                        self.log(notice);
                        self.observe(&Fact::new_leader(holder.as_deref()));
                    }
                }
                Effect::LeaderLeaseExpired => {
                    // The expired lease may be this candidate's own. The observations keep the leader, so an unhealthy
                    // check stays unhealthy.
                    self.shared.subscriptions.new_leader(None);
                    let text = "no leader: the lease has expired";
                    self.log(Notice::of_event(Level::Info, LogEvent::NewLeader(None), text));
                    self.observe(&Fact::new_leader(None));
                }
                Effect::WritesRefused(error) => self.shared.observations.write_failed(&error),
                Effect::RestartWatch => self.deferred.restart_watch = true,
                Effect::Log(notice) | Effect::IdentityConflict(notice) => self.log(notice),
            }
        }
        if !self.closing.is_empty() && !self.candidate.may_hold() {
            mem::take(&mut self.closing).into_iter().for_each(|ack| self.tell_released(ack));
        }
        has_acted
    }

    /// Answers a campaign with an error.
    fn fail(&self, campaign: u64, error: Error) {
        self.shared.pending.fail(campaign, error, &self.shared.link);
    }

    fn cancel_at(&mut self, request: u64, at: Moment, reason: CancelReason) {
        let Some(in_flight) = self.in_flight.as_mut().filter(|in_flight| in_flight.id == request) else { return };
        in_flight.cancel_at = Some(in_flight.cancel_at.map_or(at, |before| before.min(at)));
        if reason != CancelReason::Release {
            return;
        }
        // A caller that has given up accepts nothing.
        let accepts = |ack: &ReleaseSender| {
            self.cancellation().is_none_or(|it| ack.acks.try_send(ReleaseAck::Behind(it)).is_ok())
        };
        if !self.releasing.iter().chain(&self.closing).any(accepts) {
            // No caller waits that could cancel the request later.
            self.deferred.cancel.extend(self.cancellation().map(|it| it.cancel));
        }
    }

    fn observe(&self, fact: &Fact) {
        self.shared.observations.note(fact);
        self.observers.iter().for_each(|observer| observer.tell(fact));
    }

    pub(crate) fn answered(&self, operation: StoreOperation, latency: Duration, error: Option<&StoreError>) {
        let failure = error.map(StoreError::kind);
        self.shared.observations.answered(operation, error);
        let is_slow_path = operation == StoreOperation::Get && self.term.as_ref().is_some_and(|term| term.is_valid());
        self.observe(&Fact::Request(RequestOutcome { operation, latency, failure, is_slow_path }));
    }

    /// Queues a log line.
    fn log(&self, notice: Notice) {
        self.lines.push(Item::LogRecord(LogRecord { fencing_token: self.fencing_token, notice }));
    }

    pub(super) fn offer(&mut self, campaign: u64, deadline: Arc<Deadline>, fencing_token: u64) {
        if !self.shared.pending.is_waiting(campaign) {
            return self.candidate.handle(clock::now(), Input::NotTaken);
        }
        self.fencing_token = Some(fencing_token);
        let text = format!("started leading, fencing token {fencing_token}");
        self.log(Notice::of_event(Level::Info, LogEvent::StartedLeading, text));
        let term = Arc::new(Term::new(deadline, fencing_token));
        self.term = Some(Arc::clone(&term));
        self.observe(&Fact::StartedLeading(Arc::clone(&term)));
        self.shared.subscriptions.started(fencing_token);
        let guard = LeaderGuard::new(term, Arc::clone(&self.shared.link));
        // The campaign may have been withdrawn since the check above.
        if let Err(Unsent { guard, is_by_key }) = self.shared.pending.win(campaign, guard, &self.shared.link) {
            self.shared.observations.guard_gone();
            guard.into_iter().for_each(LeaderGuard::forget);
            if is_by_key {
                let text = "term released: the channel of the campaign is full or disconnected";
                self.log(Notice::new(Level::Warn, text));
            }
            self.candidate.handle(clock::now(), Input::NotTaken);
        }
    }

    pub(super) fn term_ended(&mut self, reason: StopReason, error: Option<&StoreError>) {
        let Some(term) = &self.term else { return };
        // If the term ended earlier, the first reason counts.
        let reason = term.end(reason);
        self.log(Notice::of_end(&reason, error));
        self.fencing_token = None;
        self.observe(&Fact::StoppedLeading(reason.clone()));
        self.shared.subscriptions.stopped(reason);
    }

    /// Ends the elector: its term, its observers and its probe. Later work is ignored.
    pub(crate) fn end(&mut self) {
        let panicked = mem::replace(&mut self.at_work, true) || std::thread::panicking();
        if let Some(term) = self.term.take() {
            let reason = term.end(StopReason::ElectorPanicked);
            // The end may have been reported already.
            if self.shared.subscriptions.stopped(reason.clone()) {
                self.observe(&Fact::StoppedLeading(reason));
            }
        }
        if panicked {
            self.shared.observations.thread_panicked();
        }
        self.observers.clear();
        drop(self.probing.take());
    }
}
