//! Setters for fitness, for progress of the work, and for draining.

use std::time::Duration;

use super::LeaderElectorBuilder;
use crate::leadership::fitness::Fitness;
use crate::runtime::probing::SharedProbe;
use crate::util::setters::setters;
use crate::util::sync::Arc;

setters! {
    impl LeaderElectorBuilder;

    /// Ends a term whose work reports no progress for `within`.
    ///
    /// Without this setting, a leader whose work hangs leads forever, because the elector's thread still renews the
    /// lease. The work must call [`report_progress`](crate::Leadership::report_progress) instead of `is_leader`, or
    /// every term ends after `within`. `within` must be at least the retry period.
    ///
    /// The term ends exactly `within` after the last progress, even if every other thread is stopped. The acquisition
    /// counts as the first progress. After the end, the lease is no longer renewed. The lease is not released while the
    /// guard exists. A fit standby leads one lease duration after the last renewal that the standby observed.
    ///
    /// Defaults to no timeout.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use leasehold::LeaderElector;
    ///
    /// let elector = LeaderElector::builder("jobs").progress_timeout(Duration::from_secs(60)).start()?;
    /// let guard = elector.block_until_leader()?;
    /// while guard.report_progress() { /* one unit of work that takes less than a minute */ }
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn progress_timeout(mut self, within: Duration) { self.config.progress_timeout = Some(within) }

    /// Sets a probe that decides whether this candidate may lead.
    ///
    /// The probe runs every retry period on its own thread. A candidate is unfit until the probe has returned `true`.
    /// The candidate becomes unfit as soon as the probe returns `false` or panics. A candidate is also unfit if the
    /// probe does not return `true` for the [`probe_timeout`](Self::probe_timeout).
    ///
    /// An unfit candidate acquires nothing. An unfit leader ends its term with
    /// [`StopReason::Unfit`](crate::StopReason::Unfit). If the leader then drops its guard, another candidate leads
    /// within milliseconds. If every candidate is unfit, there is no leader.
    ///
    /// After a recovery, the candidate waits one retry period before it may acquire. Every further recovery doubles the
    /// wait, up to four lease durations. If the candidate then stays fit for twice the last wait, the next wait is one
    /// retry period again.
    ///
    /// A probe that has panicked runs again. A probe that hangs keeps the candidate unfit until the probe returns. A
    /// second call of this method replaces the probe. Clones of the builder share the probe, and their electors run the
    /// probe in turns. One run answers all electors that wait.
    ///
    /// Defaults to no probe, which counts as fit.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::store::MemoryStore;
    /// use leasehold::LeaderElector;
    ///
    /// # fn has_room_on_disk() -> bool { true }
    /// let elector = LeaderElector::builder("jobs").fit_while(has_room_on_disk).start_on(MemoryStore::new())?;
    /// let guard = elector.block_until_leader()?;
    /// # drop(guard);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn fit_while(mut self, probe: impl FnMut() -> bool + Send + 'static) {
        self.asking.probe = Some(Arc::new(SharedProbe::new(Box::new(probe))));
        self.config.is_probed = true;
    }

    /// Sets a flag by which the program decides whether this candidate may lead.
    ///
    /// Several electors can share one flag. If a probe is also [set](Self::fit_while), both must report fit. The rules
    /// of [`fit_while`](Self::fit_while) for unfit candidates and for recovery also apply here. A flag has no timeout.
    /// A second call of this method replaces the flag.
    ///
    /// Defaults to no flag, which counts as fit.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{Fitness, LeaderElector};
    ///
    /// let fitness = Fitness::new();
    /// let shards: Vec<_> = (0..8).map(|shard| LeaderElector::builder(format!("shard-{shard}")).fitness(&fitness)).collect();
    /// fitness.set(true);
    /// ```
    pub fn fitness(mut self, fitness: &Fitness) {
        self.asking.fitness = Some(fitness.clone());
        self.config.has_fitness = true;
    }

    /// Sets how long the candidate stays fit after the probe last returned `true`.
    ///
    /// The probe of [`fit_while`](Self::fit_while) runs one retry period after its last run began, or when a longer run
    /// ends. The timeout must exceed the retry period. Allow for the retry period and the longest run together. If
    /// clones of a builder share the probe, allow for more than two runs. The setting has no effect without a probe.
    ///
    /// Defaults to the renew deadline.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use leasehold::LeaderElector;
    ///
    /// let builder = LeaderElector::builder("jobs").fit_while(|| true).probe_timeout(Duration::from_secs(30));
    /// assert!(builder.validate().is_ok());
    /// ```
    pub fn probe_timeout(mut self, timeout: Duration) { self.config.probe_timeout = Some(timeout) }

    /// Limits how long the lease is renewed after a term has ended while the guard still exists.
    ///
    /// After the limit, the lease expires. The limit applies after a [`step_down`](crate::Leadership::step_down),
    /// after a [request](Self::accept_requests), after a panic in a scope, and after the candidate has become unfit.
    /// Zero stops renewals at once.
    ///
    /// Defaults to the renew deadline. After a call of `step_down` there is no default limit, and the lease is renewed
    /// until the guard is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use leasehold::LeaderElector;
    ///
    /// let builder = LeaderElector::builder("jobs").drain_timeout(Duration::from_secs(30));
    /// assert_eq!(builder.validate()?.drain_timeout, Some(Duration::from_secs(30)));
    /// # Ok::<(), leasehold::ConfigError>(())
    /// ```
    pub fn drain_timeout(mut self, limit: Duration) { self.config.drain_timeout = Some(limit) }
}
