//! The end of a term, and the renewals after the end.
//!
//! This module implements the rules 'Validity', 'Progress' and 'Draining' of `docs/internals/PROTOCOL.md`.

use std::time::Duration;

use super::messages::ElectionEvent;
use super::progress::ProgressLimit;
use super::{Election, Phase, TermPhase};
use crate::election::drain::DrainLimit;
use crate::election::stop_reason::StopReason;
use crate::election::timer::Timer;
use crate::util::clock::Moment;
use crate::util::sync::Arc;

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

    /// Sets the limit of the time without progress for the current term.
    pub fn limit_progress(&mut self, limit: Arc<ProgressLimit>) {
        if let Phase::Leading(term) = &mut self.phase {
            term.progress = Some(limit);
        }
    }

    pub(super) fn notice_expiry(&mut self, timer: &mut Timer) {
        let Phase::Leading(term) = &mut self.phase else { return };
        if term.phase == TermPhase::Lost {
            return;
        }
        let now = timer.now();
        let is_uncovered = timer.is_due(term.covered_until);
        let is_stalled = term.progress.as_ref().is_some_and(|limit| timer.is_due(limit.until()));
        let is_drained = matches!(term.phase, TermPhase::Draining(Some(until)) if timer.is_due(until));
        match term.phase {
            TermPhase::Valid if !term.deadline.is_valid(now) && !term.deadline.was_ended() => {
                self.end_term(now, StopReason::Expired);
            }
            // No renewal succeeded within the renew deadline, so the renewals end. If the phase is still `Valid`, the
            // holder has ended the term and the step-down is queued.
            _ if is_uncovered => self.end_term(now, StopReason::Expired),
            // The progress limit also applies while the term drains.
            _ if is_stalled => self.end_term(now, StopReason::NoProgress),
            _ if is_drained => {
                term.phase = TermPhase::Lost;
                self.events.push_back(ElectionEvent::CoverLost(None));
            }
            _ => {}
        }
    }

    /// Ends the term, reports the end once, and stops the renewals.
    pub fn end_term(&mut self, now: Moment, reason: StopReason) {
        let Phase::Leading(term) = &mut self.phase else { return };
        match term.phase {
            TermPhase::Valid => {
                // A term that has expired or was ended by its holder keeps its reason.
                let final_reason = term.deadline.end(now, reason);
                self.events.push_back(ElectionEvent::TermEnded(final_reason));
            }
            TermPhase::Draining(_) if reason != StopReason::Released => {
                self.events.push_back(ElectionEvent::CoverLost(Some(reason)));
            }
            TermPhase::Draining(_) | TermPhase::Lost => {}
        }
        if term.deadline.was_ended() {
            term.deadline.keep_no_longer();
        }
        term.phase = TermPhase::Lost;
    }

    /// Ends the term and reports the end once.
    ///
    /// Unless the reason forbids renewals, the election renews the lease until the guard is dropped or the earliest
    /// limit has passed.
    pub(super) fn drain(&mut self, now: Moment, reason: StopReason, within: Option<Duration>) {
        let Phase::Leading(term) = &mut self.phase else { return };
        let until = within.map(|within| now + within);
        match &mut term.phase {
            TermPhase::Valid => {
                let final_reason = term.deadline.end(now, reason.clone());
                let drains = final_reason.drains();
                // If the holder has stepped down first, the queued step-down brings its own limit.
                let until = until.filter(|_| final_reason == reason);
                term.phase = if drains { TermPhase::Draining(until) } else { TermPhase::Lost };
                self.events.push_back(ElectionEvent::TermEnded(final_reason));
            }
            // A candidate that becomes unfit while draining keeps the limit of the drain.
            TermPhase::Draining(_) if reason == StopReason::Unfit => {}
            TermPhase::Draining(before) => *before = before.iter().copied().chain(until).min(),
            TermPhase::Lost => {}
        }
    }

    /// Returns `true` if a closed election has waited for `renew_deadline`.
    pub(super) fn close_deadline_passed(&mut self, timer: &mut Timer) -> bool {
        let latest = timer.now() + self.settings.renew_deadline;
        self.closing && timer.is_due(*self.close_deadline.get_or_insert(latest))
    }
}
