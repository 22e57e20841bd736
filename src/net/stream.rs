//! Streamed answers with one JSON object per line.

use std::io::BufReader;
use std::sync::Arc;

use super::error::{Error, NetErrorKind};
use super::http::{AgentHandle, from_ureq};
use super::interrupt::{Interrupter, interrupted};
use super::lines::{ReadLine, read_line};
use crate::util::cancel::CancelHook;

/// The longest line in bytes. etcd cannot store such a large object.
pub(crate) const MAX_LINE: usize = 4 * 1024 * 1024;

const CHUNK: usize = 16 * 1024;

/// The lines of an answer on an exclusive connection.
///
/// Dropping the stream closes the connection.
pub(crate) struct LineStream {
    reader: BufReader<ureq::BodyReader<'static>>,
    /// Kept alive, because an interrupt shuts down the agent by a weak reference to the handle.
    _handle: Arc<AgentHandle>,
    interrupter: Interrupter,
    _hook: CancelHook,
    /// `true` if text after the last line end is returned as a line.
    pub(crate) takes_rest: bool,
    pub(crate) done: bool,
}

impl LineStream {
    /// Creates a stream of the lines in `body`, which the agent of `handle` received.
    ///
    /// `hook` connects `interrupter` with a cancel token.
    pub(crate) fn new(body: ureq::Body, handle: Arc<AgentHandle>, interrupter: Interrupter, hook: CancelHook) -> Self {
        let reader = BufReader::with_capacity(CHUNK, body.into_reader());
        Self { reader, _handle: handle, interrupter, _hook: hook, takes_rest: false, done: false }
    }

    /// Waits for the next line and returns the line without its line end.
    ///
    /// Returns `None` after the end of the stream and after an error.
    pub(crate) fn next_line(&mut self) -> Result<Option<Vec<u8>>, Error> {
        if self.done {
            return Ok(None);
        }
        // After an interrupt, lines that have already arrived are not returned.
        let line = self.interrupter.check().and_then(|()| self.advance());
        self.done = !matches!(line, Ok(Some(_)));
        line.map_err(|e| match self.interrupter.is_interrupted() {
            true => interrupted().sent(true),
            false => e.sent(true),
        })
    }

    fn advance(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let failed = |kind, what| Err(Error::new(kind, what));
        match read_line(&mut self.reader, MAX_LINE) {
            Ok(ReadLine::Whole(line)) => Ok(Some(line)),
            Ok(ReadLine::TooLong) => failed(NetErrorKind::BodyTooLarge, "a line of the stream is larger than 4 MiB"),
            // If a body has no Content-Length, an interrupt that shuts the connection down looks like the end of the
            // body.
            Ok(ReadLine::Rest(_)) if self.interrupter.is_interrupted() => Err(interrupted()),
            Ok(ReadLine::Rest(rest)) if rest.is_empty() => Ok(None),
            Ok(ReadLine::Rest(rest)) if self.takes_rest => Ok(Some(rest)),
            Ok(ReadLine::Rest(_)) => failed(NetErrorKind::Malformed, "the stream ended in the middle of a line"),
            Err(e) => match from_ureq(e.into()) {
                error if error.kind == NetErrorKind::Timeout => {
                    failed(error.kind, "the stream delivered no data for too long")
                }
                error => Err(error),
            },
        }
    }
}
