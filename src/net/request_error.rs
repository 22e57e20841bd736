//! The error of a request to etcd, MySQL or PostgreSQL.

use std::fmt;

use super::calls::CallError;
use super::error::{Error, NetErrorKind};

/// The error of a request to a store's server.
#[derive(Debug)]
pub(crate) enum RequestError<R> {
    /// The request or its answer was not transferred.
    Net(Error),
    /// The server refused the request.
    Refused(R),
}

/// A server's refusal.
pub(crate) trait ServerRefusal: fmt::Display {
    /// Returns `true` if the refused request has not changed the session.
    fn leaves_session_unchanged(&self) -> bool;
}

impl<R> RequestError<R> {
    /// Marks a network failure as the failure of a request that the server may have received.
    pub(crate) fn sent(self) -> Self {
        match self {
            Self::Net(error) => Self::Net(error.sent(true)),
            refused => refused,
        }
    }
}

impl<R: ServerRefusal> CallError for RequestError<R> {
    fn net_kind(&self) -> Option<NetErrorKind> {
        match self {
            Self::Net(error) => Some(error.kind),
            Self::Refused(_) => None,
        }
    }

    fn maybe_sent(&self) -> bool {
        !matches!(self, Self::Net(error) if !error.maybe_sent)
    }

    fn leaves_session_unchanged(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.leaves_session_unchanged())
    }
}

impl<R> From<Error> for RequestError<R> {
    fn from(error: Error) -> Self {
        Self::Net(error)
    }
}

impl<R: fmt::Display> fmt::Display for RequestError<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Net(error) => error.fmt(f),
            Self::Refused(refusal) => refusal.fmt(f),
        }
    }
}
