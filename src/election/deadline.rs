//! The atomic deadline of a term.

use std::time::Duration;

use crate::election::progress::ProgressLimit;
use crate::election::stop_reason::StopReason;
use crate::util::clock::Moment;
use crate::util::sync::{Arc, AtomicU64, OnceLock, Ordering, fence};

/// The validity of a term, which an election extends and guards check.
///
/// A term is valid until the earlier of two parts: the end of its renewed validity, and the progress limit if there is
/// one.
///
/// The end is final. A thread that finds the deadline passed replaces the deadline by a final value. An extension is a
/// compare-exchange that only replaces a deadline in the future. No caller gets `true` after another caller got
/// `false`.
///
/// The first end sets the only reason. The reason is stored before the term becomes invalid, so every caller gets the
/// same reason.
///
/// An extension first stores its own part and then loads the other part. If two extensions run at the same time, at
/// least one of them sees both parts, and neither extends the term beyond either part.
///
/// Every access is sequentially consistent, because a validity check after a release was sent must not read an older
/// value. The fence exists only for loom, which models sequential consistency only for fences.
#[derive(Debug)]
pub struct Deadline {
    /// The earlier part in nanoseconds above the lowest bit.
    ///
    /// The lowest bit is [`BY_PROGRESS`](Self::BY_PROGRESS).
    until: AtomicU64,
    renewed_until: AtomicU64,
    progress: Option<Arc<ProgressLimit>>,
    reason: OnceLock<StopReason>,
}

impl Deadline {
    /// The final value after the renewed validity has ended.
    const EXPIRED: u64 = 0;
    /// The final value after [`end`](Self::end).
    const ENDED: u64 = 1;
    /// The final value after the progress limit has passed.
    const STALLED: u64 = 2;

    /// The bit for a progress limit that is not later than the end of the renewed validity.
    const BY_PROGRESS: u64 = 1;

    /// Creates a term that is valid until `until`.
    pub fn new(until: Moment) -> Self {
        let renewed_until = until.as_nanos();
        let (until, renewed_until) = (AtomicU64::new(earlier(renewed_until, None)), AtomicU64::new(renewed_until));
        Self { until, renewed_until, progress: None, reason: OnceLock::new() }
    }

    /// Adds a progress limit.
    pub fn limited_by(self, progress: Option<Arc<ProgressLimit>>) -> Self {
        let until = earlier(self.renewed_until.load(Ordering::SeqCst), progress.as_deref());
        Self { until: AtomicU64::new(until), progress, ..self }
    }

    /// Returns the progress limit.
    pub fn progress_limit(&self) -> Option<&Arc<ProgressLimit>> {
        self.progress.as_ref()
    }

    /// Returns `true` if the term is valid at `now`. Once `false`, the result stays `false`.
    pub fn is_valid(&self, now: Moment) -> bool {
        self.live(now).is_some()
    }

    /// Returns the remaining validity at `now`. Once zero, the result stays zero.
    pub fn remaining(&self, now: Moment) -> Duration {
        let left = self.live(now).map(|until| time(until) - now.as_nanos());
        Duration::from_nanos(left.unwrap_or(0))
    }

    /// Extends the renewed validity to `until`, if `until` is later.
    ///
    /// Returns `false` if the term has ended.
    pub fn extend(&self, now: Moment, until: Moment) -> bool {
        // Makes an end final before the extension, so that a thread with an earlier clock reading cannot revive the
        // term.
        if !self.is_valid(now) {
            return false;
        }
        self.renewed_until.fetch_max(until.as_nanos(), Ordering::SeqCst);
        self.extend_to_earliest(now)
    }

    /// Reports progress, and returns `true` if the term is valid.
    ///
    /// Late progress has no effect.
    ///
    /// `oldest` is the last progress of the worker that is furthest behind.
    pub fn report_progress(&self, now: Moment, oldest: Moment) -> bool {
        match &self.progress {
            Some(limit) if limit.report(now, oldest) => self.extend_to_earliest(now),
            _ => self.is_valid(now),
        }
    }

    /// Sets the deadline to the earlier part. Returns `false` if the deadline has passed.
    fn extend_to_earliest(&self, now: Moment) -> bool {
        // Orders the store of one part before the load of the other part.
        fence(Ordering::SeqCst);
        while let Some(old) = self.live(now) {
            let new = earlier(self.renewed_until.load(Ordering::SeqCst), self.progress.as_deref());
            if self.until.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                return true;
            }
        }
        false
    }

    /// Returns the raw deadline if the term is valid at `now`. Otherwise makes the end final.
    fn live(&self, now: Moment) -> Option<u64> {
        // If another thread extends the term meanwhile, the closure runs again with the new deadline.
        let latch = |until: u64| {
            let has_run_out = until > Self::STALLED && time(until) <= now.as_nanos();
            has_run_out.then_some(if until & Self::BY_PROGRESS == 0 { Self::EXPIRED } else { Self::STALLED })
        };
        let until = self.until.fetch_update(Ordering::SeqCst, Ordering::SeqCst, latch).err();
        until.filter(|until| time(*until) > now.as_nanos())
    }

    /// Ends the term and returns the final reason.
    ///
    /// The final reason is `reason`, unless the term had already ended at `now`.
    pub fn end(&self, now: Moment, reason: StopReason) -> StopReason {
        let reason = if self.is_valid(now) { reason } else { self.ran_out() };
        let final_reason = self.reason.get_or_init(|| reason).clone();
        let end = |until: u64| (until > Self::STALLED).then_some(Self::ENDED);
        let _ = self.until.fetch_update(Ordering::SeqCst, Ordering::SeqCst, end);
        final_reason
    }

    /// Returns the reason of a term that has ended.
    pub fn reason(&self) -> StopReason {
        let reason = self.ran_out();
        self.reason.get_or_init(|| reason).clone()
    }

    /// Returns `true` if [`end`](Self::end) ended the term before the deadline.
    pub fn was_ended(&self) -> bool {
        self.until.load(Ordering::SeqCst) == Self::ENDED
    }

    /// Returns the moment at which the term ends, or would have ended without [`end`](Self::end).
    pub(crate) fn runs_out_at(&self) -> Moment {
        Moment::from_nanos(time(earlier(self.renewed_until.load(Ordering::SeqCst), self.progress.as_deref())))
    }

    /// Notes a renewal after [`end`](Self::end), which keeps the lease until `until`.
    pub(crate) fn keep(&self, until: Moment) {
        self.renewed_until.fetch_max(until.as_nanos(), Ordering::SeqCst);
    }

    /// Notes that the lease of an ended term is lost.
    pub(crate) fn keep_no_longer(&self) {
        self.renewed_until.store(0, Ordering::SeqCst);
    }

    /// Returns how long the lease is kept without another renewal, even while the work drains.
    pub fn kept_for(&self, now: Moment) -> Duration {
        match self.live(now) {
            Some(until) => Duration::from_nanos(time(until) - now.as_nanos()),
            None if self.reason().drains() => self.runs_out_at().since(now),
            None => Duration::ZERO,
        }
    }

    /// Returns the reason of a term whose deadline has passed.
    fn ran_out(&self) -> StopReason {
        match self.until.load(Ordering::SeqCst) {
            Self::STALLED => StopReason::NoProgress,
            _ => StopReason::Expired,
        }
    }
}

fn time(until: u64) -> u64 {
    until >> 1
}

/// Shifts nanoseconds above the lowest bit. Saturates after three centuries.
fn in_place(nanos: u64) -> u64 {
    nanos.min(u64::MAX >> 1) << 1
}

/// Returns the raw deadline: the earlier part, with the bit for the progress limit.
fn earlier(renewed_until: u64, progress: Option<&ProgressLimit>) -> u64 {
    match progress.map(|limit| limit.until().as_nanos()) {
        Some(progress_until) if progress_until <= renewed_until => in_place(progress_until) | Deadline::BY_PROGRESS,
        _ => in_place(renewed_until),
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
        let deadline = Deadline::new(at(10));
        assert_eq!(deadline.kept_for(at(1)), Duration::from_secs(9));
        deadline.end(at(2), StopReason::Requested);
        assert_eq!((deadline.kept_for(at(3)), deadline.remaining(at(3))), (Duration::from_secs(7), Duration::ZERO));
        deadline.keep(at(14));
        assert_eq!((deadline.kept_for(at(9)), deadline.is_valid(at(3))), (Duration::from_secs(5), false));
        assert_eq!(deadline.kept_for(at(14)), Duration::ZERO);
        deadline.keep_no_longer();
        assert_eq!(deadline.kept_for(at(9)), Duration::ZERO);
        for reason in [StopReason::Deleted, StopReason::Released] {
            let deadline = Deadline::new(at(10));
            deadline.end(at(2), reason);
            assert_eq!(deadline.kept_for(at(3)), Duration::ZERO);
        }
        let expired = Deadline::new(at(10));
        assert_eq!(expired.kept_for(at(10)), Duration::ZERO);
        expired.keep(at(20));
        assert_eq!(expired.kept_for(at(11)), Duration::ZERO, "an expired term is not revived");
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
        assert!(!deadline.was_ended());

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
        assert!(deadline.was_ended());

        let deadline = Deadline::new(at(10));
        assert!(!deadline.is_valid(at(10)));
        assert_eq!(deadline.reason(), StopReason::Expired);
        assert_eq!(deadline.end(at(9), StopReason::Deleted), StopReason::Expired);
        assert!(!deadline.was_ended(), "it had run out before");

        for reason in [StopReason::Deleted, StopReason::Released] {
            let deadline = Deadline::new(at(10));
            assert_eq!(deadline.end(at(10), reason), StopReason::Expired, "unchecked, but expired");
            assert!(!deadline.was_ended());
            assert!(!deadline.is_valid(at(1)));
        }
    }
}
