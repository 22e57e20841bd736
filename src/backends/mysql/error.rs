//! The errors of a statement.

use std::fmt;

use crate::net::request_error::{RequestError, ServerRefusal};

/// The reason why a statement failed.
pub(crate) type Error = RequestError<MySqlRefusal>;

/// The reason why the server, or this client, refused a statement.
#[derive(Debug)]
pub(crate) enum MySqlRefusal {
    /// The server returned an error.
    Error { code: u16, message: String },
    /// The server is read-only, so its rows may be old.
    ReadOnly,
}

impl Error {
    /// Returns the code of the server's error, if any.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::Refused(MySqlRefusal::Error { code, .. }) => Some(*code),
            Self::Refused(MySqlRefusal::ReadOnly) | Self::Net(_) => None,
        }
    }
}

/// The codes of errors after which the session is unchanged.
///
/// 1062: the row exists. 1205: lock wait timeout. 1213 and 1467: deadlock.
const UNCHANGED: [u16; 4] = [1062, 1205, 1213, 1467];

impl ServerRefusal for MySqlRefusal {
    fn leaves_session_unchanged(&self) -> bool {
        matches!(self, Self::Error { code, .. } if UNCHANGED.contains(code))
    }
}

impl fmt::Display for MySqlRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error { code, message } => write!(f, "the server returned an error: {message} (error {code})"),
            Self::ReadOnly => f.write_str("the server is read-only, perhaps a replica"),
        }
    }
}
