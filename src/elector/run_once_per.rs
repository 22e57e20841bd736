//! A job that runs once per period, on one of several processes.

use log::Level;

use crate::elector::leader_elector::LeaderElector;
use crate::elector::run_until::run_until_done;
use crate::leadership::campaign::Campaign;
use crate::leadership::error::Error;
use crate::leadership::guard::LeaderGuard;
use crate::leadership::job::{OncePer, RunOnce};
use crate::leadership::stop::Stop;
use crate::leadership::term::TermEnded;
use crate::util::config_error::require;
use crate::util::log_fields::log_with;
use crate::util::sync::Instant;
use crate::util::sync::channel;
use crate::util::work_failures::{WorkFailures, with_causes};

impl LeaderElector {
    /// Runs `work` with success once per period, on one of the processes that call this method.
    ///
    /// Blocks until the job has succeeded in this period on any process, until all attempts of the period have failed,
    /// or until a stop. If the job has succeeded before, the method returns at once. While another process runs the
    /// job, the method waits.
    ///
    /// The record keeps the history of the job. Each attempt is written together with the acquisition of the lease, so
    /// an attempt of a killed process counts. The success is written before the release of the lease. If the work fails
    /// or its process dies, another process runs the work, at most
    /// [`max_attempts`](OncePer::max_attempts) times per period in total. After a failure, this process waits 1 s
    /// before it campaigns again, twice as long after each further failure, and at most 1 min.
    ///
    /// All times are those of the store's clock. The clock of this host does not matter.
    ///
    /// **Twice in a period.** The work runs again after a success only if its process was killed, or its term ended,
    /// between the end of the work and the write of its success. A [fence](crate::Leadership::fencing_token) refuses
    /// the late writes of an earlier run. A deleted record loses the history.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use leasehold::job::RunOnce;
    /// use leasehold::store::MemoryStore;
    /// use leasehold::{LeaderElector, Stop};
    ///
    /// let elector = LeaderElector::builder("nightly").start_on(MemoryStore::new())?;
    /// let (stop, period) = (Stop::new(), Duration::from_secs(20 * 3600));
    /// let first = elector.run_once_per(period, &stop, |guard| {
    ///     guard.check()?; // one unit of work
    ///     Ok(())
    /// })?;
    /// assert_eq!(first, RunOnce::Succeeded);
    /// let second = elector.run_once_per(period, &stop, |_| unreachable!("the job has succeeded"))?;
    /// assert!(matches!(second, RunOnce::NotDue(_)));
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the work panics. The lease is released first, and the attempt counts.
    ///
    /// # Errors
    ///
    /// - Returns [`Error::Config`] if the period is not a whole number of seconds, or differs from the period in the
    ///   record.
    /// - Returns [`Error::Config`] if the store does not [keep notes](crate::store::Store::keeps_notes).
    /// - Returns [`Error::Store`] if the store does not report its time, as a lock of two objects.
    /// - Returns [`Error::ResultNotRecorded`] if the work has returned `Ok`, but its success is not known to be in the
    ///   record. The job may run again.
    /// - Returns [`Error::Work`] if a [forced](OncePer::force) attempt has failed, or if an attempt has failed and a
    ///   stop was requested.
    /// - Returns the errors of [`block_until_leader`](Self::block_until_leader).
    pub fn run_once_per<W>(&self, job: impl Into<OncePer>, stop: &Stop, mut work: W) -> Result<RunOnce, Error>
    where
        W: FnMut(&LeaderGuard) -> Result<(), Box<dyn std::error::Error + Send + Sync>> + Send,
    {
        let (job, mut failures) = (job.into(), WorkFailures::default());
        loop {
            let campaign = self.campaign_once_per(&job)?;
            let won = channel::select_biased! {
                recv(stop.receiver()) -> _ => return Ok(RunOnce::Stopped),
                recv(campaign.receiver()) -> won => won.unwrap_or(Err(Error::Stopped)),
            };
            let guard = match won {
                Err(Error::NotDue(reason)) => return Ok(RunOnce::NotDue(reason)),
                won => won?,
            };
            let (began, fields) = (Instant::now(), guard.log_fields());
            let outcome = run_until_done(&guard, stop, &mut work)?;
            let error = match outcome {
                // Work that a stop has ended is no success.
                Ok(()) if stop.is_stopped() && !guard.is_leader() => return Ok(RunOnce::Stopped),
                Ok(()) => return guard.record_result(0).map(|()| RunOnce::Succeeded),
                Err(error) if stop.is_stopped() && error.is::<TermEnded>() => return Ok(RunOnce::Stopped),
                Err(error) => error,
            };
            log_with!(Level::Error, fields; "the job failed: {}", with_causes(&*error));
            // The next attempt does not need the exit code.
            let _ = guard.record_result(1);
            drop(guard);
            let pause = failures.pause(began.elapsed());
            if stop.is_stopped() || job.is_forced() {
                return Err(Error::Work(error.into()));
            }
            if !stop.wait(pause) {
                return Ok(RunOnce::Stopped);
            }
        }
    }

    /// Starts a campaign for one attempt of a job.
    ///
    /// The campaign acquires the lease only if an attempt is due, as [`run_once_per`](Self::run_once_per) describes.
    /// Otherwise, the campaign answers with [`Error::NotDue`]. After the attempt, call
    /// [`record_result`](LeaderGuard::record_result) before the guard is dropped.
    ///
    /// # Errors
    ///
    /// - Returns [`Error::Config`] if a setting of the job breaks a rule, or if the store does not
    ///   [keep notes](crate::store::Store::keeps_notes).
    /// - Returns the errors of [`campaign`](Self::campaign).
    pub fn campaign_once_per(&self, job: &OncePer) -> Result<Campaign, Error> {
        let plan = job.plan()?;
        let rule = "needs a store that keeps notes";
        require(self.keeps_notes(), "once_per", humantime::format_duration(plan.period), rule)?;
        self.start_campaign(Some(plan))
    }
}
