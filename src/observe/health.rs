//! The health of an elector, for a liveness probe.

use std::fmt;
use std::time::Duration;

use crate::election::stop_reason::StopReason;
use crate::observe::observations::{EndedGuard, Observations};
use crate::util::clock;
use crate::util::debug_fields::{debug_as_display, debug_fields};
use crate::util::sync::Arc;

/// A liveness check that reports when this process should be restarted.
///
/// [`check`](Self::check) returns an error in these cases:
///
/// - The guard still exists although its term ended longer ago than a lease duration. If the
///   [`drain_timeout`](crate::LeaderElectorBuilder::drain_timeout) is longer, the drain timeout applies instead.
/// - The validity of the last renewal passed longer ago than a lease duration, and the guard of the ended term still
///   exists.
/// - The work has reported no progress for longer than its timeout, and the guard still exists.
/// - The elector's thread has panicked, so that this process never leads again.
///
/// The check reads the term itself and works even if the elector's threads hang. If the check fails, the process keeps
/// a guard that it should have dropped, or can never lead again. Answer a liveness probe with the check, so that the
/// process is restarted.
///
/// [`with_tolerance`](Self::with_tolerance) selects the rule of client-go's `HealthzAdaptor`. A check may be cloned,
/// and called from any thread.
///
/// # Examples
///
/// ```no_run
/// # use leasehold::LeaderElector;
/// let elector = LeaderElector::builder("jobs").start()?;
/// let health = elector.health_check();
/// let status = match health.check() {
///     Ok(()) => "200 OK",
///     Err(unhealthy) => { eprintln!("{unhealthy}"); "500 Internal Server Error" }
/// };
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone)]
pub struct HealthCheck {
    observations: Arc<Observations>,
    /// The tolerance of client-go's rule, or `None` if the rule is not selected.
    tolerance: Option<Duration>,
}

/// A reason why the process is unhealthy.
///
/// Restart the process for every reason except [`NoLeader`](Self::NoLeader), which only [`HealthCheck::check_leader`]
/// returns.
///
/// # Examples
///
/// ```
/// # fn example(health: &leasehold::HealthCheck) {
/// use leasehold::Unhealthy;
///
/// match health.check() {
///     Err(Unhealthy::NoProgress { over_for }) => eprintln!("progress is {over_for:?} overdue"),
///     Err(unhealthy) => eprintln!("{unhealthy}"),
///     Ok(()) => {}
/// }
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unhealthy {
    /// A guard that still exists too long after the end of its term.
    GuardNotDropped {
        /// The time since the end of the term.
        over_for: Duration,
    },
    /// Work without progress for too long, while the guard still exists.
    ///
    /// The term may have ended.
    NoProgress {
        /// The time by which progress is overdue.
        over_for: Duration,
    },
    /// A record that names this candidate and was not renewed in time.
    ///
    /// Only a check [with a tolerance](HealthCheck::with_tolerance) returns this reason.
    NotRenewed {
        /// The time since the last renewal.
        since: Duration,
    },
    /// A lease without a holder, or with a holder that has not renewed it in time.
    NoLeader {
        /// The time since the release or the expiry, or since the start if no leader was observed.
        since: Duration,
    },
    /// A panic of the elector's thread in the code of a [`Store`](crate::store::Store).
    ///
    /// The elector no longer campaigns.
    ElectorPanicked,
}

impl HealthCheck {
    pub(crate) fn new(observations: Arc<Observations>) -> Self {
        Self { observations, tolerance: None }
    }

    /// Returns a check with the semantics of client-go's `HealthzAdaptor`.
    ///
    /// The check fails if the record names this candidate and was not renewed for the lease duration plus
    /// `tolerance`. The check also fails if a term ended without progress, or if the elector's thread has panicked.
    /// The check does not fail because draining takes too long, or because the renewals fail after a step-down.
    ///
    /// A term ends at its renew deadline, earlier than this check fails. A failed check therefore means that the guard
    /// still exists, and that the elector has observed no takeover.
    ///
    /// Defaults to the rule of [`HealthCheck`], without a tolerance.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use leasehold::LeaderElector;
    /// use std::time::Duration;
    ///
    /// let elector = LeaderElector::builder("jobs").start()?;
    /// let health = elector.health_check().with_tolerance(Duration::from_secs(20));
    /// assert!(health.check().is_ok());
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    #[must_use]
    pub fn with_tolerance(self, tolerance: Duration) -> Self {
        Self { tolerance: Some(tolerance), ..self }
    }

    /// Returns an error if the process is unhealthy.
    ///
    /// Does no I/O.
    ///
    /// # Errors
    ///
    /// - Returns [`Unhealthy::GuardNotDropped`] if the guard still exists too long after the end of its term.
    /// - Returns [`Unhealthy::NoProgress`] if the work made no progress in time and the guard still exists.
    /// - Returns [`Unhealthy::NotRenewed`] if the rule of [`with_tolerance`](Self::with_tolerance) applies.
    /// - Returns [`Unhealthy::ElectorPanicked`] if the elector's thread has panicked.
    pub fn check(&self) -> Result<(), Unhealthy> {
        let (now, settings) = (clock::now(), &self.observations.settings);
        if self.observations.has_panicked() {
            return Err(Unhealthy::ElectorPanicked);
        }
        let Some(EndedGuard { term, ended_at, lease_until, is_holder }) = self.observations.ended_guard(now) else {
            return Ok(());
        };
        let (over_for, reason) = (now.since(ended_at), term.deadline.reason());
        // Work that drains after its term must still make progress.
        let stalled_at = term.deadline.progress_limit().map(|limit| limit.until()).filter(|until| *until <= now);
        if reason == StopReason::NoProgress || stalled_at.is_some() {
            return Err(Unhealthy::NoProgress { over_for: stalled_at.map_or(over_for, |at| now.since(at)) });
        }
        match self.tolerance {
            None => {
                let drain_limit = settings.lease_duration.max(settings.drain_timeout.unwrap_or_default());
                let is_unrenewed = now.since(lease_until) > settings.lease_duration;
                if over_for > drain_limit || is_unrenewed {
                    Err(Unhealthy::GuardNotDropped { over_for })
                } else {
                    Ok(())
                }
            }
            Some(tolerance) if is_holder && reason == StopReason::Expired => {
                let (since, most) =
                    (over_for + settings.renew_deadline, settings.lease_duration.saturating_add(tolerance));
                if since > most { Err(Unhealthy::NotRenewed { since }) } else { Ok(()) }
            }
            Some(_) => Ok(()),
        }
    }

    /// Returns an error if no candidate has led for longer than `max_age`.
    ///
    /// The check uses the observations of this process. An expired token, a removed right, or the lack of a fit
    /// candidate makes the check fail. Use the check for a readiness probe if an unready replica alerts an operator.
    /// Do not use the check for a liveness probe.
    ///
    /// The check fails on all replicas at the same time. A Service then has no endpoint, and a rolling update that
    /// needs ready replicas stops, even if the update is the repair. Set `max_age` to several lease durations, because
    /// a takeover takes up to one lease duration.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use leasehold::LeaderElector;
    ///
    /// let elector = LeaderElector::builder("jobs").start()?;
    /// let is_ready = elector.health_check().check_leader(elector.status().settings.lease_duration * 4).is_ok();
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - Returns [`Unhealthy::NoLeader`] if no candidate has led for longer than `max_age`.
    pub fn check_leader(&self, max_age: Duration) -> Result<(), Unhealthy> {
        let now = clock::now();
        let leaderless_since = self.observations.leaderless_since(now);
        let since = leaderless_since.map_or(Duration::ZERO, |at| now.since(at));
        if since > max_age { Err(Unhealthy::NoLeader { since }) } else { Ok(()) }
    }
}

debug_fields!(impl Debug for HealthCheck { self => tolerance: self.tolerance, .. });

debug_as_display!(Unhealthy);

impl fmt::Display for Unhealthy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GuardNotDropped { over_for } => write!(
                f,
                "the term ended {} ago and its guard still exists: protected work has not ended",
                in_millis(*over_for)
            ),
            Self::NoProgress { over_for } => write!(
                f,
                "the work is stalled: progress is {} overdue and the guard still exists",
                in_millis(*over_for)
            ),
            Self::NotRenewed { since } => {
                write!(f, "the lease was last renewed {} ago, and the guard still exists", in_millis(*since))
            }
            Self::NoLeader { since } => write!(f, "no candidate has led for {}", in_millis(*since)),
            Self::ElectorPanicked => f.write_str("the elector's thread has panicked; restart the process"),
        }
    }
}

fn in_millis(duration: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_millis(duration.as_millis() as u64))
}

impl std::error::Error for Unhealthy {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::LeaderInfo;
    use crate::election::candidate::messages::LeaderFacts;
    use crate::election::deadline::Deadline;
    use crate::election::progress::ProgressLimit;
    use crate::election::settings::{Config, Settings};
    use crate::leadership::term::Term;
    use crate::observe::observer::Event;
    use crate::util::clock::Moment;

    /// Creates a health check of one record, and its observations.
    fn health(
        lease_duration: Duration,
        drain_timeout: impl Into<Option<Duration>>,
    ) -> (Arc<Observations>, HealthCheck) {
        let settings = Config { identity: Some("me".to_owned()), ..Config::default() }.validate().unwrap();
        let settings = Settings { lease_duration, drain_timeout: drain_timeout.into(), ..settings };
        let observations = Arc::new(Observations::new(Arc::new(settings)));
        (Arc::clone(&observations), HealthCheck::new(observations))
    }

    /// Notes the start of a term.
    fn started(observations: &Observations, deadline: &Arc<Deadline>) {
        leads(observations, Some("me"), None);
        observations.term_begins(Arc::new(Term::new(Arc::clone(deadline), 7)));
        observations.note(&Event::StartedLeading { fencing_token: 7 }, LeaderFacts::default());
    }

    /// Notes the end of a term.
    fn stopped(observations: &Observations, deadline: &Deadline, reason: StopReason) {
        let reason = deadline.end(clock::now(), reason);
        observations.note(&Event::StoppedLeading { reason }, LeaderFacts::default());
    }

    /// Notes the leader.
    fn leads(observations: &Observations, leader: Option<&str>, until: Option<Moment>) {
        let leader = leader.map(|identity| LeaderInfo { identity: identity.to_owned(), address: None });
        observations.note_leader(LeaderFacts { leader: leader.as_ref(), until, identity_is_shared: false });
    }

    #[test]
    fn lease_without_a_leader_for_too_long_fails_the_check() {
        let (observations, health) = health(Duration::from_secs(15), Duration::ZERO);
        let since = |max_age| match health.check_leader(max_age) {
            Err(Unhealthy::NoLeader { since }) => Some(since),
            other => other.map(|()| None).unwrap(),
        };
        std::thread::sleep(Duration::from_millis(2));
        assert!(since(Duration::from_millis(1)).is_some() && since(Duration::from_secs(3_600)).is_none(), "the start");
        let (now, hour) = (clock::now(), Duration::from_secs(3_600));
        leads(&observations, Some("a"), Some(now + hour));
        assert_eq!(since(Duration::ZERO), None);
        leads(&observations, Some("a"), Some(now));
        std::thread::sleep(Duration::from_millis(2));
        assert!(since(Duration::from_millis(1)).is_some(), "the lease has expired");
        leads(&observations, Some("a"), None);
        assert_eq!(since(Duration::ZERO), None, "a record without a duration never expires");
        leads(&observations, None, None);
        std::thread::sleep(Duration::from_millis(2));
        assert!(since(Duration::from_millis(1)).is_some_and(|since| since < hour));
    }

    /// The report of the end of a term may arrive after the guard of the term was dropped.
    #[test]
    fn process_without_a_guard_is_not_late_to_drop_one() {
        let (observations, health) = health(Duration::ZERO, Duration::ZERO);
        let check = || {
            std::thread::sleep(Duration::from_millis(1));
            (health.check().is_ok(), health.clone().with_tolerance(Duration::ZERO).check().is_ok())
        };
        let term = || Arc::new(Deadline::new(clock::now() + Duration::from_secs(3_600)));
        let deadline = term();
        started(&observations, &deadline);
        observations.guard_dropped();
        stopped(&observations, &deadline, StopReason::Expired);
        assert_eq!(check(), (true, true));
        let deadline = term();
        started(&observations, &deadline);
        stopped(&observations, &deadline, StopReason::Expired);
        assert_eq!(check(), (false, false));
        leads(&observations, None, None);
        assert_eq!(check(), (false, true), "another leads");
        started(&observations, &term());
        assert!(check().0, "the next term has begun");
    }

    /// The check must detect an expired term even if the elector's threads hang.
    #[test]
    fn expired_term_needs_no_report() {
        let (observations, health) = health(Duration::from_millis(20), Duration::from_millis(20));
        let deadline = Arc::new(Deadline::new(clock::now() + Duration::from_millis(20)));
        started(&observations, &deadline);
        std::thread::sleep(Duration::from_millis(60));
        let over = health.check().unwrap_err();
        assert!(matches!(over, Unhealthy::GuardNotDropped { over_for } if over_for >= Duration::from_millis(20)));
        observations.guard_dropped();
        assert!(health.check().is_ok());
    }

    #[test]
    fn work_without_progress_is_unhealthy_at_once() {
        let (observations, health) = health(Duration::from_secs(3_600), Duration::from_secs(3_600));
        let now = clock::now();
        let limit = Arc::new(ProgressLimit::new(now, Duration::from_millis(1)));
        let deadline = Deadline::new(now + Duration::from_secs(3_600)).limited_by(Some(limit));
        started(&observations, &Arc::new(deadline));
        std::thread::sleep(Duration::from_millis(2));
        assert!(matches!(health.check(), Err(Unhealthy::NoProgress { .. })));
        let as_client_go = health.clone().with_tolerance(Duration::from_secs(3_600));
        assert!(matches!(as_client_go.check(), Err(Unhealthy::NoProgress { .. })));
        observations.guard_dropped();
        assert!(health.check().is_ok());
    }

    #[test]
    fn stalled_drain_is_unhealthy_at_once_or_after_a_lease_duration() {
        let (lease, for_long) = (Duration::from_millis(20), Duration::from_secs(3_600));
        let (observations, health) = health(lease, for_long);
        let stepped_down = |within| {
            let now = clock::now();
            let limit = Arc::new(ProgressLimit::new(now, within));
            let deadline = Arc::new(Deadline::new(now + for_long).limited_by(Some(limit)));
            started(&observations, &deadline);
            stopped(&observations, &deadline, StopReason::SteppedDown);
            deadline
        };
        let deadline = stepped_down(Duration::from_millis(500));
        assert!(health.check().is_ok());
        std::thread::sleep(Duration::from_millis(510));
        let hangs = health.check();
        assert!(
            matches!(hangs, Err(Unhealthy::NoProgress { over_for }) if over_for < Duration::from_secs(60)),
            "{hangs:?}"
        );
        assert!(!deadline.report_progress(clock::now(), clock::now()));

        // After a deletion, another candidate may soon lead. The check fails after a lease duration, before the drain
        // timeout.
        let deadline = Arc::new(Deadline::new(clock::now() + for_long));
        started(&observations, &deadline);
        deadline.end(clock::now(), StopReason::Deleted);
        assert!(health.check().is_ok());
        std::thread::sleep(2 * lease);
        assert!(matches!(health.check(), Err(Unhealthy::GuardNotDropped { .. })));

        stepped_down(for_long).lease_lost(clock::now());
        assert!(health.check().is_ok());
        std::thread::sleep(2 * lease);
        assert!(matches!(health.check(), Err(Unhealthy::GuardNotDropped { .. })));
        observations.guard_dropped();
        assert!(health.check().is_ok());
    }

    #[test]
    fn drain_is_healthy_until_its_renewals_end() {
        let (lease, for_long) = (Duration::from_millis(20), Duration::from_secs(3_600));
        let (observations, health) = health(lease, for_long);
        let (other, without_limit) = self::health(lease, None);
        let deadline = Arc::new(Deadline::new(clock::now() + for_long));
        [&observations, &other].into_iter().for_each(|observations| started(observations, &deadline));
        stopped(&observations, &deadline, StopReason::SteppedDown);
        std::thread::sleep(3 * lease);
        assert_eq!(health.check(), Ok(()), "beyond the lease, within the drain timeout");
        assert!(matches!(without_limit.check(), Err(Unhealthy::GuardNotDropped { .. })));
        // The elector's thread hangs, so it does not report that the renewals have ended.
        deadline.lease_lost(clock::now());
        assert_eq!(health.check(), Ok(()), "the lease duration begins");
        std::thread::sleep(2 * lease);
        assert!(matches!(health.check(), Err(Unhealthy::GuardNotDropped { .. })));
    }
}
