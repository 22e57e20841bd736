//! How bytes travel: names, addresses, proxies, TLS, and the connections that the HTTP library is given. It knows neither
//! Kubernetes nor elections.

#[cfg(feature = "_http")]
pub(crate) mod agent;
pub(crate) mod calls;
#[cfg(feature = "etcd")]
pub(crate) mod confidential;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) mod database_url;
pub(crate) mod dial;
pub(crate) mod echo;
#[cfg(feature = "_http")]
pub(crate) mod endpoint;
pub(crate) mod error;
pub(crate) mod file;
pub(crate) mod interrupt;
#[cfg(feature = "_http")]
pub(crate) mod json;
#[cfg(feature = "_http")]
pub(crate) mod lines;
#[cfg(feature = "_http")]
pub(crate) mod outgoing;
pub(crate) mod percent;
#[cfg(feature = "_http")]
pub(crate) mod proxy;
#[cfg(feature = "_http")]
pub(crate) mod redact;
#[cfg(any(feature = "etcd", feature = "mysql", feature = "postgres"))]
pub(crate) mod request_error;
#[cfg(feature = "_http")]
pub(crate) mod response;
#[cfg(feature = "_http")]
mod reused;
pub(crate) mod secret;
#[cfg(any(feature = "etcd", feature = "mysql", feature = "postgres"))]
pub(crate) mod socket;
#[cfg(feature = "_http")]
pub(crate) mod stream;
pub(crate) mod text;
pub(crate) mod tls;
#[cfg(feature = "_http")]
pub(crate) mod transport;

#[cfg(test)]
pub(crate) mod tests;

/// Long enough for any request, short enough to be added to an `Instant`.
pub(crate) const MAX_WAIT: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);

/// How this library names itself.
#[cfg(feature = "_http")]
pub(crate) const USER_AGENT: &str = concat!("leasehold/", env!("CARGO_PKG_VERSION"));
