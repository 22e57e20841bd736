//! The end of a term, and the renewals after the end.
//!
//! This module implements the rules 'Validity', 'Progress' and 'Draining' of `docs/internals/PROTOCOL.md`.

use std::time::Duration;

use super::{Election, Phase};
use crate::election::drain::DrainLimit;
use crate::election::stop_reason::StopReason;
use crate::election::timer::Timer;
use crate::util::clock::Moment;

impl Election {
    /// Ends the term because its holder steps down.
    ///
    /// The election renews the lease until the guard is dropped or the limit `within` has passed.
    pub fn step_down(&mut self, now: Moment, within: Option<Duration>) {
        self.drain(now, StopReason::SteppedDown, within);
    }

    /// Sets whether the candidate is fit.
    ///
    /// While the candidate is unfit, a campaign continues but does not acquire the lease. If the store applies an
    /// earlier write of the campaign, the election releases the record.
    pub fn set_fit(&mut self, now: Moment, is_fit: bool) {
        self.barred = !is_fit;
        if !is_fit {
            self.abandon_attempt();
            self.drain(now, StopReason::Unfit, DrainLimit::Bounded.limit(&self.settings));
        }
        self.confirm_release();
    }

    /// Ends the term, reports the end once, and stops the renewals.
    pub fn end_term(&mut self, now: Moment, reason: StopReason) {
        if let Phase::Leading(term) = &mut self.phase {
            self.events.extend(term.end(now, reason));
        }
    }

    /// Ends the term and reports the end once.
    pub(super) fn drain(&mut self, now: Moment, reason: StopReason, within: Option<Duration>) {
        if let Phase::Leading(term) = &mut self.phase {
            self.events.extend(term.drain(now, reason, within));
        }
    }

    /// Returns `true` if a closed election has waited for `renew_deadline`.
    pub(super) fn close_deadline_passed(&mut self, timer: &mut Timer) -> bool {
        let latest = timer.now() + self.settings.renew_deadline;
        self.closing && timer.is_due(*self.close_deadline.get_or_insert(latest))
    }
}
