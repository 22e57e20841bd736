//! The times at which a plugin runs.
//!
//! Each method of [`Schedule`] receives the current time, so that tests can set the time.

use std::time::{Duration, Instant, SystemTime};

use crate::util::backoff::Backoff;

/// Minimum time from refresh to expiry, for credentials that live for at least a minute.
const MARGIN: Duration = Duration::from_secs(30);

const FIRST_PAUSE: Duration = Duration::from_secs(2);

const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Maximum wait for a wall-clock time, because the clock may be set during the wait.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);

/// The time of both clocks at one moment.
///
/// Credentials expire by the wall clock. Pauses use the steady clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct BothClocks {
    pub(super) wall: SystemTime,
    pub(super) steady: Instant,
}

impl BothClocks {
    pub(super) fn read() -> Self {
        BothClocks { wall: SystemTime::now(), steady: Instant::now() }
    }
}

/// The lifetime of the current credential, and the pause after failed runs.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    credential: Option<Life>,
    backoff: Backoff,
    paused_until: Option<Instant>,
}

/// The lifetime of a credential. Both times are `None` if the credential does not expire.
#[derive(Debug)]
struct Life {
    refresh: Option<SystemTime>,
    end: Option<SystemTime>,
}

impl Schedule {
    /// Records a run that returned a credential.
    pub(super) fn succeeded(&mut self, now: BothClocks, expires: Option<SystemTime>) {
        let refresh = expires.map(|end| refresh_at(now.wall, end));
        *self = Schedule { credential: Some(Life { refresh, end: expires }), ..Schedule::default() };
    }

    /// Records a run that failed.
    pub(super) fn failed(&mut self, now: BothClocks) {
        let pause = self.backoff.pause(FIRST_PAUSE, LONGEST_PAUSE);
        self.paused_until = Some(now.steady + pause);
    }

    /// Returns `true` if the current credential may be used.
    pub(super) fn is_valid(&self, now: BothClocks) -> bool {
        self.credential.as_ref().is_some_and(|life| life.end.is_none_or(|end| now.wall < end))
    }

    /// Returns the time when the next run may begin, or `None` if it may begin now.
    pub(super) fn pause(&self, now: BothClocks) -> Option<Instant> {
        self.paused_until.filter(|until| now.steady < *until)
    }

    /// Returns `true` if a run should begin while the current credential is still valid.
    pub(super) fn is_refresh_due(&self, now: BothClocks) -> bool {
        let is_due = |life: &Life| life.refresh.is_some_and(|at| at <= now.wall);
        self.is_valid(now) && self.credential.as_ref().is_some_and(is_due) && self.pause(now).is_none()
    }

    /// Returns the time of the next check for a refresh.
    ///
    /// Returns `None` if no valid credential has an expiry.
    pub(super) fn next_look(&self, now: BothClocks) -> Option<Instant> {
        let refresh = self.credential.as_ref().filter(|_| self.is_valid(now))?.refresh?;
        let wait = refresh.duration_since(now.wall).unwrap_or_default().min(LONGEST_WAIT);
        let at = now.steady + wait;
        Some(self.paused_until.map_or(at, |until| at.max(until)))
    }
}

/// Returns the time at which a credential that was issued at `came` needs a refresh.
///
/// The refresh is due after 80 % of the lifetime or 30 s before the end, whichever is earlier. The second time is at
/// least 30 s after `came`.
fn refresh_at(came: SystemTime, end: SystemTime) -> SystemTime {
    let life = end.duration_since(came).unwrap_or_default();
    came + (life / 5 * 4).min(life.saturating_sub(MARGIN).max(MARGIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that a test sets.
    struct Clock(BothClocks);

    impl Clock {
        fn new() -> Self {
            Clock(BothClocks {
                wall: SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000),
                steady: Instant::now(),
            })
        }

        fn pass(&mut self, seconds: f64) -> BothClocks {
            let time = Duration::from_secs_f64(seconds);
            self.0 = BothClocks { wall: self.0.wall + time, steady: self.0.steady + time };
            self.0
        }

        fn after(&self, seconds: f64) -> Option<SystemTime> {
            Some(self.0.wall + Duration::from_secs_f64(seconds))
        }
    }

    #[test]
    fn refresh_starts_at_80_percent_and_30_s_before_expiry() {
        for (life, refresh) in [
            (86_400.0, 69_120.0),
            (3_600.0, 2_880.0),
            (150.0, 120.0),
            (100.0, 70.0),
            (60.0, 30.0),
            // Shorter lifetimes: the refresh is due after 30 s or 80 % of the lifetime, whichever is earlier.
            (45.0, 30.0),
            (20.0, 16.0),
            (1.0, 0.8),
        ] {
            let (mut clock, mut schedule) = (Clock::new(), Schedule::default());
            schedule.succeeded(clock.0, clock.after(life));
            let wait = schedule.next_look(clock.0).unwrap() - clock.0.steady;
            assert_eq!(wait, Duration::from_secs_f64(refresh).min(LONGEST_WAIT), "{life} s");
            assert!(!schedule.is_refresh_due(clock.pass(refresh - 0.001)), "{life} s");
            assert!(schedule.is_refresh_due(clock.pass(0.001)), "{life} s");
            assert!(schedule.is_valid(clock.pass(life - refresh - 0.001)), "{life} s");
            let end = clock.pass(0.001);
            assert!(!schedule.is_valid(end) && !schedule.is_refresh_due(end), "{life} s");
            assert_eq!(schedule.next_look(end), None, "an expired credential needs no refresh");
        }
    }

    #[test]
    fn credential_without_expiry_is_not_refreshed() {
        let (mut clock, mut schedule) = (Clock::new(), Schedule::default());
        assert!(!schedule.is_valid(clock.0) && schedule.next_look(clock.0).is_none());
        schedule.succeeded(clock.0, None);
        let later = clock.pass(1e9);
        assert!(schedule.is_valid(later) && !schedule.is_refresh_due(later));
        assert_eq!(schedule.next_look(later), None);
    }

    #[test]
    fn credential_that_arrives_expired_is_not_refreshed_in_a_loop() {
        let (mut clock, mut schedule) = (Clock::new(), Schedule::default());
        let past = Some(clock.0.wall);
        let now = clock.pass(10.0);
        schedule.succeeded(now, past);
        assert!(!schedule.is_valid(now) && !schedule.is_refresh_due(now) && schedule.next_look(now).is_none());
        assert_eq!(schedule.pause(now), None, "the next request may try");
    }

    #[test]
    fn pauses_grow_from_2_to_30_seconds_and_a_success_ends_them() {
        let (mut clock, mut schedule) = (Clock::new(), Schedule::default());
        schedule.succeeded(clock.0, clock.after(1000.0));
        clock.pass(800.0);
        for pause in [2.0, 4.0, 8.0, 16.0, 30.0, 30.0] {
            assert!(schedule.is_refresh_due(clock.0));
            schedule.failed(clock.0);
            assert_eq!(schedule.next_look(clock.0), schedule.pause(clock.0));
            assert_eq!(schedule.pause(clock.0), Some(clock.0.steady + Duration::from_secs_f64(pause)));
            let early = clock.pass(pause - 0.001);
            assert!(schedule.is_valid(early) && !schedule.is_refresh_due(early), "the old credential is still valid");
            clock.pass(0.001);
        }
        schedule.failed(clock.0);
        schedule.succeeded(clock.0, clock.after(1000.0));
        assert_eq!(schedule.pause(clock.0), None);
        schedule.failed(clock.0);
        assert_eq!(schedule.pause(clock.0), Some(clock.0.steady + FIRST_PAUSE), "and the pauses restart");
    }

    #[test]
    fn the_wall_clock_may_be_set_in_between() {
        let (clock, mut schedule) = (Clock::new(), Schedule::default());
        schedule.succeeded(clock.0, clock.after(100_000.0));
        let day = Duration::from_secs(86_400);
        let back = BothClocks { wall: clock.0.wall - day, ..clock.0 };
        assert!(schedule.is_valid(back) && !schedule.is_refresh_due(back));
        assert_eq!(schedule.next_look(back), Some(clock.0.steady + LONGEST_WAIT));
        let ahead = BothClocks { wall: clock.0.wall + day, ..clock.0 };
        assert!(schedule.is_refresh_due(ahead));
        assert_eq!(schedule.next_look(ahead), Some(clock.0.steady));
    }
}
