//! When the next watch is to be opened, and where it begins.

use std::time::Duration;

use log::Level;

use crate::election::candidate::failure_log::FailureLog;
use crate::election::candidate::notice::Notice;
use crate::store::{Cursor, StoreError, StoreErrorKind};
use crate::util::backoff::Backoff;
use crate::util::clock::Moment;

/// A watch that is refused is asked for again now and then: rights can be granted later.
const REFUSED: Duration = Duration::from_secs(300);

const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The watches of a candidacy, one after the other.
#[derive(Debug)]
pub struct WatchPlan {
    retry_period: Duration,
    random: fastrand::Rng,
    /// Where the next watch begins.
    from: Option<Cursor>,
    /// When the current watch, or the last one, was asked for.
    began: Moment,
    /// Whether it has told anything.
    told: bool,
    /// Of watches that have failed, or were given up without having told anything.
    backoff: Backoff,
    log: FailureLog,
}

/// What follows a watch that has ended.
#[derive(Debug)]
pub struct Ended {
    /// How long until the next one; `None` where there is none to be had.
    pub pause: Option<Duration>,
    pub(crate) notice: Option<Notice>,
}

impl WatchPlan {
    /// `seed` feeds the jitter: watches that lost one server must not come back together.
    pub fn new(retry_period: Duration, seed: u64) -> Self {
        Self {
            retry_period,
            random: fastrand::Rng::with_seed(seed),
            from: None,
            began: Moment::from_nanos(0),
            told: false,
            backoff: Backoff::default(),
            log: FailureLog::default(),
        }
    }

    /// A watch is asked for: where it begins.
    pub fn begin(&mut self, now: Moment) -> Option<Cursor> {
        self.began = now;
        self.told = false;
        self.from.clone()
    }

    /// It has told something. One that opens and tells nothing does not work.
    pub fn told(&mut self) -> Option<Notice> {
        self.told = true;
        self.log.works(self.began).map(|works| Notice::works_again("the watch", &works))
    }

    /// The next one may begin there.
    pub fn bookmark(&mut self, cursor: Cursor) {
        self.from = Some(cursor);
    }

    /// The next one is to begin with what is there. That changes where it begins, and not when: one that is given up again and
    /// again would else never be spared, nor a server that asked to be left alone.
    pub fn restart(&mut self) {
        self.from = None;
    }

    /// It has ended, in good order or not.
    pub fn ended(&mut self, now: Moment, ended: Result<(), &StoreError>) -> Ended {
        let lasted = now.since(self.began);
        match ended {
            Ok(()) => self.ended_in_good_order(now, lasted),
            Err(error) if error.kind() == StoreErrorKind::Unsupported => Ended { pause: None, notice: None },
            Err(error) => self.failed(now, lasted, error),
        }
    }

    /// The next one goes on where it ended, at once unless it was brief.
    fn ended_in_good_order(&mut self, now: Moment, lasted: Duration) -> Ended {
        if lasted > self.retry_period {
            self.backoff.reset();
            return Ended { pause: Some(Duration::ZERO), notice: None };
        }
        let notice = self.log.failed(now, StoreErrorKind::ConnectionClosed).map(|level| {
            Notice::new(level, format!("polling between watches: the server ends them within {lasted:.1?}"))
        });
        Ended { pause: Some(self.back_off()), notice }
    }

    fn failed(&mut self, now: Moment, lasted: Duration, error: &StoreError) -> Ended {
        use StoreErrorKind::{Expired, Forbidden, Interrupted, Unauthorized};
        // One that lasted, and told something, has made up for those that failed before it. What is given up because it
        // did not tell all that it should would do so the next time, unless it has been good for long.
        let is_given_up = error.kind() == Interrupted;
        if self.told && lasted > if is_given_up { LONGEST_PAUSE } else { self.retry_period } {
            self.backoff.reset();
        }
        let is_first = self.backoff.is_reset();
        let notice = match error.kind() {
            Expired => Some(Notice::of_error(Level::Debug, "watch begins anew", error)),
            // Given up once, a watch may just have been cut; given up again and again it tells nothing.
            Interrupted if is_first => None,
            kind => self.log.failed(now, kind).map(|level| match kind {
                Interrupted => Notice::new(level, "polling: watches open and do not tell what reads find"),
                Forbidden | Unauthorized => {
                    Notice::of_error(level, "polling, which delays take-overs and costs requests", error)
                }
                _ => Notice::of_error(level, "polling until the watch works again", error),
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
            Forbidden | Unauthorized => self.jittered(REFUSED),
            _ => self.back_off(),
        };
        Ended { pause: Some(pause.max(error.retry_after().unwrap_or_default())), notice }
    }

    fn back_off(&mut self) -> Duration {
        let pause = self.backoff.pause(self.retry_period, LONGEST_PAUSE.max(self.retry_period));
        self.jittered(pause)
    }

    /// Up to a fifth longer, at random.
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

    /// Watches of a candidacy, and what its clock says.
    struct Scenario {
        plan: WatchPlan,
        now: Moment,
    }

    impl Scenario {
        fn new(retry_period: Duration) -> Self {
            let mut plan = WatchPlan::new(retry_period, 7);
            plan.bookmark(Cursor::new(7_u64));
            Self { plan, now: Moment::from_nanos(1_000_000_000) }
        }

        /// A watch that lasts so long: how long until the next one.
        fn watch(&mut self, told: bool, lasts: Duration, ended: Result<(), StoreError>) -> Duration {
            self.plan.begin(self.now);
            if told {
                self.plan.told();
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

    /// A pause of this length, and up to a fifth more.
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
        // What is given up is not good enough for that before it has been good for long.
        assert_about(scenario.watch(true, secs(3), Err(error(StoreErrorKind::Interrupted))), secs(4));
        assert_eq!(scenario.watch(true, secs(61), Err(error(StoreErrorKind::Interrupted))), Duration::ZERO);
        // The events of the watch before it do not count.
        assert_about(scenario.watch(false, secs(61), Err(error(StoreErrorKind::Unavailable))), secs(4));
        for _ in 0..70 {
            let pause = scenario.watch(false, secs(1), Err(error(StoreErrorKind::Unavailable)));
            assert!(pause < secs(73) && pause != secs(60), "{pause:?} without jitter");
        }
    }

    #[test]
    fn each_kind_of_end_has_its_notice_and_its_pause() {
        use StoreErrorKind::{Expired, Forbidden, Interrupted, Malformed, Timeout, Unauthorized, Unavailable};
        let polling = "polling until the watch works again";
        let refused = "polling, which delays take-overs and costs requests";
        // The end, the pause after two of them, and the level and text of the notices of both.
        for (kind, pause, notices) in [
            (Expired, 4, [Some((Level::Debug, "watch begins anew")); 2]),
            (Interrupted, 4, [None, Some((Level::Warn, "polling: watches open and do not tell what reads find"))]),
            (Forbidden, 300, [Some((Level::Warn, refused)), None]),
            (Unauthorized, 300, [Some((Level::Warn, refused)), None]),
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

    #[test]
    fn a_pause_that_was_asked_for_is_never_shortened() {
        use StoreErrorKind::{Expired, Forbidden, Interrupted, Malformed, Timeout, Unauthorized, Unavailable};
        for kind in [Expired, Forbidden, Interrupted, Malformed, Timeout, Unauthorized, Unavailable] {
            let mut scenario = Scenario::new(secs(2));
            for _ in 0..9 {
                let asked = error(kind).with_retry_after(Some(secs(500)));
                assert_eq!(scenario.watch(false, secs(1), Err(asked)), secs(500), "{kind:?}");
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
