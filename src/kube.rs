//! A small blocking client for the Kubernetes API.
//!
//! It finds the cluster ([`ClientConfig::infer`]), proves who we are (service account, client certificate, token,
//! credential plugin), sends one request at a time ([`Client::request`]) and reads watches line by line
//! ([`Client::stream`]). Every call has a time-out of its own, and every call that blocks can be ended from another
//! thread. It knows paths and bodies, not resources.
//!
//! In scope: HTTP/1.1, TLS by rustls, JSON. Out of scope: HTTP/2, redirects (an API server sends none, and credentials
//! must not follow one), compression, `auth-provider` plugins (gone from kubectl since 1.26), SOCKS proxies.
//!
//! ```no_run
//! use std::time::Duration;
//! use leasehold::kube::{Client, ClientConfig, Method, Request};
//!
//! let client = Client::new(ClientConfig::infer()?)?;
//! let path = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", client.default_namespace());
//! let leases = client.request(Request {
//!     method: Method::Get,
//!     path: &path,
//!     query: &[("limit", "10")],
//!     body: None,
//!     timeout: Duration::from_secs(5),
//! })?;
//! println!("{}", String::from_utf8_lossy(&leases.body));
//! # Ok::<(), leasehold::kube::Error>(())
//! ```

mod answer;
mod client;
mod config;
mod credentials;
mod dial;
mod endpoint;
mod error;
#[cfg(feature = "kubeconfig")]
mod exec;
mod in_cluster;
mod interrupt;
#[cfg(feature = "kubeconfig")]
mod kubeconfig;
mod mask;
mod proxy;
mod request;
mod reused;
#[cfg(feature = "kubeconfig")]
mod rfc3339;
mod secret;
mod status;
mod stream;
mod tls;
mod transport;
mod user_agent;

#[cfg(test)]
mod tests;

pub use client::Client;
pub use config::ClientConfig;
pub use error::{Error, ErrorKind};
pub use interrupt::Interrupter;
#[cfg(feature = "kubeconfig")]
pub use kubeconfig::Kubeconfig;
pub use request::{Method, Request, Response};
pub use status::Status;
pub use stream::Stream;

#[cfg(all(feature = "testing", feature = "kubeconfig"))]
pub(crate) mod properties {
    pub(crate) use super::stream::lines;
    use crate::fuzzing::Target;

    pub(crate) const EXEC_CREDENTIAL: Target = super::exec::properties::TARGET;
    pub(crate) const KUBECONFIG: Target = super::kubeconfig::properties::TARGET;
    pub(crate) const STATUS: Target = super::status::properties::TARGET;
    pub(crate) const TIMES: Target = super::rfc3339::properties::TARGET;
}

const USER_AGENT: &str = concat!("leasehold/", env!("CARGO_PKG_VERSION"));
