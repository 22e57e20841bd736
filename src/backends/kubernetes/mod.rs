//! Records in objects of a Kubernetes API server, and the client of their stores.
//!
//! A [`ClientConfig`] names the cluster and the credentials: a service account, a client certificate, a token or a
//! credential plugin. [`ClientConfig::infer`] finds both, in the order of controller-runtime. A [`Client`] keeps the
//! connections to one cluster, and [`start_with_client`](crate::LeaderElectorBuilder::start_with_client) starts an
//! elector on a client. The client sends the requests of electors and stores only. Use a client of your choice for
//! other requests.
//!
//! The client supports HTTP/1.1, TLS by rustls, JSON, and proxies (`CONNECT`, with or without TLS to the proxy, and
//! SOCKS 5). The client does not support HTTP/2, compression, redirects or `auth-provider` plugins. An API server sends
//! no redirects, and credentials must not follow a redirect. kubectl removed `auth-provider` plugins in 1.26.
//!
//! # Proxies
//!
//! The proxy comes from `proxy-url` of the kubeconfig, or else from `HTTPS_PROXY` and `NO_PROXY`.
//! [`ClientConfig::new`] and [`ClientConfig::in_cluster`] use no proxy; for a server behind a proxy, write a kubeconfig.
//!
//! | URL | proxy | default port |
//! |---|---|--:|
//! | `http://`, or no scheme | `CONNECT` | 80 |
//! | `https://` | `CONNECT`, in TLS to the proxy | 443 |
//! | `socks5://`, `socks5h://` | SOCKS 5 (RFC 1928) | 1080 |
//!
//! The URL may contain a percent-encoded user name and password. The proxy always looks up the server's name, even with
//! `socks5://`, as in Go's `net/http`.
//!
//! The certificate of an `https://` proxy must be for the proxy's name. The certificate may come from an authority of
//! the cluster or of the system. `insecure-skip-tls-verify` also applies to the proxy. The client does not send its
//! certificate to the proxy.
//!
//! # Rotation of files
//!
//! Files with certificate authorities, client certificates, keys and tokens may change while the client is in use.
//! Before a request, the client reads a file again if the last read was at least a minute ago. The client also reads
//! the files again immediately when the server rejects the credentials, or when the client rejects the server's
//! certificate.
//!
//! The client also trusts a server whose own certificate is among the configured authorities, if the name, dates and
//! purpose of the certificate are valid.
//!
//! # Credential plugins
//!
//! A kubeconfig user's `exec` plugin runs on its own thread, one run at a time, for at most a minute
//! ([`ClientConfig::with_exec_timeout`]).
//!
//! - A request without valid credentials waits for the run until the request's timeout. The run continues after the
//!   request has given up, and later requests use the result.
//! - The client renews expiring credentials in the background at 80 % of their lifetime. Credentials that live for at
//!   least a minute are renewed at least 30 s before they expire. The old credentials stay in use until they expire.
//! - After a failure, the client runs the plugin again after 2, 4, 8, 16 and then every 30 s, while there are requests.
//! - After a 401, the client runs the plugin immediately and repeats the request with the new credentials.
//! - If no request has used the client since the last run, the client starts no run. Dropping the client ends a run in
//!   progress.
//! - On Unix a plugin has its own process group, which ends with the run. [`ExecStderr`] chooses the destination of the
//!   plugin's stderr.
//! - If the user has a client certificate, a token or a password, no plugin runs, as in client-go.
//!
//! # Limits
//!
//! The head of a request has at most 1 MiB in total, which is the limit of an API server. A response, or a line of a
//! stream, has at most 4 MiB. The client needs less than 16 MiB of memory to read either.
//!
//! # Logs and metrics
//!
//! The client logs to the target `leasehold::client`, and about certificates to `leasehold::tls`.
//!
//! - `debug`: a line for each request. The line has the verb, the path, the status code, the milliseconds up to the
//!   head of the response, and the server's `Audit-Id`, if any.
//! - `warn`: the server's warnings, each text once for a client.
//!
//! No line contains credentials. [`Client::write_prometheus`] writes the number of plugin runs and file reloads as
//! metrics.
//!
//! # Examples
//!
//! ```no_run
//! use leasehold::LeaderElector;
//! use leasehold::kubernetes::{Client, ClientConfig};
//!
//! let config = ClientConfig::infer()?.with_user_agent("jobs/1.2")?;
//! let elector = LeaderElector::builder("jobs").start_with_client(Client::new(config)?)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod annotation;
pub(crate) mod client;
pub(crate) mod configmap;
pub(crate) mod endpoints;
pub(crate) mod events;
pub(crate) mod lease;
pub(crate) mod metadata;
pub(crate) mod multi_lock;
mod notes;
pub(crate) mod object;
pub(crate) mod resource_lock;

#[cfg(feature = "kubeconfig")]
pub use client::ExecStderr;
pub use client::{ApiStatus, Client, ClientConfig, ClientError, ErrorKind};
pub use configmap::ConfigMapStore;
pub use endpoints::EndpointsStore;
pub use lease::LeaseStore;
pub use metadata::OwnerReference;
pub use object::ObjectStore;
