//! A small blocking client for the Kubernetes API.
//!
//! It finds the cluster ([`ClientConfig::infer`]), proves who we are (service account, client certificate, token,
//! credential plugin), sends one request at a time ([`Client::request`]) and reads watches line by line
//! ([`Client::stream`]). Every call has a time-out of its own, and every call that blocks can be ended from another
//! thread. It knows paths and bodies, not resources. An elector is started on a client by
//! [`start_with_client`](crate::LeaderElectorBuilder::start_with_client).
//!
//! Certificate authorities, client certificates, keys and tokens in files are read again while the client is in use, for
//! they rotate: when they are a minute old and a request is about to be made, and at once when the server or its
//! certificate is not accepted. A server is also trusted whose own certificate is among the configured authorities, after
//! a look at its name, dates and purpose.
//!
//! In scope: HTTP/1.1, TLS by rustls, JSON, proxies (`CONNECT`, also in TLS, and SOCKS 5). Out of scope: HTTP/2, redirects
//! (an API server sends none, and credentials must not follow one), compression, `auth-provider` plugins (gone from
//! kubectl since 1.26).
//!
//! # Credential plugins
//!
//! The `exec` of a kubeconfig's user is run on a thread of its own, one run at a time, for at most a minute
//! ([`ClientConfig::with_exec_timeout`]). A request without valid credentials waits for the run up to its own time-out,
//! and leaves it alone when it gives up: what the run brings serves whoever comes next. Credentials that expire are
//! renewed in the background at 80 % of their life, and at least 30 s before their end if they live for a minute; the old
//! ones serve until they expire. A plugin that fails is run again after 2, 4, 8, 16 and then every 30 s, while there are
//! requests. After a 401 it is run at once, and the request repeated with what it brings. A client that nobody has used
//! since the last run runs nothing, and one that is dropped ends the run. On Unix a plugin has a process group of its own,
//! which is ended with it. [`ExecStderr`] chooses the destination of the plugin's stderr.
//!
//! With a client certificate, a token or a password of the user no plugin is run, as in client-go.
//!
//! Bounds: the head of a request has at most 1 MiB, as much as an API server takes, however that is shared by credentials
//! and impersonated groups. An answer, or a line of a stream, has at most 4 MiB, and takes less than 16 MiB of memory while
//! it is read.
//!
//! [`Client::counters`] says how often plugins were run and files put to use, also as metrics for Prometheus.
//!
//! The client logs to the target `leasehold::client`, and about certificates to `leasehold::tls`: at `debug` a line for each request, with its verb, its path, the code, the
//! milliseconds up to the head of the answer, and the `Audit-Id` if the server gives one; at `warn` what the server warns
//! of, each text once for a client. No line holds credentials.
//!
//! ```no_run
//! use std::time::Duration;
//! use leasehold::kubernetes::{Client, ClientConfig, Method, Request};
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
//! # Ok::<(), leasehold::kubernetes::ClientError>(())
//! ```

pub(crate) mod auth;
pub(crate) mod config;
mod counters;
mod error;
mod http_client;
mod request;
mod request_log;
mod response;
pub(crate) mod status;
pub(crate) mod stream;
mod warning;

#[cfg(test)]
mod tests;

pub use crate::backends::kubernetes::client::http_client::Client;
#[cfg(feature = "kubeconfig")]
pub use auth::ExecStderr;
pub use config::ClientConfig;
#[cfg(feature = "kubeconfig")]
pub use config::Kubeconfig;
pub use counters::ClientCounters;
pub use error::{ClientError, ErrorKind};
pub use request::{Method, Request};
pub use response::Response;
pub use status::ApiStatus;
pub use stream::Stream;
