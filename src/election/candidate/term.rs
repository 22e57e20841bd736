//! The term of a candidate: its validity, its draining and its end.
//!
//! This module implements the rules 'Validity', 'Progress' and 'Draining' of `docs/internals/PROTOCOL.md`.

use std::time::Duration;

use super::job::JobAttempt;
use crate::election::deadline::Deadline;
use crate::election::progress::ProgressLimit;
use crate::election::settings::Settings;
use crate::election::stop_reason::StopReason;
use crate::election::timer::Timer;
use crate::util::clock::Moment;
use crate::util::sync::Arc;

/// The term of this candidate, from its winning write until its guard is dropped.
#[derive(Debug)]
pub(super) struct HeldTerm {
    /// The seconds from the winning write to the first request that the term accepts, rounded up.
    accepts_after_seconds: u32,
    deadline: Arc<Deadline>,
    phase: TermPhase,
    /// The attempt of the job for which the term was acquired.
    pub(super) job: Option<JobAttempt>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TermPhase {
    /// The candidate knows of no end. The holder may have ended the deadline, and its step-down or drop may be queued.
    Valid,
    /// The term has ended. The candidate renews the lease until the guard is dropped, at most until this moment.
    Draining(Option<Moment>),
    /// The term has ended, and the candidate no longer renews the lease.
    Lost,
}

/// A change of a term that the candidate reports.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TermEvent {
    /// A write has extended the term.
    Extended,
    /// The term is no longer valid.
    Ended(StopReason),
    /// The renewals of an ended term have stopped while its guard exists. `None` means that the drain limit has passed.
    DrainEnded(Option<StopReason>),
}

impl HeldTerm {
    /// Begins the term that was won by a write which was sent at `sent_at`.
    pub(super) fn begin(sent_at: Moment, accepts_after: Duration, settings: &Settings) -> Self {
        // The progress timeout starts when the winning write is sent.
        let progress = settings.progress_timeout.map(|within| Arc::new(ProgressLimit::new(sent_at, within)));
        Self {
            accepts_after_seconds: accepts_after.as_secs().try_into().unwrap_or(u32::MAX),
            deadline: Arc::new(Deadline::new(sent_at + settings.renew_deadline).limited_by(progress)),
            phase: TermPhase::Valid,
            job: None,
        }
    }

    pub(super) fn deadline(&self) -> &Arc<Deadline> {
        &self.deadline
    }

    /// Returns the time from the winning write to the first request that the term accepts.
    pub(super) fn accepts_after(&self) -> Duration {
        Duration::from_secs(self.accepts_after_seconds.into())
    }

    /// Returns `true` while the result of the job waits for a write.
    pub(super) fn has_unwritten_result(&self) -> bool {
        self.job.as_ref().is_some_and(|attempt| attempt.record_by().is_some())
    }

    /// Returns `true` while the candidate renews the lease.
    pub(super) fn renews(&self) -> bool {
        self.phase != TermPhase::Lost
    }

    pub(super) fn is_valid(&self, now: Moment) -> bool {
        self.deadline.is_valid(now)
    }

    /// Extends the term by an applied write, which the candidate sent a renew deadline before `valid_until`.
    pub(super) fn renewed(&mut self, now: Moment, valid_until: Moment) -> Option<TermEvent> {
        let is_extended = self.deadline.extend(now, valid_until);
        if self.deadline.was_ended_early() {
            // The term drains, or will drain once its step-down arrives.
            self.deadline.lease_renewed(valid_until);
            return None;
        }
        match self.phase {
            TermPhase::Valid if is_extended => Some(TermEvent::Extended),
            TermPhase::Valid => self.end(now, StopReason::Expired),
            TermPhase::Draining(_) | TermPhase::Lost => None,
        }
    }

    /// Ends the term or its renewals if its time is over. Otherwise registers the end.
    ///
    /// The renewals have reached `renewed_until`.
    pub(super) fn check(&mut self, timer: &mut Timer, renewed_until: Moment) -> Option<TermEvent> {
        if !self.renews() {
            return None;
        }
        let now = timer.now();
        let is_unrenewed = timer.is_due(renewed_until);
        let is_stalled = self.deadline.progress_limit().is_some_and(|limit| timer.is_due(limit.until()));
        let is_drained = matches!(self.phase, TermPhase::Draining(Some(until)) if timer.is_due(until));
        match self.phase {
            TermPhase::Valid if !self.deadline.is_valid(now) && !self.deadline.was_ended_early() => {
                self.end(now, StopReason::Expired)
            }
            // No renewal succeeded within the renew deadline, so the renewals end, even before a queued step-down arrives.
            _ if is_unrenewed => self.end(now, StopReason::Expired),
            // The progress limit also applies while the term drains.
            _ if is_stalled => self.end(now, StopReason::NoProgress),
            _ if is_drained => {
                self.phase = TermPhase::Lost;
                Some(TermEvent::DrainEnded(None))
            }
            _ => None,
        }
    }

    /// Ends the term and stops the renewals.
    pub(super) fn end(&mut self, now: Moment, reason: StopReason) -> Option<TermEvent> {
        let event = match self.phase {
            // A term that has expired or was ended by its holder keeps its reason.
            TermPhase::Valid => Some(TermEvent::Ended(self.deadline.end(now, reason))),
            TermPhase::Draining(_) if reason != StopReason::Released => Some(TermEvent::DrainEnded(Some(reason))),
            TermPhase::Draining(_) | TermPhase::Lost => None,
        };
        if self.deadline.was_ended_early() {
            self.deadline.lease_lost(now);
        }
        self.phase = TermPhase::Lost;
        event
    }

    /// Ends the term.
    ///
    /// Unless the reason forbids renewals, the candidate renews the lease until the guard is dropped or the earliest limit
    /// has passed.
    pub(super) fn drain(&mut self, now: Moment, reason: StopReason, within: Option<Duration>) -> Option<TermEvent> {
        let until = within.map(|within| now + within);
        match &mut self.phase {
            TermPhase::Valid => {
                let final_reason = self.deadline.end(now, reason.clone());
                // If the holder has stepped down first, its step-down will arrive with its own limit.
                let until = until.filter(|_| final_reason == reason);
                self.phase = if final_reason.drains() { TermPhase::Draining(until) } else { TermPhase::Lost };
                return Some(TermEvent::Ended(final_reason));
            }
            // A candidate that becomes unfit while draining keeps the limit of the drain.
            TermPhase::Draining(_) if reason == StopReason::Unfit => {}
            TermPhase::Draining(before) => *before = before.iter().copied().chain(until).min(),
            TermPhase::Lost => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::settings::Config;
    use StopReason::{Deleted, Expired, IdentityConflict, NoProgress, Released, SteppedDown, Unfit};
    use TermEvent::{DrainEnded, Ended, Extended};

    const fn at(seconds: u64) -> Moment {
        Moment::from_nanos((1_000 + seconds) * 1_000_000_000)
    }

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Returns a term whose winning write was sent at 0 s. The renew deadline is 10 s.
    fn term(progress_timeout: Option<Duration>) -> HeldTerm {
        let settings = Config { progress_timeout, ..Config::default() }.validate().unwrap();
        HeldTerm::begin(at(0), secs(3), &settings)
    }

    /// Checks a term that was not renewed, at `now`.
    fn check(term: &mut HeldTerm, now: Moment) -> Option<TermEvent> {
        term.check(&mut Timer::new(now, at(999)), at(10))
    }

    #[test]
    fn term_ends_to_the_moment_and_once() {
        // The progress timeout, the drain limit of a step-down at 1 s, the second of the end, and the event.
        for (progress, drain, second, expected) in [
            (None, None, 10, Ended(Expired)),
            (Some(secs(4)), None, 4, Ended(NoProgress)),
            (Some(secs(10)), None, 10, Ended(NoProgress)),
            (None, Some(None), 10, DrainEnded(Some(Expired))),
            (None, Some(Some(secs(5))), 6, DrainEnded(None)),
            (Some(secs(4)), Some(Some(secs(5))), 4, DrainEnded(Some(NoProgress))),
        ] {
            let case = format!("{progress:?} {drain:?}");
            let mut term = term(progress);
            if let Some(within) = drain {
                assert_eq!(term.drain(at(1), SteppedDown, within), Some(Ended(SteppedDown)), "{case}");
            }
            let mut timer = Timer::new(at(2), at(999));
            assert!(term.check(&mut timer, at(10)).is_none() && term.renews(), "{case}");
            assert_eq!(timer.wake(), at(second), "{case}");
            assert_eq!(check(&mut term, at(second)), Some(expected), "{case}");
            assert!(!term.renews() && !term.is_valid(at(2)), "{case}");
            assert_eq!(check(&mut term, at(60)), None, "{case}");
            assert_eq!(term.end(at(60), Released), None, "{case}");
        }
    }

    #[test]
    fn each_further_end_of_a_draining_term_has_its_effect() {
        type End = fn(&mut HeldTerm) -> Option<TermEvent>;
        // The next end of a term that drains without a limit, its event, and the second at which the drain ends.
        let rows: [(&str, End, Option<TermEvent>, Option<u64>); 6] = [
            ("a limit", |term| term.drain(at(2), SteppedDown, Some(secs(3))), None, Some(5)),
            ("no limit", |term| term.drain(at(2), SteppedDown, None), None, Some(10)),
            ("unfit", |term| term.drain(at(2), Unfit, Some(secs(1))), None, Some(10)),
            ("forbidden", |term| term.end(at(2), IdentityConflict), Some(DrainEnded(Some(IdentityConflict))), None),
            ("deleted", |term| term.end(at(2), Deleted), Some(DrainEnded(Some(Deleted))), None),
            ("the drop of the guard", |term| term.end(at(2), Released), None, None),
        ];
        for (case, end, expected, drained_at) in rows {
            let mut term = term(None);
            assert_eq!(term.drain(at(1), SteppedDown, None), Some(Ended(SteppedDown)), "{case}");
            assert_eq!(end(&mut term), expected, "{case}");
            assert_eq!(term.renews(), drained_at.is_some(), "{case}");
            let mut timer = Timer::new(at(2), at(999));
            term.check(&mut timer, at(10));
            assert_eq!(timer.wake(), at(drained_at.unwrap_or(999)), "{case}");
            assert_eq!(term.deadline().reason(), SteppedDown, "{case}: the first reason stays");
        }
        // A shorter limit counts, and a longer limit does not.
        let mut term = term(None);
        term.drain(at(1), SteppedDown, Some(secs(4)));
        term.drain(at(2), SteppedDown, Some(secs(60)));
        assert_eq!(check(&mut term, at(5)), Some(DrainEnded(None)), "the first limit");
        // A reason that forbids renewals leaves nothing to drain.
        let mut term = self::term(None);
        assert_eq!(term.drain(at(1), Deleted, Some(secs(4))), Some(Ended(Deleted)));
        assert!(!term.renews());
    }

    #[test]
    fn renewal_extends_a_valid_term_and_keeps_a_drain() {
        let mut term = term(None);
        assert_eq!((term.renewed(at(3), at(12)), term.is_valid(at(11))), (Some(Extended), true));
        term.drain(at(3), SteppedDown, None);
        assert_eq!((term.renewed(at(5), at(14)), term.is_valid(at(5))), (None, false), "draining");
        // The holder has ended the term, and its step-down is not handled yet.
        let mut ended = self::term(None);
        ended.deadline().end(at(1), SteppedDown);
        assert_eq!(ended.renewed(at(3), at(12)), None, "ended by the holder");
        assert!(ended.renews() && ended.check(&mut Timer::new(at(11), at(999)), at(12)).is_none());
        // The renewal was answered after the expiry.
        let mut late = self::term(None);
        assert_eq!(late.renewed(at(10), at(18)), Some(Ended(Expired)), "late");
        assert!(!late.renews());
    }
}
