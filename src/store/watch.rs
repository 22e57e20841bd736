//! The scope, the events and the cursor of a watch.

use std::fmt;

use crate::store::record::{StoreData, VersionedRecord};
use crate::store::{StoreError, StoreErrorKind};
use crate::util::cancel::CancelToken;

/// The scope of [`Store::watch`](crate::store::Store::watch).
///
/// # Examples
///
/// ```
/// use leasehold::store::WatchScope;
///
/// fn includes(scope: WatchScope<'_>, key: &str) -> bool {
///     match scope {
///         WatchScope::Key(wanted) => wanted == key,
///         WatchScope::Prefix(prefix) => key.starts_with(prefix),
///         _ => true,
///     }
/// }
/// assert!(includes(WatchScope::All, "jobs") && !includes(WatchScope::Key("mail"), "jobs"));
/// assert!(includes(WatchScope::Prefix("jo"), "jobs") && !includes(WatchScope::Prefix("jobs-"), "jobs"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchScope<'a> {
    /// The record of this key.
    Key(&'a str),
    /// The records whose keys start with this text.
    Prefix(&'a str),
    /// The records of all keys.
    All,
}

/// An event of [`Store::watch`](crate::store::Store::watch).
///
/// # Examples
///
/// ```
/// use leasehold::store::WatchEvent;
///
/// fn show(event: &WatchEvent) {
///     match event {
///         WatchEvent::Changed { key, observed } => println!("{key} is at version {}", observed.version),
///         WatchEvent::Deleted { key, version } => println!("{key} was deleted at version {version}"),
///         _ => {}
///     }
/// }
/// # show(&WatchEvent::Opened);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum WatchEvent {
    /// The start of the watch. Every later change is reported while the watch lasts.
    Opened,
    /// A new or changed record, or another change of its object.
    Changed {
        /// The key of the record.
        key: Box<str>,
        /// The record and its version.
        observed: VersionedRecord,
    },
    /// A deleted record.
    Deleted {
        /// The key of the deleted record.
        key: Box<str>,
        /// The version of the write that deleted the record.
        version: u64,
    },
    /// A record that the store cannot read, in a watch of a prefix or of all keys.
    ///
    /// The watch goes on, because the record must not hide the other records.
    Unreadable {
        /// The key of the record.
        key: Box<str>,
        /// The error that a read of the record returns.
        error: StoreError,
    },
    /// The end of the records that existed when the watch opened.
    ///
    /// Every such record has been reported as changed, except records that were deleted in the meantime. A watch of
    /// [`WatchScope::Prefix`] or [`WatchScope::All`] without a cursor sends this event exactly once. Any other watch
    /// sends this event at most once, and may omit it.
    Synced,
    /// A position up to which every change has been reported.
    Bookmark(Cursor),
}

/// A position from which a later watch of the same scope can resume.
///
/// Only the store that created a cursor reads its value. In some stores, the value differs from the last reported
/// version.
///
/// # Examples
///
/// ```
/// use leasehold::store::Cursor;
///
/// let cursor = Cursor::new(7_u64);
/// assert_eq!(cursor.get::<u64>(), Some(&7));
/// ```
#[derive(Clone)]
pub struct Cursor(StoreData);

impl<'a> WatchScope<'a> {
    /// Returns `true` if the watch reports the changes of `key`.
    pub(crate) fn includes(self, key: &str) -> bool {
        if self.is_one() { self.text() == key } else { key.starts_with(self.text()) }
    }

    /// Returns `true` if the scope is one key.
    pub(crate) fn is_one(self) -> bool {
        matches!(self, WatchScope::Key(_))
    }

    /// Returns the key, or the prefix that all keys in the scope share.
    pub(crate) fn text(self) -> &'a str {
        match self {
            WatchScope::Key(text) | WatchScope::Prefix(text) => text,
            WatchScope::All => "",
        }
    }
}

impl WatchEvent {
    /// Returns the event for a record that a store has read for a watch.
    ///
    /// An invalid record ends a watch of its key, and no other watch. No candidate campaigns on a watch of several
    /// keys.
    #[cfg(feature = "_http")]
    pub(crate) fn read(
        scope: WatchScope<'_>,
        key: &str,
        read: Result<VersionedRecord, StoreError>,
    ) -> Result<Self, StoreError> {
        match read {
            Ok(observed) => Ok(Self::Changed { key: key.into(), observed }),
            Err(error) if scope.is_one() => Err(error),
            Err(error) => {
                crate::util::panics::log_line!(debug, target: crate::util::log_fields::STORE, "{error}");
                Ok(Self::Unreadable { key: key.into(), error })
            }
        }
    }

    /// Returns the key and the version of a change, or `None` for another event.
    pub(crate) fn change(&self) -> Option<(&str, u64)> {
        match self {
            Self::Changed { key, observed } => Some((key, observed.version)),
            Self::Deleted { key, version } => Some((key, *version)),
            Self::Unreadable { .. } | Self::Opened | Self::Synced | Self::Bookmark(_) => None,
        }
    }
}

/// Returns an error if the caller has cancelled the watch.
pub(crate) fn check_watch(cancel: &CancelToken) -> Result<(), StoreError> {
    match cancel.is_cancelled() {
        true => Err(StoreError::new(StoreErrorKind::Interrupted, "cannot watch: interrupted by this program")),
        false => Ok(()),
    }
}

impl Cursor {
    /// Creates a cursor with a value for the store.
    pub fn new<T: Send + Sync + 'static>(place: T) -> Self {
        Self(StoreData::new(place))
    }

    /// Returns the value if its type is `T`.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.0.get()
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cursor(..)")
    }
}
