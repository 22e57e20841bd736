//! Servers that ask for long pauses.

use crate::clock::{Nanos, SECOND};
use crate::plan::{Odds, Plan};

/// The longest pause that an overloaded server asks for.
const LONGEST: Nanos = 2 * 3_600 * SECOND;

impl Odds {
    /// Lets servers ask for pauses of hours. Returns the longest time that a candidate keeps such a pause.
    pub fn with_long_pauses(&mut self, longest_lease: Nanos) -> Nanos {
        self.longest_pause = LONGEST;
        longest_lease * 6 / 5
    }
}

impl Plan {
    /// Lets servers ask for pauses of hours in a quarter of the plans.
    pub fn with_pauses(mut self, random: &mut fastrand::Rng) -> Self {
        if random.u8(..4) == 0 && self.odds.error > 0 {
            let kept = self.odds.with_long_pauses(self.longest);
            self.pauses_end = self.heal_at + kept + SECOND;
            self.lead_by += kept;
        }
        self
    }
}
