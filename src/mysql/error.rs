//! What can go wrong with a statement.

use std::fmt;

use crate::net::error as net;
use crate::net::text::clean;

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

/// Messages are a line; what stands before a server may say more.
const MAX_MESSAGE: usize = 300;

impl Error {
    /// A refusal in words that fit a log, and without this text, if there is any.
    pub(super) fn refused((code, message): (u16, String), secret: &str) -> Self {
        let message = match secret {
            "" => message,
            secret => message.replace(secret, "[redacted]"),
        };
        Self::Refused { code, message: clean(&message, MAX_MESSAGE) }
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

    /// Names the place, but for a refusal: that is an answer.
    pub(super) fn at(self, place: impl fmt::Display) -> Self {
        match self {
            Self::Net(error) => Self::Net(error.at(place.to_string())),
            other => other,
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
