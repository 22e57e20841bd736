//! Test tools for leasehold: an in-memory Kubernetes API server, and checks for stores.
//!
//! [`ApiServer`] injects faults. [`conformance`] checks a store.
//!
//! [`ApiServer`] shows how code behaves when the cluster does not work: responses that are lost after the write was
//! applied, servers that hang, watches without events, an etcd that was restored from a backup. The server serves HTTP
//! (and TLS) on a port of the loopback interface, so the code under test runs exactly as in a cluster. The server needs
//! no async runtime, container or privileges. Without TLS, the server starts in less than a millisecond. The drop of
//! the server stops all of its threads.
//!
//! ```
//! use leasehold_testing::{ApiServer, Fault, Resource, Verb, json};
//!
//! let server = ApiServer::start()?;
//! server.put(
//!     Resource::Leases,
//!     "default",
//!     "my-controller",
//!     json!({"spec": {"holderIdentity": "other", "leaseDurationSeconds": 1}}),
//! );
//! let outage = server.fault(Fault::status(503, "ServiceUnavailable", "etcd is away").first(3));
//!
//! // … run the code under test with `server.url()` or `server.kubeconfig("me")` …
//!
//! assert_eq!(outage.hits(), 0);
//! assert!(server.requests().iter().all(|request| request.verb != Some(Verb::List)));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Supported requests
//!
//! Leases (`coordination.k8s.io/v1`), config maps and endpoints (`v1`), and events (`v1` and `events.k8s.io/v1`), in
//! the namespaces `default`, `kube-system`, `leasehold-tests` and [added](ApiServer::add_namespace) ones: get, list,
//! watch, create, update and delete; also `/version`, `/healthz`, `/livez` and `/readyz`. Versions, conflicts,
//! validation and error texts follow kube-apiserver 1.35.
//!
//! # Limitations
//!
//! Not supported: discovery, `labelSelector`, `dryRun`, all forms of PATCH, `managedFields`, finalizers, owner
//! references and garbage collection, protobuf, custom resources. PATCH returns 405; `labelSelector` and `dryRun`
//! return 400 instead of being ignored. GET and LIST always return the newest state, even if the request names an older
//! `resourceVersion`. The further pages of a LIST return the state of the first page. To edit an object as an operator would, use [`ApiServer::edit`].

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod conformance;
mod fault;
mod object;
mod server;
mod store;
mod util;
mod wire;

pub use fault::{Fault, FaultHandle};
pub use object::{Resource, Verb};
pub use server::{ApiServer, ApiServerBuilder, ExpiredWatch, RequestLog, User};
pub use store::Snapshot;

/// Re-exported from `serde_json`, for the objects of [`ApiServer::put`] and similar methods.
pub use serde_json::json;
