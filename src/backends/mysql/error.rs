//! What can go wrong with a statement.

use std::fmt;

use crate::net::request_error::{RequestError, ServerRefusal};

/// Why a statement failed.
pub(crate) type Error = RequestError<MySqlRefusal>;

/// Why the server, or this client, refused a statement.
#[derive(Debug)]
pub(crate) enum MySqlRefusal {
    /// The server returned an error.
    Error { code: u16, message: String },
    /// The server is read-only, so its answers may be old.
    ReadOnly,
}

impl Error {
    /// Of the server.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::Refused(MySqlRefusal::Error { code, .. }) => Some(*code),
            Self::Refused(MySqlRefusal::ReadOnly) | Self::Net(_) => None,
        }
    }
}

/// Refusals that leave the session unchanged: the row exists, a lock wait timed out, a deadlock.
const UNCHANGED: [u16; 4] = [1062, 1205, 1213, 1467];

impl ServerRefusal for MySqlRefusal {
    fn leaves_session_unchanged(&self) -> bool {
        matches!(self, Self::Error { code, .. } if UNCHANGED.contains(code))
    }
}

impl fmt::Display for MySqlRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error { code, message } => write!(f, "the server says: {message} (error {code})"),
            Self::ReadOnly => f.write_str("the server is read-only, as a replica is"),
        }
    }
}
