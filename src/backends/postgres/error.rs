//! The errors of a statement.

use std::fmt;

use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::ErrorFields;

use crate::net::error as net;
use crate::net::request_error::{RequestError, ServerRefusal};
use crate::net::text::clean;

/// The reason why a statement failed.
pub(crate) type Error = RequestError<PostgresRefusal>;

/// An error message of the server.
#[derive(Debug)]
pub(crate) struct PostgresRefusal {
    /// The error code of five letters and digits, as in appendix A of PostgreSQL's documentation.
    pub(crate) sqlstate: String,
    pub(crate) message: String,
    /// Whether the error ended the connection.
    pub(crate) is_fatal: bool,
    pub(crate) is_warning: bool,
}

/// Maximum length of a message in characters.
///
/// PostgreSQL's messages have one line.
const MAX_MESSAGE: usize = 300;

impl Error {
    pub(crate) fn malformed(what: impl fmt::Display) -> Self {
        let what = clean(&what.to_string(), MAX_MESSAGE);
        let text = format!("unexpected response from PostgreSQL: {what}");
        Self::Net(net::Error::new(net::NetErrorKind::Malformed, text))
    }
}

impl PostgresRefusal {
    /// Returns `true` if a prepared statement is missing, exists already, or is outdated.
    ///
    /// A prepared statement is outdated if the table has changed. In all these cases, the server has executed nothing.
    /// A fatal error is excluded, because its effects are unknown.
    pub(crate) fn is_of_what_is_kept(&self) -> bool {
        !self.is_fatal && matches!(self.sqlstate.as_str(), "26000" | "42P05" | "0A000")
    }

    pub(crate) fn read(mut fields: ErrorFields<'_>) -> Self {
        let (mut severity, mut sqlstate, mut message) = (String::new(), String::new(), String::new());
        // An unreadable field ends the loop, so this field and all later fields are ignored.
        while let Ok(Some(field)) = fields.next() {
            // The text stays complete here, because secrets must be removed before the text is shortened.
            let value = || String::from_utf8_lossy(field.value_bytes()).into_owned();
            match field.type_() {
                // The severity in field `S` is in the server's language. The later field `V` is never translated and
                // replaces it.
                b'S' if severity.is_empty() => severity = value(),
                b'V' => severity = value(),
                b'C' => sqlstate = value(),
                b'M' => message = value(),
                _ => {}
            }
        }
        let (is_fatal, is_warning) = (matches!(severity.as_str(), "FATAL" | "PANIC"), severity == "WARNING");
        Self { sqlstate, message, is_fatal, is_warning }
    }
}

impl ServerRefusal for PostgresRefusal {
    /// Returns `false` for a fatal error and for 25006, the error of a read-only session.
    ///
    /// A session that started read-only stays read-only.
    fn leaves_session_unchanged(&self) -> bool {
        !self.is_fatal && self.sqlstate != "25006"
    }
}

impl fmt::Display for PostgresRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgreSQL returned an error: {} (SQLSTATE {})", self.message, self.sqlstate)
    }
}
