//! The requests to step down that a candidate accepts: the rule 'Requests'.

use std::time::Duration;

use crate::election::settings::Settings;
use crate::util::clock::Moment;

/// The longest time for which a term ignores requests, in lease durations.
const MAX_PAUSE: u32 = 60;

/// When this candidate accepts a request to step down.
///
/// The candidate accepts one request per lease duration. If no other candidate has led since, the next term ignores
/// requests, and longer each time. A client that repeats the request therefore cannot keep the lease without a leader.
#[derive(Debug, Default)]
pub(super) struct StepDownRequests {
    accepts_from: Moment,
    /// The time for which a term ignores requests. Zero if another candidate has led since the last accepted request.
    pause: Duration,
    /// `true` after the candidate has reported that it ignores or defers a request.
    has_reported: bool,
}

/// The decision about a request that names this candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestDecision {
    /// The term ends.
    Accepted,
    /// The candidate does not accept requests.
    Ignored,
    /// The request has no effect before this pause.
    Deferred(Duration),
}

impl StepDownRequests {
    /// Returns the time from the start of a term at `start` to the first request that the term accepts.
    pub(super) fn accepts_after(&self, start: Moment) -> Duration {
        self.accepts_from.since(start).max(self.pause)
    }

    /// Notes that a term has started, and returns the time to the first request that the term accepts.
    pub(super) fn term_begins(&mut self, start: Moment) -> Duration {
        let accepts_after = self.accepts_after(start);
        self.accepts_from = start + accepts_after;
        accepts_after
    }

    /// Notes that another candidate leads, so the next request has its effect at once.
    pub(super) fn another_leads(&mut self) {
        self.pause = Duration::ZERO;
    }

    /// Decides about a request that names this candidate, whose term is valid if `is_valid`.
    ///
    /// Returns `None` if the request has no effect, or if the decision was reported before.
    pub(super) fn decide(&mut self, now: Moment, is_valid: bool, settings: &Settings) -> Option<RequestDecision> {
        let decision = match settings.accepts_requests {
            false => RequestDecision::Ignored,
            true if !is_valid => return None,
            true if now < self.accepts_from => RequestDecision::Deferred(self.accepts_from.since(now)),
            true => {
                self.accepts_from = now + settings.lease_duration;
                self.pause = (self.pause * 2).clamp(settings.lease_duration, settings.lease_duration * MAX_PAUSE);
                self.has_reported = false;
                return Some(RequestDecision::Accepted);
            }
        };
        (!std::mem::replace(&mut self.has_reported, true)).then_some(decision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::settings::Config;
    use RequestDecision::{Accepted, Deferred, Ignored};

    const fn at(seconds: u64) -> Moment {
        Moment::from_nanos((1_000 + seconds) * 1_000_000_000)
    }

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Returns the defaults. The lease duration is 15 s.
    fn settings(accepts_requests: bool) -> Settings {
        Config { accepts_requests, ..Config::default() }.validate().unwrap()
    }

    #[test]
    fn each_request_has_its_decision_once() {
        let (accepts, refuses) = (settings(true), settings(false));
        let mut requests = StepDownRequests::default();
        assert_eq!(requests.term_begins(at(0)), secs(0));
        // The second of the request, whether the term is valid, the settings, and the decision.
        for (second, is_valid, settings, expected) in [
            (1, true, &refuses, Some(Ignored)),
            (2, true, &refuses, None),
            (3, false, &accepts, None),
            (4, true, &accepts, Some(Accepted)),
            (5, true, &accepts, Some(Deferred(secs(14)))),
            (6, true, &accepts, None),
            (19, true, &accepts, Some(Accepted)),
            (20, true, &accepts, Some(Deferred(secs(14)))),
        ] {
            assert_eq!(requests.decide(at(second), is_valid, settings), expected, "{second} s");
        }
    }

    #[test]
    fn next_term_ignores_requests_for_longer_until_another_leads() {
        let (accepts, mut requests, mut now) = (settings(true), StepDownRequests::default(), at(0));
        let mut pauses = Vec::new();
        for _ in 0..9 {
            now = now + requests.term_begins(now);
            pauses.push(now);
            assert_eq!(requests.decide(now, true, &accepts), Some(Accepted));
            now = now + secs(60);
        }
        let pauses: Vec<_> = pauses.windows(2).map(|pair| (pair[1].since(pair[0]) - secs(60)).as_secs()).collect();
        assert_eq!(pauses, [15, 30, 60, 120, 240, 480, 900, 900]);
        requests.another_leads();
        assert_eq!(requests.term_begins(now), secs(0));
        // A term soon after the last request waits for the rest of the lease duration.
        requests.decide(now, true, &accepts);
        requests.another_leads();
        assert_eq!(requests.term_begins(now + secs(5)), secs(10));
    }
}
