//! The events of an elector, and observers that receive the events.

use std::time::Duration;

use crate::election::group::OwnershipEnd;
use crate::election::stop_reason::StopReason;
use crate::store::{StoreErrorKind, StoreOperation};

/// An observer of an elector, for metrics, events or the program's own records.
///
/// [`LeaderElectorBuilder::observer`](crate::LeaderElectorBuilder::observer) adds an observer. A closure
/// `Fn(&Event)` is an observer. The events arrive in order on a thread of the observer, which may block. In a
/// [group](crate::group::LeaseGroup), the observer receives the events of the slot, of the shards, and of the group's
/// own requests and watch. The watch of the slot is not reported.
///
/// No request waits for an observer. An event may therefore concern a term that has already ended. Check the guard to
/// find out whether the term is valid.
///
/// At most 1,024 events wait for an observer. Newer events are dropped. After the current call has returned, the
/// elector logs the number of dropped events at level `warn`. If an observer panics, the elector logs an error and no
/// longer calls the observer.
///
/// # Examples
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::time::Duration;
/// use leasehold::{Event, Observer};
///
/// #[derive(Default)]
/// struct SlowRenewals(AtomicU64);
///
/// impl Observer for SlowRenewals {
///     fn on_event(&self, event: &Event) {
///         if matches!(event, Event::Renewed { latency } if *latency > Duration::from_secs(1)) {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
/// ```
pub trait Observer: Send + Sync + 'static {
    /// Called when an event has happened.
    fn on_event(&self, event: &Event);
}

impl<F: Fn(&Event) + Send + Sync + 'static> Observer for F {
    fn on_event(&self, event: &Event) {
        self(event);
    }
}

/// An event of an elector, or of a member of a [group](crate::group::LeaseGroup).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A term of this candidate has started.
    StartedLeading {
        /// The fencing token, which grows with every term of any candidate.
        fencing_token: u64,
    },
    /// The term of this candidate has ended.
    ///
    /// An observer receives the first 1,024 bytes of a longer identity in the reason.
    StoppedLeading {
        /// The reason for the end.
        reason: StopReason,
    },
    /// The record has a new leader, which may be this candidate, or the leader has a new address.
    ///
    /// An observer receives the first 1,024 bytes of a longer identity or address.
    NewLeader {
        /// The identity of the leader.
        identity: String,
        /// The address that the leader [advertises](crate::LeaderElectorBuilder::advertise).
        address: Option<String>,
    },
    /// The record was released or deleted, or its lease has expired on the local clock.
    NoLeader {
        /// The identity of the previous leader, which may be this candidate. Cut like the identity of a new leader.
        previous: String,
    },
    /// A write has renewed the term.
    Renewed {
        /// The time from before the write was sent until its answer or its watch event arrived.
        latency: Duration,
    },
    /// A request to the store was answered, or has failed.
    Request(RequestOutcome),
    /// A watch has opened, so that the elector no longer polls.
    WatchOpened,
    /// A watch has ended or was refused.
    WatchLost,
    /// This candidate has become fit to lead.
    Fit {
        /// The delay before the candidate may acquire the lease.
        pause: Duration,
    },
    /// This candidate has become unfit to lead.
    Unfit,
    /// This process has started to own a shard of a group.
    ShardStarted {
        /// The index of the shard.
        shard: u32,
        /// The fencing token of the ownership.
        fencing_token: u64,
    },
    /// This process no longer owns a shard of a group.
    ShardEnded {
        /// The index of the shard.
        shard: u32,
        /// The reason for the end.
        reason: OwnershipEnd,
    },
}

/// The outcome of a request to the store.
///
/// # Examples
///
/// ```
/// use leasehold::{Event, LeaderElector};
///
/// let failures = |event: &Event| {
///     if let Event::Request(outcome) = event
///         && let Some(kind) = outcome.failure
///     {
///         println!("{} failed after {:?}: {kind:?}", outcome.operation, outcome.latency);
///     }
/// };
/// let builder = LeaderElector::builder("jobs").observer(failures);
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

/// The longest identity or address in a waiting event, in bytes.
///
/// The limit bounds the memory of waiting events.
const LONGEST_TEXT: usize = 1024;

impl Event {
    /// Returns the event with texts of a limited length.
    pub(crate) fn limited(&self) -> Self {
        let limited = |text: &String| beginning(text, LONGEST_TEXT).to_owned();
        match self {
            Self::NewLeader { identity, address } => {
                Self::NewLeader { identity: limited(identity), address: address.as_ref().map(limited) }
            }
            Self::NoLeader { previous } => Self::NoLeader { previous: limited(previous) },
            Self::StoppedLeading { reason: StopReason::Superseded { by: Some(by) } } => {
                Self::StoppedLeading { reason: StopReason::Superseded { by: Some(limited(by)) } }
            }
            _ => self.clone(),
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
