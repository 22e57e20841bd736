//! A snapshot of an elector's state and counters.

use std::time::Duration;

use crate::election::settings::Settings;
use crate::observe::observer::Event;
use crate::store::{StoreError, StoreErrorKind, StoreOperation};

mod display;
mod prometheus;

/// A snapshot of an elector's state and counters, returned by [`LeaderElector::status`].
///
/// [`Display`](std::fmt::Display) shows one line for people. [`write_prometheus`](Self::write_prometheus) writes
/// metrics. With the feature `serde`, a status is data with the fields below, and with `identity` in place of
/// `settings`. Durations are seconds, in fields whose names end with `_seconds`, and errors are their texts.
///
/// [`LeaderElector::status`]: crate::LeaderElector::status
///
/// # Examples
///
/// ```
/// use leasehold::store::MemoryStore;
/// use leasehold::{LeaderElector, Status};
///
/// let elector = LeaderElector::builder("jobs").identity("me").start_on(MemoryStore::new())?;
/// let guard = elector.block_until_leader()?;
/// let status = elector.status();
/// assert!(status.is_leader);
/// assert_eq!(status.counters.terms, 1);
///
/// let mut text = String::new();
/// Status::write_prometheus([&status], &mut text).expect("writing to a String does not fail");
/// assert!(text.contains("leader_election_master_status{name=\"jobs\",record=\"jobs in memory\",identity=\"me\"} 1"));
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Status {
    /// The key of the record, which is the name of the Lease.
    pub name: String,
    /// The store's description of the record, such as `lease default/my-controller`.
    pub record: String,
    /// The effective settings, including the identity of this candidate.
    pub settings: Settings,
    /// The identity of the last observed leader, which may be this candidate.
    pub leader: Option<String>,
    /// The address that `leader` [advertises](crate::LeaderElectorBuilder::advertise).
    ///
    /// The address stays while the leader's work drains, and after the lease has expired. The address is a claim of the
    /// leader. A client that connects to the address trusts the leader.
    pub leader_address: Option<String>,
    /// `true` if the lease of `leader` has expired by this process's clock.
    ///
    /// If `true`, there is no leader, or another candidate is about to lead. With two stores, the value is `true` if
    /// one of the two leases has expired.
    pub leader_lease_expired: bool,
    /// `true` while this candidate has a valid term.
    pub is_leader: bool,
    /// The time until the term ends without another renewal. Zero without a valid term.
    pub remaining: Duration,
    /// The fencing token of this candidate's term. The token stays until the record is released.
    pub fencing_token: Option<u64>,
    /// The time since the last contact with the store, or `None` before the first contact.
    ///
    /// Contact is an answer to a request, or anything that a watch delivers. A refusal and an error of the store do not
    /// count. A leader sends a request every renew interval. A standby that watches a lease without a holder only
    /// receives the bookmarks of the API server, about one per minute. A [`MemoryStore`](crate::store::MemoryStore)
    /// sends nothing while the record is unchanged.
    pub last_contact: Option<Duration>,
    /// The error of the last read, until the store answers a read or a watch reports a change.
    ///
    /// If reads work, this field has the value of [`failed_write`](Self::failed_write).
    pub last_error: Option<StoreError>,
    /// The error of the last write, until a write succeeds.
    ///
    /// Reads do not change this field. If the error is [transient](StoreError::is_transient), a successful write of
    /// another candidate also clears this field. A conflict counts as a failure only after all writes have ended in
    /// conflicts for three renew deadlines.
    pub failed_write: Option<StoreError>,
    /// `true` if this candidate is fit to lead, or has neither a probe nor a flag.
    ///
    /// A recovered candidate that waits before it may acquire is also fit.
    pub is_fit: bool,
    /// The time since this candidate became unfit, or `None` while fit.
    pub unfit_for: Option<Duration>,
    /// The time until a recovered candidate may acquire the lease, or `None` if there is no wait.
    pub may_acquire_in: Option<Duration>,
    /// The time since the slowest part of the work last reported progress.
    ///
    /// The value remains after the end of the term while its guard exists. `None` without a term, and without a
    /// [`progress_timeout`](crate::LeaderElectorBuilder::progress_timeout).
    pub since_progress: Option<Duration>,
    /// `true` while a watch is open. Without a watch, the elector polls the record.
    pub is_watching: bool,
    /// `true` until the elector ends, or its thread panics.
    pub is_running: bool,
    /// The counters since the start.
    pub counters: Counters,
    pub(super) identity_is_shared: bool,
}

/// Counters of an elector since its start.
///
/// # Examples
///
/// ```
/// use leasehold::store::{MemoryStore, StoreOperation};
/// use leasehold::LeaderElector;
///
/// let elector = LeaderElector::builder("jobs").start_on(MemoryStore::new())?;
/// let guard = elector.block_until_leader()?;
/// let counters = elector.status().counters;
/// assert_eq!((counters.terms, counters.terms_lost), (1, 0));
/// assert_eq!(counters.requests(StoreOperation::Create), 1);
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Counters {
    /// The number of terms that started.
    pub terms: u64,
    /// The number of terms that ended other than by a release or a step-down.
    pub terms_lost: u64,
    /// The durations of renewals.
    pub renewals: Histogram,
    /// The number of reads during a term.
    ///
    /// [`RequestOutcome::is_slow_path`](crate::RequestOutcome::is_slow_path) defines these reads.
    pub slow_paths: u64,
    /// The number of watches that were opened.
    pub watches_opened: u64,
    /// The number of watches that ended or were refused.
    pub watches_lost: u64,
    requests: [u64; StoreOperation::ALL.len()],
    failures: [u64; StoreErrorKind::ALL.len()],
}

/// A histogram of durations.
///
/// # Examples
///
/// ```
/// use leasehold::metrics::Histogram;
///
/// let histogram = Histogram::default();
/// assert_eq!(histogram.counts.iter().sum::<u64>(), 0);
/// assert_eq!(histogram.counts.len(), Histogram::BOUNDS_MS.len() + 1);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Histogram {
    /// The number of durations in each bucket, not cumulative.
    ///
    /// Bucket `i` counts durations of at most `BOUNDS_MS[i]` and more than `BOUNDS_MS[i - 1]`. The last bucket counts
    /// durations above all [`BOUNDS_MS`](Histogram::BOUNDS_MS).
    pub counts: [u64; Histogram::BOUNDS_MS.len() + 1],
    /// The sum of all durations.
    pub sum: Duration,
}

impl Histogram {
    /// The upper bounds of the buckets, in milliseconds.
    pub const BOUNDS_MS: [u64; 11] = [1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000];

    /// Returns the number of durations.
    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    fn add(&mut self, took: Duration) {
        let place = Self::BOUNDS_MS.partition_point(|bound| Duration::from_millis(*bound) < took);
        self.counts[place] += 1;
        self.sum = self.sum.saturating_add(took);
    }
}

impl Counters {
    pub(super) fn note(&mut self, event: &Event) {
        match event {
            Event::StartedLeading { .. } => self.terms += 1,
            Event::StoppedLeading { reason } => self.terms_lost += u64::from(!reason.was_asked_for()),
            Event::Renewed { latency } => self.renewals.add(*latency),
            Event::Request(outcome) => {
                self.requests[outcome.operation as usize] += 1;
                outcome.failure.into_iter().for_each(|kind| self.failures[kind as usize] += 1);
                self.slow_paths += u64::from(outcome.is_slow_path);
            }
            Event::WatchOpened => self.watches_opened += 1,
            Event::WatchLost => self.watches_lost += 1,
            _ => {}
        }
    }

    /// Returns the number of requests of this operation, answered or not.
    pub fn requests(&self, operation: StoreOperation) -> u64 {
        self.requests[operation as usize]
    }

    /// Returns the number of requests that failed with this kind.
    ///
    /// A [`Conflict`](StoreErrorKind::Conflict) is normal and means that another candidate was faster.
    pub fn failures(&self, kind: StoreErrorKind) -> u64 {
        self.failures[kind as usize]
    }
}
