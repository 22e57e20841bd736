//! Health, for a liveness probe.

use std::fmt;
use std::time::Duration;

use crate::election::settings::Settings;
use crate::election::stop_reason::StopReason;
use crate::observe::observations::Observations;
use crate::util::clock;
use crate::util::sync::Arc;

/// Tells when work goes on for too long after its term ended: the guard is still there although the term has been over
/// for longer than a lease (or than [`drain_timeout`](crate::LeaderElectorBuilder::drain_timeout), if that is set and longer), or at once where it ended because the work made no progress. And when the elector's thread has
/// panicked, so that this process never leads again. It judges by the term itself, also when the elector's threads hang.
///
/// Such a process holds on to what it should have released. Answer a liveness probe with it, and the process is restarted.
/// [`with_tolerance`](Self::with_tolerance) judges as client-go's `HealthzAdaptor` does. May be cloned and asked from any thread.
///
/// # Examples
///
/// ```no_run
/// # use leasehold::LeaderElector;
/// let elector = LeaderElector::builder("jobs").start()?;
/// let health = elector.health_check();
/// let status = match health.check() {
///     Ok(()) => "200 OK",
///     Err(unhealthy) => { log::error!("{unhealthy}"); "500 Internal Server Error" }
/// };
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone)]
pub struct HealthCheck {
    observations: Arc<Observations>,
    lease_duration: Duration,
    /// How long a term may be over before its guard goes.
    drain_limit: Duration,
    /// As client-go judges, if that is asked for.
    tolerance: Option<Duration>,
}

/// What is wrong with a process: but for [`NoContact`](Self::NoContact), why it should be restarted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unhealthy {
    /// A term has been over for too long while its guard was not dropped.
    GuardNotDropped {
        /// How long the term has been over.
        over_for: Duration,
    },
    /// The work of a term, or of one that is over, has made no progress for longer than it may, and the guard was not dropped: that
    /// work hangs.
    NoProgress {
        /// How long that has been overdue.
        over_for: Duration,
    },
    /// We lead by the record, and have not renewed it: see [`HealthCheck::with_tolerance`].
    NotRenewed {
        /// How long ago it was renewed.
        since: Duration,
    },
    /// The store has told nothing: see [`HealthCheck::check_contact`].
    NoContact {
        /// The time since the last contact, or since the start if there was none.
        since: Duration,
    },
    /// The store answers reads, and every write fails: see [`HealthCheck::check_contact`].
    WritesFail {
        /// The time since the first failed write.
        since: Duration,
        /// Why the last write failed.
        error: String,
    },
    /// The elector's thread has panicked in a [`Store`](crate::Store), and no longer campaigns.
    ElectorPanicked,
}

impl HealthCheck {
    pub(crate) fn new(observations: Arc<Observations>, settings: &Settings) -> Self {
        let drain_limit = settings.lease_duration.max(settings.drain_timeout.unwrap_or_default());
        Self { observations, lease_duration: settings.lease_duration, drain_limit, tolerance: None }
    }

    /// One that judges as client-go's `HealthzAdaptor` does: unhealthy when this candidate leads by the record, and has
    /// not renewed it for the lease duration and `tolerance` more. And when a term ended because its work made no progress, or the
    /// elector's thread has panicked; but not when winding down takes for ever.
    ///
    /// A term here is over before that, at its renew deadline; what this finds is that its guard is still there, and that
    /// nobody has taken over since, as far as is known.
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

    /// Whether the process is healthy, by the rule above. Without I/O.
    ///
    /// # Errors
    ///
    /// [`Unhealthy`] when a term has been over for longer than the lease duration and its guard is not dropped (or as
    /// [`with_tolerance`](Self::with_tolerance) says), when it ended because its work made no progress, or when the elector's thread has panicked.
    pub fn check(&self) -> Result<(), Unhealthy> {
        let mut state = self.observations.0.lock();
        if state.panicked {
            return Err(Unhealthy::ElectorPanicked);
        }
        let now = clock::now();
        // It is not left to the elector's thread, which may hang as well.
        if let Some(term) = state.guarded.clone().filter(|term| !term.deadline.is_valid(now)) {
            let deadline = &term.deadline;
            let over_since = if deadline.was_ended() { now } else { deadline.runs_out_at() };
            let over_since = *state.ended.get_or_insert(over_since);
            if !deadline.reason().drains() {
                state.cover_lost.get_or_insert(over_since);
            }
            // Winding down is work, too.
            let stalled_at = deadline.progress_limit().map(|limit| limit.until()).filter(|until| *until <= now);
            if deadline.reason() == StopReason::NoProgress || stalled_at.is_some() {
                return Err(Unhealthy::NoProgress { over_for: now.since(stalled_at.unwrap_or(over_since)) });
            }
        }
        match (self.tolerance, state.ended, state.renewed) {
            (None, Some(ended), _) => {
                let over_for = now.since(ended);
                let is_uncovered = state.cover_lost.is_some_and(|at| now.since(at) > self.lease_duration);
                if over_for > self.drain_limit || is_uncovered {
                    Err(Unhealthy::GuardNotDropped { over_for })
                } else {
                    Ok(())
                }
            }
            (Some(tolerance), _, Some(renewed)) => {
                let (since, most) = (now.since(renewed), self.lease_duration.saturating_add(tolerance));
                if since > most { Err(Unhealthy::NotRenewed { since }) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }

    /// Whether the store (of two, each) has told this elector anything within `max_age`: answered a request, otherwise than by a refusal or an
    /// error of its own, or sent something on a watch. If writes fail, they must not have failed for longer than `max_age`.
    ///
    /// Before the first contact it counts from the start. A leader asks for something each renew interval. A standby that watches a lease that nobody holds hears of it when the
    /// API server sends a bookmark, about once a minute: allow three minutes or more. A store that says nothing while nothing
    /// changes, such as [`MemoryStore`](crate::MemoryStore), is silent for as long as nobody leads: this is not for them.
    ///
    /// Use it for an alert, not for a liveness probe: a restart does not bring a store back.
    ///
    /// # Errors
    ///
    /// - Returns [`Unhealthy::NoContact`] if the store has been silent for longer than `max_age`.
    /// - Returns [`Unhealthy::WritesFail`] if writes have failed for longer than `max_age`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use leasehold::LeaderElector;
    ///
    /// let elector = LeaderElector::builder("jobs").start()?;
    /// assert!(elector.health_check().check_contact(Duration::from_secs(180)).is_ok());
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn check_contact(&self, max_age: Duration) -> Result<(), Unhealthy> {
        let state = self.observations.0.lock();
        let now = clock::now();
        let since = now.since(state.oldest_contact().unwrap_or(state.started));
        if since > max_age {
            return Err(Unhealthy::NoContact { since });
        }
        let failing = state.failed_writes.iter().flatten().map(|(first, error)| (now.since(*first), error.to_string()));
        let mut for_long = failing.filter(|(since, _)| *since > max_age);
        for_long.next().map_or(Ok(()), |(since, error)| Err(Unhealthy::WritesFail { since, error }))
    }
}

impl fmt::Debug for HealthCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HealthCheck").field("tolerance", &self.tolerance).finish_non_exhaustive()
    }
}

impl fmt::Display for Unhealthy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GuardNotDropped { over_for } => write!(
                f,
                "the term has been over for {} and its guard is not dropped: protected work does not end",
                in_millis(*over_for)
            ),
            Self::NoProgress { over_for } => write!(
                f,
                "its work should have made progress {} ago, and the guard is not dropped: it hangs",
                in_millis(*over_for)
            ),
            Self::NotRenewed { since } => {
                write!(f, "the lease was renewed {} ago, and its guard is not dropped", in_millis(*since))
            }
            Self::NoContact { since } => write!(f, "the store has told nothing for {}", in_millis(*since)),
            Self::WritesFail { since, error } => write!(f, "writes have failed for {}: {error}", in_millis(*since)),
            Self::ElectorPanicked => f.write_str("the elector's thread has panicked, and campaigns no more"),
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
    use crate::election::deadline::Deadline;
    use crate::election::progress::ProgressLimit;
    use crate::election::settings::Config;
    use crate::leadership::term::Term;
    use crate::observe::observer::Fact;

    /// Creates a health check of one record, and what it judges by.
    fn health(lease_duration: Duration, drain_timeout: Duration) -> (Arc<Observations>, HealthCheck) {
        let settings = Config::default().validate().unwrap();
        let settings = Settings { lease_duration, drain_timeout: Some(drain_timeout), ..settings };
        let observations = Arc::new(Observations::new(&settings, 1));
        (Arc::clone(&observations), HealthCheck::new(observations, &settings))
    }

    fn started(deadline: &Arc<Deadline>) -> Fact {
        Fact::StartedLeading(Arc::new(Term::new(Arc::clone(deadline), 7)))
    }

    /// The end of a term may be told after its guard has gone.
    #[test]
    fn process_without_a_guard_is_not_late_to_drop_one() {
        let (observations, health) = health(Duration::ZERO, Duration::ZERO);
        let check = || {
            std::thread::sleep(Duration::from_millis(1));
            (health.check().is_ok(), health.clone().with_tolerance(Duration::ZERO).check().is_ok())
        };
        let term = |until| Arc::new(Deadline::new(until));
        let for_long = clock::now() + Duration::from_secs(3_600);
        observations.note(&started(&term(for_long)));
        observations.guard_gone();
        observations.note(&Fact::StoppedLeading(StopReason::Expired));
        assert_eq!(check(), (true, true));
        observations.note(&started(&term(for_long)));
        observations.note(&Fact::StoppedLeading(StopReason::Expired));
        assert_eq!(check(), (false, false));
        observations.leader(None, None, "me");
        assert_eq!(check(), (false, true), "another leads");
        observations.note(&started(&term(for_long)));
        assert!(check().0, "the next term has begun");
    }

    /// The elector's threads may hang.
    #[test]
    fn expired_term_needs_no_report() {
        let (observations, health) = health(Duration::from_millis(20), Duration::from_millis(20));
        let deadline = Arc::new(Deadline::new(clock::now() + Duration::from_millis(20)));
        observations.note(&started(&deadline));
        std::thread::sleep(Duration::from_millis(60));
        let over = health.check().unwrap_err();
        assert!(matches!(over, Unhealthy::GuardNotDropped { over_for } if over_for >= Duration::from_millis(20)));
        observations.guard_gone();
        assert!(health.check().is_ok());
    }

    #[test]
    fn work_without_progress_is_unhealthy_at_once() {
        let (observations, health) = health(Duration::from_secs(3_600), Duration::from_secs(3_600));
        let now = clock::now();
        let limit = Arc::new(ProgressLimit::new(now, Duration::from_millis(1)));
        let deadline = Deadline::new(now + Duration::from_secs(3_600)).limited_by(Some(limit));
        observations.note(&started(&Arc::new(deadline)));
        std::thread::sleep(Duration::from_millis(2));
        assert!(matches!(health.check(), Err(Unhealthy::NoProgress { .. })));
        let as_client_go = health.clone().with_tolerance(Duration::from_secs(3_600));
        assert!(matches!(as_client_go.check(), Err(Unhealthy::NoProgress { .. })));
        observations.guard_gone();
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
            observations.note(&started(&deadline));
            deadline.end(now, StopReason::SteppedDown);
            observations.note(&Fact::StoppedLeading(StopReason::SteppedDown));
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
        assert!(!deadline.progress(clock::now(), clock::now()));

        // Others may lead by now, however long winding down may take.
        let deadline = Arc::new(Deadline::new(clock::now() + for_long));
        observations.note(&started(&deadline));
        deadline.end(clock::now(), StopReason::Deleted);
        assert!(health.check().is_ok());
        std::thread::sleep(2 * lease);
        assert!(matches!(health.check(), Err(Unhealthy::GuardNotDropped { .. })));

        stepped_down(for_long);
        observations.cover_lost();
        assert!(health.check().is_ok());
        std::thread::sleep(2 * lease);
        assert!(matches!(health.check(), Err(Unhealthy::GuardNotDropped { .. })));
        observations.guard_gone();
        observations.cover_lost();
        assert!(health.check().is_ok());
    }
}
