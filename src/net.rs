//! How bytes travel: names, addresses, proxies, TLS, and the connections that the HTTP library is given. It knows neither
//! Kubernetes nor elections.

pub(crate) mod agent;
#[cfg(feature = "etcd")]
pub(crate) mod confidential;
pub(crate) mod dial;
pub(crate) mod echo;
pub(crate) mod endpoint;
pub(crate) mod error;
pub(crate) mod file;
pub(crate) mod interrupt;
pub(crate) mod json;
pub(crate) mod lines;
pub(crate) mod outgoing;
pub(crate) mod percent;
pub(crate) mod proxy;
pub(crate) mod redact;
pub(crate) mod response;
mod reused;
pub(crate) mod secret;
pub(crate) mod stream;
pub(crate) mod text;
pub(crate) mod tls;
pub(crate) mod transport;

#[cfg(test)]
pub(crate) mod tests;

/// How this library names itself.
pub(crate) const USER_AGENT: &str = concat!("leasehold/", env!("CARGO_PKG_VERSION"));
