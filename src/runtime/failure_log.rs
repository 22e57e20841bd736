//! Which failures are worth a line: each change of what fails, but not twice a minute what comes and goes.

use std::time::Duration;

use log::Level;

use crate::clock::Moment;
use crate::store::StoreErrorKind;

/// What comes and goes more often is told at `debug`.
const SELDOM: Duration = Duration::from_secs(60);

/// What goes on to fail is told again: whoever reads a log reads its last hour.
const REMINDED: Duration = Duration::from_secs(600);

/// What was last logged of something that may fail again and again.
#[derive(Debug, Default)]
pub(crate) struct FailureLog {
    fails: Option<(StoreErrorKind, Level)>,
    /// Whether the last that was told at `warn` is that it fails.
    is_announced: bool,
    /// When it was last told at `warn` that it fails.
    told_at: Option<Moment>,
    failed_at: Option<Moment>,
}

/// What has failed works again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Works {
    /// At which that is told.
    pub(crate) level: Level,
    /// Of what it failed last, and how long ago.
    pub(crate) failed: StoreErrorKind,
    pub(crate) ago: Duration,
}

impl FailureLog {
    /// At which level to tell that it fails; `None` if that has been told.
    pub(crate) fn failed(&mut self, now: Moment, kind: StoreErrorKind) -> Option<Level> {
        self.failed_at = Some(now);
        let is_seldom = self.told_at.is_none_or(|at| now.since(at) >= SELDOM);
        let level = if is_seldom { Level::Warn } else { Level::Debug };
        let is_long_ago = self.told_at.is_some_and(|at| now.since(at) >= REMINDED);
        match self.fails {
            // What was told at `debug`, and goes on, is to be told at `warn` at last.
            Some((fails, told)) if fails == kind && !is_long_ago && (told == Level::Warn || level == Level::Debug) => {
                return None;
            }
            _ => {}
        }
        self.fails = Some((kind, level));
        if level == Level::Warn {
            self.told_at = Some(now);
            self.is_announced = true;
        }
        Some(level)
    }

    /// That it works again; `None` if it has not failed.
    pub(crate) fn works(&mut self, now: Moment) -> Option<Works> {
        let (failed, _) = self.fails.take()?;
        // A line that it fails is not left standing, also when it went on to fail for another reason.
        let level = if std::mem::take(&mut self.is_announced) { Level::Info } else { Level::Debug };
        Some(Works { level, failed, ago: self.failed_at.map_or(Duration::ZERO, |at| now.since(at)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(1_000_000_000 * (1_000 + seconds))
    }

    #[test]
    fn what_goes_on_is_told_each_ten_minutes_and_what_ends_once_more() {
        let mut log = FailureLog::default();
        assert_eq!(log.works(at(0)), None, "nothing has failed");
        for second in 0..1_000 {
            let told = (second % 600 == 0).then_some(Level::Warn);
            assert_eq!(log.failed(at(second), StoreErrorKind::Unavailable), told, "{second}");
        }
        let (level, failed, ago) = (Level::Info, StoreErrorKind::Unavailable, Duration::from_secs(61));
        assert_eq!(log.works(at(1_060)), Some(Works { level, failed, ago }));
        assert_eq!(log.works(at(1_060)), None);
    }

    #[test]
    fn what_was_told_aloud_ends_aloud_though_the_reason_has_changed() {
        let mut log = FailureLog::default();
        // A server that was away, and says 403 while it starts.
        assert_eq!(log.failed(at(0), StoreErrorKind::Unavailable), Some(Level::Warn));
        assert_eq!(log.failed(at(20), StoreErrorKind::Forbidden), Some(Level::Debug));
        let works = log.works(at(20)).expect("it has failed");
        assert_eq!((works.level, works.failed), (Level::Info, StoreErrorKind::Forbidden));
        assert_eq!(log.failed(at(21), StoreErrorKind::Unavailable), Some(Level::Debug));
        assert_eq!(log.works(at(21)).map(|works| works.level), Some(Level::Debug));
    }

    #[test]
    fn what_comes_and_goes_is_told_once_a_minute() {
        let mut log = FailureLog::default();
        let mut lines = 0;
        for second in 0..600 {
            // Every other second it works, and it does not always fail for one reason.
            let kind = if second % 3 == 0 { StoreErrorKind::Timeout } else { StoreErrorKind::Unavailable };
            let told = if second % 2 == 0 {
                log.failed(at(second), kind)
            } else {
                log.works(at(second)).map(|works| works.level)
            };
            lines += usize::from(told.is_some_and(|level| level <= Level::Info));
        }
        assert!((18..=20).contains(&lines), "two lines a minute: {lines}");
    }

    #[test]
    fn what_was_told_in_a_low_voice_and_goes_on_is_told_aloud() {
        let mut log = FailureLog::default();
        log.failed(at(0), StoreErrorKind::Timeout);
        log.works(at(0));
        assert_eq!(log.failed(at(1), StoreErrorKind::Timeout), Some(Level::Debug));
        assert_eq!(log.failed(at(59), StoreErrorKind::Timeout), None);
        assert_eq!(log.failed(at(60), StoreErrorKind::Timeout), Some(Level::Warn));
        assert_eq!(log.failed(at(61), StoreErrorKind::Timeout), None);
    }
}
