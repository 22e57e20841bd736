//! The limit of the time without progress of a term's work.

use std::time::Duration;

use crate::util::clock::Moment;
use crate::util::sync::{AtomicU64, Ordering};

/// The moment at which a term ends unless its work makes progress.
///
/// Once the moment has passed, the limit is final.
#[derive(Debug)]
pub struct ProgressLimit {
    until: AtomicU64,
    within: Duration,
}

impl ProgressLimit {
    /// Creates a limit for work that must make progress `within` this time after `from`.
    pub fn new(from: Moment, within: Duration) -> Self {
        Self { until: AtomicU64::new((from + within).as_nanos()), within }
    }

    /// Reports progress.
    ///
    /// `oldest` is the last progress of the slowest part of the work. Returns `false` if the limit has passed.
    pub fn stamp(&self, now: Moment, oldest: Moment) -> bool {
        let new = (oldest + self.within).as_nanos();
        let later = |until: u64| (until > now.as_nanos()).then_some(until.max(new));
        self.until.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later).is_ok()
    }

    /// Returns the moment at which the limit passes without further progress.
    pub fn until(&self) -> Moment {
        Moment::from_nanos(self.until.load(Ordering::SeqCst))
    }

    /// Returns the moment of the last progress.
    pub fn last(&self) -> Moment {
        let within = u64::try_from(self.within.as_nanos()).unwrap_or(u64::MAX);
        Moment::from_nanos(self.until().as_nanos().saturating_sub(within))
    }
}
