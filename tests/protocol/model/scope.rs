//! How far a search goes.

use std::env;
use std::time::Duration;

use leasehold::{LeaderElector, Settings};

pub const SECOND: u64 = 1_000_000_000;

/// The lease lasts three ticks of a clock that runs true, and a term without a renewal two.
const LEASE_DURATION: Duration = Duration::from_secs(3);
const RENEW_DEADLINE: Duration = Duration::from_secs(2);
/// Another lease and its renew deadline, in the same ratio to the nanosecond of what is published, which is two seconds.
const SHORT_LEASE: (Duration, Duration) = (Duration::from_nanos(1_999_999_001), Duration::from_nanos(1_333_333_333));
/// A tick and a half of the slow clock.
const PROGRESS: Duration = Duration::from_secs(1);
/// With jitter still less than a tick, so that jitter decides nothing.
const RETRY_PERIOD: Duration = Duration::from_millis(800);

/// A clock as slow as is promised beside one that runs true: two thirds, rounded up.
pub const SLOW: u64 = 666_666_667;
/// A nanosecond in a tick slower than that.
pub const TOO_SLOW: u64 = 666_666_666;
pub const TRUE: u64 = SECOND;

/// What may happen in a search, and how often.
#[derive(Debug, Clone)]
pub struct Scope {
    pub name: &'static str,
    /// A candidate each: the local nanoseconds in a tick.
    pub rates: &'static [u64],
    pub ticks: u8,
    /// The first candidate leads at the beginning, and the others have seen that.
    pub led: bool,
    pub limits: Limits,
    /// Candidates hold watches.
    pub watches: bool,
    /// A process that crashed comes back under the identity that it had.
    pub same_identity: bool,
    /// All but the first candidate publish a shorter lease than the first.
    pub mixed: bool,
    /// The work has to make progress.
    pub progress: bool,
}

/// How often what is not the protocol's own doing may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Limits {
    /// Answers lost or turned into errors, and watches cut.
    pub faults: u8,
    /// Guards dropped, step-downs, withdrawals, and campaigns after the first.
    pub wishes: u8,
    pub crashes: u8,
    /// Labels edited by an operator.
    pub edits: u8,
    pub deletions: u8,
    /// Candidates that become unfit, or fit again.
    pub flaps: u8,
}

impl Scope {
    /// `MODEL_DEPTH` makes every search that many ticks longer.
    pub fn deepened(mut self) -> Self {
        if let Ok(text) = env::var("MODEL_DEPTH") {
            self.ticks += text.parse::<u8>().unwrap_or_else(|_| panic!("MODEL_DEPTH is no number of ticks: {text}"));
        }
        self
    }
}

pub fn settings(identity: &str, short: bool, progress: bool) -> Settings {
    let (lease_duration, renew_deadline) = if short { SHORT_LEASE } else { (LEASE_DURATION, RENEW_DEADLINE) };
    let builder = LeaderElector::builder("modelled");
    if progress { builder.progress_timeout(PROGRESS) } else { builder }
        .identity(identity)
        .lease_duration(lease_duration)
        .renew_deadline(renew_deadline)
        .retry_period(RETRY_PERIOD)
        .no_client_go_peers(true)
        .validate()
        .expect("valid settings")
}
