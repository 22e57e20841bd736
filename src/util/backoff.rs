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

#[cfg(test)]
mod tests {
    use super::*;

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
