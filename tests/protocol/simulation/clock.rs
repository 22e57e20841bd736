//! True time, and the clocks by which the nodes measure it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold::util::clock::{Moment, Now};

/// True time in nanoseconds since the start of the world.
///
/// No node can read true time.
pub type Nanos = u64;

pub const MILLI: Nanos = 1_000_000;
pub const SECOND: Nanos = 1_000 * MILLI;

/// The clocks of one node.
///
/// The local clock has its own offset and rate. The wall clock may be set at any time.
pub struct NodeClock {
    /// The reading of the local clock at `since`.
    offset: u64,
    /// The true time at which the current rate started.
    since: Nanos,
    /// Local nanoseconds per true second.
    rate: u64,
    jumped_at: Option<Nanos>,
    /// The reading of the wall clock at the start of the world, in microseconds since 1970.
    wall: u64,
    wall_stands_still: bool,
}

impl NodeClock {
    pub fn new(random: &mut fastrand::Rng, rate: u64) -> Self {
        Self {
            offset: random.u64(10 * SECOND..1_000_000 * SECOND),
            since: 0,
            rate,
            jumped_at: None,
            wall: 1_700_000_000_000_000,
            wall_stands_still: random.u8(..8) == 0,
        }
    }

    pub fn now(&self, truth: Nanos) -> Now {
        let passed = if self.wall_stands_still { 0 } else { truth / 1_000 };
        let wall: SystemTime = UNIX_EPOCH + Duration::from_micros(self.wall + passed);
        Now { local: self.local(truth), wall }
    }

    pub fn local(&self, truth: Nanos) -> Moment {
        let passed = u128::from(truth.saturating_sub(self.since)) * u128::from(self.rate) / u128::from(SECOND);
        Moment::from_nanos(self.offset + passed as u64)
    }

    /// Returns the first true time at which the local clock shows `local` or more.
    pub fn when(&self, local: Moment) -> Nanos {
        let passed = u128::from(local.as_nanos().saturating_sub(self.offset));
        let after = u64::try_from((passed * u128::from(SECOND)).div_ceil(u128::from(self.rate))).unwrap_or(Nanos::MAX);
        self.since.saturating_add(after)
    }

    /// Changes the rate from now on, and returns `true` if the change is permitted.
    ///
    /// The rate cannot change within `longest` after a jump, where `longest` is the longest time that any node waits.
    /// Within that time, a jump and a change of the rate would together exceed the promise.
    pub fn set_rate(&mut self, truth: Nanos, rate: u64, longest: Nanos) -> bool {
        let may = self.jumped_at.is_none_or(|at| truth - at > longest);
        if may {
            self.offset = self.local(truth).as_nanos();
            self.since = truth;
            self.rate = rate;
        }
        may
    }

    /// Moves the local clock forward by `by`, and returns `true` if the jump is permitted.
    ///
    /// The promise covers a jump if the clock has had the slowest rate for `longest`. The jump must not exceed the time
    /// that the fastest clock gains meanwhile.
    pub fn jump(&mut self, truth: Nanos, by: Nanos, longest: Nanos) -> bool {
        let may = self.rate == SECOND && truth - self.since > longest;
        if may {
            self.offset = self.local(truth).as_nanos() + by;
            self.since = truth;
            self.jumped_at = Some(truth);
        }
        may
    }

    /// Returns `true` if the local clock has jumped at `since` or later.
    pub fn jumped_after(&self, since: Nanos) -> bool {
        self.jumped_at.is_some_and(|at| at >= since)
    }

    /// Sets the wall clock, mostly to an earlier time.
    pub fn set_wall(&mut self, random: &mut fastrand::Rng) {
        let by = random.u64(..3_600_000_000);
        self.wall = 1_700_000_000_000_000;
        self.wall = if random.u8(..4) == 0 { self.wall + by } else { self.wall - by };
    }
}
