//! The one atomic that a term is valid by.

use std::time::Duration;

use crate::clock::Moment;
use crate::sync::{AtomicU64, Ordering};

/// Until when a term is valid, shared by the election that extends it and the guards that ask it.
///
/// Loss is final: whoever sees the deadline passed writes that down in its place, and an extension is a
/// compare-exchange from a value that is still ahead. So no caller is ever told 'leader' after any caller was told
/// otherwise.
///
/// Every access is sequentially consistent: a view that is asked after a release was sent must not answer from before.
#[derive(Debug)]
pub struct Deadline(AtomicU64);

impl Deadline {
    /// It ran out, and somebody saw that.
    const EXPIRED: u64 = 0;
    /// Its holder ended it before it ran out.
    const ENDED: u64 = 1;

    /// A term that is valid until `until`.
    pub fn new(until: Moment) -> Self {
        Self(AtomicU64::new(until.as_nanos()))
    }

    /// Whether the term is valid at `now`; final once false.
    pub fn is_valid(&self, now: Moment) -> bool {
        self.remaining(now) > Duration::ZERO
    }

    /// How long the term is still valid at `now`; final once zero.
    pub fn remaining(&self, now: Moment) -> Duration {
        let mut until = self.0.load(Ordering::SeqCst);
        loop {
            if until > now.as_nanos() {
                return Duration::from_nanos(until - now.as_nanos());
            }
            if until <= Self::ENDED {
                return Duration::ZERO;
            }
            // A renewal may have come between the load and this: then its deadline is judged instead.
            match self.0.compare_exchange(until, Self::EXPIRED, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return Duration::ZERO,
                Err(newer) => until = newer,
            }
        }
    }

    /// Moves the deadline to `until`, or leaves it if that is earlier. False, and over for good, when it has passed.
    pub fn extend(&self, now: Moment, until: Moment) -> bool {
        while self.is_valid(now) {
            let old = self.0.load(Ordering::SeqCst);
            let new = old.max(until.as_nanos());
            let extended = || self.0.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst).is_ok();
            // Since it was found valid it may have been ended, and by another clock reading have run out.
            if old > now.as_nanos() && extended() {
                return true;
            }
        }
        false
    }

    /// Ends the term for good. False if it has run out by `now` or before, and that is why it is over.
    pub fn end(&self, now: Moment) -> bool {
        let mut until = self.0.load(Ordering::SeqCst);
        loop {
            let over = match until {
                Self::EXPIRED | Self::ENDED => return until == Self::ENDED,
                _ if until > now.as_nanos() => Self::ENDED,
                _ => Self::EXPIRED,
            };
            match self.0.compare_exchange(until, over, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return over == Self::ENDED,
                Err(newer) => until = newer,
            }
        }
    }

    /// Whether [`end`](Self::end) ended the term, and not time.
    pub fn was_ended(&self) -> bool {
        self.0.load(Ordering::SeqCst) == Self::ENDED
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
    fn an_end_is_told_from_an_expiry() {
        let deadline = Deadline::new(at(10));
        assert!(deadline.end(at(9)));
        assert_eq!(deadline.remaining(at(1)), Duration::ZERO);
        assert!(!deadline.extend(at(1), at(20)));
        assert!(deadline.was_ended());

        let deadline = Deadline::new(at(10));
        assert!(!deadline.is_valid(at(10)));
        assert!(!deadline.end(at(9)));
        assert!(!deadline.was_ended(), "it had run out before");

        let deadline = Deadline::new(at(10));
        assert!(!deadline.end(at(10)), "nobody had looked, but it had run out");
        assert!(!deadline.was_ended());
        assert!(!deadline.is_valid(at(1)));
    }
}
