//! The fate of a request on its way to the store, and of its answer on the way back.

use std::time::Duration;

use leasehold::store::{StoreError, StoreErrorKind};

use crate::clock::{MILLI, Nanos};
use crate::plan::Odds;

/// The delays and the faults of one request.
///
/// The delays of arrivals start when the request is sent. The delays of answers start when the request arrives.
#[derive(Debug, Default)]
pub struct Fate {
    pub arrivals: Vec<Nanos>,
    pub answers: Vec<Nanos>,
    /// The error that replaces the answer, and its delay.
    pub error: Option<(StoreError, Nanos)>,
    pub faults: Vec<&'static str>,
}

/// The way in which a node is cut off from the store for some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    Requests,
    Answers,
    Refused,
}

impl Fate {
    pub fn draw(random: &mut fastrand::Rng, odds: &Odds, cut: Option<Cut>, timeout: Nanos) -> Self {
        let mut happens = |odds: u32| odds > 0 && random.u32(..1000) < odds;
        let (lost, late, doubled) =
            (happens(odds.request_lost), happens(odds.request_late), happens(odds.request_doubled));
        let (answer_lost, answer_late, answer_doubled) =
            (happens(odds.answer_lost), happens(odds.answer_late), happens(odds.answer_doubled));
        let (error, slow) = (happens(odds.error), happens(odds.slow));
        let mut delay = |slow: bool| match random.u8(..8) {
            _ if slow => random.u64(..timeout + timeout / 4),
            0 => 0,
            _ => random.u64(MILLI..30 * MILLI),
        };
        let mut fate =
            Fate { arrivals: vec![delay(slow)], answers: vec![delay(slow)], error: None, faults: Vec::new() };
        if late {
            fate.arrivals = vec![random.u64(timeout..timeout * 6)];
        }
        if doubled {
            fate.arrivals.push(fate.arrivals[0] + random.u64(..timeout * 2));
        }
        if answer_late {
            fate.answers = vec![random.u64(timeout..timeout * 6)];
        }
        if answer_doubled {
            fate.answers.push(fate.answers[0] + random.u64(..timeout * 2));
        }
        if lost || cut == Some(Cut::Requests) || (error && random.bool()) {
            fate.arrivals.clear();
        }
        if answer_lost || cut == Some(Cut::Answers) {
            fate.answers.clear();
        }
        if cut == Some(Cut::Refused) {
            fate.arrivals.clear();
            fate.error = Some((StoreError::new(StoreErrorKind::Unavailable, "refused"), 0));
        } else if error {
            fate.answers.clear();
            fate.error = Some((Self::any_error(random, odds.longest_pause), random.u64(..60 * MILLI)));
        }
        fate.faults.extend(
            [
                (lost, "requests lost"),
                (late, "requests late"),
                (doubled, "requests doubled"),
                (answer_lost, "answers lost"),
                (answer_late, "answers late"),
                (answer_doubled, "answers doubled"),
                (error, "wrong answers"),
                (cut.is_some(), "requests cut off"),
            ]
            .into_iter()
            .filter_map(|(happened, kind)| happened.then_some(kind)),
        );
        fate
    }

    fn any_error(random: &mut fastrand::Rng, longest_pause: Nanos) -> StoreError {
        use StoreErrorKind::*;
        let kinds = [
            Unavailable,
            ConnectionClosed,
            ConnectionClosed,
            Conflict,
            AlreadyExists,
            Timeout,
            Interrupted,
            Forbidden,
            Malformed,
        ];
        let kind = kinds[random.usize(..kinds.len())];
        let retry_after = (random.u8(..4) == 0).then(|| Duration::from_nanos(random.u64(..longest_pause)));
        StoreError::new(kind, "made up").with_retry_after(retry_after)
    }
}
