//! How a term ends, and for how long its record is renewed after that: the rules 'Validity', 'Progress' and 'Winding down'.

use std::time::Duration;

use super::messages::ElectionEvent;
use super::progress::ProgressLimit;
use super::{CurrentTerm, Election, Phase, TermPhase};
use crate::election::drain::DrainLimit;
use crate::election::stop_reason::StopReason;
use crate::util::clock::Moment;
use crate::util::sync::Arc;

impl CurrentTerm {
    /// When it has to be noticed that what covers it has run out, that its work makes no progress, that it has wound down.
    pub(super) fn noticed_at(&self) -> [Option<Moment>; 3] {
        let wound_down = match self.phase {
            TermPhase::Valid => None,
            TermPhase::Draining(until) => until,
            TermPhase::Lost => return [None; 3],
        };
        [Some(self.covered_until), self.progress.as_ref().map(|limit| limit.until()), wound_down]
    }
}

impl Election {
    /// The holder ends the validity of the term. The record stays ours, and renewed, until the guard goes, or for so long.
    pub fn step_down(&mut self, now: Moment, within: Option<Duration>) {
        self.drain(now, StopReason::SteppedDown, within);
    }

    /// Whether this candidate is fit to lead. While it is not nothing is acquired: what lands all the same is released, and the
    /// campaign goes on.
    pub fn set_fit(&mut self, now: Moment, is_fit: bool) {
        self.barred = !is_fit;
        if !is_fit {
            self.abandon_attempt();
            self.drain(now, StopReason::Unfit, DrainLimit::Bounded.limit(&self.settings));
        }
        self.confirm_release();
    }

    /// From now on the term's work has to make progress, as this says.
    pub fn limit_progress(&mut self, limit: Arc<ProgressLimit>) {
        if let Phase::Leading(term) = &mut self.phase {
            term.progress = Some(limit);
        }
    }

    pub(super) fn notice_expiry(&mut self, now: Moment) {
        let Phase::Leading(term) = &mut self.phase else { return };
        let is_stalled = term.progress.as_ref().is_some_and(|limit| limit.until() <= now);
        match term.phase {
            TermPhase::Valid if !term.deadline.is_valid(now) && !term.deadline.was_ended() => {
                self.end_term(now, StopReason::Expired);
            }
            // What covered the winding down has run out: nothing is left to renew. That may come before the word of a
            // holder that ended its term and was held up.
            TermPhase::Valid | TermPhase::Draining(_) if now >= term.covered_until => {
                self.end_term(now, StopReason::Expired);
            }
            // Winding down is work, too.
            TermPhase::Valid | TermPhase::Draining(_) if is_stalled => self.end_term(now, StopReason::NoProgress),
            TermPhase::Draining(Some(until)) if now >= until => {
                term.phase = TermPhase::Lost;
                self.events.push_back(ElectionEvent::CoverLost(None));
            }
            _ => {}
        }
    }

    /// Ends the term's validity, once, and tells so. It is not renewed any more.
    pub fn end_term(&mut self, now: Moment, reason: StopReason) {
        let Phase::Leading(term) = &mut self.phase else { return };
        match term.phase {
            TermPhase::Valid => {
                // Whatever came later, a term that had run out by then, or that its holder had ended, ended by that.
                let final_reason = term.deadline.end(now, reason);
                self.events.push_back(ElectionEvent::TermEnded(final_reason));
            }
            TermPhase::Draining(_) if reason != StopReason::Released => {
                self.events.push_back(ElectionEvent::CoverLost(Some(reason)));
            }
            TermPhase::Draining(_) | TermPhase::Lost => {}
        }
        term.phase = TermPhase::Lost;
    }

    /// Ends the term's validity, once, and tells so. It is renewed until its guard goes, or for so long, unless something forbids
    /// that; of several limits the first to come counts.
    fn drain(&mut self, now: Moment, reason: StopReason, within: Option<Duration>) {
        let Phase::Leading(term) = &mut self.phase else { return };
        let until = within.map(|within| now + within);
        match &mut term.phase {
            TermPhase::Valid => {
                let final_reason = term.deadline.end(now, reason.clone());
                let drains = final_reason.drains();
                // Of a step-down of which the word is on its way, that says for how long.
                let until = until.filter(|_| final_reason == reason);
                term.phase = if drains { TermPhase::Draining(until) } else { TermPhase::Lost };
                self.events.push_back(ElectionEvent::TermEnded(final_reason));
            }
            // Who has stepped down may become unfit by that.
            TermPhase::Draining(_) if reason == StopReason::Unfit => {}
            TermPhase::Draining(before) => *before = before.iter().copied().chain(until).min(),
            TermPhase::Lost => {}
        }
    }

    /// Returns `true` if a closed election has waited for `renew_deadline`.
    pub(super) fn close_deadline_passed(&mut self, now: Moment) -> bool {
        let renew_deadline = self.settings.renew_deadline;
        self.closing && now >= *self.close_deadline.get_or_insert(now + renew_deadline)
    }
}
