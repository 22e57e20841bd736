//! The levels of log lines about repeated failures, which limit the number of warnings.

use std::time::Duration;

use log::Level;

use crate::store::StoreErrorKind;
use crate::util::clock::Moment;

/// The shortest time between two warnings about one kind of failure. Failures in between are logged at `debug`.
const SELDOM: Duration = Duration::from_secs(60);

/// The state of the log lines about a repeated failure.
#[derive(Debug, Default)]
pub(crate) struct FailureLog {
    /// The kind of the last failure, until a success.
    fails: Option<StoreErrorKind>,
    /// `true` if the failure was logged at `warn` and the recovery was not logged yet.
    is_announced: bool,
    /// The time of the last line at `warn` about each kind.
    warned_at: Vec<(StoreErrorKind, Moment)>,
    failed_at: Option<Moment>,
}

/// A recovery after a failure.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Recovery {
    /// The level of the line about the recovery.
    pub(crate) level: Level,
    /// The kind of the last failure, and the time since then.
    pub(crate) failed: StoreErrorKind,
    pub(crate) ago: Duration,
}

impl FailureLog {
    /// Notes a failure.
    ///
    /// Returns the level of its line, or `None` if the failure has been logged.
    pub(crate) fn failed(&mut self, now: Moment, kind: StoreErrorKind) -> Option<Level> {
        self.failed_at = Some(now);
        let is_known = self.fails.replace(kind) == Some(kind);
        // Another kind has another cause, so the limit applies to each kind alone.
        if self.warned_at.iter().any(|(warned, at)| *warned == kind && now.since(*at) < SELDOM) {
            return (!is_known).then_some(Level::Debug);
        }
        self.warned_at.retain(|(warned, _)| *warned != kind);
        self.warned_at.push((kind, now));
        self.is_announced = true;
        Some(Level::Warn)
    }

    /// Notes a single event.
    ///
    /// Returns the level of its line, which is `warn` at most once a minute.
    pub(crate) fn happened(&mut self, now: Moment) -> Level {
        self.recovered(now);
        self.failed(now, StoreErrorKind::Conflict).unwrap_or(Level::Debug)
    }

    /// Notes a success.
    ///
    /// Returns the recovery, or `None` if there was no failure.
    pub(crate) fn recovered(&mut self, now: Moment) -> Option<Recovery> {
        let failed = self.fails.take()?;
        // After a warning, the recovery is logged at `info`, even if the kind of the failure has changed since the
        // warning.
        let level = if std::mem::take(&mut self.is_announced) { Level::Info } else { Level::Debug };
        Some(Recovery { level, failed, ago: self.failed_at.map_or(Duration::ZERO, |at| now.since(at)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(1_000_000_000 * (1_000 + seconds))
    }

    #[test]
    fn lasting_failure_is_logged_each_minute() {
        let mut log = FailureLog::default();
        assert_eq!(log.recovered(at(0)), None, "nothing has failed");
        for began in [0, 5_000] {
            for second in 0..2_000 {
                let is_logged = second % 60 == 0;
                let level = log.failed(at(began + second), StoreErrorKind::Unavailable);
                assert_eq!(level, is_logged.then_some(Level::Warn), "{second}");
            }
            let (level, failed, ago) = (Level::Info, StoreErrorKind::Unavailable, Duration::from_secs(61));
            assert_eq!(log.recovered(at(began + 2_060)), Some(Recovery { level, failed, ago }));
            assert_eq!(log.recovered(at(began + 2_060)), None);
        }
    }

    #[test]
    fn each_kind_is_logged_at_warn_once_a_minute() {
        use StoreErrorKind::{Forbidden, Unauthorized, Unavailable};
        let mut log = FailureLog::default();
        // A server is unreachable at first, returns 403 during its start, and then refuses the token.
        for (second, kind, level) in [
            (0, Unavailable, Some(Level::Warn)),
            (1, Unavailable, None),
            (20, Forbidden, Some(Level::Warn)),
            (21, Unavailable, Some(Level::Debug)),
            (22, Forbidden, Some(Level::Debug)),
            (23, Unauthorized, Some(Level::Warn)),
            (60, Unavailable, Some(Level::Warn)),
            (61, Unauthorized, Some(Level::Debug)),
        ] {
            assert_eq!(log.failed(at(second), kind), level, "second {second}");
        }
        let recovery = log.recovered(at(62)).expect("it has failed");
        assert_eq!((recovery.level, recovery.failed), (Level::Info, Unauthorized));
        assert_eq!(log.failed(at(63), Unauthorized), Some(Level::Debug), "a recovery does not reset the limit");
        assert_eq!(log.recovered(at(63)).map(|recovery| recovery.level), Some(Level::Debug));
    }

    #[test]
    fn intermittent_failure_is_logged_once_a_minute() {
        let mut log = FailureLog::default();
        let mut lines = 0;
        for second in 0..600 {
            // The operation fails in even seconds, for one of two reasons, and succeeds in odd seconds.
            let kind = if second % 3 == 0 { StoreErrorKind::Timeout } else { StoreErrorKind::Unavailable };
            let level = if second % 2 == 0 {
                log.failed(at(second), kind)
            } else {
                log.recovered(at(second)).map(|recovery| recovery.level)
            };
            lines += usize::from(level.is_some_and(|level| level <= Level::Info));
        }
        assert!((36..=40).contains(&lines), "two lines a minute for each reason: {lines}");
    }

    #[test]
    fn lasting_failure_is_raised_from_debug_to_warn() {
        let mut log = FailureLog::default();
        log.failed(at(0), StoreErrorKind::Timeout);
        log.recovered(at(0));
        assert_eq!(log.failed(at(1), StoreErrorKind::Timeout), Some(Level::Debug));
        assert_eq!(log.failed(at(59), StoreErrorKind::Timeout), None);
        assert_eq!(log.failed(at(60), StoreErrorKind::Timeout), Some(Level::Warn));
        assert_eq!(log.failed(at(61), StoreErrorKind::Timeout), None);
        assert_eq!(log.failed(at(700), StoreErrorKind::Timeout), Some(Level::Warn));
    }
}
