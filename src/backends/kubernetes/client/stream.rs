//! Answers that do not end: one JSON object a line, as a watch sends them.

use std::fmt;
use std::time::Duration;

use super::error::ClientError;
use super::request::Request;
use crate::backends::kubernetes::client::auth::Credentials;
use crate::backends::kubernetes::client::http_client::{Client, OpenedStream};
use crate::net::MAX_WAIT;
use crate::net::interrupt::Interrupter;
use crate::net::stream::LineStream;
use crate::util::cancel::CancelToken;

/// An open stream of lines, on a connection of its own.
///
/// Dropping it closes the connection.
pub struct Stream {
    lines: LineStream,
    /// The server may quote them.
    credentials: Credentials,
    place: String,
}

impl Client {
    /// Opens a stream, such as a watch.
    ///
    /// `request.timeout` bounds all that comes before the first line: credentials, name look-up, connect, TLS and the
    /// head of the answer. After that, `silence` is the longest time between two pieces of data; longer is an error
    /// of the kind [`ErrorKind::Timeout`](crate::backends::kubernetes::client::ErrorKind::Timeout). To cancel ends this stream from any thread, also while it is being opened.
    ///
    /// # Errors
    ///
    /// As for [`request`](Client::request).
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use leasehold::CancelToken;
    /// use leasehold::kubernetes::{Client, ClientConfig, Method, Request};
    ///
    /// let client = Client::new(ClientConfig::infer()?)?;
    /// let cancel = CancelToken::new();
    /// let mut events = client.stream(
    ///     Request {
    ///         method: Method::Get,
    ///         path: "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    ///         query: &[("watch", "true"), ("fieldSelector", "metadata.name=my-controller")],
    ///         body: None,
    ///         timeout: Duration::from_secs(5),
    ///     },
    ///     Duration::from_secs(60),
    ///     &cancel,
    /// )?;
    /// while let Some(line) = events.next_line()? {
    ///     println!("{}", String::from_utf8_lossy(&line));
    /// }
    /// # Ok::<(), leasehold::kubernetes::ClientError>(())
    /// ```
    pub fn stream(&self, request: Request<'_>, silence: Duration, cancel: &CancelToken) -> Result<Stream, ClientError> {
        let (interrupter, hook) = Interrupter::hooked(cancel);
        let silence = silence.clamp(Duration::from_millis(1), MAX_WAIT);
        let OpenedStream { answer, handle, credentials } = self.open(&request, silence, &interrupter)?;
        Ok(Stream {
            lines: LineStream::new(answer.into_body(), handle, interrupter, hook),
            credentials,
            place: format!("{} {} (stream)", request.method, request.path),
        })
    }
}

impl Stream {
    /// Waits for the next line and returns it without its line end; `None` when the server has ended the stream. Credentials of this client in a line
    /// are overwritten by asterisks.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Timeout`](crate::backends::kubernetes::client::ErrorKind::Timeout) after too long a silence, [`ErrorKind::Interrupted`](crate::backends::kubernetes::client::ErrorKind::Interrupted), [`ErrorKind::BodyTooLarge`](crate::backends::kubernetes::client::ErrorKind::BodyTooLarge) for a
    /// line of more than 4 MiB, [`ErrorKind::Malformed`](crate::backends::kubernetes::client::ErrorKind::Malformed) when the stream ends inside a line, or what a broken
    /// connection is. The stream is over after an error, and answers `None` from then on.
    pub fn next_line(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        let mut line = self.lines.next_line().map_err(|e| ClientError::from(e.during(&self.place)))?;
        line.iter_mut().for_each(|line| self.credentials.redact(line));
        Ok(line)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("place", &self.place)
            .field("done", &self.lines.is_done())
            .finish_non_exhaustive()
    }
}
