//! What it means when a tunnel is not there as it should be.

use std::io;

use crate::net::error::{Error, NetErrorKind};
use crate::net::tls::tls_error;

/// When the connection to the proxy fails before the tunnel is there.
pub(crate) fn broken(e: io::Error) -> Error {
    if let Some(tls) = e.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>()) {
        return tls_error(tls);
    }
    match e.kind() {
        io::ErrorKind::TimedOut => Error::new(NetErrorKind::Timeout, "the proxy did not answer in time"),
        _ => Error::new(NetErrorKind::Connect, "the proxy broke off").caused_by(e),
    }
}

/// The client speaks first on the far side, so these can only be meant to pass for an answer of the server.
pub(crate) fn early_bytes() -> Error {
    Error::new(NetErrorKind::Connect, "the proxy sent more than its answer before anything was asked of the server")
}
