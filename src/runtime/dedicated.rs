//! An elector's state, which whoever tells it something works on under one lock, and the thread that sends its requests.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::campaign::slot::CampaignSlot;
use crate::cancel::Cancel;
use crate::clock::{self, Moment, Now};
use crate::election::deadline::Deadline;
use crate::election::{Operation, Request, Response, Step};
use crate::error::Error;
use crate::guard::LeaderGuard;
use crate::handle::{AsRuntime, Cancellation, Command, Inbox, Link, ReleaseAck};
use crate::health::HealthCheck;
use crate::log_fields::LogFields;
use crate::observer::{Fact, RequestOutcome};
use crate::runtime::notice::{Line, What};
use crate::runtime::observing::Observing;
use crate::runtime::session::{Effect, Input, Session};
use crate::runtime::watcher::Watcher;
use crate::status::Observations;
use crate::stop_reason::StopReason;
use crate::store::entry::Entry;
use crate::store::{Call, StoreError, StoreErrorKind, StoreOperation};
use crate::sync::channel::{self, Receiver, Sender};
use crate::sync::{Arc, Mutex, Weak};
use crate::term::Term;
use crate::transition::Subscriptions;

/// How many lines wait for the thread while it waits for an answer. A server that tells of more leaders in that time is not to
/// fill the memory with them.
const MAX_LINES: usize = 256;

/// What the elector's thread shares with the elector.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) link: Arc<Link>,
    pub(crate) pending: Arc<CampaignSlot>,
    pub(crate) subscriptions: Arc<Subscriptions>,
    pub(crate) health: HealthCheck,
    pub(crate) observations: Arc<Observations>,
}

/// The thread that sends an elector's requests.
pub(crate) struct Driver {
    core: Arc<Core>,
    entry: Entry,
    woken: Receiver<()>,
    fields: LogFields,
}

/// An elector, whoever works off what it is told: its thread, or the one that tells it while that sends a request.
pub(crate) struct Core {
    commands: Receiver<Command>,
    state: Mutex<State>,
    watcher: Watcher,
    /// The thread looks again what to do.
    wake: Sender<()>,
}

struct State {
    session: Session,
    shared: Shared,
    observers: Vec<Observing>,
    term: Option<Arc<Term>>,
    /// Who waits for the release of the last term.
    releasing: Option<Sender<ReleaseAck>>,
    in_flight: Option<InFlight>,
    deferred: Deferred,
    /// For the thread to write: whoever tells something must not wait for a logger, nor a logger for this lock.
    lines: VecDeque<Line>,
    /// The token of the present term.
    token: Option<u64>,
    /// Also after a panic in the middle of the work, and in the end: nothing more comes of it then.
    at_work: bool,
}

/// What waits until the lock is released: it runs a store's hooks, which may wait for a thread that wants the lock.
#[derive(Default)]
struct Deferred {
    /// The request of a guard whose end nobody waits for.
    cancel: Option<Cancel>,
    restart_watch: bool,
}

/// The request that the thread is sending.
struct InFlight {
    id: u64,
    cancel: Cancel,
    ended: Receiver<Infallible>,
    /// From then on it holds up what has been told.
    cancel_at: Option<Moment>,
}

impl Driver {
    pub(crate) fn new(
        session: Session,
        entry: Entry,
        commands: Receiver<Command>,
        watcher: Watcher,
        observers: Vec<Observing>,
        shared: Shared,
        fields: LogFields,
    ) -> Self {
        let (wake, woken) = channel::bounded(1);
        let link = Arc::clone(&shared.link);
        let state = State {
            session,
            shared,
            observers,
            term: None,
            releasing: None,
            in_flight: None,
            deferred: Deferred::default(),
            lines: VecDeque::new(),
            token: None,
            at_work: false,
        };
        let core = Arc::new(Core { commands, state: Mutex::new(state), watcher, wake });
        let inbox: Weak<Core> = Arc::downgrade(&core);
        link.set_inbox(inbox);
        Self { core, entry, woken, fields }
    }

    /// Runs until the elector and its last guard are gone.
    pub(crate) fn run(self) {
        let _as_runtime = AsRuntime::begin();
        while self.send_or_wait() {}
    }

    /// False when the elector has finished.
    fn send_or_wait(&self) -> bool {
        let (end, ended) = channel::bounded(0);
        let cancel = Cancel::new();
        let step = self.core.work(|state| {
            let step = state.next(&self.core.commands);
            if let Step::Send(request) = &step {
                state.in_flight = Some(InFlight { id: request.id, cancel: cancel.clone(), ended, cancel_at: None });
            }
            step
        });
        // What the session has just noticed comes before the next request, which may take long.
        self.log();
        match step {
            Some(Step::Send(request)) => self.send(request, cancel, end),
            Some(Step::Wait(until)) => drop(self.woken.recv_timeout(until.since(clock::now()))),
            Some(Step::Finished) | None => return false,
        }
        true
    }

    fn log(&self) {
        loop {
            // On a line of its own: the lock is not held while the line is written.
            let line = self.core.state.lock().lines.pop_front();
            // Whoever told something while this thread had the lock, here or to decide, has left it lying.
            self.core.work_off();
            let Some(line) = line else { return };
            line.log(&self.fields);
        }
    }

    fn send(&self, Request { id, operation, timeout }: Request, cancel: Cancel, end: Sender<Infallible>) {
        let call = Call::new(timeout, cancel);
        let (kind, began) = (operation.kind(), clock::now());
        let response = match operation {
            Operation::Get(context) => self.entry.get(&call).map(|observed| Response::Read(context, observed)),
            Operation::Create(record) => self.entry.create(&record, &call).map(Response::Written),
            Operation::Update(base, record) => self.entry.update(&base, &record, &call).map(Response::Written),
        };
        drop(end);
        self.core.work(|state| {
            state.in_flight = None;
            // A withdrawal that came while the request was under way counts before its answer.
            state.take_all(&self.core.commands);
            state.answered(kind, clock::now().since(began), response.as_ref().err());
            state.handle(Input::Response(id, response.unwrap_or_else(Response::Failed)));
        });
    }
}

impl Core {
    /// `None` after a panic.
    fn work<T>(&self, work: impl FnOnce(&mut State) -> T) -> Option<T> {
        let mut state = self.state.lock();
        let done = state.work(work);
        let deferred = mem::take(&mut state.deferred);
        drop(state);
        self.carry_out(deferred);
        done
    }

    /// A hook is the store's: its panic is not one of whoever tells something.
    fn carry_out(&self, Deferred { cancel, restart_watch }: Deferred) {
        if let Some(cancel) = cancel {
            let _ = catch_unwind(AssertUnwindSafe(|| cancel.cancel()));
        }
        if restart_watch {
            let _ = catch_unwind(AssertUnwindSafe(|| self.watcher.restart()));
        }
    }
}

impl Inbox for Core {
    fn work_off(&self) {
        // Who has the lock looks again when it has let go of it.
        while !self.commands.is_empty() {
            let Some(mut state) = self.state.try_lock() else { return };
            // The elector ends of a panic, as it would on a thread of its own.
            let worked = catch_unwind(AssertUnwindSafe(|| state.work(|state| state.take_all(&self.commands))));
            let deferred = mem::take(&mut state.deferred);
            drop(state);
            self.carry_out(deferred);
            let _ = self.wake.try_send(());
            if !matches!(worked, Ok(Some(()))) {
                return;
            }
        }
    }
}

impl State {
    /// `None` after a panic: what the session says then is not to be believed.
    fn work<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if mem::replace(&mut self.at_work, true) {
            return None;
        }
        let done = work(self);
        self.shared.observations.leader_until(self.session.leader_until());
        self.at_work = false;
        Some(done)
    }

    fn next(&mut self, commands: &Receiver<Command>) -> Step {
        loop {
            self.take_all(commands);
            let step = self.session.next(Now::read());
            if !(self.act() && matches!(step, Step::Wait(_))) {
                return step;
            }
        }
    }

    fn take_all(&mut self, commands: &Receiver<Command>) {
        while let Ok(command) = commands.try_recv() {
            self.take(command);
        }
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Campaign { id, once } => self.handle(Input::Campaign { id, once }),
            Command::Withdraw(id) => self.handle(Input::Withdraw(id)),
            Command::StepDown => self.handle(Input::StepDown),
            Command::GuardGone { ack, at } => {
                self.shared.health.guard_gone();
                self.releasing = ack.clone();
                self.handle(Input::GuardGone { at });
                match (ack, self.cancellation()) {
                    (Some(ack), cancellation) => drop(ack.try_send(ReleaseAck::Received(cancellation))),
                    (None, Some(Cancellation { cancel, .. })) => self.deferred.cancel = Some(cancel),
                    (None, None) => {}
                }
            }
            Command::Close => self.handle(Input::Close),
            Command::Watched { received_at, change, taken } => {
                self.handle(Input::Watched { received_at, change });
                let _ = taken.try_send(self.cancellation());
            }
            Command::WatchOpened { from_scratch } => {
                self.observe(&Fact::WatchOpened);
                self.handle(Input::WatchOpened { from_scratch });
            }
            Command::WatchLost => {
                self.observe(&Fact::WatchLost);
                self.handle(Input::WatchEnded);
            }
        }
    }

    /// What is to be cancelled for what has just been told.
    fn cancellation(&self) -> Option<Cancellation> {
        let InFlight { cancel, ended, cancel_at, .. } = self.in_flight.as_ref()?;
        cancel_at.map(|at| Cancellation { at, cancel: cancel.clone(), ended: ended.clone() })
    }

    fn handle(&mut self, input: Input) {
        self.session.handle(clock::now(), input);
        self.act();
    }

    /// Does what the session wants done. True if there was anything.
    fn act(&mut self) -> bool {
        let mut has_acted = false;
        while let Some(effect) = self.session.effect() {
            has_acted = true;
            match effect {
                Effect::Offer { campaign, deadline, fencing_token } => self.offer(campaign, deadline, fencing_token),
                Effect::Refuse { campaign, error } => {
                    self.shared.pending.fail(campaign, Error::Store(error), &self.shared.link);
                }
                Effect::RoundOver { campaign, error } => {
                    self.shared.pending.round_over(campaign, error.map(Error::Store), &self.shared.link);
                }
                Effect::Renewed(latency) => {
                    self.shared.health.renewed(latency);
                    self.observe(&Fact::Renewed(latency));
                }
                Effect::TermEnded(reason) => self.term_ended(reason),
                Effect::Released => {
                    self.term = None;
                    self.shared.observations.term(None);
                    if let Some(ack) = self.releasing.take() {
                        let _ = ack.try_send(ReleaseAck::Released);
                    }
                }
                Effect::CancelAt(request, at) => {
                    if let Some(in_flight) = self.in_flight.as_mut().filter(|in_flight| in_flight.id == request) {
                        in_flight.cancel_at = Some(in_flight.cancel_at.map_or(at, |before| before.min(at)));
                    }
                }
                Effect::Leader(leader) => {
                    if leader.as_deref() != Some(self.session.identity()) {
                        self.shared.health.superseded();
                    }
                    self.log(What::Leader(leader.clone()));
                    self.observe(&Fact::new_leader(leader.as_deref()));
                    self.shared.subscriptions.new_leader(leader);
                }
                Effect::RestartWatch => self.deferred.restart_watch = true,
                Effect::Log(notice) | Effect::IdentityConflict(notice) => self.log(What::Notice(notice)),
            }
        }
        has_acted
    }

    fn observe(&self, fact: &Fact) {
        self.shared.observations.note(fact);
        self.observers.iter().for_each(|observer| observer.tell(fact));
    }

    fn answered(&self, operation: StoreOperation, latency: Duration, error: Option<&StoreError>) {
        use StoreErrorKind::{AlreadyExists, Conflict};
        let failure = error.map(StoreError::kind);
        // Who says that another was faster has answered.
        if matches!(failure, None | Some(AlreadyExists | Conflict)) {
            self.shared.health.contact();
        }
        let is_slow_path = operation == StoreOperation::Get && self.term.as_ref().is_some_and(|term| term.is_valid());
        self.observe(&Fact::Request(RequestOutcome { operation, latency, failure, is_slow_path }));
    }

    fn log(&mut self, what: What) {
        if self.lines.len() < MAX_LINES {
            self.lines.push_back(Line { token: self.token, what });
        }
    }

    fn offer(&mut self, campaign: Option<u64>, deadline: Arc<Deadline>, fencing_token: u64) {
        let Some(campaign) = campaign.filter(|id| self.shared.pending.is_waiting(*id)) else {
            return self.session.handle(clock::now(), Input::NotTaken);
        };
        self.token = Some(fencing_token);
        self.log(What::Started);
        let term = Arc::new(Term::new(deadline, fencing_token));
        self.term = Some(Arc::clone(&term));
        self.shared.observations.term(Some(Arc::clone(&term)));
        self.shared.health.guard_made();
        self.observe(&Fact::StartedLeading(fencing_token));
        self.shared.subscriptions.started(fencing_token);
        let guard = LeaderGuard::new(term, Arc::clone(&self.shared.link));
        // Between the question above and here the campaign may have been withdrawn.
        if let Some(unwanted) = self.shared.pending.win(campaign, guard, &self.shared.link) {
            self.shared.health.guard_gone();
            unwanted.forget();
            self.session.handle(clock::now(), Input::NotTaken);
        }
    }

    fn term_ended(&mut self, reason: StopReason) {
        let Some(term) = &self.term else { return };
        // Whoever ended the term first has said why.
        let reason = term.end(reason);
        self.log(What::Stopped(reason.clone()));
        self.token = None;
        if reason != StopReason::Released {
            self.shared.health.term_ended(&reason);
        }
        self.observe(&Fact::StoppedLeading(reason.clone()));
        self.shared.subscriptions.stopped(reason);
    }
}

impl Drop for Driver {
    /// However the thread ends, nobody may be left waiting for it, and no term may outlive it.
    fn drop(&mut self) {
        let mut state = self.core.state.lock();
        // From now on nobody works for it.
        let panicked = mem::replace(&mut state.at_work, true) || std::thread::panicking();
        if let Some(term) = state.term.take() {
            let reason = term.end(StopReason::ElectorPanicked);
            // If it has been told already, nothing more is.
            if state.shared.subscriptions.stopped(reason.clone()) {
                state.observe(&Fact::StoppedLeading(reason));
            }
        }
        if panicked {
            state.shared.health.thread_panicked();
        }
        let shared = state.shared.clone();
        state.observers.clear();
        drop(state);
        shared.observations.ended();
        shared.pending.stop(&shared.link);
        shared.subscriptions.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::slot::Delivery;
    use crate::elector::LeaderElector;
    use crate::runtime::tests::{entry, fields, link};
    use crate::transition::Transition;

    /// One whose thread is this test.
    fn driver() -> Driver {
        let settings = Arc::new(LeaderElector::builder("jobs").settings().unwrap());
        let session = Session::new(Arc::clone(&settings), 1);
        let entry = entry();
        let (link, commands) = link();
        let health = HealthCheck::new(settings.lease_duration);
        let watcher = Watcher::spawn(entry.clone(), Arc::clone(&link), health.clone(), &settings).unwrap();
        let shared = Shared {
            link,
            pending: Arc::default(),
            subscriptions: Arc::default(),
            health,
            observations: Arc::default(),
        };
        Driver::new(session, entry, commands, watcher, Vec::new(), shared, fields())
    }

    /// One whose election has found its term superseded, and has not told yet.
    fn superseded() -> (Driver, Receiver<Transition>, LeaderGuard) {
        let driver = driver();
        let shared = driver.core.state.lock().shared.clone();
        let transitions = shared.subscriptions.subscribe();
        let (sender, receiver) = channel::bounded(1);
        let id = shared.pending.enter(Delivery::Term(sender), &shared.link).unwrap();
        let deadline = Arc::new(Deadline::new(clock::now() + Duration::from_secs(3_600)));
        driver.core.state.lock().offer(Some(id), Arc::clone(&deadline), 7);
        let guard = receiver.recv().unwrap().unwrap();
        deadline.end(clock::now(), StopReason::Superseded { by: None });
        (driver, transitions, guard)
    }

    /// It may have been in the middle of anything, on any thread.
    #[test]
    fn after_a_panic_nothing_more_is_heard_and_the_stop_is_told() {
        let (driver, transitions, guard) = superseded();
        driver.core.state.lock().at_work = true;
        let _ = driver.core.wake.try_send(());
        guard.step_down();
        assert_eq!(driver.core.commands.len(), 1);
        assert!(!driver.send_or_wait());
        guard.forget();
        drop(driver);
        let stops = transitions.iter().filter(|it| matches!(it, Transition::StoppedLeading { .. }));
        assert_eq!(stops.count(), 1);
    }

    #[test]
    fn whoever_asks_before_the_thread_has_told_hears_the_true_reason() {
        let (_driver, _transitions, guard) = superseded();
        assert_eq!(guard.check().unwrap_err().reason, StopReason::Superseded { by: None });
        guard.forget();
    }

    #[test]
    fn whoever_drops_before_the_thread_has_told_does_not_make_it_a_release() {
        let (driver, transitions, guard) = superseded();
        let view = guard.leadership();
        guard.abandon();
        driver.core.state.lock().term_ended(StopReason::Superseded { by: None });
        assert_eq!(view.check().unwrap_err().reason, StopReason::Superseded { by: None });
        let stopped = Transition::StoppedLeading { reason: StopReason::Superseded { by: None } };
        assert_eq!(transitions.try_iter().last(), Some(stopped));
    }

    /// The holder has ended its term, and its word is still on the way when the thread learns of another end.
    #[test]
    fn whoever_ends_a_term_first_says_why_to_everybody() {
        let driver = driver();
        let shared = driver.core.state.lock().shared.clone();
        let transitions = shared.subscriptions.subscribe();
        let (sender, receiver) = channel::bounded(1);
        let id = shared.pending.enter(Delivery::Term(sender), &shared.link).unwrap();
        driver.core.state.lock().offer(Some(id), Arc::new(Deadline::new(clock::now() + Duration::from_secs(3_600))), 7);
        let guard = receiver.recv().unwrap().unwrap();
        guard.step_down();
        driver.core.state.lock().term_ended(StopReason::Superseded { by: None });
        assert_eq!(guard.check().unwrap_err().reason, StopReason::SteppedDown);
        let told: Vec<_> = transitions.try_iter().collect();
        let stopped = Transition::StoppedLeading { reason: StopReason::SteppedDown };
        assert_eq!(told, [Transition::StartedLeading { fencing_token: 7 }, stopped]);
        guard.forget();
    }
}
