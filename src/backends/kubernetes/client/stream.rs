//! Streamed responses with one JSON object per line, such as watches.

use super::auth::Credentials;
use super::error::ClientError;
use crate::net::stream::LineStream;
use crate::util::debug_fields::debug_fields;

/// An open stream of lines, on its own connection.
///
/// Dropping the stream closes the connection.
pub(crate) struct Stream {
    pub(super) lines: LineStream,
    /// The credentials to redact if the server quotes them in a line.
    pub(super) credentials: Credentials,
    pub(super) place: String,
}

impl Stream {
    /// Blocks until the next line arrives and returns the line without its line end.
    ///
    /// Returns `None` once the server has ended the stream. If the server quotes credentials of this client in a line,
    /// asterisks replace the credentials. An error ends the stream, and further calls return `None`.
    ///
    /// # Errors
    ///
    /// - Returns [`ErrorKind::Timeout`](crate::kubernetes::ErrorKind::Timeout) if no data arrived for too long.
    /// - Returns [`ErrorKind::Interrupted`](crate::kubernetes::ErrorKind::Interrupted) if the stream was cancelled.
    /// - Returns [`ErrorKind::BodyTooLarge`](crate::kubernetes::ErrorKind::BodyTooLarge) if a line has more than 4 MiB.
    /// - Returns [`ErrorKind::Malformed`](crate::kubernetes::ErrorKind::Malformed) if the stream ends inside a line.
    /// - Returns [`ErrorKind::Io`](crate::kubernetes::ErrorKind::Io) or
    ///   [`ErrorKind::Tls`](crate::kubernetes::ErrorKind::Tls) if the connection broke.
    pub(crate) fn next_line(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        let mut line = self.lines.next_line().map_err(|e| ClientError::from(e.during(&self.place)))?;
        line.iter_mut().for_each(|line| self.credentials.redact(line));
        Ok(line)
    }
}

debug_fields!(impl Debug for Stream { self => place: self.place, done: self.lines.done, .. });
