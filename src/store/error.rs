//! Why a store did not do what it was asked.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Why a [`Store`](crate::Store) did not do what it was asked.
///
/// # Examples
///
/// ```
/// use leasehold::{StoreError, StoreErrorKind};
///
/// let error = StoreError::new(StoreErrorKind::Forbidden, "no `get` on leases");
/// assert!(!error.is_transient());
/// ```
#[derive(Debug, Clone)]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
    retry_after: Option<Duration>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// What kind of failure a [`StoreError`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The record moved since its base was observed, or is gone. The write may have been applied all the same: an API server
    /// says this also of a write of its own that it has sent to etcd twice.
    Conflict,
    /// The record to be created exists. It may be the very one that was to be created.
    AlreadyExists,
    /// The record to be created exists, or that to be replaced does not stand as it was observed, and this write was not applied
    /// and never will be. Only a store that is certain of that says so.
    NotApplied,
    /// Who we are is known, and may not do this.
    Forbidden,
    /// Who we are is not accepted.
    Unauthorized,
    /// What should hold the object, such as its namespace, does not exist.
    NotFound,
    /// The server is not who it should be.
    Untrusted,
    /// The store understood the request and refuses it for what it says.
    Rejected,
    /// The answer makes no sense.
    Malformed,
    /// No answer in time.
    Timeout,
    /// Ended by [`CancelToken::cancel`](crate::CancelToken::cancel).
    Interrupted,
    /// The store does not remember what came after the version that a watch was to begin at.
    Expired,
    /// The store cannot do this at all.
    Unsupported,
    /// A connection that had carried requests before was closed under this one, before a single byte of an answer. It may
    /// have been carried out. The next attempt is sent at once.
    ConnectionClosed,
    /// The store cannot be reached or says that it cannot answer now.
    Unavailable,
}

impl StoreErrorKind {
    /// All kinds in their order, each with its name in metrics.
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

    /// Whether somebody else's write came first: the store answers, and answers well.
    pub(crate) const fn is_beaten(self) -> bool {
        matches!(self, Self::Conflict | Self::AlreadyExists | Self::NotApplied)
    }

    /// As it is called in metrics.
    pub(crate) const fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

impl StoreError {
    /// An error of this kind; `message` says what failed, where, and what to do about it.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None, source: None }
    }

    /// Adds how long the store asked to be left alone.
    #[must_use]
    pub fn with_retry_after(mut self, retry_after: Option<Duration>) -> Self {
        self.retry_after = retry_after;
        self
    }

    /// Adds the error underneath.
    #[must_use]
    pub fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// How long the store asked to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Whether waiting may help; where it may not, somebody has to grant, create or correct something.
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
        // The name in metrics, whether another write came first, and whether waiting may help.
        for (kind, name, is_beaten, is_transient) in [
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
            assert_eq!((kind.name(), kind.is_beaten()), (name, is_beaten));
            assert_eq!(StoreError::new(kind, "").is_transient(), is_transient, "{name}");
        }
    }
}
