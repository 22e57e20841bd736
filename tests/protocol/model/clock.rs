//! A candidate's clock, which converts the world's ticks at a rate of its own.

use std::time::{Duration, UNIX_EPOCH};

use leasehold::util::clock::{Moment, Now};

/// The local time at the first tick, in nanoseconds.
///
/// No later reading is near zero, because a deadline uses the smallest values to mark a term as over.
const ORIGIN: u64 = 1_000_000_000_000;

#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// Local nanoseconds per tick.
    pub rate: u64,
}

impl Clock {
    pub fn local(self, tick: u8) -> Moment {
        Moment::from_nanos(ORIGIN + u64::from(tick) * self.rate)
    }

    pub fn now(self, tick: u8) -> Now {
        // The wall clock advances faster than every local clock. So no timestamp of an earlier tick affects
        // timestamps of this tick.
        let wall = UNIX_EPOCH + Duration::from_secs(1_700_000_000 + 10 * u64::from(tick));
        Now { local: self.local(tick), wall }
    }

    /// Returns the first tick at which the local clock shows `nanos` or more.
    ///
    /// Nothing happens between ticks, so a comparison with the clock cannot distinguish two moments of the same tick.
    pub fn tick_of(self, nanos: u64) -> u64 {
        nanos.saturating_sub(ORIGIN).div_ceil(self.rate)
    }
}
