//! The failures of requests: their log lines, and the failures that end a campaign.

use std::time::Duration;

use log::Level;

use crate::election::candidate::failure_log::FailureLog;
use crate::election::candidate::notice::Notice;
use crate::store::{StoreError, StoreErrorKind, StoreOperation};
use crate::util::clock::Moment;

/// The failures of all operations of a candidate.
#[derive(Debug)]
pub struct Failures {
    renew_deadline: Duration,
    operations: [FailureTracker; StoreOperation::ALL.len()],
    /// The last failure without a later success.
    last: Option<StoreError>,
    /// The last failure since the last renewal.
    unrenewed: Option<Box<StoreError>>,
}

/// The consequences of an outcome.
#[derive(Debug, Default)]
pub struct Failed {
    pub(crate) notice: Option<Notice>,
    /// `true` if the failure is permanent and ends a campaign.
    pub(crate) is_permanent: bool,
    /// The last conflict, if the operation has only met conflicts for three renew deadlines.
    pub(crate) refused: Option<StoreError>,
}

/// The failures of one operation.
#[derive(Debug, Default)]
struct FailureTracker {
    ever_succeeded: bool,
    /// The time for which permanent failures have repeated.
    permanent: Persistence,
    /// The time for which conflicts have repeated.
    refused: Persistence,
    log: FailureLog,
    /// `true` while the operation is repeated because its connection was closed.
    closed: bool,
    is_failing: bool,
}

/// The first and the last time of a repeated event.
#[derive(Debug, Default)]
struct Persistence(Option<(Moment, Moment)>);

impl Persistence {
    /// Notes an event.
    ///
    /// Returns how long the event has repeated without a gap of `pause` or more.
    fn note(&mut self, now: Moment, pause: Duration) -> Duration {
        let persisting = self.0.filter(|(_, last)| now.since(*last) < pause);
        let since = persisting.map_or(now, |(since, _)| since);
        self.0 = Some((since, now));
        now.since(since)
    }
}

impl Failures {
    pub(crate) fn new(renew_deadline: Duration) -> Self {
        Self { renew_deadline, operations: Default::default(), last: None, unrenewed: None }
    }

    /// Notes the outcome of a request.
    pub(crate) fn answered(&mut self, now: Moment, operation: StoreOperation, error: Option<&StoreError>) -> Failed {
        match error {
            Some(error) => {
                if error.kind() != StoreErrorKind::Interrupted {
                    self.unrenewed = Some(Box::new(error.clone()));
                }
                self.failed(now, operation, error)
            }
            None => Failed { notice: self.succeeded(now, operation), ..Failed::default() },
        }
    }

    /// Returns the last failure without a later success, once.
    pub(super) fn take_last(&mut self) -> Option<StoreError> {
        self.last.take()
    }

    /// Returns the last failure since the last renewal, and counts from now on.
    pub(super) fn take_unrenewed(&mut self) -> Option<Box<StoreError>> {
        self.unrenewed.take()
    }

    /// Notes that a request succeeded, and returns the notice of a recovery.
    fn succeeded(&mut self, now: Moment, operation: StoreOperation) -> Option<Notice> {
        self.last = None;
        let tracker = &mut self.operations[operation as usize];
        let log = std::mem::take(&mut tracker.log);
        *tracker = FailureTracker { ever_succeeded: true, log, ..FailureTracker::default() };
        tracker.log.recovered(now).map(|recovery| Notice::of_recovery(operation.name(), &recovery))
    }

    /// Notes a failure.
    fn failed(&mut self, now: Moment, operation: StoreOperation, error: &StoreError) -> Failed {
        use StoreErrorKind::{ConnectionClosed, Interrupted};
        let name = operation.name();
        let tracker = &mut self.operations[operation as usize];
        // Servers and load balancers may close a connection at any time. The first such failure is no warning, because
        // the election repeats the operation at once.
        let is_repeated = error.kind() == ConnectionClosed && !std::mem::replace(&mut tracker.closed, true);
        let is_conflict = error.kind().is_conflict();
        if is_conflict {
            tracker.is_failing = false;
        }
        if is_repeated || is_conflict || error.kind() == Interrupted {
            // A candidate that loses races also meets conflicts, but not for three renew deadlines without a success.
            let is_refused = is_conflict && tracker.refused.note(now, self.renew_deadline) >= self.renew_deadline * 3;
            let level = is_refused.then(|| tracker.log.failed(now, error.kind())).flatten();
            let text = format!("{name} keeps conflicting, another client or a proxy may interfere");
            let notice = match level {
                Some(level) => Notice::of_error(level, text, error),
                None => Notice::new(Level::Debug, format!("{name} failed: {error}")),
            };
            let refused = is_refused.then(|| error.clone());
            return Failed { notice: Some(notice), is_permanent: false, refused };
        }
        let level = tracker.log.failed(now, error.kind());
        let notice = level.map(|level| Notice::of_error(level, format_args!("{name} failed, retrying"), error));
        self.last = Some(error.clone());
        tracker.is_failing = true;
        if error.is_transient() || tracker.ever_succeeded {
            tracker.permanent = Persistence::default();
            return Failed { notice, ..Failed::default() };
        }
        // A restarting API server may briefly return 403 to an authorized user, and a pod may start before its
        // RoleBinding exists. A failure is therefore permanent only after a renew deadline of failures.
        let lasts = tracker.permanent.note(now, self.renew_deadline);
        let is_permanent = lasts >= self.renew_deadline;
        Failed { notice, is_permanent, refused: None }
    }

    /// Returns `true` if the last request with this operation failed.
    ///
    /// A lost race, an interruption and the first closed connection are no failures.
    pub(crate) fn is_failing(&self, operation: StoreOperation) -> bool {
        self.operations[operation as usize].is_failing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RENEW_DEADLINE: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos((1_000 + seconds) * 1_000_000_000)
    }

    fn error(kind: StoreErrorKind) -> StoreError {
        StoreError::new(kind, "made up")
    }

    #[test]
    fn repeated_conflict_is_logged_and_a_lost_race_is_not() {
        let told = |every| {
            let mut failures = Failures::new(RENEW_DEADLINE);
            let is_aloud = |failed: Failed| failed.notice.is_some_and(|notice| notice.level == Level::Warn);
            (0..600).step_by(every).find(|second| {
                is_aloud(failures.failed(at(*second), StoreOperation::Update, &error(StoreErrorKind::Conflict)))
            })
        };
        assert_eq!(told(2), Some(30));
        assert_eq!(told(11), None, "once in more than a renew deadline");
    }

    #[test]
    fn each_outcome_sets_the_level_of_its_notice_and_the_state() {
        use StoreErrorKind::{Conflict, ConnectionClosed, Interrupted, Timeout, Unavailable};
        let mut failures = Failures::new(RENEW_DEADLINE);
        // The second, the outcome of an update (`None` for a success), the level of its notice, and whether the update
        // then fails.
        for (second, outcome, level, is_failing) in [
            (0, Some(ConnectionClosed), Some(Level::Debug), false),
            (1, Some(ConnectionClosed), Some(Level::Warn), true),
            (100, None, Some(Level::Info), false),
            (200, Some(ConnectionClosed), Some(Level::Debug), false),
            (201, Some(Timeout), Some(Level::Warn), true),
            (300, Some(Interrupted), Some(Level::Debug), true),
            (301, Some(Conflict), Some(Level::Debug), false),
            (302, Some(Unavailable), Some(Level::Warn), true),
            (303, Some(Unavailable), None, true),
            (400, None, Some(Level::Info), false),
        ] {
            let notice = match outcome {
                Some(kind) => failures.failed(at(second), StoreOperation::Update, &error(kind)).notice,
                None => failures.succeeded(at(second), StoreOperation::Update),
            };
            assert_eq!(notice.map(|notice| notice.level), level, "second {second}");
            assert_eq!(failures.is_failing(StoreOperation::Update), is_failing, "second {second}");
        }
        // A success at second 430 restarts the count of conflicts.
        let told = (410..600).step_by(2).find(|second| {
            if *second == 430 {
                failures.succeeded(at(*second), StoreOperation::Update);
                return false;
            }
            let failed = failures.failed(at(*second), StoreOperation::Update, &error(Conflict));
            failed.notice.is_some_and(|notice| notice.level == Level::Warn)
        });
        assert_eq!(told, Some(462));
    }

    #[test]
    fn failure_is_permanent_after_a_renew_deadline() {
        let mut failures = Failures::new(RENEW_DEADLINE);
        let mut is_permanent =
            |second, kind| failures.failed(at(second), StoreOperation::Get, &error(kind)).is_permanent;
        assert!((0..10).all(|second| !is_permanent(second, StoreErrorKind::Forbidden)));
        assert!(is_permanent(10, StoreErrorKind::Forbidden));
        // A transient failure, or a pause of one renew deadline, resets the counter.
        assert!(!is_permanent(11, StoreErrorKind::Unavailable));
        assert!((12..22).all(|second| !is_permanent(second, StoreErrorKind::Forbidden)));
        assert!(is_permanent(22, StoreErrorKind::Forbidden));
        assert!(!is_permanent(32, StoreErrorKind::Forbidden));
    }

    #[test]
    fn failure_after_a_success_is_never_permanent() {
        let mut failures = Failures::new(RENEW_DEADLINE);
        failures.succeeded(at(0), StoreOperation::Get);
        let forbidden = error(StoreErrorKind::Forbidden);
        assert!((0..100).all(|second| !failures.failed(at(second), StoreOperation::Get, &forbidden).is_permanent));
        assert!(
            (0..100).any(|second| failures.failed(at(second), StoreOperation::Update, &forbidden).is_permanent),
            "each by itself"
        );
    }

    #[test]
    fn round_ends_with_the_last_failure_after_a_success() {
        let mut failures = Failures::new(RENEW_DEADLINE);
        failures.failed(at(0), StoreOperation::Get, &error(StoreErrorKind::Unavailable));
        failures.failed(at(1), StoreOperation::Get, &error(StoreErrorKind::Conflict));
        assert_eq!(failures.last.take().map(|error| error.kind()), Some(StoreErrorKind::Unavailable));
        failures.failed(at(2), StoreOperation::Get, &error(StoreErrorKind::Timeout));
        failures.succeeded(at(3), StoreOperation::Update);
        assert!(failures.last.take().is_none());
    }
}
