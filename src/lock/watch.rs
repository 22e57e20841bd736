//! What a watch tells.

use crate::record::Observed;

/// What a watch tells; see [`Lock::watch`](crate::Lock::watch).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum WatchEvent {
    /// The watch stands: every later change will be told, for as long as it lasts.
    Opened,
    /// The record was created or changed, or something else in its object.
    Changed(Observed),
    /// The object was deleted, by a write to the store with this version.
    Deleted {
        /// The version of the deletion.
        version: u64,
    },
    /// Nothing has changed up to this version.
    Bookmark {
        /// Where a later watch may begin.
        version: u64,
    },
}
