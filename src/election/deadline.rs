//! The deadline of a term.

use std::time::Duration;

use crate::election::progress::ProgressLimit;
use crate::election::stop_reason::StopReason;
use crate::util::clock::Moment;
use crate::util::sync::{Arc, AtomicBool, AtomicU64, OnceLock, Ordering};

/// The validity of a term, which an election extends and guards check.
///
/// A term is valid until its renewed validity ends, its progress limit passes, or [`end`](Self::end) is called. The
/// first thread that finds a moment passed ends the term for all threads, so an extension never revives the term. A
/// reader loads both moments before the flag `has_ended`. The moments of a valid term only grow, so a term whose flag is
/// not set after these loads was valid with these moments. No caller gets `true` after another caller got `false`.
///
/// The first end sets the only reason, before the flag, so every caller gets the same reason.
///
/// Every access is sequentially consistent, because a validity check after a release was sent must not read an older
/// value.
#[derive(Debug)]
pub struct Deadline {
    /// The end of the renewed validity in nanoseconds. After a step-down, the end of the renewed lease.
    renewed_until: AtomicU64,
    progress: Option<Arc<ProgressLimit>>,
    end: OnceLock<TermEnd>,
    has_ended: AtomicBool,
}

/// The end of a term.
#[derive(Debug, Clone)]
struct TermEnd {
    at: Moment,
    reason: StopReason,
}

impl Deadline {
    /// Creates a term that is valid until `until`.
    pub fn new(until: Moment) -> Self {
        let (renewed_until, has_ended) = (AtomicU64::new(until.as_nanos()), AtomicBool::new(false));
        Self { renewed_until, progress: None, end: OnceLock::new(), has_ended }
    }

    /// Adds a progress limit.
    pub fn limited_by(self, progress: Option<Arc<ProgressLimit>>) -> Self {
        Self { progress, ..self }
    }

    /// Returns the progress limit.
    pub fn progress_limit(&self) -> Option<&Arc<ProgressLimit>> {
        self.progress.as_ref()
    }

    /// Returns `true` if the term is valid at `now`. Once `false`, the result stays `false`.
    pub fn is_valid(&self, now: Moment) -> bool {
        !self.remaining(now).is_zero()
    }

    /// Returns the remaining validity at `now`. Once zero, the result stays zero.
    pub fn remaining(&self, now: Moment) -> Duration {
        let limit = self.limit();
        if limit.at <= now {
            self.finish(limit);
            return Duration::ZERO;
        }
        if self.has_ended.load(Ordering::SeqCst) { Duration::ZERO } else { limit.at.since(now) }
    }

    /// Extends the renewed validity to `until`, if `until` is later.
    ///
    /// Returns `false` if the term has ended.
    pub fn extend(&self, now: Moment, until: Moment) -> bool {
        // Ends a term whose deadline has passed before the extension.
        if !self.is_valid(now) {
            return false;
        }
        self.renewed_until.fetch_max(until.as_nanos(), Ordering::SeqCst);
        self.is_valid(now)
    }

    /// Reports progress, and returns `true` if the term is valid.
    ///
    /// Late progress has no effect.
    ///
    /// `oldest` is the last progress of the worker that is furthest behind.
    pub fn report_progress(&self, now: Moment, oldest: Moment) -> bool {
        self.progress.iter().for_each(|limit| _ = limit.report(now, oldest));
        self.is_valid(now)
    }

    /// Ends the term and returns the final reason.
    ///
    /// The final reason is `reason`, unless the term had already ended at `now`.
    pub fn end(&self, now: Moment, reason: StopReason) -> StopReason {
        let limit = self.limit();
        self.finish(if limit.at <= now { limit } else { TermEnd { at: now, reason } }).reason.clone()
    }

    /// Ends the term, and returns the first end.
    fn finish(&self, end: TermEnd) -> &TermEnd {
        let end = self.end.get_or_init(|| end);
        self.has_ended.store(true, Ordering::SeqCst);
        end
    }

    /// Returns the reason of a term that has ended.
    pub fn reason(&self) -> StopReason {
        self.end.get().map_or_else(|| self.limit().reason, |end| end.reason.clone())
    }

    /// Returns the time of the end if the term is not valid at `now`.
    pub fn ended_at(&self, now: Moment) -> Option<Moment> {
        self.ended(now).map(|end| end.at)
    }

    fn ended(&self, now: Moment) -> Option<&TermEnd> {
        if self.is_valid(now) { None } else { self.end.get() }
    }

    /// Returns `true` if [`end`](Self::end) ended the term before the deadline.
    pub fn was_ended_early(&self) -> bool {
        let reason = self.end.get().map(|end| &end.reason);
        reason.is_some_and(|reason| !matches!(reason, StopReason::Expired | StopReason::NoProgress))
    }

    /// Returns the end of a term that nothing extends or ends earlier.
    fn limit(&self) -> TermEnd {
        let renewed_until = Moment::from_nanos(self.renewed_until.load(Ordering::SeqCst));
        match self.progress.as_ref().map(|limit| limit.until()) {
            Some(at) if at <= renewed_until => TermEnd { at, reason: StopReason::NoProgress },
            _ => TermEnd { at: renewed_until, reason: StopReason::Expired },
        }
    }

    /// Notes a renewal of the lease after [`end`](Self::end).
    pub(crate) fn lease_renewed(&self, until: Moment) {
        self.renewed_until.fetch_max(until.as_nanos(), Ordering::SeqCst);
    }

    /// Notes that the lease of an ended term was lost at `now`.
    pub(crate) fn lease_lost(&self, now: Moment) {
        self.renewed_until.fetch_min(now.as_nanos(), Ordering::SeqCst);
    }

    /// Returns the moment until which the lease is kept without another renewal, even while the work drains.
    pub(crate) fn lease_until(&self, now: Moment) -> Moment {
        match self.ended(now) {
            Some(end) if !end.reason.drains() => end.at,
            _ => self.limit().at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn progress_moves_a_limit_forward_and_never_back() {
        let limit = ProgressLimit::new(at(10), Duration::from_secs(5));
        for (now, oldest, is_live, until, last) in
            [(11, 10, true, 15, 10), (12, 8, true, 15, 10), (14, 14, true, 19, 14), (19, 19, false, 19, 14)]
        {
            assert_eq!(limit.report(at(now), at(oldest)), is_live, "at {now}");
            assert_eq!((limit.until(), limit.last()), (at(until), at(last)), "at {now}");
        }
    }

    #[test]
    fn lease_is_kept_after_an_end_that_drains_until_it_is_lost() {
        let kept_for = |deadline: &Deadline, now| deadline.lease_until(now).since(now);
        let deadline = Deadline::new(at(10));
        assert_eq!(kept_for(&deadline, at(1)), Duration::from_secs(9));
        deadline.end(at(2), StopReason::Requested);
        assert_eq!((kept_for(&deadline, at(3)), deadline.remaining(at(3))), (Duration::from_secs(7), Duration::ZERO));
        deadline.lease_renewed(at(14));
        assert_eq!((kept_for(&deadline, at(9)), deadline.is_valid(at(3))), (Duration::from_secs(5), false));
        assert_eq!(kept_for(&deadline, at(14)), Duration::ZERO);
        deadline.lease_lost(at(9));
        assert_eq!(kept_for(&deadline, at(9)), Duration::ZERO);
        for reason in [StopReason::Deleted, StopReason::Released] {
            let deadline = Deadline::new(at(10));
            deadline.end(at(2), reason);
            assert_eq!(kept_for(&deadline, at(3)), Duration::ZERO);
        }
        let expired = Deadline::new(at(10));
        assert_eq!(kept_for(&expired, at(10)), Duration::ZERO);
        expired.lease_renewed(at(20));
        assert_eq!(kept_for(&expired, at(11)), Duration::ZERO, "an expired term is not revived");
    }

    #[test]
    fn observer_of_an_expired_deadline_latches_it() {
        let deadline = Deadline::new(at(10));
        assert_eq!(deadline.remaining(at(4)), Duration::from_secs(6));
        assert!(deadline.is_valid(at(9)));
        assert!(!deadline.is_valid(at(10)));
        assert!(!deadline.is_valid(at(1)), "an earlier clock reading in another thread does not revive it");
        assert!(!deadline.extend(at(1), at(20)));
        assert!(!deadline.is_valid(at(1)));
    }

    #[test]
    fn an_extension_comes_from_a_live_value_only() {
        let deadline = Deadline::new(at(10));
        assert!(deadline.extend(at(9), at(19)));
        assert!(deadline.is_valid(at(18)));
        assert!(!deadline.extend(at(19), at(29)), "unchecked, but passed");
        assert!(!deadline.is_valid(at(0)));
    }

    #[test]
    fn an_extension_never_shortens() {
        let deadline = Deadline::new(at(10));
        assert!(deadline.extend(at(1), at(5)));
        assert!(deadline.is_valid(at(9)));
    }

    #[test]
    fn first_reason_stays_for_every_reader() {
        let deadline = Deadline::new(at(10));
        deadline.end(at(1), StopReason::Deleted);
        assert_eq!(deadline.reason(), StopReason::Deleted);
        assert_eq!(deadline.end(at(2), StopReason::Released), StopReason::Deleted);
        assert_eq!(deadline.end(at(20), StopReason::Released), StopReason::Deleted);
    }

    fn limited(renewed_until: u64, progress_from: u64, within: u64) -> Deadline {
        let limit = ProgressLimit::new(at(progress_from), Duration::from_secs(within));
        Deadline::new(at(renewed_until)).limited_by(Some(Arc::new(limit)))
    }

    #[test]
    fn deadline_is_the_earlier_of_renewal_and_progress() {
        let deadline = limited(10, 0, 4);
        assert_eq!(deadline.remaining(at(1)), Duration::from_secs(3));
        assert!(deadline.extend(at(1), at(11)));
        assert_eq!(deadline.remaining(at(1)), Duration::from_secs(3));
        assert!(deadline.report_progress(at(3), at(3)));
        assert_eq!(deadline.remaining(at(3)), Duration::from_secs(4));
        assert!(deadline.report_progress(at(6), at(5)), "a part of the work was last heard of a second ago");
        assert_eq!(deadline.remaining(at(6)), Duration::from_secs(3));
        assert!(deadline.report_progress(at(8), at(8)));
        assert_eq!(deadline.remaining(at(8)), Duration::from_secs(3), "what the renewals cover");
        assert!(!deadline.report_progress(at(11), at(11)));
        assert_eq!(deadline.reason(), StopReason::Expired);
    }

    #[test]
    fn late_progress_revives_nothing_and_does_not_change_the_reason() {
        let deadline = limited(10, 0, 4);
        assert!(!deadline.report_progress(at(4), at(4)), "unchecked, but passed");
        assert_eq!(deadline.progress_limit().unwrap().until(), at(4), "the drain does not continue either");
        assert!(
            !deadline.report_progress(at(3), at(3)),
            "an earlier clock reading in another thread does not revive it"
        );
        assert!(!deadline.extend(at(3), at(13)));
        assert_eq!(deadline.reason(), StopReason::NoProgress);
        assert!(!deadline.was_ended_early());

        let deadline = limited(10, 0, 4);
        assert_eq!(deadline.end(at(4), StopReason::Deleted), StopReason::NoProgress);
        assert_eq!(limited(4, 0, 4).end(at(4), StopReason::Deleted), StopReason::NoProgress, "at one moment");
        assert_eq!(limited(3, 0, 4).end(at(4), StopReason::Deleted), StopReason::Expired, "the renewals ended first");
    }

    #[test]
    fn end_differs_from_an_expiry() {
        let deadline = Deadline::new(at(10));
        assert_eq!(deadline.end(at(9), StopReason::Deleted), StopReason::Deleted);
        assert_eq!(deadline.remaining(at(1)), Duration::ZERO);
        assert!(!deadline.extend(at(1), at(20)));
        assert!(deadline.was_ended_early());

        let deadline = Deadline::new(at(10));
        assert!(!deadline.is_valid(at(10)));
        assert_eq!(deadline.reason(), StopReason::Expired);
        assert_eq!(deadline.end(at(9), StopReason::Deleted), StopReason::Expired);
        assert!(!deadline.was_ended_early(), "it had run out before");

        for reason in [StopReason::Deleted, StopReason::Released] {
            let deadline = Deadline::new(at(10));
            assert_eq!(deadline.end(at(10), reason), StopReason::Expired, "unchecked, but expired");
            assert!(!deadline.was_ended_early());
            assert!(!deadline.is_valid(at(1)));
        }
    }
}
