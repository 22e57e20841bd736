//! HTTP, TLS and sockets of the testing server.

pub(crate) mod http;
pub(crate) mod signal;
pub(crate) mod tls;
pub(crate) mod transport;
