//! A candidate's clock: it shows a tick of the world as its own rate has it.

use std::time::{Duration, UNIX_EPOCH};

use leasehold::util::clock::{Moment, Now};

/// No reading is near the values that stand for a term that is over.
const ORIGIN: u64 = 1_000_000_000_000;

#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// Local nanoseconds in a tick.
    pub rate: u64,
}

impl Clock {
    pub fn local(self, tick: u8) -> Moment {
        Moment::from_nanos(ORIGIN + u64::from(tick) * self.rate)
    }

    pub fn now(self, tick: u8) -> Now {
        // Ahead of every local clock, so that what was written in earlier ticks never decides what is written in this one.
        let wall = UNIX_EPOCH + Duration::from_secs(1_700_000_000 + 10 * u64::from(tick));
        Now { local: self.local(tick), wall }
    }

    /// The first tick at which the local clock shows `nanos` or more: nothing happens between ticks, so moments of the same
    /// tick are one moment to whoever compares them with a reading.
    pub fn tick_of(self, nanos: u64) -> u64 {
        nanos.saturating_sub(ORIGIN).div_ceil(self.rate)
    }
}
