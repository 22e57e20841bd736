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
}

/// Returns the pause that a server asks for, at most `longest`, plus up to 20 % jitter.
///
/// A server that is overloaded for a moment may ask for an hour. The jitter keeps clients that got the same answer from
/// returning at the same time. `random` is a number from 0 to 1.
pub fn requested_pause(asked: Option<Duration>, longest: Duration, random: f64) -> Duration {
    asked.map_or(Duration::ZERO, |asked| asked.min(longest).mul_f64(1.0 + 0.2 * random))
}
