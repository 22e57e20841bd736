//! Answers that do not end: one JSON object a line, as a watch sends them.

use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use super::client::{Client, Opened};
use super::error::{Error, ErrorKind};
use super::request::Request;
use crate::cancel::{Cancel, Hook};
use crate::net::interrupt::{AgentHandle, Interrupter, interrupted};
use crate::net::response::from_ureq;
use crate::net::transport::MAX_WAIT;

pub(crate) mod lines;

use lines::{Lines, TooLong};

/// An object larger than this cannot be in etcd.
pub(crate) const MAX_LINE: usize = 4 * 1024 * 1024;

const CHUNK: usize = 16 * 1024;

/// An open stream of lines, on a connection of its own.
///
/// Dropping it closes the connection.
pub struct Stream {
    reader: ureq::BodyReader<'static>,
    /// Its agent is what an interrupt shuts down.
    _handle: Arc<AgentHandle>,
    interrupter: Interrupter,
    _hook: Hook,
    place: String,
    lines: Lines,
    done: bool,
}

impl Client {
    /// Opens a stream, such as a watch.
    ///
    /// `request.timeout` bounds all that comes before the first line: credentials, name look-up, connect, TLS and the
    /// head of the answer. After that, `silence` is the longest time between two pieces of data; longer is an error
    /// of the kind [`ErrorKind::Timeout`]. To cancel ends this stream from any thread, also while it is being opened.
    ///
    /// # Errors
    ///
    /// As for [`request`](Client::request).
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use leasehold::Cancel;
    /// use leasehold::kube::{Client, ClientConfig, Method, Request};
    ///
    /// let client = Client::new(ClientConfig::infer()?)?;
    /// let cancel = Cancel::new();
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
    /// # Ok::<(), leasehold::kube::Error>(())
    /// ```
    pub fn stream(&self, request: Request<'_>, silence: Duration, cancel: &Cancel) -> Result<Stream, Error> {
        let (interrupter, hook) = Interrupter::hooked(cancel);
        let silence = silence.clamp(Duration::from_millis(1), MAX_WAIT);
        let Opened { answer, handle } = self.open(&request, silence, &interrupter)?;
        Ok(Stream {
            reader: answer.into_body().into_reader(),
            _handle: handle,
            interrupter,
            _hook: hook,
            place: format!("{} {} (stream)", request.method, request.path),
            lines: Lines::new(MAX_LINE),
            done: false,
        })
    }
}

impl Stream {
    /// Waits for the next line and returns it without its line end; `None` when the server has ended the stream.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Timeout`] after too long a silence, [`ErrorKind::Interrupted`], [`ErrorKind::BodyTooLarge`] for a
    /// line of more than 4 MiB, [`ErrorKind::Malformed`] when the stream ends inside a line, or what a broken
    /// connection is. The stream is over after an error, and answers `None` from then on.
    pub fn next_line(&mut self) -> Result<Option<Vec<u8>>, Error> {
        if self.done {
            return Ok(None);
        }
        // What has been received already is not told after the end.
        let line = self.interrupter.check().map_err(Error::from).and_then(|()| self.advance());
        if !matches!(line, Ok(Some(_))) {
            self.done = true;
            self.lines = Lines::new(MAX_LINE);
        }
        line.map_err(|e| match self.interrupter.is_interrupted() {
            true => interrupted().sent(true).during(&self.place).into(),
            false => e.sent(true).during(&self.place),
        })
    }

    fn advance(&mut self) -> Result<Option<Vec<u8>>, Error> {
        loop {
            let line = self
                .lines
                .next()
                .map_err(|TooLong| Error::new(ErrorKind::BodyTooLarge, "a line of the stream is larger than 4 MiB"))?;
            if line.is_some() {
                return Ok(line);
            }
            let mut chunk = [0; CHUNK];
            match self.reader.read(&mut chunk) {
                // Shutting the connection down looks like its end to a body without a length.
                Ok(0) if self.interrupter.is_interrupted() => return Err(interrupted().into()),
                Ok(0) if self.lines.is_empty() => return Ok(None),
                Ok(0) => {
                    return Err(Error::new(ErrorKind::Malformed, "the stream ended inside a line"));
                }
                Ok(n) => self.lines.push(&chunk[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    let error = Error::from(from_ureq(e.into()));
                    return Err(match error.kind() {
                        ErrorKind::Timeout => Error::new(ErrorKind::Timeout, "the stream was silent for too long"),
                        _ => error,
                    });
                }
            }
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("place", &self.place).field("done", &self.done).finish_non_exhaustive()
    }
}
