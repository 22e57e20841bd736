//! The one atomic that a term is valid by.

use std::time::Duration;

use crate::election::progress::ProgressLimit;
use crate::election::stop_reason::StopReason;
use crate::util::clock::Moment;
use crate::util::sync::{Arc, AtomicU64, OnceLock, Ordering, fence};

/// Until when a term is valid, shared by the election that extends it and the guards that ask it: until the earlier of what its
/// renewals cover and, where that is asked for, of when its work has to make progress.
///
/// Loss is final: whoever sees the deadline passed writes that down in its place, and an extension is a
/// compare-exchange from a value that is still ahead. So no caller is ever told 'leader' after any caller was told
/// otherwise.
///
/// It has one reason: that of whoever ended the term first. It is there before the term is over, so nobody who finds it over
/// is told another than those who ask later.
///
/// Whoever extends it stores its own part first and loads the other then: of two at a time at least one sees both, and neither
/// goes beyond either.
///
/// Every access is sequentially consistent: a view that is asked after a release was sent must not answer from before. (The fence
/// says nothing more; it is for loom, which takes that of fences alone into account.)
#[derive(Debug)]
pub struct Deadline {
    /// Of both parts the earlier, in nanoseconds before its last bit, which says which of them that is.
    until: AtomicU64,
    renewed_until: AtomicU64,
    progress: Option<Arc<ProgressLimit>>,
    reason: OnceLock<StopReason>,
}

impl Deadline {
    /// Its renewals ran out, and somebody saw that.
    const EXPIRED: u64 = 0;
    /// Its holder ended it before it ran out.
    const ENDED: u64 = 1;
    /// It ran out because its work made no progress, and somebody saw that.
    const STALLED: u64 = 2;

    /// Set where it is the progress that ends first, or both end at a time.
    const BY_PROGRESS: u64 = 1;

    /// A term that is valid until `until`.
    pub fn new(until: Moment) -> Self {
        let renewed_until = until.as_nanos();
        let (until, renewed_until) = (AtomicU64::new(earlier(renewed_until, None)), AtomicU64::new(renewed_until));
        Self { until, renewed_until, progress: None, reason: OnceLock::new() }
    }

    /// The same, and no longer than its work makes progress.
    pub fn limited_by(self, progress: Option<Arc<ProgressLimit>>) -> Self {
        let until = earlier(self.renewed_until.load(Ordering::SeqCst), progress.as_deref());
        Self { until: AtomicU64::new(until), progress, ..self }
    }

    /// Until when its work has to make progress.
    pub fn progress_limit(&self) -> Option<&Arc<ProgressLimit>> {
        self.progress.as_ref()
    }

    /// Whether the term is valid at `now`; final once false.
    pub fn is_valid(&self, now: Moment) -> bool {
        self.live(now).is_some()
    }

    /// How long the term is still valid at `now`; final once zero.
    pub fn remaining(&self, now: Moment) -> Duration {
        let left = self.live(now).map(|until| time(until) - now.as_nanos());
        Duration::from_nanos(left.unwrap_or(0))
    }

    /// A renewal covers the term until `until`; one that covers less changes nothing. False, and over for good, when the term has
    /// passed.
    pub fn extend(&self, now: Moment, until: Moment) -> bool {
        // What has passed is not to be covered by what comes now, whoever asks with an earlier reading of the clock.
        if !self.is_valid(now) {
            return false;
        }
        self.renewed_until.fetch_max(until.as_nanos(), Ordering::SeqCst);
        self.lengthen(now)
    }

    /// The work has made progress, the part of it that is furthest behind at `oldest`. Late progress revives nothing. Whether the
    /// term is valid.
    pub fn progress(&self, now: Moment, oldest: Moment) -> bool {
        match &self.progress {
            Some(limit) if limit.stamp(now, oldest) => self.lengthen(now),
            _ => self.is_valid(now),
        }
    }

    /// Moves it to the earlier of its parts. False, and over for good, when it has passed.
    fn lengthen(&self, now: Moment) -> bool {
        // Between the part that was stored and the one that is loaded.
        fence(Ordering::SeqCst);
        while let Some(old) = self.live(now) {
            let new = earlier(self.renewed_until.load(Ordering::SeqCst), self.progress.as_deref());
            if self.until.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                return true;
            }
        }
        false
    }

    /// What it is, if that is ahead of `now`.
    fn live(&self, now: Moment) -> Option<u64> {
        let mut until = self.until.load(Ordering::SeqCst);
        while time(until) <= now.as_nanos() {
            if until <= Self::STALLED {
                return None;
            }
            let latch = if until & Self::BY_PROGRESS == 0 { Self::EXPIRED } else { Self::STALLED };
            // A renewal may have come between the load and this: then its deadline is judged instead.
            match self.until.compare_exchange(until, latch, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return None,
                Err(newer) => until = newer,
            }
        }
        Some(until)
    }

    /// Ends the term for good, and gives the reason that stands: `reason`, unless the term has run out by `now`, or was ended
    /// before for another.
    pub fn end(&self, now: Moment, reason: StopReason) -> StopReason {
        let reason = if self.is_valid(now) { reason } else { self.ran_out() };
        let final_reason = self.reason.get_or_init(|| reason).clone();
        let mut until = self.until.load(Ordering::SeqCst);
        while until > Self::STALLED {
            match self.until.compare_exchange(until, Self::ENDED, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => break,
                Err(newer) => until = newer,
            }
        }
        final_reason
    }

    /// Why the term is over, for whoever has found it so.
    pub fn reason(&self) -> StopReason {
        let reason = self.ran_out();
        self.reason.get_or_init(|| reason).clone()
    }

    /// Whether [`end`](Self::end) ended the term, and not time.
    pub fn was_ended(&self) -> bool {
        self.until.load(Ordering::SeqCst) == Self::ENDED
    }

    /// When time ends it, or would have.
    pub(crate) fn runs_out_at(&self) -> Moment {
        Moment::from_nanos(time(earlier(self.renewed_until.load(Ordering::SeqCst), self.progress.as_deref())))
    }

    /// Of what it has run out, which somebody has seen.
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

/// Three centuries fit.
fn in_place(nanos: u64) -> u64 {
    nanos.min(u64::MAX >> 1) << 1
}

/// The earlier of both parts, and which it is.
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
            assert_eq!(limit.stamp(at(now), at(oldest)), is_live, "at {now}");
            assert_eq!((limit.until(), limit.last()), (at(until), at(last)), "at {now}");
        }
    }

    #[test]
    fn it_is_valid_before_and_not_at_the_deadline() {
        let deadline = Deadline::new(at(10));
        assert_eq!(deadline.remaining(at(4)), Duration::from_secs(6));
        assert!(deadline.is_valid(at(9)));
        assert!(!deadline.is_valid(at(10)));
    }

    #[test]
    fn observer_of_an_expired_deadline_latches_it() {
        let deadline = Deadline::new(at(10));
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
        assert!(!deadline.extend(at(19), at(29)), "nobody looked, but it had passed");
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

        let deadline = Deadline::new(at(10));
        assert!(!deadline.is_valid(at(10)));
        assert_eq!(deadline.reason(), StopReason::Expired);
        assert_eq!(deadline.end(at(2), StopReason::Released), StopReason::Expired);
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
        assert!(deadline.progress(at(3), at(3)));
        assert_eq!(deadline.remaining(at(3)), Duration::from_secs(4));
        assert!(deadline.progress(at(6), at(5)), "a part of the work was last heard of a second ago");
        assert_eq!(deadline.remaining(at(6)), Duration::from_secs(3));
        assert!(deadline.progress(at(8), at(8)));
        assert_eq!(deadline.remaining(at(8)), Duration::from_secs(3), "what the renewals cover");
        assert!(!deadline.progress(at(11), at(11)));
        assert_eq!(deadline.reason(), StopReason::Expired);
    }

    #[test]
    fn late_progress_revives_nothing_and_does_not_change_the_reason() {
        let deadline = limited(10, 0, 4);
        assert!(!deadline.progress(at(4), at(4)), "nobody looked, but it had passed");
        assert_eq!(deadline.progress_limit().unwrap().until(), at(4), "nor does the winding down go on by it");
        assert!(!deadline.progress(at(3), at(3)), "an earlier clock reading in another thread does not revive it");
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
        assert_eq!(deadline.end(at(9), StopReason::Deleted), StopReason::Expired);
        assert!(!deadline.was_ended(), "it had run out before");

        let deadline = Deadline::new(at(10));
        let reason = deadline.end(at(10), StopReason::Deleted);
        assert_eq!(reason, StopReason::Expired, "nobody had looked, but it had run out");
        assert!(!deadline.was_ended());
        assert!(!deadline.is_valid(at(1)));
    }
}
