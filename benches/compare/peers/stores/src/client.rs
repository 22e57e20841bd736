//! A minimal client of each server: one request and its answer on one connection.

pub mod http;
pub mod mysql;
pub mod postgres;

use std::io::BufReader;
use std::net::TcpStream;
use std::time::Duration;

use crate::Error;

/// The limit for a read. Only waiting for a lock takes longer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The columns of a row as texts.
pub type Row = Vec<Option<String>>;

fn connect(address: &str) -> Result<BufReader<TcpStream>, Error> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    Ok(BufReader::with_capacity(64 * 1024, stream))
}
