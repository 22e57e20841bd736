//! Callbacks in the style of client-go, and methods that run terms.

use crate::election::stop_reason::StopReason;
use crate::elector::leader_elector::LeaderElector;
use crate::leadership::error::Error;
use crate::leadership::guard::LeaderGuard;
use crate::observe::transition::Transition;
use crate::util::sync::channel::{self, Receiver};
use crate::util::sync::{Instant, Mutex};

/// Callbacks for changes of leadership, used by [`LeaderElector::run`].
///
/// # Examples
///
/// ```
/// use leasehold::{Callbacks, LeaderGuard};
///
/// struct Controller;
///
/// impl Callbacks for Controller {
///     fn on_started_leading(&self, guard: &LeaderGuard) {
///         while guard.is_leader() {
///             // one unit of work
///             # break;
///         }
///     }
///     fn on_stopped_leading(&self) {
///         println!("stopped leading");
///     }
/// }
/// ```
pub trait Callbacks: Sync {
    /// Called when a term starts, to do the leader's work.
    ///
    /// The term ends when the callback returns. The callback runs on its own thread, inside [`LeaderGuard::scope`]. The
    /// callback must return soon after [`LeaderGuard::is_leader`] returns `false`.
    fn on_started_leading(&self, guard: &LeaderGuard);

    /// Called when the term has ended, its work has returned, and its lease is released.
    ///
    /// The callback runs on the caller's thread. The callback is not called while the work hangs. To end the process in
    /// that case, wait for [`LeaderGuard::ended`] on another thread.
    fn on_stopped_leading(&self) {}

    /// Called when the leader changes; the new leader may be this candidate.
    ///
    /// The callback runs on the caller's thread and must return soon.
    fn on_new_leader(&self, identity: &str) {
        let _ = identity;
    }
}

/// The outcome of [`LeaderElector::run`].
///
/// # Examples
///
/// ```
/// # fn example(elector: &leasehold::LeaderElector, callbacks: &impl leasehold::Callbacks) -> Result<(), leasehold::Error> {
/// use leasehold::RunOutcome;
///
/// # let (_stop, stopped) = leasehold::crossbeam_channel::bounded::<()>(1);
/// match elector.run(&stopped, callbacks)? {
///     RunOutcome::Stopped => println!("stopped by the caller"),
///     RunOutcome::Lost(reason) => println!("the term was lost: {reason}"),
///     RunOutcome::WorkReturned => println!("the work is complete"),
///     _ => {}
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunOutcome {
    /// A message on the stop channel, or the drop of its last sender.
    Stopped,
    /// The end of the term before its work returned, for this reason.
    ///
    /// After [`StopReason::Requested`], nothing is wrong: an operator has moved the leader. Call
    /// [`run`](LeaderElector::run) again.
    Lost(StopReason),
    /// The return of the work while the term was valid, or after the program has called `step_down`.
    WorkReturned,
}

impl LeaderElector {
    /// Campaigns for one term, calls `callbacks` during the term, and returns the outcome.
    ///
    /// Blocks until the term has ended and its work has returned. A message on `stop`, or the drop of its last sender,
    /// stops the run. If the term has not begun, `run` withdraws the campaign. Otherwise `run` steps down and waits for
    /// the work.
    ///
    /// Unlike in client-go, [`on_new_leader`](Callbacks::on_new_leader) runs on the caller's thread. While that
    /// callback runs, `run` does nothing else and does not react to `stop`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use leasehold::{Callbacks, LeaderElector, LeaderGuard};
    ///
    /// struct Controller;
    /// impl Callbacks for Controller {
    ///     fn on_started_leading(&self, guard: &LeaderGuard) {
    ///         while guard.is_leader() { /* one unit of work */ }
    ///     }
    /// }
    ///
    /// let (stop, stopped) = leasehold::crossbeam_channel::bounded::<()>(1);
    /// let elector = LeaderElector::builder("my-controller").start()?;
    /// elector.run(&stopped, &Controller)?;
    /// # drop(stop);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if a callback panics. The term ends, its lease is released, and
    /// [`on_stopped_leading`](Callbacks::on_stopped_leading) is not called.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`block_until_leader`](Self::block_until_leader).
    pub fn run<T>(&self, stop: &Receiver<T>, callbacks: &impl Callbacks) -> Result<RunOutcome, Error> {
        let campaign = self.campaign()?;
        let transitions = self.transitions();
        let mut reporter = LeaderReporter { callbacks, leader: None };
        let guard = loop {
            // If a stop and an acquisition arrive together, the term must not start.
            channel::select_biased! {
                recv(stop) -> _ => return Ok(RunOutcome::Stopped),
                recv(campaign.receiver()) -> won => break won.unwrap_or(Err(Error::Stopped))?,
                recv(transitions) -> transition => match transition {
                    Ok(transition) => reporter.report(transition),
                    Err(_) => return Err(Error::Stopped),
                },
            }
        };
        let outcome = reporter.work(&guard, stop.clone(), transitions.clone());
        drop(guard);
        callbacks.on_stopped_leading();
        Ok(outcome)
    }

    /// Runs `work` in every term of this candidate, one term after another, until a stop.
    ///
    /// Blocks until there is a message on `stop` or all its senders are dropped. The work runs on its own thread,
    /// inside [`LeaderGuard::scope`]. A term ends when the term is lost, when the work returns, or on a stop. The work
    /// must return soon after [`is_leader`](LeaderGuard::is_leader) returns `false`, and this method waits for the
    /// work.
    ///
    /// If a term was shorter than the retry period, this method waits for the rest of that period before the next
    /// campaign. Work that fails at once therefore does not lead again and again without a pause.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use leasehold::LeaderElector;
    ///
    /// let (stop, stopped) = leasehold::crossbeam_channel::bounded::<()>(1);
    /// // A handler of SIGTERM sends a message to `stop`.
    /// let elector = LeaderElector::builder("my-controller").start()?;
    /// elector.run_until(&stopped, |guard| {
    ///     while guard.is_leader() { /* one unit of work */ }
    /// })?;
    /// # drop(stop);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the work panics. The term is then released.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`block_until_leader`](Self::block_until_leader).
    pub fn run_until<T>(&self, stop: &Receiver<T>, work: impl Fn(&LeaderGuard) + Sync) -> Result<(), Error> {
        let retry_period = self.settings().retry_period;
        let began = Mutex::new(None);
        let work = WorkCallbacks(|guard: &LeaderGuard| {
            *began.lock() = Some(Instant::now());
            work(guard);
        });
        loop {
            if self.run(stop, &work)? == RunOutcome::Stopped {
                return Ok(());
            }
            let took = began.lock().take().map_or(retry_period, |began| began.elapsed());
            channel::select! {
                recv(stop) -> _ => return Ok(()),
                default(retry_period.saturating_sub(took)) => {}
            }
        }
    }
}

/// The reports of leaders to the callbacks of one run.
struct LeaderReporter<'a, C> {
    callbacks: &'a C,
    /// The reported leader.
    leader: Option<String>,
}

impl<C: Callbacks> LeaderReporter<'_, C> {
    fn report(&mut self, transition: Transition) {
        match transition {
            // Another address of the same leader is no report.
            Transition::NewLeader { identity, .. } if self.leader.as_ref() != Some(&identity) => {
                self.callbacks.on_new_leader(&identity);
                self.leader = Some(identity);
            }
            Transition::NoLeader { .. } => self.leader = None,
            _ => {}
        }
    }

    /// Runs the work of a term, and reports leaders until the work has returned.
    fn work<T>(
        &mut self,
        guard: &LeaderGuard,
        mut stop: Receiver<T>,
        mut transitions: Receiver<Transition>,
    ) -> RunOutcome {
        let callbacks = self.callbacks;
        let is_stopped = guard.scope(|scope| {
            let (working, done) = channel::bounded::<()>(0);
            let worker = scope.spawn(|| {
                // `done` disconnects when this sender is dropped, even if the work panics.
                let _working = working;
                callbacks.on_started_leading(guard);
            });
            let mut is_stopped = false;
            loop {
                channel::select! {
                    recv(done) -> _ => break,
                    recv(stop) -> _ => {
                        is_stopped = true;
                        guard.step_down();
                        // A channel without senders is always ready, so the loop would spin.
                        stop = channel::never();
                    }
                    recv(transitions) -> transition => match transition {
                        Ok(transition) => self.report(transition),
                        // The elector and the term have ended, so the loop waits only for the work.
                        Err(_) => transitions = channel::never(),
                    },
                }
            }
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            is_stopped
        });
        match guard.check() {
            _ if is_stopped => RunOutcome::Stopped,
            Ok(()) => RunOutcome::WorkReturned,
            // The work stepped down itself, so the term was not lost.
            Err(ended) if ended.reason == StopReason::SteppedDown => RunOutcome::WorkReturned,
            Err(ended) => RunOutcome::Lost(ended.reason),
        }
    }
}

/// Callbacks that only run work.
struct WorkCallbacks<F>(F);

impl<F: Fn(&LeaderGuard) + Sync> Callbacks for WorkCallbacks<F> {
    fn on_started_leading(&self, guard: &LeaderGuard) {
        (self.0)(guard);
    }
}
