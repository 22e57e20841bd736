//! The reasons for the end of a term.

use std::fmt;

/// The reason why a term ended.
///
/// # Examples
///
/// ```
/// use leasehold::StopReason;
///
/// let reason = StopReason::Superseded { by: Some("pod-2".to_owned()) };
/// assert_eq!(reason.to_string(), "the lease is held by \"pod-2\"");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The guard was dropped or released, or no campaign took the term.
    Released,
    /// The holder stepped down, or the protected work panicked.
    ///
    /// See [`Leadership::step_down`](crate::Leadership::step_down).
    SteppedDown,
    /// An operator asked the holder to step down.
    ///
    /// See [`accept_requests`](crate::LeaderElectorBuilder::accept_requests).
    Requested,
    /// No renewal succeeded within the renew deadline.
    Expired,
    /// The work made no progress within the progress timeout.
    ///
    /// See [`progress_timeout`](crate::LeaderElectorBuilder::progress_timeout).
    NoProgress,
    /// The candidate is unfit.
    ///
    /// See [`fit_while`](crate::LeaderElectorBuilder::fit_while) and [`fitness`](crate::LeaderElectorBuilder::fitness).
    Unfit,
    /// Another client changed or cleared the holder of the record.
    Superseded {
        /// The new holder. `None` if the holder was cleared.
        by: Option<String>,
    },
    /// The lease was deleted.
    Deleted,
    /// Another process with the same identity wrote the record.
    IdentityConflict,
    /// The store was restored to a state from before the term.
    StoreRestored,
    /// The elector's thread panicked in a [`Store`](crate::store::Store).
    ElectorPanicked,
}

impl StopReason {
    /// Returns `true` if the holder or an operator ended the term.
    pub(crate) fn was_asked_for(&self) -> bool {
        matches!(self, Self::Released | Self::SteppedDown | Self::Requested)
    }

    /// Returns `true` if the lease is still renewed after the end, so that the work can finish.
    pub(crate) fn drains(&self) -> bool {
        matches!(self, Self::SteppedDown | Self::Requested | Self::Unfit)
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Released => f.write_str("the guard was dropped or released"),
            Self::SteppedDown => f.write_str("the leader stepped down"),
            Self::Requested => f.write_str("a step-down was requested"),
            Self::NoProgress => f.write_str("the work made no progress within the progress timeout"),
            Self::Unfit => f.write_str("the candidate is unfit"),
            Self::Expired => f.write_str("no renewal succeeded within the renew deadline"),
            Self::Superseded { by: Some(by) } => write!(f, "the lease is held by {by:?}"),
            Self::Superseded { by: None } => f.write_str("another client cleared the holder of the lease"),
            Self::Deleted => f.write_str("the lease was deleted"),
            Self::IdentityConflict => f.write_str("another process uses the same identity"),
            Self::StoreRestored => f.write_str("the store was restored to an older state"),
            Self::ElectorPanicked => f.write_str("the elector's thread panicked"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_text_and_its_consequences() {
        use StopReason::*;
        // Each reason with a part of its text, and the expected results of `was_asked_for` and `drains`.
        for (reason, text, was_asked_for, drains) in [
            (Released, "dropped or released", true, false),
            (SteppedDown, "stepped down", true, true),
            (Requested, "was requested", true, true),
            (NoProgress, "no progress", false, false),
            (Unfit, "is unfit", false, true),
            (Expired, "no renewal succeeded", false, false),
            (Superseded { by: Some("b".into()) }, "held by \"b\"", false, false),
            (Superseded { by: None }, "cleared the holder", false, false),
            (Deleted, "was deleted", false, false),
            (IdentityConflict, "the same identity", false, false),
            (StoreRestored, "an older state", false, false),
            (ElectorPanicked, "panicked", false, false),
        ] {
            assert!(reason.to_string().contains(text), "{reason}");
            assert_eq!((reason.was_asked_for(), reason.drains()), (was_asked_for, drains), "{reason}");
        }
    }
}
