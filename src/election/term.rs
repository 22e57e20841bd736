//! The term of a candidate: its validity, its renewals, its draining and its end.
//!
//! This module implements the rules 'Validity', 'Progress' and 'Draining' of `docs/internals/PROTOCOL.md`.

use std::time::Duration;

use super::messages::ElectionEvent;
use super::timer::Timer;
use crate::election::deadline::Deadline;
use crate::election::progress::ProgressLimit;
use crate::election::settings::Settings;
use crate::election::stop_reason::StopReason;
use crate::store::record::{LeaderElectionRecord, MicroTime};
use crate::util::clock::Moment;
use crate::util::sync::Arc;

/// The term of this candidate, from its winning write until its guard is dropped.
#[derive(Debug)]
pub(super) struct HeldTerm {
    acquisition: u64,
    acquire_time: MicroTime,
    transitions: i32,
    /// The seconds from the winning write to the first request that the term accepts, rounded up.
    accepts_after_seconds: u32,
    deadline: Arc<Deadline>,
    /// The send time of the newest applied write, plus the renew deadline.
    renewed_until: Moment,
    renew_at: Moment,
    /// The number of renewals that were sent since the last applied write.
    attempts: u32,
    phase: TermPhase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TermPhase {
    Valid,
    /// The term has ended. The candidate renews the lease until the guard is dropped, at most until this moment.
    Draining(Option<Moment>),
    /// The term has ended, and the candidate no longer renews the lease.
    Lost,
}

impl HeldTerm {
    /// Begins the term that the acquisition `acquisition`, which was sent at `sent_at`, has won with `record`.
    pub(super) fn begin(
        acquisition: u64,
        sent_at: Moment,
        record: &LeaderElectionRecord,
        accepts_after: Duration,
        settings: &Settings,
    ) -> Self {
        let renewed_until = sent_at + settings.renew_deadline;
        // The progress timeout starts when the winning write is sent.
        let progress = settings.progress_timeout.map(|within| Arc::new(ProgressLimit::new(sent_at, within)));
        Self {
            acquisition,
            acquire_time: record.acquire_time.clone().unwrap_or_else(|| MicroTime::from_unix_micros(0)),
            transitions: record.lease_transitions.unwrap_or(0),
            accepts_after_seconds: accepts_after.as_secs().try_into().unwrap_or(u32::MAX),
            deadline: Arc::new(Deadline::new(renewed_until).limited_by(progress)),
            renewed_until,
            renew_at: sent_at + settings.renew_interval,
            attempts: 0,
            phase: TermPhase::Valid,
        }
    }

    pub(super) fn deadline(&self) -> &Arc<Deadline> {
        &self.deadline
    }

    /// Returns the acquisition whose writes renew the term, or `None` if the term is no longer renewed.
    pub(super) fn acquisition(&self) -> Option<u64> {
        self.renews().then_some(self.acquisition)
    }

    /// Returns the `acquireTime` and the transitions, which a renewal keeps (rule 5).
    pub(super) fn renewed_fields(&self) -> (MicroTime, i32) {
        (self.acquire_time.clone(), self.transitions)
    }

    /// Returns the time from the winning write to the first request that the term accepts.
    pub(super) fn accepts_after(&self) -> Duration {
        Duration::from_secs(self.accepts_after_seconds.into())
    }

    /// Returns `true` while the candidate renews the lease.
    pub(super) fn renews(&self) -> bool {
        self.phase != TermPhase::Lost
    }

    /// Returns the end of the validity that the renewals have reached, while the candidate renews the lease.
    pub(super) fn renewed_until(&self) -> Option<Moment> {
        self.renews().then_some(self.renewed_until)
    }

    /// Returns the time of the next renewal.
    pub(super) fn renew_at(&self) -> Moment {
        self.renew_at
    }

    /// Returns `true` if the renewal under way is the first since the last applied write.
    pub(super) fn is_first_attempt(&self) -> bool {
        self.attempts == 1
    }

    pub(super) fn is_valid(&self, now: Moment) -> bool {
        self.deadline.is_valid(now)
    }

    /// Notes that a renewal is sent. A third attempt in a row waits until `third_at`.
    ///
    /// After a conflict with an edit of other fields, the second attempt follows at once.
    pub(super) fn renewal_sent(&mut self, third_at: Moment) {
        self.attempts += 1;
        if self.attempts > 1 {
            self.renew_at = third_at;
        }
    }

    /// Plans the next attempt after a renewal that failed.
    ///
    /// Returns `false` if the term is no longer renewed.
    pub(super) fn retry_at(&mut self, at: Moment) -> bool {
        if self.renews() {
            self.renew_at = at;
        }
        self.renews()
    }

    /// Allows one immediate attempt with the time of a first attempt, because the connection of the last one was lost.
    pub(super) fn repeat_renewal(&mut self, now: Moment) {
        if self.renews() {
            (self.renew_at, self.attempts) = (now, 0);
        }
    }

    /// Extends the term by an applied write that was sent at `sent_at`.
    pub(super) fn renewed(&mut self, now: Moment, sent_at: Moment, settings: &Settings) -> Option<ElectionEvent> {
        let valid_until = sent_at + settings.renew_deadline;
        self.renewed_until = self.renewed_until.max(valid_until);
        self.renew_at = sent_at + settings.renew_interval;
        self.attempts = 0;
        if self.deadline.was_ended() {
            self.deadline.keep(valid_until);
        }
        // If the holder has ended the term, the queued step-down will report the end. An expired term ends now.
        let is_extended = self.deadline.extend(now, valid_until) || self.deadline.was_ended();
        match (self.phase, is_extended) {
            (TermPhase::Valid, true) if !self.deadline.was_ended() => Some(ElectionEvent::Renewed { sent_at }),
            (TermPhase::Valid, false) => self.end(now, StopReason::Expired),
            _ => None,
        }
    }

    /// Ends the term or its renewals if its time is over. Otherwise registers the end.
    pub(super) fn check(&mut self, timer: &mut Timer) -> Option<ElectionEvent> {
        if !self.renews() {
            return None;
        }
        let now = timer.now();
        let is_unrenewed = timer.is_due(self.renewed_until);
        let is_stalled = self.deadline.progress_limit().is_some_and(|limit| timer.is_due(limit.until()));
        let is_drained = matches!(self.phase, TermPhase::Draining(Some(until)) if timer.is_due(until));
        match self.phase {
            TermPhase::Valid if !self.deadline.is_valid(now) && !self.deadline.was_ended() => {
                self.end(now, StopReason::Expired)
            }
            // No renewal succeeded within the renew deadline, so the renewals end. If the phase is still `Valid`, the
            // holder has ended the term and the step-down is queued.
            _ if is_unrenewed => self.end(now, StopReason::Expired),
            // The progress limit also applies while the term drains.
            _ if is_stalled => self.end(now, StopReason::NoProgress),
            _ if is_drained => {
                self.phase = TermPhase::Lost;
                Some(ElectionEvent::CoverLost(None))
            }
            _ => None,
        }
    }

    /// Ends the term and stops the renewals.
    pub(super) fn end(&mut self, now: Moment, reason: StopReason) -> Option<ElectionEvent> {
        let event = match self.phase {
            // A term that has expired or was ended by its holder keeps its reason.
            TermPhase::Valid => Some(ElectionEvent::TermEnded(self.deadline.end(now, reason))),
            TermPhase::Draining(_) if reason != StopReason::Released => Some(ElectionEvent::CoverLost(Some(reason))),
            TermPhase::Draining(_) | TermPhase::Lost => None,
        };
        if self.deadline.was_ended() {
            self.deadline.keep_no_longer();
        }
        self.phase = TermPhase::Lost;
        event
    }

    /// Ends the term.
    ///
    /// Unless the reason forbids renewals, the candidate renews the lease until the guard is dropped or the earliest limit
    /// has passed.
    pub(super) fn drain(&mut self, now: Moment, reason: StopReason, within: Option<Duration>) -> Option<ElectionEvent> {
        let until = within.map(|within| now + within);
        match &mut self.phase {
            TermPhase::Valid => {
                let final_reason = self.deadline.end(now, reason.clone());
                // If the holder has stepped down first, the queued step-down brings its own limit.
                let until = until.filter(|_| final_reason == reason);
                self.phase = if final_reason.drains() { TermPhase::Draining(until) } else { TermPhase::Lost };
                return Some(ElectionEvent::TermEnded(final_reason));
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
    use StopReason::{Deleted, Expired, IdentityConflict, Released, SteppedDown, Unfit};

    const fn at(seconds: u64) -> Moment {
        Moment::from_nanos((1_000 + seconds) * 1_000_000_000)
    }

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Returns the defaults: the renew deadline is 10 s, and the renew interval 2 s.
    fn settings(progress_timeout: Option<Duration>) -> Settings {
        Config { progress_timeout, ..Config::default() }.validate().unwrap()
    }

    /// Returns a term whose winning write was sent at 0 s.
    fn term(progress_timeout: Option<Duration>) -> HeldTerm {
        let record = LeaderElectionRecord { lease_transitions: Some(4), ..LeaderElectionRecord::default() };
        HeldTerm::begin(7, at(0), &record, secs(3), &settings(progress_timeout))
    }

    fn check(term: &mut HeldTerm, now: Moment) -> Option<ElectionEvent> {
        term.check(&mut Timer::new(now, at(999)))
    }

    /// Expects the end of a term or of its renewals.
    fn assert_ends(event: Option<ElectionEvent>, expected: &str, case: &str) {
        let text = event.map_or_else(|| "nothing".to_owned(), |event| format!("{event:?}"));
        assert_eq!(text, expected, "{case}");
    }

    #[test]
    fn term_ends_to_the_moment_and_once() {
        // The progress timeout, the drain limit of a step-down at 1 s, the second of the end, and the event.
        for (progress, drain, second, expected) in [
            (None, None, 10, "TermEnded(Expired)"),
            (Some(secs(4)), None, 4, "TermEnded(NoProgress)"),
            (Some(secs(10)), None, 10, "TermEnded(NoProgress)"),
            (None, Some(None), 10, "CoverLost(Some(Expired))"),
            (None, Some(Some(secs(5))), 6, "CoverLost(None)"),
            (Some(secs(4)), Some(Some(secs(5))), 4, "CoverLost(Some(NoProgress))"),
        ] {
            let case = format!("{progress:?} {drain:?}");
            let mut term = term(progress);
            if let Some(within) = drain {
                assert_ends(term.drain(at(1), SteppedDown, within), "TermEnded(SteppedDown)", &case);
            }
            let mut timer = Timer::new(at(2), at(999));
            assert!(term.check(&mut timer).is_none() && term.renews(), "{case}");
            assert_eq!(timer.wake(), at(second), "{case}");
            assert_ends(check(&mut term, at(second)), expected, &case);
            assert!(!term.renews() && !term.is_valid(at(2)) && term.acquisition().is_none(), "{case}");
            assert_ends(check(&mut term, at(60)), "nothing", &case);
            assert_ends(term.end(at(60), Released), "nothing", &case);
        }
    }

    #[test]
    fn each_further_end_of_a_draining_term_has_its_effect() {
        type End = fn(&mut HeldTerm) -> Option<ElectionEvent>;
        // The next end of a term that drains without a limit, its event, and the second at which the drain ends.
        let rows: [(&str, End, &str, Option<u64>); 6] = [
            ("a limit", |term| term.drain(at(2), SteppedDown, Some(secs(3))), "nothing", Some(5)),
            ("no limit", |term| term.drain(at(2), SteppedDown, None), "nothing", Some(10)),
            ("unfit", |term| term.drain(at(2), Unfit, Some(secs(1))), "nothing", Some(10)),
            ("forbidden", |term| term.end(at(2), IdentityConflict), "CoverLost(Some(IdentityConflict))", None),
            ("deleted", |term| term.end(at(2), Deleted), "CoverLost(Some(Deleted))", None),
            ("the drop of the guard", |term| term.end(at(2), Released), "nothing", None),
        ];
        for (case, end, expected, drained_at) in rows {
            let mut term = term(None);
            assert_ends(term.drain(at(1), SteppedDown, None), "TermEnded(SteppedDown)", case);
            assert_ends(end(&mut term), expected, case);
            assert_eq!(term.renews(), drained_at.is_some(), "{case}");
            let mut timer = Timer::new(at(2), at(999));
            term.check(&mut timer);
            assert_eq!(timer.wake(), at(drained_at.unwrap_or(999)), "{case}");
            assert_eq!(term.deadline().reason(), SteppedDown, "{case}: the first reason stays");
        }
        // A shorter limit counts, and a longer limit does not.
        let mut term = term(None);
        term.drain(at(1), SteppedDown, Some(secs(4)));
        term.drain(at(2), SteppedDown, Some(secs(60)));
        assert_ends(check(&mut term, at(5)), "CoverLost(None)", "the first limit");
        // A reason that forbids renewals leaves nothing to drain.
        let mut term = self::term(None);
        assert_ends(term.drain(at(1), Deleted, Some(secs(4))), "TermEnded(Deleted)", "deleted");
        assert!(!term.renews());
    }

    #[test]
    fn renewal_extends_a_valid_term_and_keeps_a_drain() {
        let settings = settings(None);
        let mut term = term(None);
        term.renewal_sent(at(5));
        assert!(term.is_first_attempt());
        assert_ends(term.renewed(at(3), at(2), &settings), "Renewed { sent_at: Moment(1002000000000) }", "valid");
        assert_eq!((term.renewed_until(), term.renew_at()), (Some(at(12)), at(4)));
        // An older write shortens nothing.
        term.renewed(at(3), at(1), &settings);
        assert_eq!(term.renewed_until(), Some(at(12)));
        term.drain(at(3), SteppedDown, None);
        assert_ends(term.renewed(at(5), at(4), &settings), "nothing", "draining");
        assert_eq!((term.renewed_until(), term.is_valid(at(5))), (Some(at(14)), false));
        // The holder has ended the term, and its step-down is not handled yet.
        let mut ended = self::term(None);
        ended.deadline().end(at(1), SteppedDown);
        assert_ends(ended.renewed(at(3), at(2), &settings), "nothing", "ended by the holder");
        assert!(ended.renews() && check(&mut ended, at(11)).is_none());
        // The renewal was answered after the expiry.
        let mut late = self::term(None);
        assert_ends(
            late.renewed(at(10), at(8), &settings),
            &format!("{:?}", ElectionEvent::TermEnded(Expired)),
            "late",
        );
        assert!(!late.renews());
    }

    #[test]
    fn attempts_of_a_renewal_follow_its_failures() {
        let mut term = term(None);
        assert_eq!(term.renew_at(), at(2));
        term.renewal_sent(at(30));
        assert_eq!((term.is_first_attempt(), term.renew_at()), (true, at(2)), "a second attempt follows at once");
        term.renewal_sent(at(30));
        assert_eq!((term.is_first_attempt(), term.renew_at()), (false, at(30)));
        assert!(term.retry_at(at(6)) && term.renew_at() == at(6));
        term.repeat_renewal(at(3));
        term.renewal_sent(at(30));
        assert_eq!((term.is_first_attempt(), term.renew_at()), (true, at(3)), "as a first attempt");
        term.end(at(4), Deleted);
        term.repeat_renewal(at(5));
        assert!(!term.retry_at(at(6)) && term.renew_at() == at(3));
        assert_eq!(term.renewed_fields().1, 4);
    }
}
