//! The request thread of an elector, and the delivery of commands.

use std::convert::Infallible;
use std::io;

use crate::election::candidate::Candidate;
use crate::election::candidate::messages::Input;
use crate::election::settings::Settings;
use crate::election::{Operation, Step, StoreRequest, StoreResponse};
use crate::leadership::handle::{Command, as_runtime};
use crate::runtime::lines::Lines;
use crate::runtime::observing::Observing;
use crate::runtime::state::{Deferred, ElectorState, SharedParts};
use crate::runtime::watcher::Watcher;
use crate::store::CallContext;
use crate::store::entry::Entry;
use crate::util::cancel::CancelToken;
use crate::util::clock;
use crate::util::panics::caught;
use crate::util::sync::channel::{self, Receiver, Sender};
use crate::util::sync::{Arc, Mutex, thread};

/// The stack size of a thread. The deepest stack is a TLS handshake.
const STACK_SIZE: usize = 256 * 1024;

/// The maximum number of queued log lines of an elector while a logger hangs.
const MAX_LINES: usize = 256;

/// The request thread of an elector.
pub(crate) struct Driver {
    core: Arc<Core>,
    entry: Entry,
    woken: Receiver<()>,
}

/// The state that the threads of an elector share.
///
/// The request thread and the senders of commands process the commands.
struct Core {
    commands: Receiver<Command>,
    state: Mutex<ElectorState>,
    /// The log lines. Kept outside `state`, so that a thread that logs does not wait for the lock of `state`.
    lines: Arc<Lines>,
    watcher: Watcher,
    /// Wakes the request thread.
    wake: Sender<()>,
}

/// Starts the request thread, which runs until the elector and its last guard are dropped.
pub(crate) fn spawn(driver: Driver) -> io::Result<()> {
    thread::Builder::new().name("leasehold".into()).stack_size(STACK_SIZE).spawn(move || driver.run())?;
    Ok(())
}

/// Starts the watch thread of an elector. Returns the driver of its request thread.
pub(crate) fn driver(
    candidate: Candidate,
    entry: Entry,
    commands: Receiver<Command>,
    observers: Vec<Observing>,
    probing: Option<Sender<Infallible>>,
    shared: SharedParts,
    settings: &Settings,
) -> io::Result<Driver> {
    let link = Arc::clone(&shared.link);
    let lines = Arc::new(Lines::new(MAX_LINES, link.log_fields(None), settings.shards.is_some()));
    let watcher = Watcher::spawn(entry.clone(), Arc::clone(&link), Arc::clone(&shared.observations), settings)?;
    let (wake, woken) = channel::bounded(1);
    let state = Mutex::new(ElectorState::new(candidate, observers, probing, shared, Arc::clone(&lines)));
    let core = Arc::new(Core { commands, state, lines, watcher, wake });
    let inbox = Arc::downgrade(&core);
    let _ = link.inbox.set(Box::new(move || inbox.upgrade().iter().for_each(|core| core.work_off())));
    Ok(Driver { core, entry, woken })
}

impl Driver {
    fn run(self) {
        let _as_runtime = as_runtime();
        while self.send_or_wait() {}
    }

    /// Sends the next request, or waits for input. Returns `false` when the thread has no more work.
    fn send_or_wait(&self) -> bool {
        let (end, ended) = channel::bounded(0);
        let cancel = CancelToken::new();
        let step = self.core.work(|state| {
            let step = state.next(&self.core.commands);
            if let Step::Send(request) = &step {
                state.sends(request.id, cancel.clone(), ended);
            }
            step
        });
        // Process commands that were queued while this thread held the lock.
        self.core.work_off();
        match step {
            Some(Step::Send(request)) => self.send(request, cancel, end),
            Some(Step::Wait(until)) => drop(self.woken.recv_timeout(until.since(clock::now()))),
            Some(Step::Finished) | None => return false,
        }
        true
    }

    fn send(&self, request: StoreRequest, cancel: CancelToken, end: Sender<Infallible>) {
        let StoreRequest { id, operation, notes, timeout } = request;
        let call = CallContext::new(timeout, cancel);
        let (kind, began) = (operation.kind(), clock::now());
        let response = match operation {
            Operation::Get(context) => self.entry.get(&call).map(|observed| StoreResponse::Read(context, observed)),
            Operation::Create(record) => {
                self.entry.create(record.with_notes(&notes), &call).map(StoreResponse::Written)
            }
            Operation::Update(base, record) => {
                self.entry.update(&base, record.with_notes(&notes), &call).map(StoreResponse::Written)
            }
        };
        drop(end);
        self.core.work(|state| {
            state.has_sent(&self.core.commands);
            state.answered(kind, clock::now().since(began), response.as_ref().err());
            if let Some(after) = call.cools_after() {
                state.handle(Input::Cools(after));
            }
            state.handle(Input::Response(id, response.unwrap_or_else(StoreResponse::Failed)));
        });
    }
}

impl Core {
    /// Runs `work` on the locked state, then does the deferred work. Returns `None` after a panic or the elector's end.
    fn work<T>(&self, work: impl FnOnce(&mut ElectorState) -> T) -> Option<T> {
        let mut state = self.state.lock();
        let done = state.work(work);
        let deferred = state.take_deferred();
        drop(state);
        self.carry_out(deferred);
        done
    }

    /// Does the deferred work, and catches panics of a store's hooks.
    ///
    /// The caller may be the sender of a command. A panic of the store must not reach the sender.
    fn carry_out(&self, Deferred { cancel, restart_watch }: Deferred) {
        for cancel in cancel {
            let _ = caught(|| cancel.cancel());
        }
        if restart_watch {
            let _ = caught(|| self.watcher.restart());
        }
        self.lines.log();
    }

    fn wake(&self) {
        let _ = self.wake.try_send(());
    }

    /// Processes all queued commands, unless another thread is processing them.
    fn work_off(&self) {
        // If another thread holds the lock, that thread processes the commands after it unlocks.
        while !self.commands.is_empty() {
            let Some(mut state) = self.state.try_lock() else { return };
            // A panic on this thread ends the elector, like a panic on a request thread.
            let worked = caught(|| state.work(|state| state.take_all(&self.commands)));
            let deferred = state.take_deferred();
            drop(state);
            self.carry_out(deferred);
            self.wake();
            if !matches!(worked, Some(Some(()))) {
                return;
            }
        }
    }
}

impl Drop for Driver {
    /// Ends the elector.
    fn drop(&mut self) {
        let mut state = self.core.state.lock();
        state.end();
        let shared = state.shared.clone();
        drop(state);
        self.core.wake();
        shared.observations.ended();
        shared.pending.stop(&shared.link);
        shared.subscriptions.close();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::election::Change;
    use crate::election::deadline::Deadline;
    use crate::election::progress::ProgressLimit;
    use crate::election::settings::Config;
    use crate::election::stop_reason::StopReason;
    use crate::leadership::campaign::slot::Delivery;
    use crate::leadership::guard::LeaderGuard;
    use crate::leadership::handle::tests::link;
    use crate::observe::health::HealthCheck;
    use crate::observe::observations::Observations;
    use crate::observe::transition::{Transition, Transitions};
    use crate::runtime::tests::entry;

    fn settings() -> Arc<Settings> {
        Arc::new(Config::default().validate().unwrap())
    }

    /// Returns a driver that the test runs on its own thread.
    fn driver() -> Driver {
        let settings = settings();
        let candidate = Candidate::new(Arc::clone(&settings), 1);
        let (link, commands) = link();
        let (pending, subscriptions) = (Arc::default(), Arc::default());
        let observations = Arc::new(Observations::new(&settings));
        let shared = SharedParts { link, pending, subscriptions, observations };
        super::driver(candidate, entry(), commands, Vec::new(), None, shared, &settings).unwrap()
    }

    /// The watch's thread cancels the request, if the request has not ended by the usual time.
    #[test]
    fn news_does_not_cancel_a_request_at_once() {
        let Driver { core, .. } = &driver();
        let (cancel, (_end, ended)) = (CancelToken::new(), channel::bounded(0));
        core.work(|state| {
            let Step::Send(request) = state.next(&core.commands) else { panic!("no read") };
            state.sends(request.id, cancel.clone(), ended);
            let change = Change::Deleted { version: 1 };
            state.handle(Input::Watched { received_at: clock::now(), change });
        });
        assert!(!cancel.is_cancelled());
    }

    /// Returns a leading driver, its transitions, its guard, and the deadline of its term.
    fn leading() -> (Driver, Transitions, LeaderGuard, Arc<Deadline>) {
        let driver = driver();
        let shared = driver.core.state.lock().shared.clone();
        let transitions = shared.subscriptions.subscribe();
        let (sender, receiver) = channel::bounded(1);
        let id = shared.pending.enter(Delivery::Term(sender), &shared.link).unwrap();
        let deadline = Arc::new(Deadline::new(clock::now() + Duration::from_secs(3_600)));
        driver.core.state.lock().offer(id, Arc::clone(&deadline), 7);
        let guard = receiver.recv().unwrap().unwrap();
        (driver, transitions, guard, deadline)
    }

    /// Returns a leader whose term was superseded. The elector has not reported the end of the term yet.
    fn superseded() -> (Driver, Transitions, LeaderGuard) {
        let (driver, transitions, guard, deadline) = leading();
        deadline.end(clock::now(), StopReason::Superseded { by: None });
        (driver, transitions, guard)
    }

    #[test]
    fn after_a_panic_input_is_ignored_and_the_stop_is_reported() {
        let (driver, transitions, guard) = superseded();
        let _ = caught(|| driver.core.work(|_| panic!("made up")));
        driver.core.wake();
        guard.step_down();
        let left = driver.core.commands.try_iter();
        assert_eq!(left.filter(|it| matches!(it, Command::Input(Input::StepDown(_)))).count(), 1);
        assert!(!driver.send_or_wait());
        guard.forget();
        drop(driver);
        let stops = transitions.iter().filter(|it| matches!(it, Transition::StoppedLeading { .. }));
        assert_eq!(stops.count(), 1);
    }

    #[test]
    fn health_and_status_forget_a_term_that_was_not_taken() {
        let driver = driver();
        let shared = driver.core.state.lock().shared.clone();
        let (sender, _) = channel::bounded(1);
        let id = shared.pending.enter(Delivery::to("key", sender), &shared.link).unwrap();
        let now = clock::now();
        let stalled = Arc::new(ProgressLimit::new(now, Duration::ZERO));
        let over = Deadline::new(now).limited_by(Some(stalled));
        driver.core.state.lock().offer(id, Arc::new(over), 7);
        assert_eq!(HealthCheck::new(Arc::clone(&shared.observations), &settings()).check(), Ok(()));
        let status = shared.observations.status(("jobs", "jobs"), &settings());
        assert_eq!(status.since_progress, None);
    }

    #[test]
    fn early_reader_receives_the_true_reason() {
        let (_driver, _transitions, guard) = superseded();
        assert_eq!(guard.check().unwrap_err().reason, StopReason::Superseded { by: None });
        guard.forget();
    }

    #[test]
    fn early_drop_is_not_reported_as_a_release() {
        let (driver, transitions, guard) = superseded();
        let view = guard.leadership();
        guard.abandon();
        driver.core.state.lock().term_ended(StopReason::Superseded { by: None }, None);
        assert_eq!(view.check().unwrap_err().reason, StopReason::Superseded { by: None });
        let stopped = Transition::StoppedLeading { reason: StopReason::Superseded { by: None } };
        assert_eq!(transitions.try_iter().last(), Some(stopped));
    }

    /// The command to step down is still queued when the elector detects that the term was superseded.
    #[test]
    fn first_reason_to_end_a_term_is_reported_to_every_reader() {
        let (driver, transitions, guard, _) = leading();
        guard.step_down();
        driver.core.state.lock().term_ended(StopReason::Superseded { by: None }, None);
        assert_eq!(guard.check().unwrap_err().reason, StopReason::SteppedDown);
        let told: Vec<_> = transitions.try_iter().collect();
        let stopped = Transition::StoppedLeading { reason: StopReason::SteppedDown };
        assert_eq!(told, [Transition::StartedLeading { fencing_token: 7 }, stopped]);
        guard.forget();
    }
}
