//! What can go wrong with a statement.

use std::fmt;

use crate::net::error as net;

/// Why a statement failed.
#[derive(Debug)]
pub(crate) enum Error {
    /// On the way.
    Net(net::Error),
    /// The server says so.
    Refused { code: u16, message: String },
    /// What it says may be old.
    ReadOnly,
}

impl Error {
    pub(super) fn refused((code, message): (u16, String)) -> Self {
        Self::Refused { code, message }
    }

    pub(super) fn net_kind(&self) -> Option<net::ErrorKind> {
        match self {
            Self::Net(error) => Some(error.kind),
            Self::Refused { .. } | Self::ReadOnly => None,
        }
    }

    /// Of the server.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            Self::Net(_) | Self::ReadOnly => None,
        }
    }
}

impl From<net::Error> for Error {
    fn from(error: net::Error) -> Self {
        Self::Net(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Net(error) => error.fmt(f),
            Self::Refused { code, message } => write!(f, "the server says: {message} (error {code})"),
            Self::ReadOnly => f.write_str("the server is read-only, as a replica is"),
        }
    }
}

impl std::error::Error for Error {}
