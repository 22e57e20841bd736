//! The thread of an elector, which owns the candidate and never waits for the store.

use std::convert::Infallible;
use std::io;

use crate::election::Step;
use crate::election::candidate::Candidate;
use crate::election::settings::Settings;
use crate::leadership::handle::{Command, as_runtime};
use crate::runtime::STACK_SIZE;
use crate::runtime::lines::Lines;
use crate::runtime::observing::Observing;
use crate::runtime::request_thread::RequestThread;
use crate::runtime::state::{ElectorState, SharedParts};
use crate::runtime::watcher::Watcher;
use crate::store::entry::Entry;
use crate::util::clock;
use crate::util::sync::channel::{Receiver, Sender};
use crate::util::sync::{Arc, thread};

/// The maximum number of queued log lines of an elector while a logger hangs.
const MAX_LINES: usize = 256;

/// The thread of an elector: it receives every input, and decides.
///
/// The fields are dropped in this order. The elector has ended for every caller before the commands are dropped, which
/// wakes the callers that wait for a release.
pub(crate) struct ElectorThread {
    state: ElectorState,
    requests: RequestThread,
    lines: Arc<Lines>,
    commands: Receiver<Command>,
}

impl ElectorThread {
    /// Starts the request thread and the watch thread of an elector.
    pub(crate) fn new(
        candidate: Candidate,
        entry: Entry,
        commands: Receiver<Command>,
        observers: Vec<Observing>,
        probing: Option<Sender<Infallible>>,
        shared: SharedParts,
        settings: &Settings,
    ) -> io::Result<Self> {
        let link = Arc::clone(&shared.link);
        let lines = Arc::new(Lines::new(MAX_LINES, link.log_fields(None), settings.shards.is_some()));
        let watcher = Watcher::spawn(entry.clone(), Arc::clone(&link), Arc::clone(&shared.observations), settings)?;
        let requests = RequestThread::spawn(entry, link)?;
        let state = ElectorState::new(candidate, observers, probing, shared, Arc::clone(&lines), watcher);
        Ok(Self { state, requests, lines, commands })
    }

    /// Starts the thread, which runs until the elector and its last guard are dropped.
    pub(crate) fn spawn(self) -> io::Result<()> {
        thread::Builder::new().name("leasehold".into()).stack_size(STACK_SIZE).spawn(move || self.run())?;
        Ok(())
    }

    fn run(mut self) {
        let _as_runtime = as_runtime();
        while self.turn() {}
    }

    /// Sends the next request, or waits for a command. Returns `false` when the thread has no more work.
    fn turn(&mut self) -> bool {
        let until = match self.state.next() {
            Step::Send(request) => {
                let cancel = self.state.sends(request.id);
                self.requests.send(request, cancel);
                return true;
            }
            Step::Wait(until) => self.state.cancel_when_due().map_or(until, |at| at.min(until)),
            Step::Finished => {
                self.lines.log();
                return false;
            }
        };
        self.lines.log();
        let command = self.commands.recv_timeout(until.since(clock::now()));
        command.is_err() || command.is_ok_and(|command| self.state.take(command))
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
    use crate::leadership::error::Error;
    use crate::leadership::guard::LeaderGuard;
    use crate::leadership::handle::tests::link;
    use crate::observe::health::{HealthCheck, Unhealthy};
    use crate::observe::observations::Observations;
    use crate::observe::transition::{Transition, Transitions};
    use crate::runtime::tests::entry;
    use crate::util::panics::caught;
    use crate::util::sync::channel;

    fn settings() -> Arc<Settings> {
        Arc::new(Config::default().validate().unwrap())
    }

    /// Returns the thread of an elector, which the test does not start.
    fn elector() -> ElectorThread {
        let settings = settings();
        let candidate = Candidate::new(Arc::clone(&settings), 1);
        let (link, commands) = link();
        let pending = Arc::default();
        let observations = Arc::new(Observations::new(Arc::clone(&settings)));
        let shared = SharedParts { link, pending, observations };
        ElectorThread::new(candidate, entry(), commands, Vec::new(), None, shared, &settings).unwrap()
    }

    #[test]
    fn foreign_event_does_not_cancel_a_request_at_once() {
        let mut elector = elector();
        let Step::Send(request) = elector.state.next() else { panic!("no read") };
        let cancel = elector.state.sends(request.id);
        let (handled, is_handled) = channel::bounded(0);
        let change = Change::Deleted { version: 1 };
        elector.state.take(Command::Watched { received_at: clock::now(), change, handled });
        assert!(elector.state.cancel_when_due().is_some_and(|at| at > clock::now()) && !cancel.is_cancelled());
        assert_eq!(is_handled.recv(), Err(channel::RecvError));
    }

    /// Returns a leading elector, its transitions, its guard, and the deadline of its term.
    fn leading() -> (ElectorThread, Transitions, LeaderGuard, Arc<Deadline>) {
        let mut elector = elector();
        let shared = elector.state.shared.clone();
        let transitions = shared.observations.subscribe();
        let (sender, receiver) = channel::bounded(1);
        let id = shared.pending.enter(Delivery::Term(sender), None, &shared.link).unwrap();
        let deadline = Arc::new(Deadline::new(clock::now() + Duration::from_secs(3_600)));
        elector.state.offer(id, Arc::clone(&deadline), 7);
        let guard = receiver.recv().unwrap().unwrap();
        (elector, transitions, guard, deadline)
    }

    /// Returns a leader whose term was superseded. The elector has not reported the end of the term yet.
    fn superseded() -> (ElectorThread, Transitions, LeaderGuard) {
        let (elector, transitions, guard, deadline) = leading();
        deadline.end(clock::now(), StopReason::Superseded { by: None });
        (elector, transitions, guard)
    }

    #[test]
    fn panic_ends_the_term_once_and_no_later_call_waits() {
        let (elector, transitions, guard) = superseded();
        let health = HealthCheck::new(Arc::clone(&elector.state.shared.observations));
        let panics = move || {
            let _elector = elector;
            panic!("made up")
        };
        assert!(caught(panics).is_none());
        guard.step_down();
        let stops = transitions.iter().filter(|it| matches!(it, Transition::StoppedLeading { .. }));
        assert_eq!(stops.count(), 1);
        assert!(matches!(guard.release(), Err(Error::Stopped)));
        assert_eq!(health.check(), Err(Unhealthy::ElectorPanicked));
    }

    #[test]
    fn panic_of_a_request_ends_the_elector() {
        let mut elector = elector();
        let shared = elector.state.shared.clone();
        shared.link.send(Command::RequestThreadPanicked);
        while elector.turn() {}
        drop(elector);
        assert!(matches!(
            shared.pending.enter(Delivery::Term(channel::bounded(1).0), None, &shared.link),
            Err(Error::Stopped)
        ));
        let health = HealthCheck::new(Arc::clone(&shared.observations)).check();
        assert!(health.is_err(), "{health:?}");
    }

    #[test]
    fn health_and_status_forget_a_term_that_was_not_taken() {
        let mut elector = elector();
        let shared = elector.state.shared.clone();
        let (sender, _) = channel::bounded(1);
        let id = shared.pending.enter(Delivery::Term(sender), None, &shared.link).unwrap();
        let now = clock::now();
        let stalled = Arc::new(ProgressLimit::new(now, Duration::ZERO));
        let over = Deadline::new(now).limited_by(Some(stalled));
        elector.state.offer(id, Arc::new(over), 7);
        assert_eq!(HealthCheck::new(Arc::clone(&shared.observations)).check(), Ok(()));
        let status = shared.observations.status("jobs", "jobs");
        assert_eq!(status.since_progress, None);
        assert!(shared.pending.enter(Delivery::Term(channel::bounded(1).0), None, &shared.link).is_ok());
    }

    #[test]
    fn early_reader_receives_the_true_reason() {
        let (_elector, _transitions, guard) = superseded();
        assert_eq!(guard.check().unwrap_err().reason, StopReason::Superseded { by: None });
        guard.forget();
    }

    #[test]
    fn early_drop_is_not_reported_as_a_release() {
        let (mut elector, transitions, guard) = superseded();
        let view = guard.leadership();
        guard.abandon();
        elector.state.term_ended(StopReason::Superseded { by: None }, None);
        assert_eq!(view.check().unwrap_err().reason, StopReason::Superseded { by: None });
        let stopped = Transition::StoppedLeading { reason: StopReason::Superseded { by: None } };
        assert_eq!(transitions.try_iter().last(), Some(stopped));
    }

    /// The command to step down is still queued when the elector detects that the term was superseded.
    #[test]
    fn first_reason_to_end_a_term_is_reported_to_every_reader() {
        let (mut elector, transitions, guard, _) = leading();
        guard.step_down();
        elector.state.term_ended(StopReason::Superseded { by: None }, None);
        assert_eq!(guard.check().unwrap_err().reason, StopReason::SteppedDown);
        let received: Vec<_> = transitions.try_iter().collect();
        let stopped = Transition::StoppedLeading { reason: StopReason::SteppedDown };
        assert_eq!(received, [Transition::StartedLeading { fencing_token: 7 }, stopped]);
        guard.forget();
    }
}
