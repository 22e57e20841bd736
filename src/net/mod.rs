//! The network layer: name lookups, addresses, proxies, TLS, HTTP connections.
//!
//! The layer does not depend on Kubernetes or elections.

pub(crate) mod calls;
#[cfg(feature = "etcd")]
pub(crate) mod confidential;
#[cfg(feature = "_sql_server")]
pub(crate) mod database_url;
pub(crate) mod dial;
pub(crate) mod echo;
#[cfg(feature = "_http")]
pub(crate) mod endpoint;
pub(crate) mod error;
pub(crate) mod file;
#[cfg(feature = "_http")]
pub(crate) mod http;
pub(crate) mod interrupt;
#[cfg(feature = "_http")]
pub(crate) mod json;
#[cfg(feature = "_http")]
pub(crate) mod lines;
#[cfg(feature = "_server")]
pub(crate) mod parameters;
pub(crate) mod percent;
pub(crate) mod pool;
#[cfg(feature = "_http")]
pub(crate) mod proxy;
#[cfg(feature = "_http")]
pub(crate) mod redact;
#[cfg(feature = "_server")]
pub(crate) mod request_error;
pub(crate) mod secret;
#[cfg_attr(not(feature = "_sql_server"), expect(dead_code, reason = "databases have more uses for it"))]
pub(crate) mod socket;
#[cfg(feature = "_http")]
pub(crate) mod stream;
pub(crate) mod text;
pub(crate) mod tls;
#[cfg(feature = "_server")]
pub(crate) mod url;

#[cfg(test)]
pub(crate) mod tests;

/// The longest timeout of a call.
///
/// The timeout is long enough for every request, and short enough to add to an `Instant`.
pub(crate) const MAX_WAIT: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);

/// Returns `true` if the host is this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    let is_loopback = |address: std::net::IpAddr| address.to_canonical().is_loopback();
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(is_loopback)
}

/// The `User-Agent` of this library.
#[cfg(feature = "_http")]
pub(crate) const USER_AGENT: &str = concat!("leasehold/", env!("CARGO_PKG_VERSION"));
