//! A plugin, its last credentials, and the thread on which it runs.
//!
//! Requests share a run. Each request waits until its deadline and then gives up. The run continues for later requests.
//! Only one run takes place at a time, because a plugin may prompt a person.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded, select};
use parking_lot::Mutex;

use super::ExecPlugin;
use super::credential::Issued;
use super::schedule::{BothClocks, Schedule};
use crate::backends::kubernetes::client::auth::{Credentials, Limits};
use crate::backends::kubernetes::client::error::{ClientError, ErrorKind};
use crate::net::interrupt::interrupted;
use crate::util::log_fields::CLIENT;
use crate::util::panics::log_line;
use crate::util::program::Programs;

/// A plugin that all requests of a client share.
pub(crate) struct ExecSource {
    shared: Arc<SourceShared>,
    /// Dropped with the client, which ends the thread.
    _owner: Sender<Infallible>,
}

/// The state that the thread and the requests share.
///
/// A reference to the state does not keep the client alive.
struct SourceShared {
    plugin: ExecPlugin,
    programs: Programs,
    /// Disconnects when the client is dropped.
    abandoned: Receiver<Infallible>,
    state: Mutex<SourceState>,
}

#[derive(Default)]
struct SourceState {
    issued: Option<Issued>,
    schedule: Schedule,
    /// The last run, which may still be in progress.
    run: Option<Arc<Run>>,
    /// Dropped to end the thread that waits for the next refresh.
    waits: Option<Sender<Infallible>>,
    /// Whether a request has used the credentials since the last run.
    ///
    /// Unused credentials are not refreshed.
    is_used: bool,
    /// The number of completed runs, including failed runs.
    runs: u64,
    failures: u64,
}

/// The state of a plugin run that waiting requests read.
struct Run {
    /// Disconnects when the run ends.
    done: Receiver<Infallible>,
    outcome: OnceLock<Result<Credentials, ClientError>>,
}

/// The part of a plugin run that its thread owns.
struct Job {
    run: Arc<Run>,
    _done: Sender<Infallible>,
}

impl ExecSource {
    pub(crate) fn new(plugin: ExecPlugin) -> Self {
        let (owner, abandoned) = bounded(0);
        let shared = SourceShared { plugin, programs: Programs::default(), abandoned, state: Mutex::default() };
        ExecSource { shared: Arc::new(shared), _owner: owner }
    }

    /// Returns the credentials to use now.
    ///
    /// If no credentials are valid, waits for the plugin within the limits of the request.
    pub(crate) fn current(&self, limits: Limits<'_>) -> Result<Credentials, ClientError> {
        loop {
            limits.interrupter.check()?;
            let run = {
                let mut state = self.shared.state.lock();
                let now = BothClocks::read();
                if let Some(credentials) = state.valid(now) {
                    if state.schedule.is_refresh_due(now) && state.running().is_none() {
                        self.shared.start(&mut state);
                    }
                    state.is_used = true;
                    return Ok(credentials);
                }
                self.shared.run(&mut state, now)
            };
            match run {
                Ok(run) => return self.wait_for(&run, limits),
                Err(until) if limits.deadline <= until => return Err(self.failed_before(&self.shared.state.lock())),
                Err(until) => select! {
                    recv(limits.interrupter.signal) -> _ => return Err(interrupted().into()),
                    default(until.saturating_duration_since(Instant::now())) => {}
                },
            }
        }
    }

    /// Returns newer credentials than `rejected`, from a new run if necessary.
    pub(crate) fn after_rejection(
        &self,
        rejected: &Credentials,
        limits: Limits<'_>,
    ) -> Result<Credentials, ClientError> {
        let run = {
            let mut state = self.shared.state.lock();
            let now = BothClocks::read();
            let newer = state.valid(now).filter(|at_hand| {
                at_hand.authorization != rejected.authorization || at_hand.identity_version != rejected.identity_version
            });
            if let Some(newer) = newer {
                state.is_used = true;
                return Ok(newer);
            }
            self.shared.run(&mut state, now).map_err(|_| self.failed_before(&state))?
        };
        self.wait_for(&run, limits)
    }

    /// Returns the number of completed runs, and the number of failed runs.
    pub(crate) fn runs_and_failures(&self) -> (u64, u64) {
        let state = self.shared.state.lock();
        (state.runs, state.failures)
    }

    fn wait_for(&self, run: &Run, limits: Limits<'_>) -> Result<Credentials, ClientError> {
        let left = limits.deadline.saturating_duration_since(Instant::now());
        select! {
            recv(run.done) -> _ => {}
            recv(limits.interrupter.signal) -> _ => return Err(interrupted().into()),
            default(left) => {
                let detail = "did not finish within the timeout of the request; the run continues for later requests";
                return Err(ClientError::new(ErrorKind::Timeout, detail).at(self.shared.plugin.place()));
            }
        }
        match run.outcome.get() {
            Some(Ok(credentials)) => {
                self.shared.state.lock().is_used = true;
                Ok(credentials.clone())
            }
            Some(Err(e)) => Err(again(e)),
            None => {
                Err(ClientError::new(ErrorKind::Credentials, "ended without a result").at(self.shared.plugin.place()))
            }
        }
    }

    /// Returns the failure of the last run.
    fn failed_before(&self, state: &SourceState) -> ClientError {
        match state.run.as_ref().and_then(|run| run.outcome.get()) {
            Some(Err(e)) => again(e),
            _ => ClientError::new(ErrorKind::Credentials, "has failed").at(self.shared.plugin.place()),
        }
    }
}

impl Drop for ExecSource {
    fn drop(&mut self) {
        // Ends the process here, because the program may exit before the plugin's thread does so.
        self.shared.programs.close();
    }
}

impl SourceState {
    fn valid(&self, now: BothClocks) -> Option<Credentials> {
        self.issued.as_ref().filter(|_| self.schedule.is_valid(now)).map(|issued| issued.credentials.clone())
    }

    fn running(&self) -> Option<Arc<Run>> {
        self.run.as_ref().filter(|run| run.done.try_recv() == Err(TryRecvError::Empty)).map(Arc::clone)
    }

    fn begin(&mut self) -> Job {
        let (sender, done) = bounded(0);
        let run = Arc::new(Run { done, outcome: OnceLock::new() });
        self.waits = None;
        self.run = Some(Arc::clone(&run));
        Job { run, _done: sender }
    }

    /// Records the result of a run.
    fn end(&mut self, run: &Run, issued: Result<Issued, ClientError>) {
        let now = BothClocks::read();
        let outcome = issued.map(|mut issued| {
            issued.count_from(self.issued.as_ref());
            self.schedule.succeeded(now, issued.expires);
            self.issued.insert(issued).credentials.clone()
        });
        self.runs += 1;
        if outcome.is_err() {
            self.failures += 1;
            self.schedule.failed(now);
        }
        self.is_used = false;
        let _ = run.outcome.set(outcome);
    }
}

impl SourceShared {
    /// Returns the current run or a new run, or the end of the pause after a failure.
    fn run(self: &Arc<Self>, state: &mut SourceState, now: BothClocks) -> Result<Arc<Run>, Instant> {
        match (state.running(), state.schedule.pause(now)) {
            (Some(run), _) => Ok(run),
            (None, Some(until)) => Err(until),
            (None, None) => Ok(self.start(state)),
        }
    }

    /// Starts a run on a new thread.
    fn start(self: &Arc<Self>, state: &mut SourceState) -> Arc<Run> {
        let job = state.begin();
        let run = Arc::clone(&job.run);
        let shared = Arc::clone(self);
        if let Err(e) = thread::Builder::new().name("leasehold-exec".to_owned()).spawn(move || shared.work(job)) {
            let error = ClientError::new(ErrorKind::Credentials, "cannot be run: cannot start a thread");
            state.end(&run, Err(error.at(self.plugin.place()).caused_by(e)));
        }
        run
    }

    /// Runs the plugin, and runs it again at each refresh while requests use the credentials.
    fn work(&self, mut job: Job) {
        loop {
            let place = self.plugin.place();
            let raw = self.plugin.run(&self.programs, &self.abandoned);
            let issued = raw.and_then(|raw| raw.issue().map_err(|rule| ClientError::new(ErrorKind::Credentials, rule)));
            let issued = issued.map_err(|e| e.at(&place));
            match &issued {
                // The program has dropped the client, so there is no failure to log.
                Err(e) if e.kind() == &ErrorKind::Interrupted => {}
                Err(e) => log_line!(warn, target: CLIENT, "kubernetes: {e}"),
                Ok(_) => log_line!(debug, target: CLIENT, "kubernetes: {place}: issued credentials"),
            }
            let superseded = {
                let mut state = self.state.lock();
                state.end(&job.run, issued);
                drop(job);
                let (waits, superseded) = bounded(0);
                state.waits = Some(waits);
                superseded
            };
            match self.wait_for_refresh(&superseded) {
                Some(next) => job = next,
                None => return,
            }
        }
    }

    /// Blocks until a refresh is due, and begins its run.
    ///
    /// Returns `None` if the credential does not expire or is unused, if another run has started, or if the client is
    /// dropped.
    fn wait_for_refresh(&self, superseded: &Receiver<Infallible>) -> Option<Job> {
        loop {
            let look = self.state.lock().schedule.next_look(BothClocks::read())?;
            select! {
                recv(superseded) -> _ => return None,
                recv(self.abandoned) -> _ => return None,
                default(look.saturating_duration_since(Instant::now())) => {}
            }
            let mut state = self.state.lock();
            // Checks again under the lock, because a request may have started another run, which drops the sender.
            if superseded.try_recv() != Err(TryRecvError::Empty) || !state.is_used {
                return None;
            }
            if state.schedule.is_refresh_due(BothClocks::read()) {
                return Some(state.begin());
            }
        }
    }
}

/// Copies the failure of a run for another waiting request.
fn again(error: &ClientError) -> ClientError {
    ClientError::new(error.kind().clone(), error.to_string())
}

#[cfg(all(test, unix))]
mod tests;
