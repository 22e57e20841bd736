//! Observers, which receive reports about an elector.

use std::time::Duration;

use crate::election::group::OwnershipEnd;
use crate::election::stop_reason::StopReason;
use crate::leadership::term::Term;
use crate::store::{StoreErrorKind, StoreOperation};
use crate::util::sync::Arc;

/// An observer of an elector, for metrics, events or the program's own records.
///
/// [`LeaderElectorBuilder::observer`](crate::LeaderElectorBuilder::observer) adds an observer. The methods are called
/// in order on a thread of the observer, and may block. In a [group](crate::LeaseGroup), the observer receives reports
/// about the slot, about the shards, and about the group's own requests and watch. The watch of the slot is not
/// reported.
///
/// No request waits for an observer. A report may therefore concern a term that has already ended. Check the guard to
/// find out whether the term is valid.
///
/// At most 1,024 reports wait for an observer. Newer reports are dropped. After the current call has returned, the
/// elector logs the number of dropped reports at level `warn`. If an observer panics, the elector logs an error and no
/// longer calls the observer.
///
/// # Examples
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::time::Duration;
/// use leasehold::Observer;
///
/// #[derive(Default)]
/// struct SlowRenewals(AtomicU64);
///
/// impl Observer for SlowRenewals {
///     fn on_renewed(&self, latency: Duration) {
///         if latency > Duration::from_secs(1) {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
/// ```
#[expect(unused_variables, reason = "the default of each method ignores its argument")]
pub trait Observer: Send + Sync + 'static {
    /// Called when a term starts, with its fencing token.
    fn on_started_leading(&self, fencing_token: u64) {}

    /// Called when the term has ended, with the reason.
    fn on_stopped_leading(&self, reason: &StopReason) {}

    /// Called when the leader changes.
    ///
    /// The new leader may be this candidate. `None` means that there is no leader. An identity of more than 1,024 bytes
    /// is cut to its first 1,024 bytes.
    fn on_new_leader(&self, leader: Option<&str>) {}

    /// Called when a write has renewed the term.
    ///
    /// `latency` is the time from before the write was sent until its answer or its watch event arrived.
    fn on_renewed(&self, latency: Duration) {}

    /// Called when a request to the store has been answered, or has failed.
    fn on_request(&self, outcome: &RequestOutcome) {}

    /// Called when a watch has opened, so that the elector no longer polls.
    fn on_watch_opened(&self) {}

    /// Called when a watch has ended or was refused.
    fn on_watch_lost(&self) {}

    /// Called when this process has started to own a shard of a [group](crate::LeaseGroup).
    fn on_shard_started(&self, shard: usize, fencing_token: u64) {}

    /// Called when this process no longer owns a shard of a group, with the reason.
    fn on_shard_ended(&self, shard: usize, reason: OwnershipEnd) {}

    /// Called when this candidate has become fit to lead, or unfit.
    fn on_fitness(&self, is_fit: bool) {}
}

/// The outcome of a request to the store.
///
/// # Examples
///
/// ```
/// use leasehold::{Observer, RequestOutcome};
///
/// struct Failures;
///
/// impl Observer for Failures {
///     fn on_request(&self, outcome: &RequestOutcome) {
///         if let Some(kind) = outcome.failure {
///             println!("{} failed after {:?}: {kind:?}", outcome.operation, outcome.latency);
///         }
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestOutcome {
    /// The operation of the request.
    pub operation: StoreOperation,
    /// The time from before the request was sent until it was answered or abandoned.
    pub latency: Duration,
    /// The kind of the failure, or `None` after a success.
    pub failure: Option<StoreErrorKind>,
    /// `true` for a read during a term.
    ///
    /// A leader reads the record after a failed renewal, which is client-go's slow path. Unlike in client-go, a read
    /// because of a silent watch also counts.
    pub is_slow_path: bool,
}

/// A report to an observer.
#[derive(Clone)]
pub(crate) enum Fact {
    StartedLeading(Arc<Term>),
    StoppedLeading(StopReason),
    NewLeader(Option<String>),
    Renewed(Duration),
    Request(RequestOutcome),
    WatchOpened,
    WatchLost,
    ShardStarted(usize, u64),
    ShardEnded(usize, OwnershipEnd),
    Fitness {
        is_fit: bool,
        /// The time before a fit candidate may acquire.
        pause: Duration,
    },
}

/// The longest identity in a report, in bytes.
///
/// The limit bounds the memory of waiting reports.
const LONGEST_LEADER: usize = 1024;

impl Fact {
    pub(crate) fn new_leader(leader: Option<&str>) -> Self {
        Self::NewLeader(leader.map(|leader| beginning(leader, LONGEST_LEADER).to_owned()))
    }

    pub(crate) fn tell(&self, observer: &dyn Observer) {
        match self {
            Self::StartedLeading(term) => observer.on_started_leading(term.fencing_token),
            Self::StoppedLeading(reason) => observer.on_stopped_leading(reason),
            Self::NewLeader(leader) => observer.on_new_leader(leader.as_deref()),
            Self::Renewed(latency) => observer.on_renewed(*latency),
            Self::Request(outcome) => observer.on_request(outcome),
            Self::WatchOpened => observer.on_watch_opened(),
            Self::WatchLost => observer.on_watch_lost(),
            Self::ShardStarted(shard, fencing_token) => observer.on_shard_started(*shard, *fencing_token),
            Self::ShardEnded(shard, reason) => observer.on_shard_ended(*shard, *reason),
            Self::Fitness { is_fit, .. } => observer.on_fitness(*is_fit),
        }
    }
}

/// Returns the beginning of a text, at most `longest` bytes, cut between characters.
pub(crate) fn beginning(text: &str, longest: usize) -> &str {
    let mut end = longest.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(beginning("abc", 5), "abc");
        assert_eq!(beginning("abc", 2), "ab");
        assert_eq!(beginning("aé", 2), "a");
    }
}
