//! The pauses after work that failed.

use std::time::Duration;

use crate::util::backoff::Backoff;

/// The first pause after work has failed.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause. After work that has run for this time, the next pause is the first pause again.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The consecutive failures of work.
#[derive(Default)]
pub(crate) struct WorkFailures(Backoff);

impl WorkFailures {
    /// Returns the pause after work that has run for `took` and then failed.
    pub(crate) fn pause(&mut self, took: Duration) -> Duration {
        if took >= LONGEST_PAUSE {
            self.0.reset();
        }
        self.0.pause(FIRST_PAUSE, LONGEST_PAUSE)
    }
}

/// Returns the text of an error and of its causes.
///
/// The texts of many errors, such as those of database clients, contain no cause.
pub(crate) fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let errors = std::iter::successors(Some(error), |error| error.source());
    errors.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{StoreError, StoreErrorKind};

    #[test]
    fn pause_doubles_until_work_has_run_for_a_minute() {
        let mut failures = WorkFailures::default();
        let mut pause = |took| failures.pause(Duration::from_secs(took)).as_secs();
        assert_eq!([0, 0, 0, 59, 0, 0, 0, 0].map(&mut pause), [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!([60, 0].map(pause), [1, 2]);
    }

    #[test]
    fn causes_follow_the_error() {
        let cause = std::io::Error::other("no route");
        let error = StoreError::new(StoreErrorKind::Unavailable, "lost").with_source(cause);
        assert_eq!(with_causes(&error), "lost: no route");
    }
}
