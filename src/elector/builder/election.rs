//! Setters for the identity and the durations of an election.

use std::time::Duration;

use super::LeaderElectorBuilder;

impl LeaderElectorBuilder {
    /// Sets the identity that this candidate writes to the record.
    ///
    /// The identity must be unique among running processes. A candidate that finds another process with its identity
    /// logs an error. An identity has 1 to 1,024 bytes and no control characters.
    ///
    /// A process that restarts under its previous identity waits until the lease expires, like any other candidate.
    /// With [`reclaim_own_identity`](Self::reclaim_own_identity), the process takes over at once.
    ///
    /// Defaults to the host name and 64 random bits.
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.config.identity = Some(identity.into());
        self
    }

    /// Sets how long standbys wait after the last renewal before they take over.
    ///
    /// The value is rounded up to whole seconds, because the record holds whole seconds. Every duration of the builder
    /// must lie between 1 ms and 31 bits of seconds (68 years).
    ///
    /// The default follows from the other durations in client-go's proportions of 15 : 10 : 2. If the renew deadline is
    /// set, the default is 1.5 times that deadline, but at least one second more than the deadline. If only the retry
    /// period is set, the default is 7.5 times the retry period.
    ///
    /// Defaults to 15 s.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use leasehold::LeaderElector;
    ///
    /// let settings = LeaderElector::builder("jobs").lease_duration(Duration::from_secs(30)).validate()?;
    /// assert_eq!(settings.renew_deadline, Duration::from_secs(20));
    /// assert_eq!(settings.retry_period, Duration::from_secs(4));
    /// # Ok::<(), leasehold::ConfigError>(())
    /// ```
    pub fn lease_duration(mut self, lease_duration: Duration) -> Self {
        self.config.lease_duration = Some(lease_duration);
        self
    }

    /// Sets how long a term stays valid without a successful renewal.
    ///
    /// The time counts from just before the last successful renewal was sent. The renew deadline must be shorter than
    /// the lease duration. If client-go may be a candidate, the difference must be at least 1 s (see
    /// [`no_client_go_peers`](Self::no_client_go_peers)). The ratio of the two durations is the tolerated difference of
    /// clock rates. The renew deadline must be longer than 1.2 times the retry period.
    ///
    /// If the lease duration is set, the default is two thirds of that duration, but at least one second less than that
    /// duration. If only the retry period is set, the default is five times the retry period.
    ///
    /// Defaults to 10 s.
    pub fn renew_deadline(mut self, renew_deadline: Duration) -> Self {
        self.config.renew_deadline = Some(renew_deadline);
        self
    }

    /// Sets the delay between retries, and between polls while no watch is open.
    ///
    /// The elector adds up to 20 % of random delay.
    ///
    /// If only the retry period is set, the [lease duration](Self::lease_duration) and the [renew
    /// deadline](Self::renew_deadline) follow. A retry period of 5 s gives a lease duration of 38 s and a renew
    /// deadline of 25 s.
    ///
    /// Defaults to 2 s, or a fifth of the renew deadline if the lease duration or the renew deadline is set.
    pub fn retry_period(mut self, retry_period: Duration) -> Self {
        self.config.retry_period = Some(retry_period);
        self
    }

    /// Sets how often a healthy leader renews the lease.
    ///
    /// The retry period applies only after a failure. With a shorter interval, a term has more time left when a failure
    /// begins. With a longer interval, the store receives fewer writes. The interval is at most half of the renew
    /// deadline, so that there is time for at least two attempts.
    ///
    /// Defaults to the retry period or half of the renew deadline, whichever is shorter.
    pub fn renew_interval(mut self, renew_interval: Duration) -> Self {
        self.config.renew_interval = Some(renew_interval);
        self
    }

    /// Sets how long dropping or releasing a guard may block until the release is confirmed.
    ///
    /// A release can need four round trips: one for the renewal in flight, and three if a new connection must be
    /// opened. A round trip of 0.5 s can therefore need 2 s.
    ///
    /// Defaults to the retry period.
    pub fn release_timeout(mut self, release_timeout: Duration) -> Self {
        self.config.release_timeout = Some(release_timeout);
        self
    }

    /// Sets whether this candidate takes over a record with its own identity at once.
    ///
    /// client-go always takes over such a record at once. Enable this setting only if the platform guarantees that an
    /// identity is never in use twice, as with the pod names of a StatefulSet. If another running process has the same
    /// identity, each process takes the lease from the other every retry period. Both can then hold a valid guard.
    ///
    /// Defaults to `false`.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::LeaderElector;
    ///
    /// let builder = LeaderElector::builder("jobs").identity("jobs-0").reclaim_own_identity(true);
    /// ```
    pub fn reclaim_own_identity(mut self, reclaim: bool) -> Self {
        self.config.reclaim_own_identity = reclaim;
        self
    }

    /// Declares that no candidate for this lease runs client-go.
    ///
    /// client-go compares records in whole seconds and therefore needs 1 s between the renew deadline and the lease
    /// duration. This declaration removes that rule.
    ///
    /// Defaults to `false`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use leasehold::LeaderElector;
    ///
    /// let builder = LeaderElector::builder("jobs")
    ///     .lease_duration(Duration::from_secs(2))
    ///     .renew_deadline(Duration::from_millis(1500))
    ///     .retry_period(Duration::from_millis(200))
    ///     .no_client_go_peers(true);
    /// assert!(builder.validate().is_ok());
    /// ```
    pub fn no_client_go_peers(mut self, no_peers: bool) -> Self {
        self.config.no_client_go_peers = no_peers;
        self
    }
}
