//! Until when the work of a term has to make progress.

use std::time::Duration;

use crate::util::clock::Moment;
use crate::util::sync::{AtomicU64, Ordering};

/// When a term ends whose work makes no more progress. Like the term's own end it is final once it has passed.
#[derive(Debug)]
pub struct ProgressLimit {
    until: AtomicU64,
    within: Duration,
}

impl ProgressLimit {
    /// Work that has made progress at `from`, and has to make more `within` that.
    pub fn new(from: Moment, within: Duration) -> Self {
        Self { until: AtomicU64::new((from + within).as_nanos()), within }
    }

    /// There was progress, of the part that is furthest behind at `oldest`. False if that comes too late.
    pub fn stamp(&self, now: Moment, oldest: Moment) -> bool {
        let new = (oldest + self.within).as_nanos();
        let later = |until: u64| (until > now.as_nanos()).then_some(until.max(new));
        self.until.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later).is_ok()
    }

    /// When it has passed unless there is progress before.
    pub fn until(&self) -> Moment {
        Moment::from_nanos(self.until.load(Ordering::SeqCst))
    }

    /// When there was progress last.
    pub fn last(&self) -> Moment {
        let within = u64::try_from(self.within.as_nanos()).unwrap_or(u64::MAX);
        Moment::from_nanos(self.until().as_nanos().saturating_sub(within))
    }
}
