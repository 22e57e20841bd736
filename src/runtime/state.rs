//! The state of an elector, which performs the effects of its candidate.

use std::convert::Infallible;
use std::mem;
use std::time::Duration;

use log::Level;

use crate::election::candidate::Candidate;
use crate::election::candidate::job::JobDue;
use crate::election::candidate::messages::{Effect, Input};
use crate::election::candidate::notice::{LogEvent, LogRecord, Notice};
use crate::election::deadline::Deadline;
use crate::election::stop_reason::StopReason;
use crate::election::{LeaderInfo, Step, StoreResponse};
use crate::leadership::campaign::slot::CampaignSlot;
use crate::leadership::error::Error;
use crate::leadership::guard::LeaderGuard;
use crate::leadership::handle::{Command, Link, ReleaseSender};
use crate::leadership::job::NotDue;
use crate::leadership::term::Term;
use crate::observe::observations::Observations;
use crate::observe::observer::{Event, RequestOutcome};
use crate::runtime::cancel_aside;
use crate::runtime::lines::{Item, Lines};
use crate::runtime::observing::Observing;
use crate::runtime::watcher::Watcher;
use crate::store::notes::JobNotes;
use crate::store::{StoreError, StoreOperation};
use crate::util::cancel::CancelToken;
use crate::util::clock::{self, Moment, Now};
use crate::util::config_error::ConfigError;
use crate::util::sync::Arc;
use crate::util::sync::channel::Sender;

/// The parts that an elector shares with its threads.
#[derive(Clone)]
pub(crate) struct SharedParts {
    pub(crate) link: Arc<Link>,
    pub(crate) pending: Arc<CampaignSlot>,
    pub(crate) observations: Arc<Observations>,
}

pub(crate) struct ElectorState {
    candidate: Candidate,
    pub(crate) shared: SharedParts,
    observers: Vec<Observing>,
    /// Dropping the sender ends the thread of the probe.
    probing: Option<Sender<Infallible>>,
    /// Notifies the caller that waits for the release of the last term.
    releasing: Option<ReleaseSender>,
    /// Notifies the caller that records the result of its job.
    recording: Option<Sender<bool>>,
    /// Notify the callers that wait until the closed elector holds no record.
    closing: Vec<ReleaseSender>,
    /// The request that the request thread is sending.
    in_flight: Option<InFlight>,
    lines: Arc<Lines>,
    watcher: Watcher,
}

/// The request that the request thread is sending.
struct InFlight {
    id: u64,
    cancel: CancelToken,
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
        watcher: Watcher,
    ) -> Self {
        Self {
            candidate,
            shared,
            observers,
            probing,
            releasing: None,
            recording: None,
            closing: Vec::new(),
            in_flight: None,
            lines,
            watcher,
        }
    }

    /// Returns the next step, after all effects are performed.
    pub(super) fn next(&mut self) -> Step {
        loop {
            let step = self.candidate.next(Now::read());
            if !(self.act() && matches!(step, Step::Wait(_))) {
                self.shared.observations.note_leader(self.candidate.leader());
                return step;
            }
        }
    }

    /// Notes that the request thread starts to send a request. Returns the cancellation of the request.
    pub(super) fn sends(&mut self, id: u64) -> CancelToken {
        let cancel = CancelToken::new();
        self.in_flight = Some(InFlight { id, cancel: cancel.clone(), cancel_at: None });
        cancel
    }

    /// Cancels the request in flight if its time has come. Otherwise returns that time, if there is one.
    pub(super) fn cancel_when_due(&mut self) -> Option<Moment> {
        let in_flight = self.in_flight.as_mut()?;
        let is_due = in_flight.cancel_at.take_if(|at| *at <= clock::now()).is_some();
        if is_due {
            cancel_aside(in_flight.cancel.clone());
        }
        in_flight.cancel_at
    }

    /// Handles a command. Returns `false` if the elector must end.
    pub(super) fn take(&mut self, command: Command) -> bool {
        match command {
            Command::Input(input) => self.handle(input),
            Command::GuardDropped { ack, at } => {
                self.shared.observations.guard_dropped();
                self.releasing = ack;
                self.handle(Input::GuardDropped { at });
            }
            Command::Close { ack } => {
                self.closing.extend(ack);
                self.handle(Input::Close);
            }
            Command::Watched { received_at, change, handled } => {
                self.shared.observations.watch_delivered();
                self.handle(Input::Watched { received_at, change });
                drop(handled);
            }
            Command::WatchOpened { from_scratch, handled } => {
                self.report(&Event::WatchOpened, None);
                self.handle(Input::WatchOpened { from_scratch });
                drop(handled);
            }
            Command::Barrier(handled) => drop(handled),
            Command::WatchLost => {
                self.report(&Event::WatchLost, None);
                self.handle(Input::WatchEnded);
            }
            Command::JobEnded { exit_code, recorded } => {
                self.recording = Some(recorded);
                self.handle(Input::JobEnded { exit_code });
            }
            Command::Answered { id, operation, took, idle_timeout, store_time, response } => {
                self.in_flight = None;
                self.answered(operation, took, &response);
                let store_time = store_time.map(|unix_micros| Input::StoreTime { unix_micros });
                idle_timeout.into_iter().chain(store_time).for_each(|fact| self.handle(fact));
                self.handle(Input::Response(id, response));
            }
            Command::RequestThreadPanicked => {
                self.term_ended(StopReason::ElectorPanicked, None);
                self.shared.observations.ended(true);
                return false;
            }
        }
        true
    }

    /// Notifies a caller that waits for a release.
    fn notify_released(&self, ack: ReleaseSender) {
        let _ = ack.acks.try_send(ack.number);
        self.lines.push(Item::Released(ack));
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
            self.perform(effect);
        }
        if !self.closing.is_empty() && !self.candidate.may_hold() {
            mem::take(&mut self.closing).into_iter().for_each(|ack| self.notify_released(ack));
        }
        has_acted
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Offer { campaign, deadline, fencing_token } => self.offer(campaign, deadline, fencing_token),
            Effect::Refuse { campaign, error } => self.fail(campaign, Error::Store(error)),
            Effect::RoundOver { campaign, error } => {
                self.shared.pending.round_over(campaign, error.map(Error::Store), &self.shared.link);
            }
            Effect::NotFit { campaign } => self.fail(campaign, Error::Unfit),
            Effect::JobNotDue { campaign, due, history } => self.fail(campaign, not_due(&due, history)),
            Effect::JobRecorded(is_recorded) => {
                self.recording.take().into_iter().for_each(|recorded| _ = recorded.try_send(is_recorded));
            }
            Effect::Fitness { is_fit: true, pause } => self.report(&Event::Fit { pause }, None),
            Effect::Fitness { is_fit: false, .. } => self.report(&Event::Unfit, None),
            Effect::Renewed(latency) => self.report(&Event::Renewed { latency }, None),
            Effect::TermEnded(reason, error) => self.term_ended(reason, error.as_deref()),
            Effect::DrainEnded(reason) => self.log(Notice::of_drain_end(reason)),
            Effect::Released => {
                self.shared.observations.released();
                self.releasing.take().into_iter().for_each(|ack| self.notify_released(ack));
            }
            Effect::CancelAt(request, at) => self.cancel_at(request, at),
            Effect::NewLeader { leader, is_new_address } => {
                let LeaderInfo { identity, address } = *leader;
                // The log has no line about a changed address.
                let notice = (!is_new_address).then(|| {
                    let identity_is_shared = self.candidate.leader().identity_is_shared;
                    Notice::of_leader(&identity, self.candidate.identity(), identity_is_shared)
                });
                self.report(&Event::NewLeader { identity, address }, notice);
            }
            Effect::NoLeader { previous, is_expiry } => {
                self.report(&Event::NoLeader { previous }, Some(Notice::of_no_leader(is_expiry)));
            }
            Effect::WritesRefused(error) => self.shared.observations.write_failed(&error),
            Effect::RestartWatch => self.watcher.restart(),
            Effect::Log(notice) | Effect::IdentityConflict(notice) => self.log(notice),
        }
    }

    /// Answers a campaign with an error.
    fn fail(&self, campaign: u64, error: Error) {
        self.shared.pending.fail(campaign, error, &self.shared.link);
    }

    fn cancel_at(&mut self, request: u64, at: Moment) {
        if let Some(in_flight) = self.in_flight.as_mut().filter(|in_flight| in_flight.id == request) {
            in_flight.cancel_at = Some(in_flight.cancel_at.map_or(at, |before| before.min(at)));
        }
    }

    /// Passes an event to the log, the observations, the subscribers and the observers.
    fn report(&mut self, event: &Event, notice: Option<Notice>) {
        notice.into_iter().for_each(|notice| self.log(notice));
        self.shared.observations.note(event, self.candidate.leader());
        self.observers.iter().for_each(|observer| observer.send(event));
    }

    fn answered(&mut self, operation: StoreOperation, latency: Duration, response: &StoreResponse) {
        let error = if let StoreResponse::Failed(error) = response { Some(error) } else { None };
        let failure = error.map(StoreError::kind);
        self.shared.observations.answered(operation, error);
        let is_slow_path =
            operation == StoreOperation::Get && self.shared.observations.term().is_some_and(|term| term.is_valid());
        self.report(&Event::Request(RequestOutcome { operation, latency, failure, is_slow_path }), None);
    }

    /// Queues a log line.
    fn log(&self, notice: Notice) {
        let fencing_token = self.shared.observations.reported_term().map(|term| term.fencing_token);
        self.lines.push(Item::LogRecord(LogRecord { fencing_token, notice }));
    }

    pub(super) fn offer(&mut self, campaign: u64, deadline: Arc<Deadline>, fencing_token: u64) {
        if !self.shared.pending.is_waiting(campaign) {
            return self.candidate.handle(clock::now(), Input::NotTaken);
        }
        let term = Arc::new(Term::new(deadline, fencing_token));
        self.shared.observations.term_begins(Arc::clone(&term));
        let text = format!("started leading, fencing token {fencing_token}");
        let notice = Notice::of_event(Level::Info, LogEvent::StartedLeading, text);
        self.lines.push(Item::LogRecord(LogRecord { fencing_token: Some(fencing_token), notice }));
        self.report(&Event::StartedLeading { fencing_token }, None);
        let guard = LeaderGuard::new(term, Arc::clone(&self.shared.link));
        // The campaign may have been withdrawn since the check above.
        if let Some(guard) = self.shared.pending.win(campaign, guard, &self.shared.link) {
            self.shared.observations.guard_dropped();
            guard.forget();
            self.candidate.handle(clock::now(), Input::NotTaken);
        }
    }

    /// Reports the end of the term, unless the end was reported before.
    pub(super) fn term_ended(&mut self, reason: StopReason, error: Option<&StoreError>) {
        let Some(term) = self.shared.observations.reported_term() else { return };
        // If the term ended earlier, the first reason counts.
        let reason = term.end(reason);
        let notice = Notice::of_end(&reason, error);
        self.report(&Event::StoppedLeading { reason }, Some(notice));
    }

    /// Ends the elector: its term, its observers and its probe.
    fn end(&mut self) {
        self.term_ended(StopReason::ElectorPanicked, None);
        self.observers.clear();
        drop(self.probing.take());
        self.shared.observations.ended(std::thread::panicking());
        self.shared.pending.stop(&self.shared.link);
        self.shared.observations.disconnect();
        self.in_flight.take().into_iter().for_each(|in_flight| cancel_aside(in_flight.cancel));
        self.lines.log();
    }
}

/// Returns the answer to a campaign for a job that is not due.
fn not_due(due: &JobDue, history: Box<JobNotes>) -> Error {
    match due {
        JobDue::OtherPeriod { recorded, planned } => {
            let [recorded, planned] = [recorded, planned].map(|period| humantime::format_duration(*period));
            let rule = format!("must be {recorded}, the period in the record; a forced run changes that period");
            Error::Config(ConfigError::new("once_per", planned, rule))
        }
        JobDue::Exhausted => Error::NotDue(NotDue::Exhausted(history)),
        JobDue::Now | JobDue::Succeeded => Error::NotDue(NotDue::Succeeded(history)),
    }
}

impl Drop for ElectorState {
    fn drop(&mut self) {
        self.end();
    }
}
