//! True time, and how a node sees it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold::util::clock::{Moment, Now};

/// True time, in nanoseconds since the world began. No node can read it.
pub type Nanos = u64;

pub const MILLI: Nanos = 1_000_000;
pub const SECOND: Nanos = 1_000 * MILLI;

/// A node's clocks: a local one with an offset and a rate of its own, and a wall clock that anybody may set.
pub struct NodeClock {
    /// What the local clock shows at the true instant since which it has had its rate.
    offset: u64,
    since: Nanos,
    /// Local nanoseconds in a true second.
    rate: u64,
    jumped_at: Option<Nanos>,
    /// What the wall clock shows at the beginning, in microseconds since 1970.
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

    /// The first true instant at which the local clock has reached `local`.
    pub fn when(&self, local: Moment) -> Nanos {
        let passed = u128::from(local.as_nanos().saturating_sub(self.offset));
        let after = u64::try_from((passed * u128::from(SECOND)).div_ceil(u128::from(self.rate))).unwrap_or(Nanos::MAX);
        self.since.saturating_add(after)
    }

    /// From now on it has another rate: it warms up, or is disciplined. Not soon after a jump: over `longest`, the longest
    /// that anybody waits, the two together would be more than is promised.
    pub fn set_rate(&mut self, truth: Nanos, rate: u64, longest: Nanos) -> bool {
        let may = self.jumped_at.is_none_or(|at| truth - at > longest);
        if may {
            self.offset = self.local(truth).as_nanos();
            self.since = truth;
            self.rate = rate;
        }
        may
    }

    /// It goes on so much later. The promise covers that where the clock has been the slowest for `longest`, and by as much
    /// as the fastest one gains in that.
    pub fn jump(&mut self, truth: Nanos, by: Nanos, longest: Nanos) -> bool {
        let may = self.rate == SECOND && truth - self.since > longest;
        if may {
            self.offset = self.local(truth).as_nanos() + by;
            self.since = truth;
            self.jumped_at = Some(truth);
        }
        may
    }

    /// Somebody sets the wall clock, mostly back.
    pub fn set_wall(&mut self, random: &mut fastrand::Rng) {
        let by = random.u64(..3_600_000_000);
        self.wall = 1_700_000_000_000_000;
        self.wall = if random.u8(..4) == 0 { self.wall + by } else { self.wall - by };
    }
}
