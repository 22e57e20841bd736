//! A client for the PostgreSQL protocol 3.0, for a user with `trust` authentication.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;

use super::{Row, connect};
use crate::Error;

pub struct Client {
    stream: BufReader<TcpStream>,
    notices: usize,
}

/// A message from the server, without its length field.
struct Message {
    kind: u8,
    body: Vec<u8>,
}

impl Client {
    pub fn connect(address: &str) -> Result<Self, Error> {
        let mut client = Self { stream: connect(address)?, notices: 0 };
        let mut startup = 196_608_u32.to_be_bytes().to_vec();
        startup.extend(b"user\0leasehold\0database\0leasehold\0\0");
        let length = startup.len() as u32 + 4;
        client.stream.get_mut().write_all(&[&length.to_be_bytes()[..], &startup].concat())?;
        client.rows()?;
        Ok(client)
    }

    /// Removes the read timeout, so that a statement can wait for a lock.
    pub fn patiently(self) -> Result<Self, Error> {
        self.stream.get_ref().set_read_timeout(None)?;
        Ok(self)
    }

    pub fn query(&mut self, sql: &str) -> Result<Vec<Row>, Error> {
        self.send(&[(b'Q', text(sql))])?;
        self.rows()
    }

    pub fn prepare(&mut self, name: &str, sql: &str) -> Result<(), Error> {
        let parse = [text(name), text(sql), vec![0, 0]].concat();
        self.send(&[(b'P', parse), (b'S', Vec::new())])?;
        self.rows().map(drop)
    }

    /// Executes a prepared statement. One write sends all messages of the execution.
    pub fn execute(&mut self, name: &str, parameters: &[&str]) -> Result<Vec<Row>, Error> {
        let mut bind = [text(""), text(name), vec![0, 0]].concat();
        bind.extend((parameters.len() as u16).to_be_bytes());
        for parameter in parameters {
            bind.extend((parameter.len() as u32).to_be_bytes());
            bind.extend(parameter.as_bytes());
        }
        bind.extend([0, 0]);
        let execute = [text(""), vec![0; 4]].concat();
        self.send(&[(b'B', bind), (b'E', execute), (b'S', Vec::new())])?;
        self.rows()
    }

    /// Blocks until a notification has arrived since the last call.
    pub fn notified(&mut self) -> Result<(), Error> {
        while self.notices == 0 {
            if self.message()?.kind == b'A' {
                self.notices += 1;
            }
        }
        self.notices = 0;
        Ok(())
    }

    fn send(&mut self, messages: &[(u8, Vec<u8>)]) -> Result<(), Error> {
        let mut bytes = Vec::new();
        for (kind, body) in messages {
            bytes.push(*kind);
            bytes.extend((body.len() as u32 + 4).to_be_bytes());
            bytes.extend(body);
        }
        Ok(self.stream.get_mut().write_all(&bytes)?)
    }

    fn message(&mut self) -> Result<Message, Error> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut body = vec![0; length.checked_sub(4).ok_or("a message of no length")?];
        self.stream.read_exact(&mut body)?;
        Ok(Message { kind: head[0], body })
    }

    /// Reads rows until the server reports that it is ready for the next statement.
    fn rows(&mut self) -> Result<Vec<Row>, Error> {
        let (mut rows, mut failed) = (Vec::new(), None);
        loop {
            let Message { kind, body } = self.message()?;
            match kind {
                b'D' => rows.push(row(&body).ok_or("malformed row")?),
                b'A' => self.notices += 1,
                b'R' if body != [0; 4] => return Err("the server wants a password".into()),
                // After a failed login (SQLSTATE class 28) or a FATAL error, the server sends no ready message.
                b'E' => {
                    let message = String::from_utf8_lossy(&body).replace('\0', " ");
                    if message.contains(" C28") || message.contains("FATAL") {
                        return Err(message.into());
                    }
                    failed = Some(message);
                }
                b'Z' => return failed.map_or(Ok(rows), |message| Err(message.into())),
                _ => {}
            }
        }
    }
}

fn text(text: &str) -> Vec<u8> {
    [text.as_bytes(), b"\0"].concat()
}

fn row(body: &[u8]) -> Option<Row> {
    let (count, mut rest) = body.split_first_chunk::<2>()?;
    let mut row = Row::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let (length, after) = rest.split_first_chunk::<4>()?;
        // The length -1 stands for NULL.
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            rest = after;
            row.push(None);
            continue;
        };
        let (value, after) = after.split_at_checked(length)?;
        row.push(Some(String::from_utf8_lossy(value).into_owned()));
        rest = after;
    }
    Some(row)
}
