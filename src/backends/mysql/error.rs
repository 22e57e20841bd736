//! The errors of a statement.

use std::fmt;

use crate::net::request_error::{RequestError, ServerRefusal};

/// The reason why a statement failed.
pub(crate) type Error = RequestError<MySqlRefusal>;

/// An error of the server.
#[derive(Debug)]
pub(crate) struct MySqlRefusal {
    pub(crate) code: u16,
    pub(crate) message: String,
}

impl Error {
    /// Returns the code of the server's error, if any.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::Refused(refusal) => Some(refusal.code),
            Self::Net(_) => None,
        }
    }
}

/// The codes of errors after which the session is unchanged.
///
/// 1062: the row exists. 1205: lock wait timeout. 1213 and 1467: deadlock.
const UNCHANGED: [u16; 4] = [1062, 1205, 1213, 1467];

impl ServerRefusal for MySqlRefusal {
    fn leaves_session_unchanged(&self) -> bool {
        UNCHANGED.contains(&self.code)
    }
}

impl fmt::Display for MySqlRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server returned an error: {} (error {})", self.message, self.code)
    }
}
