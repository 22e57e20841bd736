//! The reads of a standby that keep a connection to a distant server open.
//!
//! Opening a connection takes several round trips, and a takeover would wait for them.

use std::time::Duration;

use super::{Election, Step};
use crate::util::clock::Moment;

/// The time before a takeover in which no read starts, because the takeover would wait for the answer.
const CLEARANCE: Duration = Duration::from_secs(1);

/// The longest round trip to a server that is not distant.
///
/// If the round trip is shorter, the connection opened slowly for another reason, such as a busy processor.
const NEAR: Duration = Duration::from_millis(5);

impl Election {
    /// Notes the idle time after which the connection must be used again to stay open.
    pub fn cools(&mut self, now: Moment, after: Option<Duration>) {
        self.schedule.cools = after.map(|after| (after, now + after));
    }

    /// Waits in a campaign until `until`, and meanwhile reads when a read is due or keeps the connection open.
    pub(super) fn stand_by(&mut self, now: Moment, until: Moment) -> Step {
        let clearance = CLEARANCE.max(self.round_trip.answered_by());
        let not_before = now.max(self.schedule.read_at).max(self.schedule.paused_until);
        let warms = self.schedule.cools.filter(|_| self.round_trip.smoothed > NEAR);
        let warms = warms.map(|(after, at)| (after, at.max(not_before))).filter(|(_, at)| *at + clearance < until);
        match warms {
            Some((after, at)) if at <= now => {
                // A failed read is not repeated before its time.
                self.schedule.cools = Some((after, now + after));
                self.read(now)
            }
            _ => self.read_when_due(now, warms.map_or(until, |(_, at)| at)),
        }
    }
}
