//! Whoever is told what an elector does: metrics, events, a program's own bookkeeping.

use std::time::Duration;

use crate::election::stop_reason::StopReason;
use crate::leadership::term::Term;
use crate::store::{StoreErrorKind, StoreOperation};
use crate::util::sync::Arc;

/// Is told what an elector does, in order, on a thread of its own: see
/// [`LeaderElectorBuilder::observer`](crate::LeaderElectorBuilder::observer).
///
/// No request waits for it, so it may hear of a term that is over already: ask the guard whether it is valid. At most 1,024
/// facts wait for it; the newest beyond that are dropped, which is logged at `warn` when it returns from the call that it is
/// in (never, if it hangs there). One that panics is told nothing more, which is logged at `error`.
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
    /// A term began, with this fencing token.
    fn on_started_leading(&self, fencing_token: u64) {}

    /// The term ended, and why.
    fn on_stopped_leading(&self, reason: &StopReason) {}

    /// Another candidate leads than before, which may be this one; `None` when nobody does. Of an identity of more than 1,024
    /// bytes it is the beginning.
    fn on_new_leader(&self, leader: Option<&str>) {}

    /// A write has prolonged the term; it took so long from before it was sent until this elector knew, from the answer or
    /// from the watch.
    fn on_renewed(&self, latency: Duration) {}

    /// The store has answered a request, or has not.
    fn on_request(&self, outcome: &RequestOutcome) {}

    /// A watch is open: changes are told, and not polled.
    fn on_watch_opened(&self) {}

    /// The watch has ended, or was refused.
    fn on_watch_lost(&self) {}

    /// This candidate has become fit to lead, or unfit.
    fn on_fitness(&self, is_fit: bool) {}
}

/// What became of a request to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestOutcome {
    /// What was asked.
    pub operation: StoreOperation,
    /// From before it was sent until it was answered, or given up.
    pub latency: Duration,
    /// Why it failed, if it did.
    pub failure: Option<StoreErrorKind>,
    /// Whether it is a read in the middle of a term: a renewal has failed, which is client-go's slow path, or the watch may
    /// have missed something, which client-go has none for.
    pub is_slow_path: bool,
}

/// What an observer is told.
#[derive(Clone)]
pub(crate) enum Fact {
    StartedLeading(Arc<Term>),
    StoppedLeading(StopReason),
    NewLeader(Option<String>),
    Renewed(Duration),
    Request(RequestOutcome),
    WatchOpened,
    WatchLost,
    Fitness {
        is_fit: bool,
        /// The time before a fit candidate may acquire.
        pause: Duration,
    },
}

/// What waits for an observer must not fill the memory, whatever is in a record.
const LONGEST_LEADER: usize = 1024;

impl Fact {
    pub(crate) fn new_leader(leader: Option<&str>) -> Self {
        Self::NewLeader(leader.map(|leader| beginning(leader, LONGEST_LEADER).to_owned()))
    }

    pub(crate) fn tell(&self, observer: &dyn Observer) {
        match self {
            Self::StartedLeading(term) => observer.on_started_leading(term.fencing_token()),
            Self::StoppedLeading(reason) => observer.on_stopped_leading(reason),
            Self::NewLeader(leader) => observer.on_new_leader(leader.as_deref()),
            Self::Renewed(latency) => observer.on_renewed(*latency),
            Self::Request(outcome) => observer.on_request(outcome),
            Self::WatchOpened => observer.on_watch_opened(),
            Self::WatchLost => observer.on_watch_lost(),
            Self::Fitness { is_fit, .. } => observer.on_fitness(*is_fit),
        }
    }
}

/// The beginning of a text, of at most so many bytes.
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
