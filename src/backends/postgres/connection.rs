//! One connection, which runs statements and receives notifications.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io;
use std::time::Instant;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::IsNull;
use postgres_protocol::message::backend::{DataRowBody, Message};
use postgres_protocol::message::frontend;

use super::abandoned::CancelTarget;
use super::error::{Error, PostgresRefusal};
use super::wire::Wire;
use crate::backends::sql::blockers::Blockers;
use crate::backends::sql::{self, SqlRow};
use crate::net::error::{self as net, NetErrorKind};
use crate::net::interrupt::Interrupter;
use crate::net::pool::{CallConnection, Versions};

/// A connection that one call uses at a time.
pub(crate) struct PostgresConnection {
    wire: Wire,
    /// Whether the server has answered a statement on this connection before.
    is_reused: bool,
    /// The version of the certificate files with which the connection was opened.
    files: u64,
    place: CancelTarget,
    /// The request that cancels the statements of the session.
    cancel: Option<BytesMut>,
    /// Whether the server may still be executing a statement.
    is_busy: bool,
    /// The numbers of the statements that the server has prepared.
    prepared: HashSet<u64>,
    /// Whether the client has ever asked the server to prepare a statement on this connection.
    pub(super) has_kept: bool,
}

/// SQL with the parameters `$1`, `$2` and so on, which are texts or NULL.
#[derive(Clone, Copy)]
pub(crate) struct Statement<'a> {
    pub(crate) sql: &'a str,
    pub(crate) parameters: &'a [Option<&'a str>],
}

/// The rows of the last statement.
pub(crate) type Rows = Vec<SqlRow>;

impl PostgresConnection {
    /// Creates a connection that is logged in. `cancel` is the request that cancels the statements of the session.
    pub(super) fn new(wire: Wire, files: u64, place: CancelTarget, cancel: Option<BytesMut>) -> Self {
        let prepared = HashSet::new();
        Self { wire, is_reused: false, files, place, cancel, is_busy: false, prepared, has_kept: false }
    }

    /// Runs the statements in one transaction, and returns the rows of the last statement.
    ///
    /// The client sends all statements at once. If a statement fails, the server skips the later statements and applies
    /// none. Otherwise the server commits after the last statement.
    ///
    /// If `kept` is `true`, the server keeps each parsed statement for later calls. No other client may then use the
    /// session between two calls.
    pub(crate) fn run(
        &mut self,
        statements: &[Statement<'_>],
        kept: bool,
        blockers: Option<&Blockers<'_>>,
        deadline: Instant,
    ) -> Result<Rows, Error> {
        let mut out = BytesMut::new();
        let mut parsed = VecDeque::new();
        for statement in statements {
            let number = statement.number();
            let name = if kept { format!("leasehold_{number:016x}") } else { String::new() };
            if !kept || !self.prepared.contains(&number) {
                frontend::parse(&name, statement.sql, [], &mut out).map_err(Error::malformed)?;
                parsed.extend(kept.then_some(number));
            }
            let as_texts = [0_i16; 0];
            let write = |parameter: &Option<&str>, out: &mut BytesMut| match parameter {
                Some(text) => {
                    out.extend_from_slice(text.as_bytes());
                    Ok(IsNull::No)
                }
                None => Ok(IsNull::Yes),
            };
            frontend::bind("", &name, as_texts, statement.parameters, write, as_texts, &mut out)
                .map_err(|_| Error::malformed("a parameter is too long"))?;
            frontend::execute("", 0, &mut out).map_err(Error::malformed)?;
        }
        frontend::sync(&mut out);
        self.wire.has_heard = false;
        self.is_busy = true;
        self.has_kept |= kept;
        let answer = self.wire.send(&out, deadline).and_then(|()| {
            if let Some(blockers) = blockers {
                blockers.wait(|until| self.wire.await_answer(until.min(deadline)))?;
            }
            self.answer(statements.len(), parsed, deadline)
        });
        match answer {
            Err(Error::Net(error)) => Err(Error::Net(self.explain(error).sent(true))),
            other => {
                (self.is_reused, self.is_busy) = (true, false);
                other
            }
        }
    }

    /// Runs a `LISTEN` statement, after which the connection receives notifications.
    pub(crate) fn listen(&mut self, statement: Statement<'_>, deadline: Instant) -> Result<(), Error> {
        self.wire.listens = true;
        self.run(&[statement], false, None, deadline).map(drop)
    }

    /// Returns the payloads of the received notifications, or blocks until the next notification.
    ///
    /// If the deadline passes, returns no payload.
    pub(crate) fn notified(&mut self, deadline: Instant) -> Result<BTreeSet<Box<str>>, Error> {
        loop {
            while let Some(message) = self.wire.parse()? {
                match message {
                    Message::NotificationResponse(body) => self.wire.note(&body)?,
                    Message::ParameterStatus(_) | Message::NoticeResponse(_) => {}
                    Message::ErrorResponse(body) => return Err(Error::Refused(PostgresRefusal::read(body.fields()))),
                    _ => return Err(Error::malformed("a message without a statement")),
                }
            }
            if !self.wire.changed.is_empty() {
                return Ok(std::mem::take(&mut self.wire.changed));
            }
            if !self.wire.await_answer(deadline)? {
                return Ok(BTreeSet::new());
            }
        }
    }

    fn answer(&mut self, statements: usize, mut parsed: VecDeque<u64>, deadline: Instant) -> Result<Rows, Error> {
        let (mut rows, mut size, mut complete, mut refusal) = (Vec::new(), 0, 0, None);
        loop {
            match self.wire.receive(deadline)? {
                Message::ParseComplete => self.prepared.extend(parsed.pop_front()),
                Message::CommandComplete(_) => complete += 1,
                Message::BindComplete => rows.clear(),
                Message::DataRow(body) => {
                    let row = read_row(&body)?;
                    size += row.memory();
                    if size > sql::MAX_ROWS {
                        let detail = "the answer is larger than 16 MiB";
                        return Err(net::Error::new(NetErrorKind::BodyTooLarge, detail).into());
                    }
                    rows.push(row);
                }
                Message::NoticeResponse(body) => {
                    let notice = PostgresRefusal::read(body.fields());
                    // A warning can mean that the server no longer waits for standbys, so the commit may not be
                    // replicated.
                    if notice.is_warning {
                        refusal.get_or_insert(PostgresRefusal { is_fatal: true, ..notice });
                    }
                }
                Message::ErrorResponse(body) => {
                    let error = PostgresRefusal::read(body.fields());
                    if error.is_fatal {
                        return Err(Error::Refused(error));
                    }
                    refusal.get_or_insert(error);
                }
                Message::ReadyForQuery(body) if body.status() == b'I' => {
                    return match refusal {
                        Some(refusal) => Err(Error::Refused(refusal)),
                        None if complete == statements => Ok(rows),
                        None => Err(Error::malformed("too few results")),
                    };
                }
                _ => return Err(Error::malformed("unknown message in the result of a statement")),
            }
        }
    }

    /// Converts an I/O error to `ConnectionClosed` if the server has closed a reused connection.
    ///
    /// A server may close an idle connection at the moment when the client sends a statement.
    fn explain(&self, error: net::Error) -> net::Error {
        match error.kind {
            NetErrorKind::Io if self.is_reused && !self.wire.has_heard => {
                let detail = "the server closed a reused connection";
                net::Error { kind: NetErrorKind::ConnectionClosed, detail: detail.to_owned(), ..error }
            }
            _ => error,
        }
    }
}

impl CallConnection for PostgresConnection {
    fn versions(&self) -> Versions {
        [0, self.files]
    }

    fn is_quiet(&mut self) -> bool {
        self.wire.is_quiet()
    }

    fn use_for(&mut self, interrupter: &Interrupter) -> Result<(), net::Error> {
        self.wire.socket.use_for(interrupter)
    }
}

impl Statement<'_> {
    /// Returns a number that identifies the SQL text.
    fn number(&self) -> u64 {
        BuildHasherDefault::<DefaultHasher>::default().hash_one(self.sql)
    }
}

impl Drop for PostgresConnection {
    fn drop(&mut self) {
        if let Some(request) = self.cancel.take().filter(|_| self.is_busy) {
            self.place.end(request);
        }
    }
}

fn read_row(body: &DataRowBody) -> Result<SqlRow, Error> {
    let read = |range: Option<std::ops::Range<usize>>| {
        let Some(range) = range else { return Ok(None) };
        let text = body.buffer().get(range).and_then(|bytes| str::from_utf8(bytes).ok());
        text.map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into())
    };
    body.ranges().map(read).iterator().collect::<Result<_, _>>().map_err(Error::malformed)
}
