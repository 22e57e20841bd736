//! The limit on the time without a progress report.

use std::time::Duration;

use crate::util::clock::Moment;
use crate::util::sync::{AtomicU64, Ordering};

/// The moment at which a term ends unless its work makes progress.
///
/// After this moment, a progress report no longer extends the limit.
#[derive(Debug)]
pub struct ProgressLimit {
    until: AtomicU64,
    within: Duration,
}

impl ProgressLimit {
    /// Creates a limit that passes `within` after `from`, unless the work reports progress.
    pub fn new(from: Moment, within: Duration) -> Self {
        Self { until: AtomicU64::new((from + within).as_nanos()), within }
    }

    /// Reports progress.
    ///
    /// `oldest` is the last progress of the worker that is furthest behind. Returns `false` without an effect if the
    /// limit has already passed at `now`.
    pub fn report(&self, now: Moment, oldest: Moment) -> bool {
        let new = (oldest + self.within).as_nanos();
        let later = |until: u64| (until > now.as_nanos()).then_some(until.max(new));
        self.until.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later).is_ok()
    }

    /// Returns the moment at which the limit passes without another report.
    pub fn until(&self) -> Moment {
        Moment::from_nanos(self.until.load(Ordering::SeqCst))
    }

    /// Returns the moment of the last progress.
    pub fn last(&self) -> Moment {
        let within = u64::try_from(self.within.as_nanos()).unwrap_or(u64::MAX);
        Moment::from_nanos(self.until().as_nanos().saturating_sub(within))
    }
}
