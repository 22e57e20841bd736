//! What an elector is about and how it fares, at one moment.

use std::time::Duration;

use crate::election::settings::Settings;
use crate::store::{StoreError, StoreErrorKind, StoreOperation};

mod display;
mod prometheus;

/// What an elector is about and how it fares, at the moment that [`LeaderElector::status`](crate::LeaderElector::status) was
/// called.
///
/// # Examples
///
/// ```
/// use leasehold::{LeaderElector, MemoryStore};
///
/// let elector = LeaderElector::builder("jobs").identity("me").start_on(MemoryStore::new())?;
/// let guard = elector.block_until_leader()?;
/// let status = elector.status();
/// assert!(status.is_leader);
/// assert_eq!(status.counters.terms, 1);
///
/// let mut text = String::new();
/// status.write_prometheus(&mut text).expect("writing to a String does not fail");
/// assert!(text.contains("leader_election_master_status{name=\"jobs\",record=\"jobs in memory\",identity=\"me\"} 1"));
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Status {
    /// The key of the record: the name of the Lease.
    pub name: String,
    /// What the store calls it, such as `lease default/my-controller`.
    pub record: String,
    /// What the election runs by, this candidate's identity among it.
    pub settings: Settings,
    /// Who leads, as last observed. It may be this candidate itself.
    pub leader: Option<String>,
    /// Whether the lease of that leader has run out on this process's clock: then nobody leads, or somebody soon will. On two
    /// stores, whether one of its two leases has.
    pub leader_lease_expired: bool,
    /// Whether this candidate has a valid term.
    pub is_leader: bool,
    /// How long that stays valid without another renewal.
    pub remaining: Duration,
    /// The token of the term, also after it ended, until its record is released.
    pub fencing_token: Option<u64>,
    /// How long ago the store last told this elector anything, as
    /// [`HealthCheck::check_contact`](crate::HealthCheck::check_contact) says. `None` before the first time.
    pub last_contact: Option<Duration>,
    /// Why the last read failed, until the store answers a read or a watch reports a change.
    ///
    /// If reads work, this field has the value of [`failed_write`](Self::failed_write).
    pub last_error: Option<StoreError>,
    /// Why the last write failed, until a write succeeds. Reads do not change this field.
    ///
    /// A later successful write of this candidate clears this field. If the error is [transient](StoreError::is_transient), a successful write of
    /// another candidate also clears this field. A conflict counts as a failure after conflicts have refused each write for three renew deadlines.
    pub failed_write: Option<StoreError>,
    /// Whether this candidate is fit to lead; true where nobody is asked, and also while one that is fit again has to wait before it
    /// may acquire.
    pub is_fit: bool,
    /// For how long it has not been. `None` while it is.
    pub unfit_for: Option<Duration>,
    /// How long it has to wait yet before it may acquire, having become fit again. `None` where it need not.
    pub may_acquire_in: Option<Duration>,
    /// How long ago the work of the present term made progress: the part of it that is furthest behind; also of one that is over and
    /// whose guard is still there. `None` without a term, and
    /// without [`progress_timeout`](crate::LeaderElectorBuilder::progress_timeout).
    pub since_progress: Option<Duration>,
    /// Whether a watch is open. Without one the record is polled.
    pub is_watching: bool,
    /// Whether the elector is at work: not after its end, or a panic of its thread.
    pub is_running: bool,
    /// What has been counted since the start.
    pub counters: Counters,
    pub(super) has_twin: bool,
}

/// What an elector has counted since it was started.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Counters {
    /// Terms that began.
    pub terms: u64,
    /// Terms that ended otherwise than by a release or a step-down.
    pub terms_lost: u64,
    /// How long renewals took.
    pub renewals: Histogram,
    /// Reads in the middle of a term, as [`RequestOutcome::is_slow_path`](crate::RequestOutcome::is_slow_path) says.
    pub slow_paths: u64,
    /// Watches that were opened.
    pub watches_opened: u64,
    /// Watches that ended or were refused.
    pub watches_lost: u64,
    pub(super) requests: [u64; StoreOperation::ALL.len()],
    pub(super) failures: [u64; StoreErrorKind::ALL.len()],
}

/// How often something took how long.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Histogram {
    /// In place `i`, how many took at most `BOUNDS_MS[i]` and more than `BOUNDS_MS[i - 1]`; in the last, how many took more than all
    /// [`BOUNDS_MS`](Histogram::BOUNDS_MS). Not cumulative.
    pub counts: [u64; Histogram::BOUNDS_MS.len() + 1],
    /// How long all of them took together.
    pub sum: Duration,
}

impl Histogram {
    /// Where one place ends and the next begins, in milliseconds.
    pub const BOUNDS_MS: [u64; 11] = [1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000];

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(super) fn add(&mut self, took: Duration) {
        let place = Self::BOUNDS_MS.partition_point(|bound| Duration::from_millis(*bound) < took);
        self.counts[place] += 1;
        self.sum = self.sum.saturating_add(took);
    }
}

impl Counters {
    /// How many requests asked for this, answered or not.
    pub fn requests(&self, operation: StoreOperation) -> u64 {
        self.requests[operation as usize]
    }

    /// How many requests failed like this. A [`Conflict`](StoreErrorKind::Conflict) is no fault of anything: another
    /// candidate was faster.
    pub fn failures(&self, kind: StoreErrorKind) -> u64 {
        self.failures[kind as usize]
    }
}
