//! The error of a request to etcd, MySQL or PostgreSQL.

use std::fmt;

use super::error::Error;

/// Why a request to a store's server failed.
#[derive(Debug)]
pub(crate) enum RequestError<R> {
    /// The request or its answer was not transferred.
    Net(Error),
    /// The server refused the request.
    Refused(R),
}

#[cfg(any(feature = "etcd", feature = "mysql"))]
impl<R> RequestError<R> {
    pub(crate) fn net_kind(&self) -> Option<super::error::ErrorKind> {
        match self {
            Self::Net(error) => Some(error.kind),
            Self::Refused(_) => None,
        }
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
