//! Answers that do not end: one JSON object a line.

use std::io::BufReader;
use std::sync::Arc;

use super::error::{Error, NetErrorKind};
use super::http::{AgentHandle, from_ureq};
use super::interrupt::{Interrupter, interrupted};
use super::lines::{ReadLine, read_line};
use crate::util::cancel::CancelHook;

/// An object larger than this cannot be in etcd.
pub(crate) const MAX_LINE: usize = 4 * 1024 * 1024;

const CHUNK: usize = 16 * 1024;

/// The lines of an answer, on a connection of its own. Dropping it closes the connection.
pub(crate) struct LineStream {
    reader: BufReader<ureq::BodyReader<'static>>,
    /// Its agent is what an interrupt shuts down.
    _handle: Arc<AgentHandle>,
    interrupter: Interrupter,
    _hook: CancelHook,
    /// Whether the last line may lack its end.
    takes_rest: bool,
    done: bool,
}

impl LineStream {
    /// Of the body of an answer that came by the agent of `handle`, until `interrupter` ends it, which `hook` sees to.
    pub(crate) fn new(body: ureq::Body, handle: Arc<AgentHandle>, interrupter: Interrupter, hook: CancelHook) -> Self {
        let reader = BufReader::with_capacity(CHUNK, body.into_reader());
        Self { reader, _handle: handle, interrupter, _hook: hook, takes_rest: false, done: false }
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
            // Shutting the connection down looks like its end to a body without a length.
            Ok(ReadLine::Rest(_)) if self.interrupter.is_interrupted() => Err(interrupted()),
            Ok(ReadLine::Rest(rest)) if rest.is_empty() => Ok(None),
            Ok(ReadLine::Rest(rest)) if self.takes_rest => Ok(Some(rest)),
            Ok(ReadLine::Rest(_)) => failed(NetErrorKind::Malformed, "the stream ended inside a line"),
            Err(e) => match from_ureq(e.into()) {
                error if error.kind == NetErrorKind::Timeout => {
                    failed(error.kind, "the stream was silent for too long")
                }
                error => Err(error),
            },
        }
    }
}
