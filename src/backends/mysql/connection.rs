//! One connection: packets in their order, and a statement with its answer.

use std::io;
use std::time::Instant;

use super::error::Error;
use super::packet::{self, Done, EOF, ERR, HEADER, LOCAL_FILE, OK, PacketReader, malformed, status};
use crate::backends::sql::{self, SqlRow};
use crate::net::error::{self as net, NetErrorKind};
use crate::net::interrupt::Interrupter;
use crate::net::socket::{Socket, explain};
use crate::net::tls::TlsParts;

/// The command that a statement goes in.
const COM_QUERY: u8 = 0x03;

/// Nothing that is asked for has more columns.
const MOST_COLUMNS: u64 = 64;

/// A connection that one call has at a time.
pub(super) struct MySqlConnection {
    socket: Socket,
    /// What has come and is not taken yet.
    received: Vec<u8>,
    /// Of the next packet, whoever sends it.
    sequence: u8,
    /// Whether an earlier call has used it.
    is_reused: bool,
    /// Whether a byte has come since the last statement was begun.
    has_answered: bool,
}

/// What a statement has done, or its rows.
#[derive(Debug, Default)]
pub(crate) struct StatementResult {
    pub(crate) affected: u64,
    pub(crate) last_insert_id: u64,
    /// Whether it was answered by rows, be they none.
    pub(crate) is_rows: bool,
    pub(crate) rows: Vec<SqlRow>,
}

impl MySqlConnection {
    pub(super) fn new(socket: Socket) -> Self {
        Self { socket, received: Vec::new(), sequence: 0, is_reused: false, has_answered: false }
    }

    pub(super) fn use_again_for(&mut self, interrupter: &Interrupter) -> Result<(), net::Error> {
        self.is_reused = true;
        self.socket.use_for(interrupter)
    }

    /// Whether it can be used for another call: nothing has come that was not asked for, and it is not closed.
    pub(super) fn is_quiet(&self) -> bool {
        self.received.is_empty() && self.socket.is_quiet()
    }

    pub(super) fn is_tls(&self) -> bool {
        self.socket.is_tls()
    }

    pub(super) fn start_tls(&mut self, parts: &TlsParts, deadline: Instant) -> Result<(), net::Error> {
        // Whoever stands in between could have put it there.
        if !self.received.is_empty() {
            return Err(malformed("something came before TLS"));
        }
        self.socket.start_tls(parts, deadline)
    }

    pub(super) fn send(&mut self, payload: &[u8], deadline: Instant) -> Result<(), net::Error> {
        let header = packet::header(payload.len(), self.sequence)
            .ok_or_else(|| net::Error::new(NetErrorKind::Config, "a statement is longer than 1 MiB"))?;
        self.sequence = self.sequence.wrapping_add(1);
        self.socket.write_all(&[&header, payload].concat(), deadline).map_err(explain)
    }

    pub(super) fn receive(&mut self, deadline: Instant) -> Result<Vec<u8>, net::Error> {
        self.fill(HEADER, deadline)?;
        let header = [self.received[0], self.received[1], self.received[2], self.received[3]];
        let length = packet::length(header, self.sequence)?;
        self.sequence = self.sequence.wrapping_add(1);
        self.fill(HEADER + length, deadline)?;
        // A copy: the buffer has room for much more than one packet.
        let packet = self.received[HEADER..HEADER + length].to_vec();
        self.received.drain(..HEADER + length);
        Ok(packet)
    }

    /// Reads until so many bytes are there.
    fn fill(&mut self, length: usize, deadline: Instant) -> Result<(), net::Error> {
        let mut chunk = [0; 8192];
        while self.received.len() < length {
            match self.socket.read(&mut chunk, deadline).map_err(explain)? {
                0 => return Err(explain(io::ErrorKind::UnexpectedEof.into())),
                n => self.received.extend_from_slice(&chunk[..n]),
            }
            self.has_answered = true;
        }
        Ok(())
    }

    /// Sends a statement, and reads the whole answer.
    pub(super) fn query(&mut self, sql: &str, deadline: Instant) -> Result<StatementResult, Error> {
        self.exchange(sql, deadline).map_err(|error| match error {
            // A server may close a connection just when a statement goes out on it.
            Error::Net(error) if error.kind == NetErrorKind::Io && self.is_reused && !self.has_answered => {
                let closed = "the connection was closed before it had answered";
                net::Error::new(NetErrorKind::ConnectionClosed, closed).into()
            }
            other => other,
        })
    }

    fn exchange(&mut self, sql: &str, deadline: Instant) -> Result<StatementResult, Error> {
        // It would be taken for the answer to this statement.
        if !self.received.is_empty() {
            return Err(malformed("more follows than was asked for").into());
        }
        self.sequence = 0;
        self.has_answered = false;
        self.send(&[&[COM_QUERY], sql.as_bytes()].concat(), deadline)?;
        let packet = self.receive(deadline)?;
        let (answer, status) = match packet.first() {
            Some(&OK) => {
                let Done { affected, last_insert_id, status } = Done::parse(&packet)?;
                (StatementResult { affected, last_insert_id, ..StatementResult::default() }, status)
            }
            Some(&ERR) => return Err(Error::Refused(packet::refusal(&packet)?)),
            Some(&LOCAL_FILE) => return Err(malformed("it asks for a file of this machine").into()),
            Some(&EOF) | None => return Err(malformed("it is neither a result nor an error").into()),
            Some(_) => {
                let (rows, status) = self.rows(&packet, deadline)?;
                (StatementResult { rows, is_rows: true, ..StatementResult::default() }, status)
            }
        };
        // Of a write it would not say that it stands.
        if status & (status::AUTOCOMMIT | status::IN_TRANSACTION | status::MORE_RESULTS) != status::AUTOCOMMIT {
            return Err(malformed("a transaction is open, or more results follow").into());
        }
        Ok(answer)
    }

    fn rows(&mut self, first: &[u8], deadline: Instant) -> Result<(Vec<SqlRow>, u16), Error> {
        let mut reader = PacketReader::new(first);
        let columns = reader.length_encoded()?;
        if columns > MOST_COLUMNS || !reader.is_empty() {
            return Err(malformed("it has too many columns").into());
        }
        // What they are called, and of which type, is known from the statement.
        for _ in 0..columns {
            self.part(deadline)?;
        }
        if !packet::is_eof(&self.part(deadline)?) {
            return Err(malformed("its columns have no end").into());
        }
        let (mut rows, mut size) = (Vec::new(), 0);
        loop {
            let packet = self.part(deadline)?;
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

    /// A further packet of an answer.
    fn part(&mut self, deadline: Instant) -> Result<Vec<u8>, Error> {
        let packet = self.receive(deadline)?;
        match packet.first() {
            Some(&ERR) => Err(Error::Refused(packet::refusal(&packet)?)),
            _ => Ok(packet),
        }
    }
}

/// Reads a row of as many columns as were asked for.
fn read_row(packet: &[u8], columns: u64) -> Result<SqlRow, net::Error> {
    let mut reader = PacketReader::new(packet);
    let column = |_| reader.column()?.map(str::from_utf8).transpose().map_err(|_| malformed("a text is not UTF-8"));
    let row = (0..columns).map(column).collect::<Result<SqlRow, _>>()?;
    if reader.is_empty() { Ok(row) } else { Err(malformed("a row has too many columns")) }
}
