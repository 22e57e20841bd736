//! Health, for a liveness probe.

use std::fmt;
use std::time::Duration;

use crate::election::candidate::side::Side;
use crate::election::deadline::Deadline;
use crate::election::stop_reason::StopReason;
use crate::store::{StoreError, StoreErrorKind, StoreOperation};
use crate::util::clock;
use crate::util::clock::Moment;
use crate::util::sync::{Arc, Mutex};

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
#[derive(Debug, Clone)]
pub struct HealthCheck {
    state: Arc<Mutex<HealthState>>,
    lease_duration: Duration,
    /// How long a term may be over before its guard goes.
    drains: Duration,
    /// As client-go judges, if that is asked for.
    tolerance: Option<Duration>,
}

#[derive(Debug, Default)]
struct HealthState {
    /// Of the guard that there is.
    deadline: Option<Arc<Deadline>>,
    /// Since when a term is over whose guard is not dropped, if anybody has noticed.
    ended: Option<Moment>,
    /// Since when nothing is renewed any more while its work winds down.
    cover_lost: Option<Moment>,
    /// When the record was written last that says that we lead: not after another is found there, or the guard is dropped.
    renewed: Option<Moment>,
    /// When the store last told anything of each record.
    contact: Vec<Option<Moment>>,
    /// Why the last read of each record failed, until a read is answered or a watch reports a change.
    failed_reads: Vec<Option<StoreError>>,
    /// Since when writes of each record fail and why the last one did, until a write succeeds.
    failed_writes: Vec<Option<(Moment, StoreError)>>,
    started: Moment,
    panicked: bool,
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
    /// `drains`: how long work may take to end. `records`: how many the elector is about.
    pub(crate) fn new(lease_duration: Duration, drains: Duration, records: usize) -> Self {
        let state = HealthState {
            contact: vec![None; records],
            failed_reads: vec![None; records],
            failed_writes: vec![None; records],
            started: clock::now(),
            ..HealthState::default()
        };
        Self { state: Arc::new(Mutex::new(state)), lease_duration, drains, tolerance: None }
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
        let mut state = self.state.lock();
        if state.panicked {
            return Err(Unhealthy::ElectorPanicked);
        }
        let now = clock::now();
        // It is not left to the elector's thread, which may hang as well.
        if let Some(deadline) = state.deadline.clone().filter(|deadline| !deadline.is_valid(now)) {
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
                if over_for > self.drains || is_uncovered {
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
        let state = self.state.lock();
        let now = clock::now();
        let since = now.since(state.oldest_contact().unwrap_or(state.started));
        if since > max_age {
            return Err(Unhealthy::NoContact { since });
        }
        let failing = state.failed_writes.iter().flatten().map(|(first, error)| (now.since(*first), error.to_string()));
        let mut for_long = failing.filter(|(since, _)| *since > max_age);
        for_long.next().map_or(Ok(()), |(since, error)| Err(Unhealthy::WritesFail { since, error }))
    }

    /// A term has begun.
    pub(crate) fn guard_made(&self, deadline: &Arc<Deadline>) {
        let mut state = self.state.lock();
        (state.deadline, state.ended, state.cover_lost) = (Some(Arc::clone(deadline)), None, None);
        state.renewed = Some(clock::now());
    }

    /// The record says that we lead, by a write that was sent `ago`.
    pub(crate) fn renewed(&self, ago: Duration) {
        let at = clock::now().as_nanos().saturating_sub(u64::try_from(ago.as_nanos()).unwrap_or(u64::MAX));
        let mut state = self.state.lock();
        if state.deadline.is_some() {
            state.renewed = Some(Moment::from_nanos(at));
        }
    }

    /// The record says that another leads, or nobody.
    pub(crate) fn superseded(&self) {
        self.state.lock().renewed = None;
    }

    /// The term has ended. It may be told after its guard is gone: then nobody holds on to it.
    pub(crate) fn term_ended(&self, reason: &StopReason) {
        let mut state = self.state.lock();
        if state.deadline.is_some() {
            state.ended.get_or_insert_with(clock::now);
        }
        if *reason != StopReason::Expired {
            state.renewed = None;
        }
    }

    /// The record of the ended term is not renewed any more, while its work winds down.
    pub(crate) fn cover_lost(&self) {
        let mut state = self.state.lock();
        if state.deadline.is_some() {
            state.cover_lost.get_or_insert_with(clock::now);
        }
    }

    pub(crate) fn guard_gone(&self) {
        let mut state = self.state.lock();
        (state.deadline, state.ended, state.cover_lost, state.renewed) = (None, None, None, None);
    }

    pub(crate) fn thread_panicked(&self) {
        self.state.lock().panicked = true;
    }

    /// The store has told something.
    pub(crate) fn contact(&self, side: Side) {
        self.state.lock().contact[side as usize] = Some(clock::now());
    }

    /// The store has answered a request about a record, or has not.
    pub(crate) fn answered(&self, side: Side, operation: StoreOperation, error: Option<&StoreError>) {
        let is_read = operation == StoreOperation::Get;
        // A store that refuses a write because another write was faster has answered.
        match error.filter(|error| !error.kind().is_beaten()) {
            // This elector interrupted the request.
            Some(error) if error.kind() == StoreErrorKind::Interrupted => {}
            Some(error) if is_read => self.state.lock().failed_reads[side as usize] = Some(error.clone()),
            Some(error) => self.write_failed(side, error),
            None => {
                self.contact(side);
                self.heard(side);
                self.state.lock().failed_writes[side as usize].take_if(|_| !is_read && error.is_none());
            }
        }
    }

    pub(crate) fn write_failed(&self, side: Side, error: &StoreError) {
        let failed = &mut self.state.lock().failed_writes[side as usize];
        failed.get_or_insert_with(|| (clock::now(), error.clone())).1 = error.clone();
    }

    /// A watch has reported a change of a record.
    pub(crate) fn heard(&self, side: Side) {
        self.state.lock().failed_reads[side as usize] = None;
    }

    /// The record names another holder than before, so that a write of some candidate has succeeded. If this candidate may not
    /// write, it still may not.
    pub(crate) fn holder_changed(&self) {
        for failed in &mut self.state.lock().failed_writes {
            failed.take_if(|(_, error)| error.is_transient());
        }
    }

    /// Why the last read failed, or else the last write; and why the last write failed.
    pub(crate) fn last_errors(&self) -> [Option<StoreError>; 2] {
        let state = self.state.lock();
        let write = state.failed_writes.iter().flatten().next().map(|(_, error)| error);
        [state.failed_reads.iter().flatten().next().or(write), write].map(Option::<&StoreError>::cloned)
    }

    pub(crate) fn since_contact(&self) -> Option<Duration> {
        let contact = self.state.lock().oldest_contact()?;
        Some(clock::now().since(contact))
    }
}

impl HealthState {
    /// `None` if there is a record of which nothing was heard yet.
    fn oldest_contact(&self) -> Option<Moment> {
        self.contact.iter().copied().min().flatten()
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
    use crate::election::progress::ProgressLimit;

    /// The end of a term may be told after its guard has gone.
    #[test]
    fn who_has_no_guard_does_not_fail_to_drop_it() {
        let health = HealthCheck::new(Duration::ZERO, Duration::ZERO, 1);
        let check = || {
            std::thread::sleep(Duration::from_millis(1));
            (health.check().is_ok(), health.clone().with_tolerance(Duration::ZERO).check().is_ok())
        };
        let term = |until| Arc::new(Deadline::new(until));
        let for_long = clock::now() + Duration::from_secs(3_600);
        health.guard_made(&term(for_long));
        health.guard_gone();
        health.term_ended(&StopReason::Expired);
        assert_eq!(check(), (true, true));
        health.guard_made(&term(for_long));
        health.term_ended(&StopReason::Expired);
        assert_eq!(check(), (false, false));
        health.superseded();
        assert_eq!(check(), (false, true), "another leads");
        health.guard_made(&term(for_long));
        assert!(check().0, "the next term has begun");
    }

    #[test]
    fn failed_write_is_kept_until_a_write_succeeds() {
        use StoreErrorKind::{Conflict, Forbidden, Interrupted, Malformed, Unavailable};
        use StoreOperation::{Create, Get, Update};
        let health = HealthCheck::new(Duration::ZERO, Duration::ZERO, 2);
        let errors = || health.last_errors().map(|error| error.map(|error| error.kind()));
        let after = |operation, failed: Option<StoreErrorKind>| {
            let error = failed.map(|kind| StoreError::new(kind, "made up"));
            health.answered(Side::Secondary, operation, error.as_ref());
            errors()
        };
        for kind in [Unavailable, Forbidden] {
            assert_eq!(after(Update, Some(kind)), [Some(kind), Some(kind)]);
            assert_eq!(after(Get, Some(Malformed)), [Some(Malformed), Some(kind)]);
            assert_eq!(after(Get, Some(Interrupted)), [Some(Malformed), Some(kind)]);
            assert_eq!(after(Create, Some(Conflict)), [Some(kind), Some(kind)], "the store answers");
            after(Get, Some(Malformed));
            assert_eq!(after(Get, None), [Some(kind), Some(kind)]);
            health.heard(Side::Secondary);
            assert_eq!(errors(), [Some(kind), Some(kind)]);
            health.holder_changed();
            let kept = Some(Forbidden).filter(|_| kind == Forbidden);
            assert_eq!(errors(), [kept, kept], "another candidate may write");
        }
        assert_eq!(after(Create, None), [None, None]);
    }

    /// The elector's threads may hang.
    #[test]
    fn nobody_has_to_tell_that_a_term_has_run_out() {
        let health = HealthCheck::new(Duration::from_millis(20), Duration::from_millis(20), 1);
        let deadline = Arc::new(Deadline::new(clock::now() + Duration::from_millis(20)));
        health.guard_made(&deadline);
        std::thread::sleep(Duration::from_millis(60));
        let over = health.check().unwrap_err();
        assert!(matches!(over, Unhealthy::GuardNotDropped { over_for } if over_for >= Duration::from_millis(20)));
        health.guard_gone();
        assert!(health.check().is_ok());
    }

    #[test]
    fn work_without_progress_is_unhealthy_at_once() {
        let health = HealthCheck::new(Duration::from_secs(3_600), Duration::from_secs(3_600), 1);
        let now = clock::now();
        let limit = Arc::new(ProgressLimit::new(now, Duration::from_millis(1)));
        health.guard_made(&Arc::new(Deadline::new(now + Duration::from_secs(3_600)).limited_by(Some(limit))));
        std::thread::sleep(Duration::from_millis(2));
        assert!(matches!(health.check(), Err(Unhealthy::NoProgress { .. })));
        let as_client_go = health.clone().with_tolerance(Duration::from_secs(3_600));
        assert!(matches!(as_client_go.check(), Err(Unhealthy::NoProgress { .. })));
        health.guard_gone();
        assert!(health.check().is_ok());
    }

    #[test]
    fn work_that_hangs_while_it_winds_down_is_unhealthy_at_once_and_what_is_not_renewed_any_more_after_a_lease() {
        let (lease, for_long) = (Duration::from_millis(20), Duration::from_secs(3_600));
        let health = HealthCheck::new(lease, for_long, 1);
        let stepped_down = |within| {
            let now = clock::now();
            let limit = Arc::new(ProgressLimit::new(now, within));
            let deadline = Arc::new(Deadline::new(now + for_long).limited_by(Some(limit)));
            health.guard_made(&deadline);
            deadline.end(now, StopReason::SteppedDown);
            health.term_ended(&StopReason::SteppedDown);
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
        health.guard_made(&deadline);
        deadline.end(clock::now(), StopReason::Deleted);
        assert!(health.check().is_ok());
        std::thread::sleep(2 * lease);
        assert!(matches!(health.check(), Err(Unhealthy::GuardNotDropped { .. })));

        stepped_down(for_long);
        health.cover_lost();
        assert!(health.check().is_ok());
        std::thread::sleep(2 * lease);
        assert!(matches!(health.check(), Err(Unhealthy::GuardNotDropped { .. })));
        health.guard_gone();
        health.cover_lost();
        assert!(health.check().is_ok());
    }
}
