//! The clock of the store.

use crate::util::clock::Moment;

/// The clock of the store, from its newest answer.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StoreClock(Option<(u64, Moment)>);

impl StoreClock {
    /// Notes the time of an answer that was received at `now`.
    pub(super) fn answered(&mut self, now: Moment, unix_micros: u64) {
        self.0 = Some((unix_micros, now));
    }

    /// Returns `true` after an answer with a time.
    pub(super) fn is_known(self) -> bool {
        self.0.is_some()
    }

    /// Returns the time of the store in Unix microseconds, or `None` before the first answer with a time.
    pub(super) fn at(self, now: Moment) -> Option<u64> {
        let (micros, answered_at) = self.0?;
        Some(micros.saturating_add(u64::try_from(now.since(answered_at).as_micros()).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_of_the_store_advances_with_the_local_clock() {
        let at = |seconds: u64| Moment::from_nanos(seconds * 1_000_000_000);
        let mut clock = StoreClock::default();
        assert_eq!((clock.is_known(), clock.at(at(9))), (false, None));
        clock.answered(at(10), 500);
        assert_eq!((clock.is_known(), clock.at(at(12)), clock.at(at(9))), (true, Some(2_000_500), Some(500)));
        clock.answered(at(12), 7);
        assert_eq!(clock.at(at(12)), Some(7), "the newest answer counts, even if it is earlier");
    }
}
