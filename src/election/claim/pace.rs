//! The earliest times and the timeouts of requests.

use std::fmt;
use std::time::Duration;

use super::round_trip::{InterruptAfter, RoundTrip};
use crate::election::settings::{JITTER_FACTOR, Settings};
use crate::election::timer::Timer;
use crate::store::StoreErrorKind;
use crate::util::backoff::requested_pause;
use crate::util::clock::Moment;
use crate::util::sync::Arc;

/// The shortest timeout of a release request. With a timeout of zero, a store would not send the request.
const SHORTEST_ATTEMPT: Duration = Duration::from_millis(1);

/// The idle time after which a middlebox, such as a firewall, may have dropped a connection without notice.
const MAY_BE_DROPPED: Duration = Duration::from_secs(10);

/// The shortest first attempt on a connection that may be dropped.
const SHORTEST_FIRST_ATTEMPT: Duration = Duration::from_secs(1);

/// The time before a takeover in which no read starts, because the takeover would wait for the answer.
const CLEARANCE: Duration = Duration::from_secs(1);

/// The longest round trip to a server that is not distant.
///
/// If the round trip is shorter, the connection opened slowly for another reason, such as a busy processor.
const NEAR: Duration = Duration::from_millis(5);

/// The urgency of requests, which limits their timeouts, delays and pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Urgency {
    /// A term expires at this moment.
    Term(Moment),
    /// A caller waits for a release until this moment.
    Release(Moment),
    None,
}

/// The purpose of a request, on which its timeout depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The first attempt of a renewal.
    FirstRenewal,
    /// A request of a campaign.
    Campaign,
    Other,
}

/// When the next read and the next write may be sent, and how long each may take.
pub(super) struct Pace {
    settings: Arc<Settings>,
    random: fastrand::Rng,
    read_at: Moment,
    write_at: Moment,
    /// `true` after a failed or in-doubt write, if a read must precede the next write.
    must_read: bool,
    /// The end of the pause that the store requested.
    asked_until: Moment,
    /// The end of the pause that the candidate keeps.
    ///
    /// This pause is shorter than requested if a term or a release is urgent.
    paused_until: Moment,
    /// `true` after a request was repeated because its connection was closed.
    ///
    /// Reset when the store answers a request.
    has_repeated: bool,
    /// The time of the last answer, since which the connection is idle.
    answered_at: Option<Moment>,
    /// `true` if a middlebox may have dropped the connection of the last request before the request.
    may_be_dropped: bool,
    /// The idle time after which the connection must be used again to stay open, and its end.
    keep_alive: Option<(Duration, Moment)>,
    round_trip: RoundTrip,
}

impl Pace {
    /// Creates a pace without pauses. `seed` feeds the jitter.
    pub(super) fn new(settings: Arc<Settings>, seed: u64) -> Self {
        let never = Moment::default();
        Self {
            settings,
            random: fastrand::Rng::with_seed(seed),
            read_at: never,
            write_at: never,
            must_read: false,
            asked_until: never,
            paused_until: never,
            has_repeated: false,
            answered_at: None,
            may_be_dropped: false,
            keep_alive: None,
            round_trip: RoundTrip::default(),
        }
    }

    /// Returns a random number below `limit`.
    pub(super) fn random(&mut self, limit: u64) -> u64 {
        self.random.u64(..limit)
    }

    /// Returns `true` if a read must precede the next write.
    pub(super) fn must_read(&self) -> bool {
        self.must_read
    }

    /// Returns `true` if a requested pause has not ended.
    pub(super) fn is_paused(&self, now: Moment) -> bool {
        now < self.paused_until
    }

    /// Returns the earliest time of the next read.
    pub(super) fn may_read_at(&self) -> Moment {
        self.read_at.max(self.paused_until)
    }

    /// Returns the earliest time of the next acquisition or release.
    pub(super) fn may_write_at(&self) -> Moment {
        self.write_at.max(self.paused_until)
    }

    /// Returns the time of a renewal that is due at `renew_at`.
    pub(super) fn may_renew_at(&self, renew_at: Moment) -> Moment {
        renew_at.max(self.paused_until)
    }

    /// Returns `true` if a read is usually answered before a renewal at `renew_at`.
    pub(super) fn leaves_time_for_a_read(&self, now: Moment, renew_at: Moment) -> bool {
        now + self.round_trip.usual() <= renew_at
    }

    /// Returns `true` if a waiting candidate must read now, so that its connection stays open for the takeover.
    pub(super) fn keeps_alive(&mut self, timer: &mut Timer, takeover_at: Option<Moment>) -> bool {
        let Some((idle_time, ends_at)) = self.keep_alive.filter(|_| self.round_trip.usual() > NEAR) else {
            return false;
        };
        let takeover_at = takeover_at.unwrap_or(timer.now() + self.settings.renew_deadline);
        let read_at = ends_at.max(timer.now()).max(self.may_read_at());
        let clearance = CLEARANCE.max(self.round_trip.answered_by());
        let is_due = read_at + clearance < takeover_at && timer.is_due(read_at);
        if is_due {
            // A failed read is not repeated before its time.
            self.keep_alive = Some((idle_time, timer.now() + idle_time));
        }
        is_due
    }

    /// Notes the idle time after which the connection must be used again to stay open.
    pub(super) fn set_idle_timeout(&mut self, now: Moment, after: Option<Duration>) {
        self.keep_alive = after.map(|after| (after, now + after));
    }

    /// Notes that a read is sent. Another read follows no earlier than after a retry delay.
    pub(super) fn read_sent(&mut self, now: Moment, urgency: Urgency) {
        self.read_at = now + self.retry_delay(now, urgency);
    }

    /// Notes that a write is sent.
    pub(super) fn write_sent(&mut self, now: Moment, urgency: Urgency) {
        self.write_at = now + self.retry_delay(now, urgency);
    }

    /// Returns the timeout of a request that is sent now.
    ///
    /// The timeout usually leaves time for another request.
    pub(super) fn timeout(&mut self, now: Moment, urgency: Urgency, purpose: Purpose) -> Duration {
        let is_idle = self.answered_at.is_some_and(|at| now.since(at) > MAY_BE_DROPPED);
        self.may_be_dropped = is_idle && purpose == Purpose::Campaign && !self.has_repeated;
        let timeout = self.attempt_timeout(now, urgency, purpose);
        match self.may_be_dropped {
            true => timeout.min(self.round_trip.answered_anew_by().max(SHORTEST_FIRST_ATTEMPT)),
            false => timeout,
        }
    }

    fn attempt_timeout(&self, now: Moment, urgency: Urgency, purpose: Purpose) -> Duration {
        let renew_deadline = self.settings.renew_deadline;
        match urgency {
            Urgency::Term(until) => {
                let left = until.since(now);
                let shortest = (left / 2).max(renew_deadline / 20);
                // The next renewal starts late after a slow answer, so a slow server needs more than half of the rest.
                let first = match purpose {
                    Purpose::FirstRenewal => {
                        let reserve = self.settings.retry_period.max(renew_deadline / 5);
                        // If the server stays too slow for this term, no timeout helps. It may have become fast again.
                        let slow = self.round_trip.as_slow_as_before();
                        let needed = if slow <= left { slow * 5 / 4 } else { Duration::ZERO };
                        left.saturating_sub(reserve).max(needed)
                    }
                    _ => Duration::ZERO,
                };
                shortest.max(first).min(left)
            }
            // On a new connection, one attempt takes three round trips. A distant store therefore needs most of the
            // time for one attempt.
            Urgency::Release(until) => {
                let left = until.since(now);
                left.saturating_sub(self.release_reserve()).max(left / 2).clamp(SHORTEST_ATTEMPT, renew_deadline)
            }
            Urgency::None => renew_deadline / 2,
        }
    }

    /// Returns the time that the first release attempt leaves for a second attempt.
    ///
    /// Returns zero if the time would not be enough. The second attempt needs a new connection, because a timeout closes
    /// the connection of the first attempt.
    fn release_reserve(&self) -> Duration {
        let reserve = self.settings.release_timeout / 8;
        if self.round_trip.answered_anew_by() <= reserve { reserve } else { Duration::ZERO }
    }

    /// Returns the retry period with up to 20 % jitter.
    pub(super) fn jittered_retry(&mut self) -> Duration {
        self.settings.retry_period.mul_f64(1.0 + (JITTER_FACTOR - 1.0) * self.random.f64())
    }

    /// Returns a random part of a retry period.
    pub(super) fn part_of_a_retry(&mut self) -> Duration {
        self.settings.retry_period.mul_f64(self.random.f64())
    }

    /// Returns the delay before a failed request may be retried.
    pub(super) fn retry_delay(&mut self, now: Moment, urgency: Urgency) -> Duration {
        let jittered = self.jittered_retry();
        match urgency {
            Urgency::Term(until) => jittered.min((until.since(now) / 2).max(self.settings.renew_deadline / 20)),
            Urgency::Release(_) => jittered.min(self.settings.release_timeout / 4),
            Urgency::None => jittered,
        }
    }

    /// Starts a pause that the store requested, which is at most a lease duration plus jitter.
    ///
    /// If a term or a release is urgent, the candidate may keep a shorter pause.
    pub(super) fn pause(&mut self, now: Moment, asked: Option<Duration>, urgency: Urgency) {
        let limited = requested_pause(asked, self.settings.lease_duration, self.random.f64());
        self.asked_until = self.asked_until.max(now + limited);
        let pause = self.urgent_pause(now, asked.unwrap_or_default(), urgency).unwrap_or(limited).min(limited);
        self.paused_until = self.paused_until.max(now + pause);
    }

    /// Shortens the current pause if a term or a release is urgent.
    pub(super) fn shorten_pause(&mut self, now: Moment, urgency: Urgency) {
        let rest = self.paused_until.since(now);
        self.paused_until = now + self.urgent_pause(now, rest, urgency).unwrap_or(rest);
    }

    /// Keeps the requested pause in full, because a campaign is not urgent.
    pub(super) fn keep_full_pause(&mut self) {
        self.paused_until = self.asked_until;
    }

    /// Returns the pause of an urgent term or release, or `None` if neither is urgent.
    ///
    /// If the requested pause would leave too little time for another attempt, the pause is at most half of the remaining
    /// time.
    fn urgent_pause(&self, now: Moment, asked: Duration, urgency: Urgency) -> Option<Duration> {
        let (until, reserve) = match urgency {
            Urgency::Term(until) => (until, self.settings.renew_deadline / 5),
            Urgency::Release(until) => (until, (self.settings.release_timeout / 8).max(self.round_trip.answered_by())),
            Urgency::None => return None,
        };
        let left = until.since(now);
        Some(if asked <= left.saturating_sub(reserve) { asked } else { asked.min(left / 2) })
    }

    /// Allows the release of the record at once.
    pub(super) fn start_release(&mut self, now: Moment, urgency: Urgency) {
        self.write_at = now;
        if self.must_read {
            // The release may interrupt a read, so the read is repeated at once.
            self.read_at = now;
        }
        self.shorten_pause(now, urgency);
    }

    /// Delays the next acquisition by a retry period.
    pub(super) fn delay_write(&mut self, now: Moment) {
        self.write_at = now + self.jittered_retry();
    }

    /// Returns the earliest time of the retry of the last write.
    pub(super) fn retry_write_at(&self) -> Moment {
        self.write_at
    }

    /// Requires a read before the next write, no earlier than `at`.
    pub(super) fn must_read_at(&mut self, at: Moment) {
        (self.must_read, self.read_at) = (true, at);
    }

    /// Plans the next read at `at`.
    ///
    /// A read that must precede a write, or that is needed for another reason, is not delayed.
    pub(super) fn read_by(&mut self, at: Moment, is_needed: bool) {
        self.read_at = if self.must_read || is_needed { self.read_at.min(at) } else { at };
    }

    /// Notes that a read was answered.
    pub(super) fn has_read(&mut self) {
        self.must_read = false;
    }

    /// Notes that a new version is known, so the next write may follow at once.
    pub(super) fn learned(&mut self, now: Moment) {
        (self.must_read, self.write_at) = (false, now);
    }

    /// Notes an answer of the store, which took this time if the answer is to the last request.
    pub(super) fn answered(&mut self, now: Moment, took: Option<Duration>) {
        self.has_repeated = false;
        if let Some(took) = took {
            self.round_trip.note(took);
            // An answer to an abandoned request came on another connection.
            self.answered_at = Some(now);
        }
    }

    /// Returns `true` if a request that failed in this way may be repeated at once.
    ///
    /// Servers and load balancers may close or drop idle connections at any time. The new attempt is a new request, because
    /// the store may have applied the old request.
    pub(super) fn repeats(&mut self, now: Moment, kind: StoreErrorKind) -> bool {
        let is_lost =
            kind == StoreErrorKind::ConnectionClosed || kind == StoreErrorKind::Timeout && self.may_be_dropped;
        let repeats = is_lost && !self.has_repeated;
        if repeats {
            (self.has_repeated, self.write_at, self.read_at) = (true, now, now);
            // A read that keeps the connection open is repeated, too.
            self.keep_alive = self.keep_alive.map(|(idle_time, _)| (idle_time, now));
        }
        repeats
    }

    /// Returns the times after which a waiting release or watch event interrupts a request.
    pub(super) fn interrupt_after(&self) -> InterruptAfter {
        self.round_trip.interrupt_after(self.settings.release_timeout, self.settings.renew_deadline)
    }
}

/// Leaves out the settings, the random numbers and the measured times.
///
/// The model compares candidates by this text.
impl fmt::Debug for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { read_at, write_at, must_read, asked_until, paused_until, has_repeated, .. } = self;
        let mut text = f.debug_struct("Pace");
        text.field("read_at", read_at).field("write_at", write_at).field("must_read", must_read);
        text.field("asked_until", asked_until).field("paused_until", paused_until);
        text.field("has_repeated", has_repeated).field("answered_at", &self.answered_at);
        text.field("may_be_dropped", &self.may_be_dropped).field("keep_alive", &self.keep_alive).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::settings::Config;

    const NOW: Moment = Moment::from_nanos(1_000_000_000_000);

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Returns a pace for the defaults, whose last answer took `took`.
    ///
    /// The lease duration is 15 s, the renew deadline 10 s, the retry period 2 s, and the release timeout 2 s.
    fn pace(took: Duration) -> Pace {
        let mut pace = Pace::new(Arc::new(Config::default().validate().unwrap()), 1);
        pace.answered(NOW, Some(took));
        pace
    }

    #[test]
    fn timeouts_and_delays_shrink_with_the_remaining_time() {
        use Purpose::{Campaign, FirstRenewal, Other};
        type Until = fn(Moment) -> Urgency;
        // The urgency, the remaining milliseconds, the purpose, the timeout, and the longest retry delay.
        let rows: [(Until, u64, Purpose, u64, u64); 18] = [
            (Urgency::Term, 10_000, FirstRenewal, 8_000, 2_400),
            (Urgency::Term, 10_000, Other, 5_000, 2_400),
            (Urgency::Term, 8_000, FirstRenewal, 6_000, 2_400),
            (Urgency::Term, 8_000, Other, 4_000, 2_400),
            (Urgency::Term, 3_000, FirstRenewal, 1_500, 1_500),
            (Urgency::Term, 3_000, Other, 1_500, 1_500),
            (Urgency::Term, 600, FirstRenewal, 500, 500),
            (Urgency::Term, 600, Other, 500, 500),
            (Urgency::Term, 300, FirstRenewal, 300, 500),
            (Urgency::Term, 300, Other, 300, 500),
            (Urgency::Release, 2_000, Other, 1_750, 500),
            (Urgency::Release, 1_000, Other, 750, 500),
            (Urgency::Release, 600, Other, 350, 500),
            (Urgency::Release, 200, Other, 100, 500),
            (Urgency::Release, 1, Other, 1, 500),
            (|_| Urgency::None, 0, Other, 5_000, 2_400),
            (|_| Urgency::None, 0, Campaign, 5_000, 2_400),
            (|_| Urgency::None, 0, FirstRenewal, 5_000, 2_400),
        ];
        for (urgency, left, purpose, timeout, retry) in rows {
            let urgency = urgency(NOW + millis(left));
            assert_eq!(pace(millis(1)).timeout(NOW, urgency, purpose), millis(timeout), "{urgency:?} {purpose:?}");
            let delay = pace(millis(1)).retry_delay(NOW, urgency);
            assert!((millis(retry.min(2_000))..=millis(retry)).contains(&delay), "{urgency:?}: {delay:?}");
        }
    }

    #[test]
    fn slow_or_distant_store_gets_longer_timeouts() {
        let term = Urgency::Term(NOW + millis(8_000));
        // The time of the last answer, and the timeout of the first attempt of a renewal.
        for (took, timeout) in [(4_800, 6_000), (5_000, 6_250), (6_400, 8_000), (8_000, 8_000), (8_001, 6_000)] {
            assert_eq!(pace(millis(took)).timeout(NOW, term, Purpose::FirstRenewal), millis(timeout), "{took}");
        }
        let release = Urgency::Release(NOW + millis(2_000));
        for (took, timeout) in [(83, 1_750), (84, 2_000)] {
            assert_eq!(pace(millis(took)).timeout(NOW, release, Purpose::Other), millis(timeout), "{took}");
        }
    }

    #[test]
    fn pause_leaves_a_reserve_and_is_never_shortened() {
        type Until = fn(Moment) -> Urgency;
        // The urgency, the remaining milliseconds, the requested pause, and the pause that is kept.
        let rows: [(Until, u64, u64, u64); 6] = [
            (Urgency::Term, 8_000, 6_000, 6_000),
            (Urgency::Term, 8_000, 6_001, 4_000),
            (Urgency::Term, 1_000, 100, 100),
            (Urgency::Release, 2_000, 1_750, 1_750),
            (Urgency::Release, 2_000, 1_751, 1_000),
            (Urgency::Release, 200, 50, 50),
        ];
        for (urgency, left, asked, kept) in rows {
            let (mut pace, urgency) = (pace(millis(1)), urgency(NOW + millis(left)));
            for again in [asked, 0] {
                pace.pause(NOW, Some(millis(again)), urgency);
                assert_eq!(pace.may_write_at(), NOW + millis(kept), "{urgency:?}, {asked} ms");
            }
            assert!(pace.is_paused(NOW) && !pace.is_paused(NOW + millis(kept)));
            // The next campaign is not urgent.
            pace.keep_full_pause();
            assert!(pace.may_write_at() >= NOW + millis(asked), "{urgency:?}, {asked} ms");
        }
    }

    #[test]
    fn request_is_repeated_once_after_a_lost_connection() {
        use StoreErrorKind::{Conflict, ConnectionClosed, Timeout};
        let later = NOW + MAY_BE_DROPPED + millis(1);
        // The kind of the failure, whether the connection was idle, and whether the request is repeated.
        for (kind, is_idle, repeats) in [
            (ConnectionClosed, false, true),
            (ConnectionClosed, true, true),
            (Timeout, false, false),
            (Timeout, true, true),
            (Conflict, true, false),
        ] {
            let mut pace = pace(millis(1));
            let sent_at = if is_idle { later } else { NOW };
            let timeout = pace.timeout(sent_at, Urgency::None, Purpose::Campaign);
            assert_eq!(timeout, millis(if is_idle { 1_000 } else { 5_000 }));
            pace.write_sent(sent_at, Urgency::None);
            assert_eq!(pace.repeats(sent_at, kind), repeats, "{kind:?} {is_idle}");
            assert_eq!(pace.may_write_at() == sent_at, repeats, "{kind:?} {is_idle}");
            assert!(!repeats || !pace.repeats(sent_at, kind), "twice");
            pace.answered(sent_at, None);
            pace.timeout(sent_at, Urgency::None, Purpose::Campaign);
            assert_eq!(pace.repeats(sent_at, kind), repeats, "after an answer");
        }
    }

    #[test]
    fn due_read_is_not_delayed() {
        let (early, late) = (NOW + millis(1), NOW + millis(9));
        for (must_read, is_needed, expected) in [(false, false, late), (true, false, early), (false, true, early)] {
            let mut pace = pace(millis(1));
            pace.read_at = early;
            pace.must_read = must_read;
            pace.read_by(late, is_needed);
            assert_eq!(pace.may_read_at(), expected);
        }
    }
}
