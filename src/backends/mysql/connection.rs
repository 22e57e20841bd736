//! One connection, which sends statements and receives their results in packets.

use std::io;
use std::time::Instant;

use super::error::Error;
use super::packet::{self, EOF, ERR, HEADER, LOCAL_FILE, OK, PacketReader, check, malformed, status};
use crate::backends::sql::blockers::Blockers;
use crate::backends::sql::{self, SqlRow};
use crate::net::error::{self as net, NetErrorKind};
use crate::net::interrupt::Interrupter;
use crate::net::pool::{CallConnection, Versions};
use crate::net::socket::{Socket, explain};
use crate::net::tls::TlsParts;

/// The command byte of a statement.
const COM_QUERY: u8 = 0x03;

/// Maximum number of columns, more than any statement of this library returns.
const MOST_COLUMNS: u64 = 64;

/// The time that a statement waits for the lock of a row, in seconds, unless the statement is a part of an acquisition.
pub(super) const LOCK_WAIT: u64 = 1;

/// A connection that one call uses at a time.
pub(super) struct MySqlConnection {
    socket: Socket,
    /// Received bytes that are not parsed yet.
    received: Vec<u8>,
    /// The number of the next packet, in either direction.
    sequence: u8,
    /// Whether an earlier call has used this connection.
    is_reused: bool,
    /// Whether any byte has arrived since the last statement was sent.
    has_answered: bool,
    /// The version of the certificate files with which the connection was opened.
    files: u64,
    /// Whether the server executes this user's writes even while the server is read-only.
    pub(super) writes_on_read_only: bool,
    /// The number of this connection in the server.
    pub(super) thread: u32,
    /// The time that a statement waits for the lock of a row, in seconds.
    pub(super) lock_wait: u64,
    /// Whether the statements since the last `START TRANSACTION` are not committed.
    is_in_transaction: bool,
}

/// The outcome of a statement, or its rows.
#[derive(Debug, Default)]
pub(crate) struct StatementResult {
    pub(crate) affected: u64,
    pub(crate) last_insert_id: u64,
    /// Whether the server returned a set of rows, which may be empty.
    pub(crate) is_rows: bool,
    pub(crate) rows: Vec<SqlRow>,
}

impl MySqlConnection {
    pub(super) fn new(socket: Socket, files: u64) -> Self {
        let (received, sequence) = (Vec::new(), 0);
        Self {
            socket,
            received,
            sequence,
            is_reused: false,
            has_answered: false,
            files,
            writes_on_read_only: false,
            thread: 0,
            lock_wait: LOCK_WAIT,
            is_in_transaction: false,
        }
    }

    pub(super) fn is_tls(&self) -> bool {
        self.socket.is_tls()
    }

    pub(super) fn start_tls(&mut self, parts: &TlsParts, deadline: Instant) -> Result<(), net::Error> {
        // Another machine on the network path may have inserted these bytes before the start of TLS.
        check(self.received.is_empty(), "bytes before TLS")?;
        self.socket.start_tls(parts, deadline)
    }

    pub(super) fn send(&mut self, payload: &[u8], deadline: Instant) -> Result<(), net::Error> {
        let header = packet::header(payload.len(), self.sequence)
            .ok_or_else(|| net::Error::new(NetErrorKind::Config, "a statement is longer than 1 MiB"))?;
        self.sequence = self.sequence.wrapping_add(1);
        self.socket.write_all(&[&header, payload].concat(), deadline).map_err(|error| self.explain(error))
    }

    /// Reads the next packet, or returns the error in the packet.
    pub(super) fn receive(&mut self, deadline: Instant) -> Result<Vec<u8>, Error> {
        self.fill(HEADER, deadline)?;
        let header = [self.received[0], self.received[1], self.received[2], self.received[3]];
        let length = packet::length(header, self.sequence)?;
        self.sequence = self.sequence.wrapping_add(1);
        self.fill(HEADER + length, deadline)?;
        // The packet is copied, because the buffer's capacity may be much larger than the packet.
        let packet = self.received[HEADER..HEADER + length].to_vec();
        self.received.drain(..HEADER + length);
        match packet.first() {
            Some(&ERR) => Err(Error::Refused(packet::refusal(&packet)?)),
            _ => Ok(packet),
        }
    }

    /// Reads until the buffer has `length` bytes.
    fn fill(&mut self, length: usize, deadline: Instant) -> Result<(), net::Error> {
        let mut chunk = [0; 8192];
        while self.received.len() < length {
            match self.socket.read(&mut chunk, deadline) {
                Ok(0) => return Err(self.explain(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => self.received.extend_from_slice(&chunk[..count]),
                Err(error) => return Err(self.explain(error)),
            }
            self.has_answered = true;
        }
        Ok(())
    }

    /// Converts an I/O error.
    ///
    /// The server may have closed a reused connection at the moment when the client sent the statement.
    fn explain(&self, error: io::Error) -> net::Error {
        let error = explain(error);
        match error.kind {
            NetErrorKind::Io if self.is_reused && !self.has_answered => {
                net::Error::new(NetErrorKind::ConnectionClosed, "the server closed a reused connection")
            }
            _ => error,
        }
    }

    /// Sends a statement and reads its complete result.
    pub(super) fn query(&mut self, sql: &str, deadline: Instant) -> Result<StatementResult, Error> {
        self.query_blocked(sql, None, deadline)
    }

    /// Sends a statement like [`query`](Self::query), and looks up the transactions that block it.
    pub(super) fn query_blocked(
        &mut self,
        sql: &str,
        blockers: Option<&Blockers<'_>>,
        deadline: Instant,
    ) -> Result<StatementResult, Error> {
        // Otherwise the client would read the earlier bytes as the result of this statement.
        check(self.received.is_empty(), "unexpected bytes")?;
        self.sequence = 0;
        self.has_answered = false;
        self.send(&[&[COM_QUERY], sql.as_bytes()].concat(), deadline)?;
        if let Some(blockers) = blockers {
            blockers.wait(|until| match self.fill(HEADER, until.min(deadline)) {
                Err(error) if error.kind == NetErrorKind::Timeout => Ok(false),
                other => other.map(|()| true),
            })?;
        }
        let packet = self.receive(deadline)?;
        let (answer, status) = match packet.first() {
            Some(&OK) => {
                let (affected, last_insert_id, status) = packet::done(&packet)?;
                (StatementResult { affected, last_insert_id, ..StatementResult::default() }, status)
            }
            Some(&LOCAL_FILE) => return Err(malformed("a request for a file of this machine").into()),
            Some(&EOF) | None => return Err(malformed("neither a result nor an error").into()),
            Some(_) => {
                let (rows, status) = self.rows(&packet, deadline)?;
                (StatementResult { rows, is_rows: true, ..StatementResult::default() }, status)
            }
        };
        // If a transaction is open without our knowledge, the server has not committed the write. If our transaction is
        // not open, it has lost its locks.
        let flags = status & (status::AUTOCOMMIT | status::IN_TRANSACTION | status::MORE_RESULTS);
        let expected = if self.is_in_transaction { status::IN_TRANSACTION } else { 0 };
        check(flags == status::AUTOCOMMIT | expected, "another state of the transaction, or more results follow")?;
        Ok(answer)
    }

    pub(super) fn start_transaction(&mut self, deadline: Instant) -> Result<(), Error> {
        self.is_in_transaction = true;
        self.query("START TRANSACTION", deadline).map(drop)
    }

    /// Ends the transaction by `COMMIT` or `ROLLBACK`.
    pub(super) fn end_transaction(&mut self, sql: &str, deadline: Instant) -> Result<(), Error> {
        self.is_in_transaction = false;
        self.query(sql, deadline).map(drop)
    }

    fn rows(&mut self, first: &[u8], deadline: Instant) -> Result<(Vec<SqlRow>, u16), Error> {
        let mut reader = PacketReader::new(first);
        let columns = reader.length_encoded()?;
        check(columns <= MOST_COLUMNS && reader.is_empty(), "too many columns")?;
        // Skips the definitions of the columns, because the statement determines their names and types.
        for _ in 0..columns {
            self.receive(deadline)?;
        }
        check(packet::is_eof(&self.receive(deadline)?), "no end after the column definitions")?;
        let (mut rows, mut size) = (Vec::new(), 0);
        loop {
            let packet = self.receive(deadline)?;
            if packet::is_eof(&packet) {
                return Ok((rows, packet::eof_status(&packet)?));
            }
            let row = read_row(&packet, columns)?;
            size += row.memory();
            if size > sql::MAX_ROWS {
                return Err(net::Error::new(NetErrorKind::BodyTooLarge, "the rows are more than 16 MiB").into());
            }
            rows.push(row);
        }
    }
}

impl CallConnection for MySqlConnection {
    fn versions(&self) -> Versions {
        [0, self.files]
    }

    fn is_quiet(&mut self) -> bool {
        self.received.is_empty() && self.socket.is_quiet()
    }

    fn use_for(&mut self, interrupter: &Interrupter) -> Result<(), net::Error> {
        self.is_reused = true;
        self.socket.use_for(interrupter)
    }
}

/// Parses a row that must have this number of columns.
fn read_row(packet: &[u8], columns: u64) -> Result<SqlRow, net::Error> {
    let mut reader = PacketReader::new(packet);
    let column = |_| reader.column()?.map(str::from_utf8).transpose().map_err(|_| malformed("a text is not UTF-8"));
    let row = (0..columns).map(column).collect::<Result<SqlRow, _>>()?;
    check(reader.is_empty(), "a row has too many columns").map(|()| row)
}
