//! What an election runs by.

use std::time::Duration;

use super::LeaderElectorBuilder;

impl LeaderElectorBuilder {
    /// Who this candidate is in the record. Default: the host's name and 64 random bits.
    ///
    /// An identity must have 1 to 1,024 bytes and no control characters.
    ///
    /// No two processes may ever use the same identity at a time: who finds another that does says so in the log. One that
    /// restarts within a lease duration of its own crash under the same identity waits like anybody else, unless
    /// [`reclaim_own_identity`](Self::reclaim_own_identity) is set.
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.config.identity = Some(identity.into());
        self
    }

    /// How long others wait after the last renewal before they take the lease over. Rounded up to whole seconds, which
    /// is what the record holds. All durations lie between 1 ms and 31 bits of seconds (68 years).
    ///
    /// If the renew deadline is set, the lease duration is one and a half times the renew deadline, or a second more than the
    /// renew deadline if that is longer. If only the retry period is set, the lease duration is seven and a half times the
    /// retry period. These are client-go's proportions of 15 : 10 : 2.
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

    /// How long the leader keeps trying to renew before it gives up: a term is valid for this long from the moment
    /// before its last successful renewal was sent.
    ///
    /// It must be less than the lease duration, by at least a second where client-go may be a candidate too
    /// (see [`no_client_go_peers`](Self::no_client_go_peers)). The ratio of the two is how much clock rates may differ.
    ///
    /// If the lease duration is set, the renew deadline is two thirds of the lease duration, or a second less than the lease
    /// duration if that is shorter. If only the retry period is set, the renew deadline is five times the retry period.
    ///
    /// Defaults to 10 s.
    pub fn renew_deadline(mut self, renew_deadline: Duration) -> Self {
        self.config.renew_deadline = Some(renew_deadline);
        self
    }

    /// How long to wait between tries of what failed, and between looks at who leads where the lease cannot be watched; up
    /// to a fifth longer, at random.
    ///
    /// If only the retry period is set, the retry period changes the [lease duration](Self::lease_duration) and the
    /// [renew deadline](Self::renew_deadline): a retry period of 5 s sets them to 38 s and 25 s.
    ///
    /// Defaults to 2 s, or a fifth of the renew deadline if the lease duration or the renew deadline is set.
    pub fn retry_period(mut self, retry_period: Duration) -> Self {
        self.config.retry_period = Some(retry_period);
        self
    }

    /// How often a healthy leader renews. Default: the retry period, at most half of the renew deadline.
    ///
    /// Apart from the retry period, which only paces tries after a failure. More often: a term has more left when trouble
    /// begins, and so rides out longer trouble. Less often: fewer writes to the store. At most half of the renew deadline,
    /// so that there is time for two tries at least.
    pub fn renew_interval(mut self, renew_interval: Duration) -> Self {
        self.config.renew_interval = Some(renew_interval);
        self
    }

    /// How long dropping or releasing a guard may block until the release is confirmed. Default: the retry period.
    ///
    /// A server that is half a second of round trip away needs up to four of them: one for a renewal that is under way, and
    /// three where a new connection has to be opened.
    pub fn release_timeout(mut self, release_timeout: Duration) -> Self {
        self.config.release_timeout = Some(release_timeout);
        self
    }

    /// Takes over at once a record that has our identity although this process did not write it, as client-go does.
    ///
    /// Only for platforms that guarantee that an identity is never used twice at a time, such as a StatefulSet's pod
    /// names: with another process alive that has it, both would believe that they lead, in turns of a retry period.
    /// Default: false.
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

    /// Says that no candidate for this lease runs client-go, which compares records in whole seconds and therefore needs
    /// a second between renew deadline and lease duration. Default: false.
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
