//! The reads of a standby that keep a connection to a distant server open.
//!
//! Opening a connection takes several round trips, and a takeover would wait for them.

use std::time::Duration;

use super::{Election, StoreRequest};
use crate::election::timer::Timer;
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

    /// Returns a read of a waiting candidate if a read is due, or if a read must keep the connection open.
    ///
    /// `takeover_at` is the time of the next write, if it is known.
    pub(super) fn stand_by(&mut self, timer: &mut Timer, takeover_at: Option<Moment>) -> Option<StoreRequest> {
        let clearance = CLEARANCE.max(self.round_trip.answered_by());
        let until = takeover_at.unwrap_or(timer.now() + self.settings.renew_deadline);
        let not_before = timer.now().max(self.schedule.read_at).max(self.schedule.paused_until);
        let cools = self.schedule.cools.filter(|_| self.round_trip.smoothed > NEAR);
        if let Some((after, at)) = cools
            && at.max(not_before) + clearance < until
            && timer.is_due(at.max(not_before))
        {
            // A failed read is not repeated before its time.
            self.schedule.cools = Some((after, timer.now() + after));
            return Some(self.read(timer.now()));
        }
        self.read_when_due(timer)
    }
}
