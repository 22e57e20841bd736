//! The time of one call of a state machine, and the wakeup after the call.

use crate::util::clock::Moment;

/// The time of one call of `next`, and the wakeup for the next change of its result.
///
/// Code that runs for `next` asks the timer, which also registers the wakeup. Code that judges an input compares moments,
/// because `next` follows each input.
pub struct Timer {
    now: Moment,
    wake: Moment,
}

impl Timer {
    /// Creates a timer whose wakeup is `latest`, unless an earlier moment is registered.
    pub fn new(now: Moment, latest: Moment) -> Self {
        Self { now, wake: latest }
    }

    pub fn now(&self) -> Moment {
        self.now
    }

    /// Returns `true` from `at` on. Before `at`, registers a wakeup for `at`.
    pub fn is_due(&mut self, at: Moment) -> bool {
        if at > self.now {
            self.wake = self.wake.min(at);
        }
        at <= self.now
    }

    /// Returns the earliest registered moment.
    pub fn wake(&self) -> Moment {
        self.wake
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earliest_moment_that_is_not_due_is_the_wakeup() {
        let at = Moment::from_nanos;
        let mut timer = Timer::new(at(5), at(90));
        assert_eq!([3, 5, 6, 40].map(|nanos| timer.is_due(at(nanos))), [true, true, false, false]);
        assert_eq!((timer.now(), timer.wake()), (at(5), at(6)));
        assert_eq!(Timer::new(at(5), at(90)).wake(), at(90));
    }
}
