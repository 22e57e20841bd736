//! The one atomic that a term is valid by.

use std::time::Duration;

use crate::clock::Moment;
use crate::stop_reason::StopReason;
use crate::sync::{AtomicU64, OnceLock, Ordering};

/// Until when a term is valid, shared by the election that extends it and the guards that ask it.
///
/// Loss is final: whoever sees the deadline passed writes that down in its place, and an extension is a
/// compare-exchange from a value that is still ahead. So no caller is ever told 'leader' after any caller was told
/// otherwise.
///
/// It has one reason: that of whoever ended the term first. It is there before the term is over, so nobody who finds it over
/// is told another than those who ask later.
///
/// Every access is sequentially consistent: a view that is asked after a release was sent must not answer from before.
#[derive(Debug)]
pub struct Deadline {
    until: AtomicU64,
    reason: OnceLock<StopReason>,
}

impl Deadline {
    /// It ran out, and somebody saw that.
    const EXPIRED: u64 = 0;
    /// Its holder ended it before it ran out.
    const ENDED: u64 = 1;

    /// A term that is valid until `until`.
    pub fn new(until: Moment) -> Self {
        Self { until: AtomicU64::new(until.as_nanos()), reason: OnceLock::new() }
    }

    /// Whether the term is valid at `now`; final once false.
    pub fn is_valid(&self, now: Moment) -> bool {
        self.remaining(now) > Duration::ZERO
    }

    /// How long the term is still valid at `now`; final once zero.
    pub fn remaining(&self, now: Moment) -> Duration {
        let mut until = self.until.load(Ordering::SeqCst);
        loop {
            if until > now.as_nanos() {
                return Duration::from_nanos(until - now.as_nanos());
            }
            if until <= Self::ENDED {
                return Duration::ZERO;
            }
            // A renewal may have come between the load and this: then its deadline is judged instead.
            match self.until.compare_exchange(until, Self::EXPIRED, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return Duration::ZERO,
                Err(newer) => until = newer,
            }
        }
    }

    /// Moves the deadline to `until`, or leaves it if that is earlier. False, and over for good, when it has passed.
    pub fn extend(&self, now: Moment, until: Moment) -> bool {
        while self.is_valid(now) {
            let old = self.until.load(Ordering::SeqCst);
            let new = old.max(until.as_nanos());
            let extended = || self.until.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst).is_ok();
            // Since it was found valid it may have been ended, and by another clock reading have run out.
            if old > now.as_nanos() && extended() {
                return true;
            }
        }
        false
    }

    /// Ends the term for good, and gives the reason that stands: `reason`, unless the term has run out by `now`, or was ended
    /// before for another.
    pub fn end(&self, now: Moment, reason: StopReason) -> StopReason {
        let is_valid = self.is_valid(now);
        let final_reason = self.reason.get_or_init(|| if is_valid { reason } else { StopReason::Expired }).clone();
        let mut until = self.until.load(Ordering::SeqCst);
        while until > Self::ENDED {
            match self.until.compare_exchange(until, Self::ENDED, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => break,
                Err(newer) => until = newer,
            }
        }
        final_reason
    }

    /// Why the term is over, for whoever has found it so.
    pub fn reason(&self) -> StopReason {
        self.reason.get_or_init(|| StopReason::Expired).clone()
    }

    /// Whether [`end`](Self::end) ended the term, and not time.
    pub fn was_ended(&self) -> bool {
        self.until.load(Ordering::SeqCst) == Self::ENDED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn it_is_valid_before_and_not_at_the_deadline() {
        let deadline = Deadline::new(at(10));
        assert_eq!(deadline.remaining(at(4)), Duration::from_secs(6));
        assert!(deadline.is_valid(at(9)));
        assert!(!deadline.is_valid(at(10)));
    }

    #[test]
    fn who_sees_it_expired_latches_it() {
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
    fn the_first_reason_stands_whoever_asks() {
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

    #[test]
    fn an_end_is_told_from_an_expiry() {
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
