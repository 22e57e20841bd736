//! Answers that do not end: one JSON object a line.

use std::io::{self, Read};
use std::sync::Arc;

use super::agent::AgentHandle;
use super::error::{Error, ErrorKind};
use super::interrupt::{Interrupter, interrupted};
use super::lines::{Lines, TooLong};
use super::response::from_ureq;
use crate::cancel::Hook;

/// An object larger than this cannot be in etcd.
pub(crate) const MAX_LINE: usize = 4 * 1024 * 1024;

const CHUNK: usize = 16 * 1024;

/// The lines of an answer, on a connection of its own. Dropping it closes the connection.
pub(crate) struct LineStream {
    reader: ureq::BodyReader<'static>,
    /// Its agent is what an interrupt shuts down.
    _handle: Arc<AgentHandle>,
    interrupter: Interrupter,
    _hook: Hook,
    lines: Lines,
    /// Whether the last line may lack its end.
    takes_rest: bool,
    done: bool,
}

impl LineStream {
    /// Of the body of an answer that came by the agent of `handle`, until `interrupter` ends it, which `hook` sees to.
    pub(crate) fn new(body: ureq::Body, handle: Arc<AgentHandle>, interrupter: Interrupter, hook: Hook) -> Self {
        let lines = Lines::new(MAX_LINE);
        Self {
            reader: body.into_reader(),
            _handle: handle,
            interrupter,
            _hook: hook,
            lines,
            takes_rest: false,
            done: false,
        }
    }

    /// Also answers what comes after the last line end, for servers that write none after an error.
    #[cfg_attr(not(feature = "etcd"), expect(dead_code, reason = "an API server ends every line"))]
    pub(crate) fn with_rest(mut self) -> Self {
        self.takes_rest = true;
        self
    }

    /// Whether it is over.
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// Waits for the next line and returns it without its line end; `None` when the server has ended the stream, and after
    /// an error.
    pub(crate) fn next_line(&mut self) -> Result<Option<Vec<u8>>, Error> {
        if self.done {
            return Ok(None);
        }
        // What has been received already is not told after the end.
        let line = self.interrupter.check().and_then(|()| self.advance());
        if !matches!(line, Ok(Some(_))) {
            self.done = true;
            self.lines = Lines::new(MAX_LINE);
        }
        line.map_err(|e| match self.interrupter.is_interrupted() {
            true => interrupted().sent(true),
            false => e.sent(true),
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
                Ok(0) if self.interrupter.is_interrupted() => return Err(interrupted()),
                Ok(0) if self.lines.is_empty() => return Ok(None),
                Ok(0) if self.takes_rest => return Ok(Some(self.lines.take_rest())),
                Ok(0) => {
                    return Err(Error::new(ErrorKind::Malformed, "the stream ended inside a line"));
                }
                Ok(n) => self.lines.push(&chunk[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    let error = from_ureq(e.into());
                    return Err(match error.kind {
                        ErrorKind::Timeout => Error::new(ErrorKind::Timeout, "the stream was silent for too long"),
                        _ => error,
                    });
                }
            }
        }
    }
}
