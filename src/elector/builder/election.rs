//! Setters for the identity and the durations of an election.

use std::time::Duration;

use super::LeaderElectorBuilder;
use crate::util::setters::setters;

setters! {
    impl LeaderElectorBuilder;

    /// Sets the identity that this candidate writes to the record.
    ///
    /// The identity must be unique among running processes. A candidate that finds another process with its identity
    /// logs an error. An identity has 1 to 1,024 bytes and no control characters.
    ///
    /// A process that restarts under its previous identity waits until the lease expires, like any other candidate.
    /// With [`reclaim_own_identity`](Self::reclaim_own_identity), the process takes over at once.
    ///
    /// Defaults to the host name and 64 random bits.
    pub fn identity(mut self, identity: impl Into<String>) { self.config.identity = Some(identity.into()) }

    /// Sets how long standbys wait after the last renewal before they take over.
    ///
    /// The value is rounded up to whole seconds, because the record holds whole seconds. Every duration of the builder
    /// is at most 31 bits of seconds (68 years). `hold_back` and `drain_timeout` may be zero; all others are at least 1 ms.
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
    pub fn lease_duration(mut self, lease_duration: Duration) { self.config.lease_duration = Some(lease_duration) }

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
    pub fn renew_deadline(mut self, renew_deadline: Duration) { self.config.renew_deadline = Some(renew_deadline) }

    /// Sets the delay between retries, and between polls while no watch is open.
    ///
    /// The elector adds up to 20 % of random delay.
    ///
    /// If only the retry period is set, the [lease duration](Self::lease_duration) and the [renew
    /// deadline](Self::renew_deadline) follow. A retry period of 5 s gives a lease duration of 38 s and a renew
    /// deadline of 25 s.
    ///
    /// Defaults to 2 s, or a fifth of the renew deadline if the lease duration or the renew deadline is set.
    pub fn retry_period(mut self, retry_period: Duration) { self.config.retry_period = Some(retry_period) }

    /// Sets how often a healthy leader renews the lease.
    ///
    /// The retry period applies only after a failure. With a shorter interval, a term has more time left when a failure
    /// begins. With a longer interval, the store receives fewer writes. The interval is at most half of the renew
    /// deadline, so that there is time for at least two attempts.
    ///
    /// Defaults to the retry period or half of the renew deadline, whichever is shorter.
    pub fn renew_interval(mut self, renew_interval: Duration) { self.config.renew_interval = Some(renew_interval) }

    /// Sets how long dropping or releasing a guard may block until the release is confirmed.
    ///
    /// A release can need four round trips: one for the renewal in flight, and three if a new connection must be
    /// opened. A round trip of 0.5 s can therefore need 2 s.
    ///
    /// Defaults to the retry period.
    pub fn release_timeout(mut self, release_timeout: Duration) { self.config.release_timeout = Some(release_timeout) }

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
    pub fn reclaim_own_identity(mut self, reclaim: bool) { self.config.reclaim_own_identity = reclaim }

    /// Sets how long this candidate leaves a free or expired lease to other candidates.
    ///
    /// The delay starts when this candidate observes that the lease is free, or when the lease expires. Candidates with
    /// delays of 0, 300 and 600 ms take over in this order, even after a crash, and beside client-go. The difference of
    /// two delays must be longer than the time that events and writes need to reach the store and the candidates. Use
    /// at least 300 ms. A candidate without a watch observes a release up to 1.2 retry periods late.
    ///
    /// A takeover is late by at most this delay. The delay does not move a leader: a preferred candidate that starts
    /// later waits for the next term. The delay does not apply to [`try_acquire`](crate::LeaderElector::try_acquire),
    /// to a lease that does not exist, or to a record with the own identity that
    /// [`reclaim_own_identity`](Self::reclaim_own_identity) takes over.
    ///
    /// The value is at most half of the lease duration, 7.5 s by default. A candidate that is [asked to step
    /// down](Self::accept_requests) stands aside for at most one lease duration. After a longer delay, the same
    /// candidate would lead again.
    ///
    /// Defaults to 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use leasehold::LeaderElector;
    ///
    /// let is_preferred = std::env::var("ZONE").is_ok_and(|zone| zone == "eu-1");
    /// let delay = if is_preferred { Duration::ZERO } else { Duration::from_millis(300) };
    /// let builder = LeaderElector::builder("jobs").hold_back(delay);
    /// ```
    pub fn hold_back(mut self, delay: Duration) { self.config.hold_back = delay }

    /// Advertises an address while this candidate holds the lease.
    ///
    /// Other candidates receive the address in [`NewLeader`](crate::Transition::NewLeader) and in
    /// [`Status::leader_address`](crate::Status::leader_address). The address may be any text of 1 to 1,024 bytes
    /// without control characters, such as `10.0.3.7:9000` or a URL.
    ///
    /// Requires a store that [keeps notes](crate::store::Store::keeps_notes), as every store of this crate does. With
    /// another store, add the address to the [identity](Self::identity), such as `pod-7@10.0.3.7:9000`.
    ///
    /// The address is a claim of the holder, and belongs to one term. While the work drains, the address is still
    /// advertised, so a server must check [`is_leader`](crate::Leadership::is_leader) for each request. A client that
    /// connects to the address trusts every program that may write the record.
    ///
    /// Defaults to no address.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use leasehold::LeaderElector;
    ///
    /// let elector = LeaderElector::builder("jobs").advertise("10.0.3.7:9000").start()?;
    /// elector.run_until(&leasehold::Stop::new(), |guard| { while guard.is_leader() { /* serve */ } Ok(()) })?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn advertise(mut self, address: impl Into<String>) { self.config.address = Some(address.into()) }

    /// Sets whether an operator may ask this candidate to step down.
    ///
    /// A request is the annotation `leasehold.dev/step-down` on a Kubernetes object, or `stepDown` in the
    /// [notes](crate::store::RecordNotes) of another store, with the exact identity of the holder. `leasehold
    /// step-down` writes a request.
    ///
    /// If a request names this candidate while it leads, the term ends with
    /// [`StopReason::Requested`](crate::StopReason::Requested). The candidate is then unfit until another candidate has
    /// led, but at most for one lease duration after the release. The lease is renewed while the guard exists, at most
    /// for the [drain timeout](Self::drain_timeout). A request less than a lease duration after the last accepted
    /// request waits until then. Every client that may write the record can ask.
    ///
    /// Requires a store that [keeps notes](crate::store::Store::keeps_notes), as every store of this crate does. Cannot
    /// be combined with a `resource_lock` of two kinds.
    ///
    /// Defaults to `false`: a request is logged once and ignored.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use leasehold::LeaderElector;
    ///
    /// let elector = LeaderElector::builder("jobs").accept_requests(true).start()?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn accept_requests(mut self, accepts: bool) { self.config.accepts_requests = accepts }

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
    pub fn no_client_go_peers(mut self, no_peers: bool) { self.config.no_client_go_peers = no_peers }
}
