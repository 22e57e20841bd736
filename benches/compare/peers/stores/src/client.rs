//! The least of each server's protocol: one request, its answer, on one connection.

pub mod http;
pub mod mysql;
pub mod postgres;

use std::io::BufReader;
use std::net::TcpStream;
use std::time::Duration;

use crate::Error;

/// Nothing here takes long, but for a lock.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The columns as texts.
pub type Row = Vec<Option<String>>;

fn connect(address: &str) -> Result<BufReader<TcpStream>, Error> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    Ok(BufReader::with_capacity(64 * 1024, stream))
}
