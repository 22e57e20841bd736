//! A small blocking client for etcd's JSON gateway: requests, and watches line by line. It knows keys and values, not records.
//!
//! etcd's own API is gRPC; its gateway serves the same as JSON over HTTP/1.1, on the same port and from the same process. So it
//! needs no more than the client for Kubernetes does.

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
