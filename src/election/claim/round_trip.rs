//! A round-trip estimate (RFC 6298 style), which decides when a request is interrupted.

use std::time::Duration;

/// The shortest time that a waiting release gives a request in flight. An interrupt closes the connection.
const RELEASE_WAITS: Duration = Duration::from_millis(50);

/// The shortest time that a waiting event of another candidate gives a request in flight. A busy server answers faster.
const NEWS_WAIT: Duration = Duration::from_millis(250);

/// The time from sending a request to its answer, smoothed as in RFC 6298.
#[derive(Debug, Clone, Default)]
pub(super) struct RoundTrip {
    smoothed: Duration,
    deviation: Duration,
    last: Duration,
}

/// The times after which a waiting release or event interrupts a request in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterruptAfter {
    /// The time for a release.
    pub release: Duration,
    /// The time for an event of another candidate.
    pub foreign_event: Duration,
}

impl RoundTrip {
    /// Returns the smoothed time of an answer.
    pub(super) fn usual(&self) -> Duration {
        self.smoothed
    }

    /// Notes how long an answer took.
    pub(super) fn note(&mut self, took: Duration) {
        self.last = took;
        let off = took.abs_diff(self.smoothed);
        (self.smoothed, self.deviation) = match self.smoothed {
            Duration::ZERO => (took, took / 2),
            // A much shorter time means that the earlier requests opened a connection or hung, so their times do not
            // count.
            smoothed if took < smoothed / 2 => (took, took / 8),
            // A shorter time changes the estimate faster than a longer time.
            smoothed if took < smoothed => (smoothed - off / 2, (self.deviation * 3 + off) / 4),
            smoothed => (smoothed + off / 8, (self.deviation * 3 + off) / 4),
        };
    }

    /// Returns the time after which an answer is unusually late.
    ///
    /// The result is at least 1.5 times the smoothed time, because a slightly slower answer may follow after constant
    /// times. An interrupt is expensive, because the next request takes three times as long on a new connection.
    pub(super) fn answered_by(&self) -> Duration {
        self.smoothed + (self.deviation * 4).max(self.smoothed / 2)
    }

    /// Returns the time of an answer if the server stays as slow as it was for the last answers.
    ///
    /// The deviation does not count, because it is large after few answers.
    pub(super) fn as_slow_as_before(&self) -> Duration {
        self.smoothed.max(self.last)
    }

    /// Returns the usual time of a request on a new connection.
    ///
    /// The setup of TCP, the setup of TLS and the request take one round trip each.
    pub(super) fn answered_anew_by(&self) -> Duration {
        self.smoothed * 3
    }

    pub(super) fn interrupt_after(&self, release_timeout: Duration, renew_deadline: Duration) -> InterruptAfter {
        let answered_by = self.answered_by();
        InterruptAfter {
            // At most half of the timeout is spent waiting, so that the rest remains for the release itself.
            release: answered_by.max(RELEASE_WAITS.min(release_timeout / 4)).min(release_timeout / 2),
            foreign_event: answered_by.min(renew_deadline / 4).max(NEWS_WAIT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn after(round_trips: &[u64]) -> InterruptAfter {
        let mut round_trip = RoundTrip::default();
        round_trips.iter().for_each(|took| round_trip.note(millis(*took)));
        round_trip.interrupt_after(millis(2_000), millis(10_000))
    }

    #[test]
    fn a_server_that_is_near_or_unknown_is_given_the_least() {
        for near in [&[][..], &[1], &[3, 1, 2, 1, 1]] {
            assert_eq!(after(near), InterruptAfter { release: millis(50), foreign_event: millis(250) }, "{near:?}");
        }
    }

    #[test]
    fn a_server_that_is_far_is_given_longer_than_it_takes() {
        for far in [100, 200, 400, 500] {
            // The first request also opens the connection, which triples its time.
            let mut round_trips = vec![3 * far];
            for _ in 0..20 {
                round_trips.push(far);
                let InterruptAfter { release, foreign_event } = after(&round_trips);
                let answered = millis(far + far / 2);
                assert_eq!((release, foreign_event), (answered, answered.max(NEWS_WAIT)), "{far} ms, {round_trips:?}");
            }
        }
    }

    #[test]
    fn connection_setup_does_not_count_as_request_time() {
        // A standby opens a connection for its first read. After a long watch, the first write opens another
        // connection. Each connection triples the time of a request.
        assert_eq!(after(&[900, 900, 300]).release, millis(450));
        // A later connection setup affects the estimate only for a few requests.
        let one_more = [&[900][..], &[300; 20], &[900], &[300; 8]].concat();
        assert!(after(&one_more).release < millis(700), "{:?}", after(&one_more));
    }

    #[test]
    fn varying_response_times_are_allowed_the_slow_ones() {
        let varied = [[100, 180]; 10].concat();
        assert!(after(&varied).release > millis(180), "{:?}", after(&varied));
    }

    #[test]
    fn half_of_the_release_timeout_is_left_for_the_release() {
        assert_eq!(after(&[60_000, 60_000]).release, millis(1_000));
        assert_eq!(after(&[60_000, 60_000]).foreign_event, millis(2_500));
        let brief = RoundTrip::default().interrupt_after(millis(40), millis(400));
        assert_eq!(brief, InterruptAfter { release: millis(10), foreign_event: millis(250) });
    }

    #[test]
    fn one_long_wait_is_soon_forgotten() {
        let mut round_trips = vec![5; 20];
        round_trips.push(8_000);
        round_trips.extend([5; 20]);
        assert_eq!(after(&round_trips), InterruptAfter { release: millis(50), foreign_event: millis(250) });
    }

    #[test]
    fn round_trips_rise_slowly_and_fall_fast() {
        let mut round_trip = RoundTrip::default();
        // The time of each answer, and the time by which the next answer is expected afterwards, in microseconds.
        for (took, answered_by) in [
            (100_000, 300_000),
            (200_000, 112_500 + 4 * 62_500),
            (100_000, 106_250 + 4 * 50_000),
            (50_000, 50_000 + 4 * 6_250),
            (25_000, 37_500 + 4 * 10_937),
            (10_000, 10_000 + 4 * 1_250),
        ] {
            round_trip.note(Duration::from_micros(took));
            let expected = Duration::from_micros(answered_by);
            let off = round_trip.answered_by().abs_diff(expected);
            assert!(off < Duration::from_micros(4), "{took}: {:?}", round_trip.answered_by());
        }
        assert_eq!(round_trip.answered_anew_by(), millis(30));
    }
}
