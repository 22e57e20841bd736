//! Pauses between consecutive failures.

use std::time::Duration;

/// The largest number of doublings, which turns a pause of one nanosecond into two seconds.
const MOST_DOUBLINGS: u32 = 31;

/// Pauses that double from a first pause up to a longest pause. Callers add jitter.
#[derive(Debug, Clone, Default)]
pub struct Backoff {
    doublings: u32,
}

impl Backoff {
    /// Returns the pause after another failure.
    pub fn pause(&mut self, first: Duration, longest: Duration) -> Duration {
        let pause = first.saturating_mul(1 << self.doublings).min(longest);
        self.doublings = (self.doublings + 1).min(MOST_DOUBLINGS);
        pause
    }

    /// Restarts with the first pause.
    pub fn reset(&mut self) {
        self.doublings = 0;
    }

    /// Returns `true` if the next pause is the first pause.
    pub fn is_reset(&self) -> bool {
        self.doublings == 0
    }
}

/// Returns the pause that a server asks for, at most `longest`, plus up to 20 % jitter.
///
/// A server that is overloaded for a moment may ask for an hour. The jitter keeps clients that got the same answer from
/// returning at the same time. `random` is a number from 0 to 1.
pub fn requested_pause(asked: Option<Duration>, longest: Duration, random: f64) -> Duration {
    asked.map_or(Duration::ZERO, |asked| asked.min(longest).mul_f64(1.0 + 0.2 * random))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requested_pause_is_limited_and_only_lengthened() {
        let secs = Duration::from_secs;
        assert_eq!(requested_pause(None, secs(15), 1.0), Duration::ZERO);
        for (asked, random, pause) in [(10, 0.0, 10), (10, 1.0, 12), (15, 1.0, 18), (3_600, 0.0, 15), (3_600, 1.0, 18)]
        {
            assert_eq!(requested_pause(Some(secs(asked)), secs(15), random), secs(pause), "{asked} s");
        }
        assert_eq!(requested_pause(Some(Duration::MAX), secs(15), 0.5), secs(15).mul_f64(1.1));
    }

    #[test]
    fn pause_doubles_up_to_the_longest_until_a_reset() {
        let secs = Duration::from_secs;
        let mut backoff = Backoff::default();
        let mut pauses = || (0..100).map(|_| backoff.pause(secs(2), secs(60)).as_secs()).collect::<Vec<_>>();
        assert_eq!(pauses()[..7], [2, 4, 8, 16, 32, 60, 60]);
        assert!(pauses().iter().all(|pause| *pause == 60) && !backoff.is_reset());
        backoff.reset();
        assert!(backoff.is_reset());
        assert_eq!(backoff.pause(Duration::MAX, Duration::MAX), Duration::MAX);
        assert_eq!(backoff.pause(Duration::MAX, Duration::MAX), Duration::MAX);
    }
}
