//! The transport of bytes.

pub(crate) mod http;
pub(crate) mod signal;
pub(crate) mod tls;
pub(crate) mod transport;
