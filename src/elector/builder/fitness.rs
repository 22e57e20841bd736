//! What is asked of a leader besides its lease: that it is fit, and that its work makes progress.

use std::time::Duration;

use super::LeaderElectorBuilder;
use crate::leadership::fitness::Fitness;
use crate::runtime::probing::SharedProbe;
use crate::util::sync::Arc;

impl LeaderElectorBuilder {
    /// Ends a term whose work does not [report progress](crate::LeaderGuard::report_progress) for so long: a worker that hangs does not
    /// lead for ever, because the elector's thread is healthy. At least the retry period. Default: it need not say so.
    ///
    /// The term is valid until the earlier of what its renewals cover and `within` after the last progress, to the very moment,
    /// also when every other thread is stopped. From then on it is not renewed either, and nothing is released while the guard
    /// exists: the lease runs out, and another that is fit leads a lease duration after it has heard of the last renewal. The work
    /// has to call `report_progress` instead of `is_leader`, or the term ends each time. The first progress is the
    /// acquisition itself, so a guard that nobody takes ends, too.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use leasehold::LeaderElector;
    ///
    /// let elector = LeaderElector::builder("jobs").progress_timeout(Duration::from_secs(60)).start()?;
    /// let guard = elector.block_until_leader()?;
    /// while guard.report_progress() { /* one unit of work, that takes less than a minute */ }
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn progress_timeout(mut self, within: Duration) -> Self {
        self.config.progress_timeout = Some(within);
        self
    }

    /// Leads only while `probe` says so: it is run each retry period, on a thread of its own. A candidate that is not fit acquires
    /// nothing, and one that leads ends its term ([`StopReason::Unfit`](crate::StopReason::Unfit)); when it drops its guard another
    /// leads within milliseconds.
    ///
    /// What is not known is a no: nobody leads before the first yes. A no counts at once, and so does a panic. When the probe has
    /// said nothing for the [`probe_timeout`](Self::probe_timeout) that is a no, too. Who becomes fit again may acquire after a
    /// retry period, after two of them the next time, then four, up to four lease durations; who has been fit for that long after
    /// its wait begins anew. If nobody is fit, nobody leads.
    ///
    /// A probe that has panicked is run again. One that hangs leaves the candidate unfit until it returns. Set again, this replaces
    /// the probe. A clone of this builder has the same one: its electors run it in turns, and one run answers all who wait for it.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{LeaderElector, MemoryStore};
    ///
    /// # fn has_room_on_disk() -> bool { true }
    /// let elector = LeaderElector::builder("jobs").fit_while(has_room_on_disk).start_on(MemoryStore::new())?;
    /// let guard = elector.block_until_leader()?;
    /// # drop(guard);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn fit_while(mut self, probe: impl FnMut() -> bool + Send + 'static) -> Self {
        self.asking.probe = Some(Arc::new(SharedProbe::new(Box::new(probe))));
        self.config.is_probed = true;
        self
    }

    /// Leads only while the program says so, by a flag that many electors may share. Beside [`fit_while`](Self::fit_while) both have
    /// to say so. What is said there of a candidate that is not fit holds for this as well; but a flag may be silent. Set again, this
    /// replaces the flag.
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
    pub fn fitness(mut self, fitness: &Fitness) -> Self {
        self.asking.fitness = Some(fitness.clone());
        self.config.has_fitness = true;
        self
    }

    /// For how long the probe of [`fit_while`](Self::fit_while) may say nothing, counted from when it last said yes. It is run again
    /// a retry period after its last run began, or when that ends if it takes longer: so this is to be more than the retry period
    /// and the longest run together, and more than two runs where clones of a builder share the probe. Nothing without a
    /// probe. Default: the renew deadline.
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
    pub fn probe_timeout(mut self, timeout: Duration) -> Self {
        self.config.probe_timeout = Some(timeout);
        self
    }

    /// For how long a term that has ended is renewed while its work winds down and its guard is not dropped: after that the lease is
    /// left to run out. It holds after [`step_down`](crate::LeaderGuard::step_down), a panic in a scope, and when the candidate
    /// becomes unfit. Default: the renew deadline, but after a step-down until the guard goes. Zero: not at all.
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
    pub fn drain_timeout(mut self, limit: Duration) -> Self {
        self.config.drain_timeout = Some(limit);
        self
    }
}
