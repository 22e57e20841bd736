//! What a watch is asked for, and what it tells.

use std::fmt;

use crate::store::record::{StoreData, VersionedRecord};

/// What a watch is to tell of; see [`Store::watch`](crate::Store::watch).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchScope<'a> {
    /// Of this key.
    Key(&'a str),
    /// Of every key that the store has.
    All,
}

/// What a watch tells; see [`Store::watch`](crate::Store::watch).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum WatchEvent {
    /// The watch stands: every later change will be told, for as long as it lasts.
    Opened,
    /// The record was created or changed, or something else in its object.
    Changed {
        /// Whose record it is.
        key: Box<str>,
        /// What stands there.
        observed: VersionedRecord,
    },
    /// The record was deleted, by a write to the store with this version.
    Deleted {
        /// Whose record it was.
        key: Box<str>,
        /// The version of the deletion.
        version: u64,
    },
    /// All that came before has been told.
    Bookmark(Cursor),
}

/// Where a later watch *of the same scope* may begin. Only the store that made it looks inside: not in every store it is the
/// version that was told last.
///
/// # Examples
///
/// ```
/// use leasehold::Cursor;
///
/// let cursor = Cursor::new(7_u64);
/// assert_eq!(cursor.get::<u64>(), Some(&7));
/// ```
#[derive(Clone)]
pub struct Cursor(StoreData);

impl Cursor {
    /// One that says `place` to the store that made it.
    pub fn new<T: Send + Sync + 'static>(place: T) -> Self {
        Self(StoreData::new(place))
    }

    /// What it says, if that is a `T`.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.0.get()
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cursor(..)")
    }
}
