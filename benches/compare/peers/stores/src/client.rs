//! Minimal clients for etcd, MySQL and PostgreSQL.
//!
//! Each connection carries one request at a time.

pub mod http;
pub mod mysql;
pub mod postgres;

use std::io::BufReader;
use std::net::TcpStream;
use std::time::Duration;

use crate::Error;

/// The read timeout of a connection.
///
/// Only a client that waits for a lock removes this timeout.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The columns of a row as text. `None` stands for NULL.
pub type Row = Vec<Option<String>>;

fn connect(address: &str) -> Result<BufReader<TcpStream>, Error> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    Ok(BufReader::with_capacity(64 * 1024, stream))
}
