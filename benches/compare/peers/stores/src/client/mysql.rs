//! A client for the MySQL protocol 4.1, for a user without a password.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;

use super::{Row, connect};
use crate::Error;

pub struct Client {
    stream: BufReader<TcpStream>,
    sequence: u8,
}

const LONG_PASSWORD: u32 = 1;
const CONNECT_WITH_DB: u32 = 1 << 3;
const PROTOCOL_41: u32 = 1 << 9;
const SECURE_CONNECTION: u32 = 1 << 15;
const PLUGIN_AUTH: u32 = 1 << 19;
const LARGEST_PACKET: u32 = 1 << 24;
const UTF8MB4: u8 = 45;

const OK: u8 = 0;
const EOF: u8 = 0xfe;
const ERROR: u8 = 0xff;
const QUERY: u8 = 3;

impl Client {
    pub fn connect(address: &str) -> Result<Self, Error> {
        let mut client = Self { stream: connect(address)?, sequence: 0 };
        client.packet()?;
        let flags = LONG_PASSWORD | CONNECT_WITH_DB | PROTOCOL_41 | SECURE_CONNECTION | PLUGIN_AUTH;
        let mut login = [flags.to_le_bytes(), LARGEST_PACKET.to_le_bytes()].concat();
        login.push(UTF8MB4);
        login.extend([0; 23]);
        login.extend(b"bare\0\0leasehold\0mysql_native_password\0");
        client.send(&login)?;
        while client.packet()?[0] != OK {
            // If the server requests another login method, an empty packet stands for the empty password.
            client.send(&[])?;
        }
        Ok(client)
    }

    /// Removes the read timeout, so that a statement can wait for a lock.
    pub fn patiently(self) -> Result<Self, Error> {
        self.stream.get_ref().set_read_timeout(None)?;
        Ok(self)
    }

    pub fn query(&mut self, sql: &str) -> Result<Vec<Row>, Error> {
        self.sequence = 0;
        self.send(&[&[QUERY], sql.as_bytes()].concat())?;
        let columns = self.packet()?[0];
        let mut rows = Vec::new();
        if columns == OK {
            return Ok(rows);
        }
        // Skips the column definitions.
        while self.packet()?[0] != EOF {}
        loop {
            let packet = self.packet()?;
            if packet[0] == EOF && packet.len() < 9 {
                return Ok(rows);
            }
            rows.push(row(&packet, columns).ok_or("malformed row")?);
        }
    }

    fn send(&mut self, body: &[u8]) -> Result<(), Error> {
        let length = body.len() as u32 | u32::from(self.sequence) << 24;
        self.sequence += 1;
        Ok(self.stream.get_mut().write_all(&[&length.to_le_bytes(), body].concat())?)
    }

    /// Reads a packet. Fails if the packet is empty or reports an error.
    fn packet(&mut self) -> Result<Vec<u8>, Error> {
        let mut head = [0; 4];
        self.stream.read_exact(&mut head)?;
        self.sequence = head[3].wrapping_add(1);
        let mut body = vec![0; (u32::from_le_bytes(head) & 0xff_ffff) as usize];
        self.stream.read_exact(&mut body)?;
        match body.first() {
            None => Err("an empty packet".into()),
            Some(&ERROR) => Err(String::from_utf8_lossy(&body[1..]).into()),
            Some(_) => Ok(body),
        }
    }
}

fn row(mut packet: &[u8], columns: u8) -> Option<Row> {
    let mut row = Row::new();
    for _ in 0..columns {
        let (first, rest) = packet.split_first()?;
        let (length, rest) = match first {
            0xfb => {
                row.push(None);
                packet = rest;
                continue;
            }
            0xfc => rest.split_first_chunk::<2>().map(|(length, rest)| (u16::from_le_bytes(*length).into(), rest))?,
            // Values of 64 KiB or more, which no statement of the benchmark returns.
            0xfd.. => return None,
            short => (usize::from(*short), rest),
        };
        let (value, rest) = rest.split_at_checked(length)?;
        row.push(Some(String::from_utf8_lossy(value).into_owned()));
        packet = rest;
    }
    Some(row)
}
