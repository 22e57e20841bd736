//! The work of one term after another.

use std::convert::Infallible;

use log::Level;

use crate::elector::leader_elector::LeaderElector;
use crate::leadership::error::Error;
use crate::leadership::guard::LeaderGuard;
use crate::leadership::stop::Stop;
use crate::leadership::term::TermEnded;
use crate::util::log_fields::log_with;
use crate::util::sync::Instant;
use crate::util::sync::channel::{self, Receiver};
use crate::util::work_failures::{WorkFailures, with_causes};

impl LeaderElector {
    /// Runs `work` in every term of this candidate, one term after another, until a stop.
    ///
    /// Blocks until [`stop`](Stop::stop) is requested. The work runs on its own thread, inside [`LeaderGuard::scope`],
    /// and must return soon after the term has ended. This method waits for the work.
    ///
    /// - **`Ok`, or the error of `guard.check()?`.** The lease is released. The candidate campaigns again a retry period after the start of the term.
    ///   Work that is complete for good calls [`stop`](Stop::stop) first.
    /// - **`Err`.** The error is logged at level `error`, and the lease is released. The candidate waits 1 s before it
    ///   campaigns again, twice as long after each further error, and at most 1 min. Other candidates may lead
    ///   meanwhile.
    /// - **Stop.** The candidate steps down. The lease is renewed until the work returns, at most for the [drain
    ///   timeout](crate::LeaderElectorBuilder::drain_timeout). Without a drain timeout, the limit is the renew
    ///   deadline.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use leasehold::{LeaderElector, Stop};
    ///
    /// let stop = Stop::new();
    /// let elector = LeaderElector::builder("my-controller").start()?;
    /// elector.run_until(&stop, |guard| {
    ///     while guard.wait(Duration::from_secs(1)) { /* one unit of work */ }
    ///     Ok(())
    /// })?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the work panics. The lease is released first. The work does not run again, because a panic may leave
    /// its state damaged.
    ///
    /// # Errors
    ///
    /// - Returns the errors of [`block_until_leader`](Self::block_until_leader).
    /// - Returns [`Error::Work`] if the work has returned an error, and a stop was requested before.
    pub fn run_until<W>(&self, stop: &Stop, mut work: W) -> Result<(), Error>
    where
        W: FnMut(&LeaderGuard) -> Result<(), Box<dyn std::error::Error + Send + Sync>> + Send,
    {
        let (retry_period, mut failures) = (self.settings().retry_period, WorkFailures::default());
        loop {
            let campaign = self.campaign()?;
            // If a stop and an acquisition arrive together, the term must not start.
            let guard = channel::select_biased! {
                recv(stop.receiver()) -> _ => return Ok(()),
                recv(campaign.receiver()) -> won => won.unwrap_or(Err(Error::Stopped))?,
            };
            let (began, fields) = (Instant::now(), guard.log_fields());
            let outcome = run_until_done(&guard, stop, &mut work)?;
            drop(guard);
            let pause = match outcome {
                // `guard.check()?` returns this error at the end of the term, which is not a failure of the work.
                Err(error) if error.is::<TermEnded>() => retry_period.saturating_sub(began.elapsed()),
                Ok(()) => {
                    failures = WorkFailures::default();
                    retry_period.saturating_sub(began.elapsed())
                }
                Err(error) => {
                    let pause = failures.pause(began.elapsed());
                    log_with!(Level::Error, fields; "the work failed: {}", with_causes(&*error));
                    let error = Error::Work(error.into());
                    if stop.is_stopped() {
                        return Err(error);
                    }
                    pause
                }
            };
            if !stop.wait(pause) {
                return Ok(());
            }
        }
    }
}

/// Runs `work` on a thread, steps down at a stop, and returns the result of the work.
///
/// # Panics
///
/// Panics if the work panics.
pub(super) fn run_until_done<T: Send>(
    guard: &LeaderGuard,
    stop: &Stop,
    work: &mut (impl FnMut(&LeaderGuard) -> T + Send),
) -> Result<T, Error> {
    let step_down_at_stop = |done: &Receiver<Infallible>| {
        channel::select! {
            recv(done) -> _ => {}
            recv(stop.receiver()) -> _ => guard.step_down_as_requested(),
        }
    };
    run_work(guard, || work(guard), step_down_at_stop)
}

/// Runs `work` on a thread, and returns its result.
///
/// Meanwhile, calls `wait` with a channel that disconnects when the work has ended.
///
/// # Panics
///
/// Panics if the work panics.
pub(super) fn run_work<T: Send>(
    guard: &LeaderGuard,
    work: impl FnOnce() -> T + Send,
    wait: impl FnOnce(&Receiver<Infallible>),
) -> Result<T, Error> {
    guard.scope(|scope| {
        let (working, done) = channel::bounded::<Infallible>(0);
        let worker = scope.try_spawn(|| {
            // `done` disconnects when this sender is dropped, even if the work panics.
            let _working = working;
            work()
        })?;
        wait(&done);
        Ok(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}
