//! What it means when a tunnel is not there as it should be.

use std::io;

use crate::net::error::{Error, NetErrorKind};
use crate::net::socket::failure;

/// When the connection to the proxy fails before the tunnel is there.
pub(crate) fn broken(e: io::Error) -> Error {
    failure(e, "the proxy did not answer in time", NetErrorKind::Connect, "the proxy broke off")
}

/// The client speaks first on the far side, so these can only be meant to pass for an answer of the server.
pub(crate) fn early_bytes() -> Error {
    Error::new(NetErrorKind::Connect, "the proxy sent more than its answer before anything was asked of the server")
}
