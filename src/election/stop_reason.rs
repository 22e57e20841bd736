//! Why a term ended.

use std::fmt;

/// Why a term ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The guard was dropped or released, or nobody took the term.
    Released,
    /// [`LeaderGuard::step_down`](crate::LeaderGuard::step_down) was called, or protected work panicked.
    SteppedDown,
    /// No renewal succeeded within the renew deadline.
    Expired,
    /// The work made no progress within
    /// [`progress_timeout`](crate::LeaderElectorBuilder::progress_timeout).
    NoProgress,
    /// This candidate is not fit to lead: see [`fit_while`](crate::LeaderElectorBuilder::fit_while) and
    /// [`fitness`](crate::LeaderElectorBuilder::fitness).
    Unfit,
    /// The record is another's now (`by`), or nobody's.
    Superseded {
        /// Who holds the lease instead.
        by: Option<String>,
    },
    /// The lease was deleted.
    Deleted,
    /// The record has our identity and is none of our writes: another process uses the same identity.
    IdentityConflict,
    /// The store went back to a state from before the term.
    StoreRestored,
    /// The elector's thread has panicked in a [`Store`](crate::Store).
    ElectorPanicked,
}

impl StopReason {
    /// Whether its holder wanted the term to end.
    pub(crate) fn was_asked_for(&self) -> bool {
        matches!(self, Self::Released | Self::SteppedDown)
    }

    /// Whether the record is renewed for a while after it, so that work that is winding down is covered.
    pub(crate) fn drains(&self) -> bool {
        matches!(self, Self::SteppedDown | Self::Unfit)
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Released => f.write_str("its guard was released or dropped"),
            Self::SteppedDown => f.write_str("the leader stepped down"),
            Self::NoProgress => f.write_str("the work made no progress for too long"),
            Self::Unfit => f.write_str("this candidate is not fit to lead"),
            Self::Expired => f.write_str("no renewal succeeded within the renew deadline"),
            Self::Superseded { by: Some(by) } => write!(f, "the lease is held by {by:?} now"),
            Self::Superseded { by: None } => f.write_str("somebody else released the lease"),
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
        // Whether the holder asked for the end, and whether the record is renewed after it.
        for (reason, text, was_asked_for, drains) in [
            (Released, "released or dropped", true, false),
            (SteppedDown, "stepped down", true, true),
            (NoProgress, "no progress", false, false),
            (Unfit, "not fit to lead", false, true),
            (Expired, "no renewal succeeded", false, false),
            (Superseded { by: Some("b".into()) }, "held by \"b\"", false, false),
            (Superseded { by: None }, "else released", false, false),
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
