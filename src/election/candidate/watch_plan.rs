//! The schedule of watches: when the next watch opens, and where the next watch starts.

use std::time::Duration;

use log::Level;

use crate::election::candidate::failure_log::FailureLog;
use crate::election::candidate::notice::Notice;
use crate::store::{Cursor, StoreError, StoreErrorKind};
use crate::util::backoff::{Backoff, requested_pause};
use crate::util::clock::Moment;

/// The longest pause while the server has refused every watch. An administrator may grant the right later.
const REFUSED: Duration = Duration::from_secs(300);

/// The longest pause after other failures, unless the retry period is longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The schedule of the consecutive watches on one record.
#[derive(Debug)]
pub struct WatchPlan {
    retry_period: Duration,
    /// The longest pause that a server may ask for.
    lease_duration: Duration,
    random: fastrand::Rng,
    /// The position at which the next watch starts. `None` means the current state.
    from: Option<Cursor>,
    /// The time at which the last watch was started.
    began: Moment,
    /// `true` if the last watch has delivered an event.
    has_delivered: bool,
    /// `true` if a watch has opened. A server that restarts may then refuse watches for a moment.
    has_opened: bool,
    /// The pauses after watches that failed or were ended early.
    backoff: Backoff,
    log: FailureLog,
}

/// The consequences of the end of a watch.
#[derive(Debug)]
pub struct Ended {
    /// The pause before the next watch. `None` if the store has no watches.
    pub pause: Option<Duration>,
    pub(crate) notice: Option<Notice>,
}

impl WatchPlan {
    /// Creates a plan.
    ///
    /// `seed` feeds the jitter, which keeps many candidates from opening their watches at the same time.
    pub fn new(retry_period: Duration, lease_duration: Duration, seed: u64) -> Self {
        Self {
            retry_period,
            lease_duration,
            random: fastrand::Rng::with_seed(seed),
            from: None,
            began: Moment::from_nanos(0),
            has_delivered: false,
            has_opened: false,
            backoff: Backoff::default(),
            log: FailureLog::default(),
        }
    }

    /// Notes the start of a watch.
    ///
    /// Returns the position at which the watch starts, or `None` for the current state.
    pub fn begin(&mut self, now: Moment) -> Option<Cursor> {
        self.began = now;
        self.has_delivered = false;
        self.from.clone()
    }

    /// Notes that the server has accepted the watch.
    pub fn opened(&mut self) {
        self.has_opened = true;
    }

    /// Notes an event of the watch, and returns the notice of a recovery.
    ///
    /// Only an event proves a recovery, because a failing watch may open and deliver nothing.
    pub fn delivered(&mut self) -> Option<Notice> {
        self.has_delivered = true;
        self.log.recovered(self.began).map(|recovery| Notice::of_recovery("watch", &recovery))
    }

    /// Sets the position at which the next watch starts.
    pub fn bookmark(&mut self, cursor: Cursor) {
        self.from = Some(cursor);
    }

    /// Makes the next watch start with the current state.
    ///
    /// The pause before the next watch stays. Otherwise, repeated restarts would skip the pauses, even a pause that the
    /// server requested.
    pub fn restart(&mut self) {
        self.from = None;
    }

    /// Notes the end of the watch.
    pub fn ended(&mut self, now: Moment, ended: Result<(), &StoreError>) -> Ended {
        let lasted = now.since(self.began);
        match ended {
            Ok(()) => self.ended_in_good_order(now, lasted),
            Err(error) if error.kind() == StoreErrorKind::Unsupported => Ended { pause: None, notice: None },
            Err(error) => self.failed(now, lasted, error),
        }
    }

    /// Plans the next watch after a watch that ended without an error.
    ///
    /// The next watch resumes. If the last watch was short, a pause comes first.
    fn ended_in_good_order(&mut self, now: Moment, lasted: Duration) -> Ended {
        if lasted > self.retry_period {
            self.backoff.reset();
            return Ended { pause: Some(Duration::ZERO), notice: None };
        }
        let notice = self.log.failed(now, StoreErrorKind::ConnectionClosed).map(|level| {
            Notice::new(level, format!("watches end too early, polling in between: the last watch lasted {lasted:.1?}"))
        });
        Ended { pause: Some(self.back_off()), notice }
    }

    fn failed(&mut self, now: Moment, lasted: Duration, error: &StoreError) -> Ended {
        use StoreErrorKind::{Expired, Forbidden, Interrupted, Unauthorized};
        // A watch that lasted and delivered an event resets the pauses. If the election gave up the watch because
        // events were missing, the next watch would probably fail again. Such a watch must therefore last longer to
        // reset the pauses.
        let is_given_up = error.kind() == Interrupted;
        if self.has_delivered && lasted > if is_given_up { LONGEST_PAUSE } else { self.retry_period } {
            self.backoff.reset();
        }
        let is_first = self.backoff.is_reset();
        let notice = match error.kind() {
            Expired => Some(Notice::of_error(Level::Debug, "watch expired, restarting", error)),
            // The first interruption is not logged, because the connection may just have broken. Later interruptions
            // are logged.
            Interrupted if is_first => None,
            kind => self.log.failed(now, kind).map(|level| match kind {
                Interrupted => Notice::new(level, "watch misses changes, polling: a proxy may buffer the events"),
                Forbidden | Unauthorized if !self.has_opened => {
                    Notice::of_error(level, "watch rejected, polling (slower takeover, more requests)", error)
                }
                _ => Notice::of_error(level, "watch failed, polling until it recovers", error),
            }),
        };
        if error.kind() == Expired {
            self.from = None;
        }
        let pause = match error.kind() {
            Expired | Interrupted if is_first => {
                self.backoff.pause(self.retry_period, LONGEST_PAUSE);
                Duration::ZERO
            }
            Forbidden | Unauthorized if !self.has_opened => match self.back_off() {
                // The server may have restarted just before this candidate started.
                pause if pause < LONGEST_PAUSE => pause,
                _ => self.jittered(REFUSED),
            },
            _ => self.back_off(),
        };
        let requested = requested_pause(error.retry_after(), self.lease_duration, self.random.f64());
        Ended { pause: Some(pause.max(requested)), notice }
    }

    fn back_off(&mut self) -> Duration {
        let pause = self.backoff.pause(self.retry_period, LONGEST_PAUSE.max(self.retry_period));
        self.jittered(pause)
    }

    /// Adds up to 20 % jitter.
    fn jittered(&mut self, duration: Duration) -> Duration {
        duration.mul_f64(1.0 + 0.2 * self.random.f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// The watches of a candidate, with a virtual clock.
    struct Scenario {
        plan: WatchPlan,
        now: Moment,
    }

    impl Scenario {
        fn new(retry_period: Duration) -> Self {
            let mut plan = WatchPlan::new(retry_period, secs(15), 7);
            plan.bookmark(Cursor::new(7_u64));
            Self { plan, now: Moment::from_nanos(1_000_000_000) }
        }

        /// Runs a watch for the duration `lasts`. Returns the pause before the next watch.
        fn watch(&mut self, has_delivered: bool, lasts: Duration, ended: Result<(), StoreError>) -> Duration {
            self.plan.begin(self.now);
            if has_delivered {
                self.plan.delivered();
            }
            self.now = self.now + lasts;
            self.plan.ended(self.now, ended.as_ref().copied()).pause.expect("there is one to be had")
        }

        fn goes_on(&mut self) -> bool {
            self.plan.begin(self.now).is_some()
        }
    }

    fn error(kind: StoreErrorKind) -> StoreError {
        StoreError::new(kind, "made up")
    }

    /// Asserts that the pause is `expected`, plus at most 20 % jitter.
    fn assert_about(pause: Duration, expected: Duration) {
        assert!(pause >= expected && pause <= expected.mul_f64(1.2), "{pause:?} instead of {expected:?}");
    }

    type End = fn(&mut Scenario) -> Duration;

    #[test]
    fn pauses_grow_to_a_minute_until_a_watch_has_lasted() {
        let refused: End = |scenario| scenario.watch(false, secs(10), Err(error(StoreErrorKind::Unavailable)));
        let brief: End = |scenario| scenario.watch(false, secs(2), Ok(()));
        for end in [refused, brief] {
            let mut scenario = Scenario::new(secs(2));
            for expected in [2, 4, 8, 16, 32, 60, 60, 60] {
                assert_about(end(&mut scenario), secs(expected));
            }
            assert_eq!(scenario.watch(false, secs(3), Ok(())), Duration::ZERO);
            assert_about(end(&mut scenario), secs(2));
        }
        assert_about(brief(&mut Scenario::new(secs(100))), secs(100));
    }

    #[test]
    fn abandoned_watch_reopens_at_once_then_with_growing_pauses() {
        for kind in [StoreErrorKind::Interrupted, StoreErrorKind::Expired] {
            let mut scenario = Scenario::new(secs(2));
            assert_eq!(scenario.watch(false, secs(10), Err(error(kind))), Duration::ZERO, "{kind:?}");
            for expected in [4, 8, 16, 32, 60, 60] {
                assert_about(scenario.watch(false, secs(10), Err(error(kind))), secs(expected));
            }
        }
    }

    #[test]
    fn lasting_watch_with_events_resets_the_pauses() {
        let mut scenario = Scenario::new(secs(2));
        for _ in 0..9 {
            scenario.watch(false, Duration::ZERO, Err(error(StoreErrorKind::Unavailable)));
        }
        assert_about(scenario.watch(true, secs(3), Err(error(StoreErrorKind::Unavailable))), secs(2));
        // A watch that the election gave up resets the pauses only after a minute.
        assert_about(scenario.watch(true, secs(3), Err(error(StoreErrorKind::Interrupted))), secs(4));
        assert_eq!(scenario.watch(true, secs(61), Err(error(StoreErrorKind::Interrupted))), Duration::ZERO);
        // The last watch delivers no event, and events of earlier watches do not count.
        assert_about(scenario.watch(false, secs(61), Err(error(StoreErrorKind::Unavailable))), secs(4));
        for _ in 0..70 {
            let pause = scenario.watch(false, secs(1), Err(error(StoreErrorKind::Unavailable)));
            assert!(pause < secs(73) && pause != secs(60), "{pause:?} without jitter");
        }
    }

    #[test]
    fn each_kind_of_end_has_its_notice_and_its_pause() {
        use StoreErrorKind::{Expired, Forbidden, Interrupted, Malformed, Timeout, Unauthorized, Unavailable};
        let polling = "watch failed, polling until it recovers";
        let refused = "watch rejected, polling (slower takeover, more requests)";
        // The error that ends two watches, the pause after the second watch, and the level and text of both notices.
        for (kind, pause, notices) in [
            (Expired, 4, [Some((Level::Debug, "watch expired, restarting")); 2]),
            (
                Interrupted,
                4,
                [None, Some((Level::Warn, "watch misses changes, polling: a proxy may buffer the events"))],
            ),
            (Forbidden, 4, [Some((Level::Warn, refused)), None]),
            (Unauthorized, 4, [Some((Level::Warn, refused)), None]),
            (Malformed, 4, [Some((Level::Warn, polling)), None]),
            (Timeout, 4, [Some((Level::Warn, polling)), None]),
            (Unavailable, 4, [Some((Level::Warn, polling)), None]),
        ] {
            let mut scenario = Scenario::new(secs(2));
            for (round, expected) in notices.into_iter().enumerate() {
                scenario.plan.begin(scenario.now);
                scenario.now = scenario.now + secs(1);
                let ended = scenario.plan.ended(scenario.now, Err(&error(kind)));
                assert_eq!(ended.notice.as_ref().map(|notice| notice.level), expected.map(|it| it.0), "{kind:?}");
                let notice = format!("{:?}", ended.notice);
                assert!(expected.is_none_or(|(_, text)| notice.contains(text)), "{kind:?}: {notice}");
                if round == 1 {
                    assert_about(ended.pause.expect("a pause"), secs(pause));
                }
            }
        }
    }

    /// A restarting API server refuses connections, and then refuses requests until it has loaded its rights.
    #[test]
    fn refusal_of_a_watch_that_worked_is_transient() {
        use StoreErrorKind::{Forbidden, NotFound, Rejected, Unauthorized, Unavailable, Untrusted};
        for kind in [Forbidden, Unauthorized, NotFound, Untrusted, Rejected] {
            let mut scenario = Scenario::new(secs(2));
            scenario.plan.opened();
            assert_about(scenario.watch(true, secs(100), Err(error(Unavailable))), secs(2));
            for expected in [4, 8, 16, 32, 60, 60, 60] {
                assert_about(scenario.watch(false, secs(0), Err(error(kind))), secs(expected));
            }
        }
    }

    #[test]
    fn watch_that_never_worked_is_soon_retried_seldom() {
        for kind in [StoreErrorKind::Forbidden, StoreErrorKind::Unauthorized] {
            let mut scenario = Scenario::new(secs(2));
            for expected in [2, 4, 8, 16, 32, 300, 300] {
                assert_about(scenario.watch(false, secs(0), Err(error(kind))), secs(expected));
            }
        }
    }

    #[test]
    fn requested_pause_of_a_watch_is_limited() {
        use StoreErrorKind::{Expired, Forbidden, Interrupted, Malformed, Timeout, Unauthorized, Unavailable};
        for kind in [Expired, Forbidden, Interrupted, Malformed, Timeout, Unauthorized, Unavailable] {
            for (asked, pause) in [(10, 10), (15, 15), (3_600, 15)] {
                let asked = error(kind).with_retry_after(Some(secs(asked)));
                assert_about(Scenario::new(secs(2)).watch(false, secs(1), Err(asked)), secs(pause));
            }
        }
    }

    #[test]
    fn expired_watch_restarts_and_any_other_resumes() {
        let mut scenario = Scenario::new(secs(2));
        scenario.watch(false, secs(9), Ok(()));
        scenario.watch(false, secs(9), Err(error(StoreErrorKind::Unavailable)));
        scenario.watch(false, secs(9), Err(error(StoreErrorKind::Interrupted)));
        assert!(scenario.goes_on());
        scenario.watch(false, secs(9), Err(error(StoreErrorKind::Expired)));
        assert!(!scenario.goes_on());
    }

    #[test]
    fn restart_is_fresh_and_an_incapable_store_is_not_asked_again() {
        let mut scenario = Scenario::new(secs(2));
        scenario.plan.restart();
        assert!(!scenario.goes_on());
        let ended = scenario.plan.ended(scenario.now, Err(&error(StoreErrorKind::Unsupported)));
        assert!(ended.pause.is_none() && ended.notice.is_none());
    }
}
