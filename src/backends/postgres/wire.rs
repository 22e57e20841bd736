//! Messages of one connection, including notifications.

use std::collections::BTreeSet;
use std::io;
use std::time::Instant;

use bytes::BytesMut;
use postgres_protocol::message::backend::{Header, Message, NotificationResponseBody};

use super::error::Error;
use crate::net::error::{self as net, NetErrorKind};
use crate::net::socket::{Socket, explain};

/// Maximum length of a message in bytes, far longer than any expected message.
const MAX_MESSAGE: usize = 1024 * 1024;

/// Maximum number of distinct payloads that a connection keeps.
///
/// More payloads are kept as one empty payload, after which the watch reads all records.
const MAX_CHANGED: usize = 1024;

/// Maximum length of a payload in bytes.
///
/// The connection ignores a longer payload, because every key is shorter.
const MAX_PAYLOAD: usize = 256;

/// A socket with its buffered input.
pub(super) struct Wire {
    pub(super) socket: Socket,
    input: BytesMut,
    /// Whether data has arrived since the last statement was sent.
    pub(super) has_heard: bool,
    /// The payloads of the received notifications. An empty payload means that any record may have changed.
    pub(super) changed: BTreeSet<Box<str>>,
    /// Whether the connection keeps notifications.
    ///
    /// A pooler may deliver the notifications of another client, so only a connection with a `LISTEN` keeps them.
    pub(super) listens: bool,
}

impl Wire {
    pub(super) fn new(socket: Socket) -> Self {
        Self { socket, input: BytesMut::new(), has_heard: false, changed: BTreeSet::new(), listens: false }
    }

    /// Returns `true` if the connection is open and no data has arrived since the last response.
    pub(super) fn is_quiet(&mut self) -> bool {
        self.input.is_empty() && self.socket.is_quiet()
    }

    pub(super) fn send(&mut self, bytes: &[u8], deadline: Instant) -> Result<(), Error> {
        self.socket.write_all(bytes, deadline).map_err(|e| explain(e).into())
    }

    /// Blocks until the next message, except for notifications and changes of parameters.
    pub(super) fn receive(&mut self, deadline: Instant) -> Result<Message, Error> {
        loop {
            while let Some(message) = self.parse()? {
                match message {
                    Message::NotificationResponse(body) => self.note(&body)?,
                    Message::ParameterStatus(_) => {}
                    other => return Ok(other),
                }
            }
            self.fill(deadline)?;
        }
    }

    /// Blocks until data arrives, and returns `false` if none has arrived by the deadline.
    pub(super) fn await_answer(&mut self, deadline: Instant) -> Result<bool, Error> {
        match self.fill(deadline) {
            Err(Error::Net(error)) if error.kind == NetErrorKind::Timeout => Ok(false),
            other => other.map(|()| true),
        }
    }

    fn fill(&mut self, deadline: Instant) -> Result<(), Error> {
        let mut chunk = [0; 8192];
        match self.socket.read(&mut chunk, deadline) {
            Ok(0) => return Err(explain(io::ErrorKind::UnexpectedEof.into()).into()),
            Ok(count) => self.input.extend_from_slice(&chunk[..count]),
            Err(e) => return Err(explain(e).into()),
        }
        self.has_heard = true;
        Ok(())
    }

    pub(super) fn parse(&mut self) -> Result<Option<Message>, Error> {
        let header = Header::parse(&self.input).map_err(Error::malformed)?;
        if header.is_some_and(|header| usize::try_from(header.len()).is_ok_and(|length| length > MAX_MESSAGE)) {
            return Err(net::Error::new(NetErrorKind::BodyTooLarge, "a message is larger than 1 MiB").into());
        }
        Message::parse(&mut self.input).map_err(Error::malformed)
    }

    pub(super) fn note(&mut self, body: &NotificationResponseBody) -> Result<(), Error> {
        let payload = body.message().map_err(Error::malformed)?;
        if self.listens && payload.len() <= MAX_PAYLOAD && !self.changed.contains(payload) {
            let is_one_too_many = self.changed.len() >= MAX_CHANGED;
            self.changed.insert(if is_one_too_many { "" } else { payload }.into());
        }
        Ok(())
    }
}
