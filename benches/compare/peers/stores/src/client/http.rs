//! A minimal HTTP client for etcd's JSON gateway.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use super::connect;
use crate::Error;

pub struct Connection {
    stream: BufReader<TcpStream>,
    address: String,
}

/// A response that does not end, with one JSON document per line.
pub struct Lines {
    connection: Connection,
    rest: Vec<u8>,
}

enum Length {
    Known(usize),
    Chunked,
}

impl Connection {
    pub fn open(address: &str) -> Result<Self, Error> {
        Ok(Self { stream: connect(address)?, address: address.to_owned() })
    }

    pub fn post(&mut self, path: &str, body: &str) -> Result<Value, Error> {
        let mut answer = Vec::new();
        match self.send(path, body)? {
            Length::Known(length) => {
                answer.resize(length, 0);
                self.stream.read_exact(&mut answer)?;
            }
            Length::Chunked => while self.chunk(&mut answer)? {},
        }
        Ok(serde_json::from_slice(&answer)?)
    }

    pub fn lines(mut self, path: &str, body: &str) -> Result<Lines, Error> {
        match self.send(path, body)? {
            Length::Chunked => Ok(Lines { connection: self, rest: Vec::new() }),
            Length::Known(_) => Err("no stream".into()),
        }
    }

    /// Sends a request, and reads the head of the response.
    fn send(&mut self, path: &str, body: &str) -> Result<Length, Error> {
        let (address, length) = (&self.address, body.len());
        let request = format!("POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\n\r\n{body}");
        self.stream.get_mut().write_all(request.as_bytes())?;
        let status = self.head_line()?;
        let mut framing = None;
        loop {
            let line = self.head_line()?.to_ascii_lowercase();
            match line.split_once(": ") {
                Some(("content-length", value)) => framing = Some(Length::Known(value.parse()?)),
                Some(("transfer-encoding", "chunked")) => framing = Some(Length::Chunked),
                Some(_) => {}
                None => break,
            }
        }
        match framing {
            Some(length) if status.starts_with("HTTP/1.1 200 ") => Ok(length),
            _ => Err(status.into()),
        }
    }

    fn head_line(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    /// Reads a chunk of the body. Returns `false` after the last chunk.
    fn chunk(&mut self, into: &mut Vec<u8>) -> Result<bool, Error> {
        let length = usize::from_str_radix(&self.head_line()?, 16)?;
        let start = into.len();
        into.resize(start + length, 0);
        self.stream.read_exact(&mut into[start..])?;
        self.head_line()?;
        Ok(length > 0)
    }
}

impl Lines {
    pub fn next(&mut self) -> Result<Value, Error> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Ok(serde_json::from_slice(&line)?);
            }
            if !self.connection.chunk(&mut self.rest)? {
                return Err("the stream ended".into());
            }
        }
    }
}
