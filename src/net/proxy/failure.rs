//! The errors of a tunnel.

use std::io;

use crate::net::error::{Error, NetErrorKind};
use crate::net::socket::failure;

/// Converts a failure of the connection to the proxy before the tunnel is open.
pub(crate) fn broken(e: io::Error) -> Error {
    failure(e, "the proxy did not respond in time", NetErrorKind::Connect, "the connection to the proxy broke")
}

/// Returns the error for bytes that follow the answer of the proxy.
///
/// In a tunnel, the client sends first. Bytes before the first request are an attempt to forge an answer of the server.
pub(crate) fn early_bytes() -> Error {
    Error::new(NetErrorKind::Connect, "the proxy sent more than its answer before the first request to the server")
}
