//! The bounds of a search.

use std::env;
use std::time::Duration;

use leasehold::{Fitness, LeaderElector, Settings};

pub const SECOND: u64 = 1_000_000_000;

/// The lease duration: three ticks of a true clock.
pub const LEASE_DURATION: Duration = Duration::from_secs(3);
/// The renew deadline: two ticks of a true clock.
const RENEW_DEADLINE: Duration = Duration::from_secs(2);
/// A shorter lease duration and its renew deadline.
///
/// The published duration is rounded up to two seconds. The deadline is two thirds of the published duration, as for
/// the other lease.
const SHORT_LEASE: (Duration, Duration) = (Duration::from_nanos(1_999_999_001), Duration::from_nanos(1_333_333_333));
/// The progress timeout: one and a half ticks of the slow clock.
const PROGRESS: Duration = Duration::from_secs(1);
/// The delay of the second candidate, if it holds back. The third candidate has twice this delay.
///
/// The delay is half a tick of a true clock.
const HOLD_BACK: Duration = Duration::from_millis(500);
/// The retry period.
///
/// Even with jitter, the period is shorter than one tick. So jitter decides nothing.
const RETRY_PERIOD: Duration = Duration::from_millis(800);

/// The local nanoseconds per tick of a clock that is as slow as promised beside a true clock.
///
/// The promised rate is two thirds of the true rate, and this value is rounded up.
pub const SLOW: u64 = 666_666_667;
/// One nanosecond per tick slower than `SLOW`.
pub const TOO_SLOW: u64 = 666_666_666;
pub const TRUE: u64 = SECOND;

/// The bounds of one search.
#[derive(Debug, Clone)]
pub struct Scope {
    pub name: &'static str,
    /// The local nanoseconds per tick of each candidate.
    pub rates: &'static [u64],
    pub ticks: u8,
    /// `true` if the first candidate leads at the start, and the others have read its record.
    pub led: bool,
    pub limits: Limits,
    /// `true` if the candidates watch the store.
    pub watches: bool,
    /// `true` if a crashed process restarts with the same identity.
    pub same_identity: bool,
    /// `true` if all candidates except the first publish a shorter lease.
    pub mixed: bool,
    /// `true` if the work must make progress.
    pub progress: bool,
    /// `true` if all candidates except the first hold back.
    pub hold_back: bool,
}

/// How many events of each kind may still happen, apart from the protocol's own actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Limits {
    /// Answers lost or replaced by errors, and watches cut.
    pub faults: u8,
    /// Guards dropped, step-downs, withdrawals, and campaigns after the first.
    pub wishes: u8,
    pub crashes: u8,
    /// Edits of a label by an operator.
    pub edits: u8,
    pub deletions: u8,
    /// Changes of a candidate between fit and unfit.
    pub flaps: u8,
    /// Requests to step down, which the first candidate accepts.
    pub requests: u8,
}

/// Returns the number of ticks in `MODEL_DEPTH`.
pub fn deeper() -> u8 {
    let text = env::var("MODEL_DEPTH").unwrap_or_else(|_| "0".into());
    text.parse().unwrap_or_else(|_| panic!("MODEL_DEPTH is no number of ticks: {text}"))
}

pub fn settings(identity: &str, index: usize, scope: &Scope) -> Settings {
    let (lease_duration, renew_deadline) =
        if scope.mixed && index > 0 { SHORT_LEASE } else { (LEASE_DURATION, RENEW_DEADLINE) };
    let builder = LeaderElector::builder("modelled");
    let hold_back = if scope.hold_back { HOLD_BACK * index as u32 } else { Duration::ZERO };
    let builder = if scope.limits.flaps > 0 { builder.fitness(&Fitness::new()) } else { builder };
    if scope.progress { builder.progress_timeout(PROGRESS) } else { builder }
        .identity(identity)
        .lease_duration(lease_duration)
        .renew_deadline(renew_deadline)
        .retry_period(RETRY_PERIOD)
        .hold_back(hold_back)
        .accept_requests(index == 0)
        .no_client_go_peers(true)
        .validate()
        .expect("valid settings")
}
