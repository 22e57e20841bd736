//! The error of a store.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::util::debug_fields::debug_as_display;

/// An error that a [`Store`](crate::store::Store) returns.
///
/// # Examples
///
/// ```
/// use leasehold::store::{StoreError, StoreErrorKind};
///
/// let error = StoreError::new(StoreErrorKind::Forbidden, "no `get` on leases");
/// assert!(!error.is_transient());
/// ```
#[derive(Clone)]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
    retry_after: Option<Duration>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// The kind of a [`StoreError`].
///
/// # Examples
///
/// ```
/// use leasehold::store::{StoreError, StoreErrorKind};
///
/// let error = StoreError::new(StoreErrorKind::Timeout, "cannot update jobs: no answer within 5s");
/// assert_eq!(error.kind(), StoreErrorKind::Timeout);
/// assert!(error.is_transient());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The record is gone, or differs from the `base` of the update.
    ///
    /// The write may still have been applied. If an API server sends one write to etcd twice, the second attempt
    /// conflicts with the first.
    Conflict,
    /// The record to create already exists.
    ///
    /// An earlier attempt of the same write may have created the record.
    AlreadyExists,
    /// The write conflicts with the stored record, was not applied, and never will be.
    ///
    /// The record to create exists, or the record to replace has changed. A store returns `NotApplied` only if the
    /// store is certain.
    NotApplied,
    /// The caller is authenticated but not authorized.
    Forbidden,
    /// The caller's credentials are not accepted.
    Unauthorized,
    /// The container of the object, such as its namespace, does not exist.
    NotFound,
    /// The server's identity could not be verified.
    Untrusted,
    /// The store understood the request and rejects its content.
    Rejected,
    /// The response could not be parsed, or is invalid.
    Malformed,
    /// No response arrived in time.
    Timeout,
    /// The call was cancelled by [`CancelToken::cancel`](crate::store::CancelToken::cancel).
    Interrupted,
    /// The store no longer has the changes after the position from which a watch was to resume.
    Expired,
    /// The store does not support the operation.
    Unsupported,
    /// A reused connection was closed before the first byte of the response.
    ///
    /// The request may have been executed. The elector sends the next attempt at once.
    ConnectionClosed,
    /// The store cannot be reached, or reports that no answer is possible now.
    Unavailable,
}

impl StoreErrorKind {
    /// All kinds in the order of the enum, with their names in metrics.
    pub(crate) const ALL: [(Self, &'static str); 15] = [
        (Self::Conflict, "conflict"),
        (Self::AlreadyExists, "already_exists"),
        (Self::NotApplied, "not_applied"),
        (Self::Forbidden, "forbidden"),
        (Self::Unauthorized, "unauthorized"),
        (Self::NotFound, "not_found"),
        (Self::Untrusted, "untrusted"),
        (Self::Rejected, "rejected"),
        (Self::Malformed, "malformed"),
        (Self::Timeout, "timeout"),
        (Self::Interrupted, "interrupted"),
        (Self::Expired, "expired"),
        (Self::Unsupported, "unsupported"),
        (Self::ConnectionClosed, "connection_closed"),
        (Self::Unavailable, "unavailable"),
    ];

    /// Returns `true` if another write came first, which shows that the store works.
    pub(crate) const fn is_conflict(self) -> bool {
        matches!(self, Self::Conflict | Self::AlreadyExists | Self::NotApplied)
    }

    /// Returns the name of this kind in metrics.
    pub(crate) const fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

impl StoreError {
    /// Creates an error of this kind.
    ///
    /// `message` names the failed operation, the place, and the remedy.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None, source: None }
    }

    /// Sets the pause before the next attempt that the store has requested.
    ///
    /// Defaults to no pause.
    #[must_use]
    pub fn with_retry_after(mut self, retry_after: Option<Duration>) -> Self {
        self.retry_after = retry_after;
        self
    }

    /// Sets the underlying error.
    ///
    /// Defaults to no underlying error.
    #[must_use]
    pub fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Returns the pause before the next attempt that the store has requested.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Returns `true` if a later attempt may succeed.
    ///
    /// If the result is `false`, a person must first grant, create or correct something.
    pub fn is_transient(&self) -> bool {
        use StoreErrorKind::*;
        !matches!(self.kind, Forbidden | Unauthorized | NotFound | Untrusted | Rejected)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

debug_as_display!(StoreError);

impl StdError for StoreError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| &**source as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_name_and_its_class() {
        use StoreErrorKind::*;
        // Columns: the kind, its name in metrics, `is_conflict` and `is_transient`.
        for (kind, name, is_conflict, is_transient) in [
            (Conflict, "conflict", true, true),
            (AlreadyExists, "already_exists", true, true),
            (NotApplied, "not_applied", true, true),
            (Forbidden, "forbidden", false, false),
            (Unauthorized, "unauthorized", false, false),
            (NotFound, "not_found", false, false),
            (Untrusted, "untrusted", false, false),
            (Rejected, "rejected", false, false),
            (Malformed, "malformed", false, true),
            (Timeout, "timeout", false, true),
            (Interrupted, "interrupted", false, true),
            (Expired, "expired", false, true),
            (Unsupported, "unsupported", false, true),
            (ConnectionClosed, "connection_closed", false, true),
            (Unavailable, "unavailable", false, true),
        ] {
            assert_eq!((kind.name(), kind.is_conflict()), (name, is_conflict));
            assert_eq!(StoreError::new(kind, "").is_transient(), is_transient, "{name}");
        }
    }
}
