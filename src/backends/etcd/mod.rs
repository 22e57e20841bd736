//! Stores records in etcd, through a small blocking client for etcd's JSON gateway.
//!
//! etcd's own API is gRPC. The gateway serves the same API as JSON over HTTP/1.1, on the same port and from the same
//! process. The crate's own HTTP client therefore suffices.

pub(crate) mod client;
pub(crate) mod config;
pub(crate) mod error;
mod login;
pub(crate) mod message;
mod record;
pub(crate) mod store;
mod terms;
mod url;
pub(crate) mod watch;
