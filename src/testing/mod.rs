//! For tests: an in-memory Kubernetes API server with fault injection, and [`conformance`], what a store owes an election.
//!
//! Leader election is easy to get right while everything works. [`ApiServer`] lets a test see the
//! rest: answers that get lost after the write was applied, servers that hang, watches that fall
//! silent, an etcd that was restored from a backup. It speaks real HTTP (and TLS) on a port of the
//! loopback interface, so the code under test runs exactly as in a cluster; it needs no async
//! runtime, no container and no privileges, starts in under a millisecond (without TLS), and stops
//! with all of its threads when it is dropped.
//!
//! ```
//! use leasehold::testing::{ApiServer, Fault, Resource, Verb, json};
//!
//! let server = ApiServer::start()?;
//! server.put(
//!     Resource::Leases,
//!     "default",
//!     "my-controller",
//!     json!({"spec": {"holderIdentity": "somebody else", "leaseDurationSeconds": 1}}),
//! );
//! let outage = server.fault(Fault::status(503, "ServiceUnavailable", "etcd is away").first(3));
//!
//! // … point the code under test at `server.url()` or `server.kubeconfig("me")` …
//!
//! assert_eq!(outage.hits(), 0);
//! assert!(server.requests().iter().all(|request| request.verb != Some(Verb::List)));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # What it serves
//!
//! Leases (`coordination.k8s.io/v1`), config maps and endpoints (`v1`), events (`v1` and
//! `events.k8s.io/v1`), in the namespaces `default`, `kube-system`, `leasehold-tests` and those
//! that are [added](ApiServer::add_namespace): get, list, watch, create, update and delete;
//! besides, `/version`, `/healthz`, `/livez` and `/readyz`. Versions, conflicts, validation and the
//! wording of errors follow kube-apiserver 1.35.
//!
//! # What it leaves out
//!
//! Discovery, `labelSelector`, `dryRun`, paging, PATCH in all of its forms, `managedFields`,
//! finalizers, owner references and garbage collection, protobuf, resources of one's own. A PATCH
//! is answered 405; `labelSelector`, `dryRun` and `continue` are refused with 400 rather than
//! ignored. GETs and LISTs always show the newest state, whatever `resourceVersion` they name.
//! A test that plays an operator edits an object by [`ApiServer::edit`].

pub mod conformance;
#[cfg(feature = "testing")]
pub(crate) mod fault;
#[cfg(feature = "testing")]
pub(crate) mod object;
#[cfg(feature = "testing")]
pub(crate) mod server;
#[cfg(feature = "testing")]
pub(crate) mod store;
#[cfg(feature = "testing")]
pub(crate) mod wire;

#[cfg(feature = "testing")]
pub use fault::{Fault, FaultHandle};
#[cfg(feature = "testing")]
pub use object::{Resource, Verb};
#[cfg(feature = "testing")]
pub use server::{ApiServer, ApiServerBuilder, ExpiredWatch, RequestLog, User};
#[cfg(feature = "testing")]
pub use store::Snapshot;

/// Of the crate `serde_json`: for what [`ApiServer::put`] and its like are given.
#[cfg(feature = "testing")]
pub use serde_json::json;
