//! Blocking leader election on a Kubernetes `Lease`, for programs without an async runtime.
//!
//! A service runs as several replicas so that one can fail, and exactly one of them may act. Kubernetes offers a `Lease`
//! for that: whoever writes its name there leads, for as long as it keeps renewing. This crate does so on a thread of its
//! own and hands the program a guard:
//!
//! ```no_run
//! use std::time::Duration;
//! use leasehold::LeaderElector;
//!
//! fn main() -> Result<(), leasehold::Error> {
//!     let elector = LeaderElector::builder("my-controller")
//!         .lease_duration(Duration::from_secs(15))
//!         .start()?;
//!     let guard = elector.block_until_leader()?;
//!     while guard.is_leader() {
//!         // one unit of work, with guard.fencing_token() on every write
//!     }
//!     drop(guard); // released: a standby need not wait for the lease to run out
//!     Ok(())
//! }
//! ```
//!
//! # What is guaranteed
//!
//! Two valid guards never exist at the same time, while the store is linearizable and clocks run at about the same rate:
//! [SAFETY.md] has the conditions, the exceptions and the argument.
//!
//! - [`LeaderGuard::is_leader`] is the safety check: one atomic load and one clock read. It is exact also when every other
//!   thread is stopped, and final once false.
//! - Work that is past its check when the term ends cannot be stopped by any library. [`LeaderGuard::fencing_token`] is for
//!   what you write to: it grows with every term, and lets a store refuse a former leader.
//! - [`LeaderGuard::scope`] makes the compiler prove that protected work ends before the lease is released.
//!
//! [SAFETY.md]: https://docs.rs/crate/leasehold/latest/source/docs/SAFETY.md
//!
//! # In and out of scope
//!
//! In scope: `Lease` objects, ConfigMaps and Endpoints for peers that elect on these, keys of an etcd, tables of SQLite, PostgreSQL and MySQL, any store behind the [`Store`]
//! trait, and HTTP/1.1 to the API server by a small client of our own ([`kubernetes`]). Out of scope: async, other uses of the Kubernetes API, electing more than one leader.
//!
//! # Features
//!
//! - `kubernetes` (default): Leases, and the client for the Kubernetes API. Without it there is [`MemoryStore`], your own [`Store`],
//!   and those of the features below, of which `sqlite` alone has no TLS in its tree.
//! - `kubeconfig` (default): reads kubeconfig files.
//! - `etcd`: [`EtcdStore`](https://docs.rs/leasehold/latest/leasehold/struct.EtcdStore.html), records in etcd without a cluster.
//! - `postgres`: [`PostgresStore`](https://docs.rs/leasehold/latest/leasehold/struct.PostgresStore.html), a table in PostgreSQL, by a
//!   small client of our own.
//! - `mysql`: [`MySqlStore`](https://docs.rs/leasehold/latest/leasehold/struct.MySqlStore.html), a table in MySQL or MariaDB, by a
//!   small client of our own.
//! - `ring` (default), `aws-lc-rs`, `fips`: the cryptography of TLS, of which `kubernetes`, `etcd`, `postgres` and `mysql` need one. `aws-lc-rs` knows P-521, which
//!   `ring` does not, and is used when both are there. `fips` is AWS-LC as validated for FIPS 140-3; its build needs CMake,
//!   Go and Perl, and a client for an `https` server is made only if that is in force.
//! - `sqlite`: [`SqliteStore`](https://docs.rs/leasehold/latest/leasehold/struct.SqliteStore.html), a table in a file, for processes
//!   of one host; see [STORES.md]. SQLite itself is compiled from its source, which takes a C compiler and some seconds.
//! - `metrics`: [`MetricsObserver`](https://docs.rs/leasehold/latest/leasehold/struct.MetricsObserver.html), which passes on what
//!   an elector does to the `metrics` facade.
//! - `conformance`: [`testing::conformance`](https://docs.rs/leasehold/latest/leasehold/testing/conformance/index.html), whether a
//!   store of your own does what an election needs of it.
//! - `cli`: the command `leasehold`, for programs that cannot link a library: see [COMMAND.md]. Nothing for the library itself.
//! - `testing`: an in-memory API server with fault injection, for tests, and `conformance`.
//!
//! [COMMAND.md]: https://docs.rs/crate/leasehold/latest/source/docs/COMMAND.md
//! [STORES.md]: https://docs.rs/crate/leasehold/latest/source/docs/STORES.md
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(missing_docs)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../docs/GUIDE.md")]
struct Guide;

#[cfg(doctest)]
#[doc = include_str!("../docs/HANGS.md")]
struct Hangs;

#[cfg(doctest)]
#[doc = include_str!("../docs/MIGRATING.md")]
struct Migrating;

#[cfg(all(doctest, feature = "mysql", feature = "postgres", feature = "sqlite"))]
#[doc = include_str!("../docs/STORES.md")]
struct Stores;

mod backends;
#[cfg(feature = "_internals")]
#[doc(hidden)]
pub mod election;
#[cfg(not(feature = "_internals"))]
mod election;
mod elector;
#[cfg(feature = "_internals")]
#[doc(hidden)]
pub mod fuzzing;
mod leadership;
#[cfg(feature = "_tls")]
#[cfg_attr(
    not(feature = "kubernetes"),
    expect(dead_code, reason = "proxies, and counts of files, are for clusters alone")
)]
mod net;
mod observe;
mod runtime;
mod store;
#[cfg(feature = "conformance")]
pub mod testing;
#[cfg(any(feature = "_internals", feature = "cli"))]
#[doc(hidden)]
pub mod util;
#[cfg(not(any(feature = "_internals", feature = "cli")))]
mod util;

#[cfg(feature = "etcd")]
pub use backends::etcd::config::EtcdConfig;
#[cfg(feature = "etcd")]
pub use backends::etcd::store::{EtcdOperation, EtcdStore};
#[cfg(feature = "kubernetes")]
pub use backends::kubernetes::client as kubernetes;
#[cfg(feature = "kubernetes")]
pub use backends::kubernetes::{
    configmap::ConfigMapStore, endpoints::EndpointsStore, events::EventRecorder, lease::LeaseStore,
    metadata::OwnerReference, object::ObjectStore, resource_lock::ResourceLock,
};
#[cfg(feature = "mysql")]
pub use backends::mysql::{config::MySqlConfig, store::MySqlStore};
#[cfg(feature = "postgres")]
pub use backends::postgres::{config::PostgresConfig, store::PostgresStore};
#[cfg(feature = "sqlite")]
pub use backends::sqlite::store::SqliteStore;
pub use crossbeam_channel;
pub use election::settings::Settings;
pub use election::stop_reason::StopReason;
pub use elector::builder::LeaderElectorBuilder;
pub use elector::callbacks::{Callbacks, RunOutcome};
#[cfg(feature = "kubernetes")]
pub use elector::leader_election_config::{LeaderElectionConfig, LeaderElectionFlag};
pub use elector::leader_elector::LeaderElector;
pub use elector::open_store::open_store;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub use elector::open_store::{PasswordSource, STORE_URLS, open_store_with};
pub use leadership::campaign::Campaign;
pub use leadership::error::Error;
pub use leadership::fitness::Fitness;
pub use leadership::guard::{LeaderGuard, Leadership, Scope, Worker};
pub use leadership::progress::ProgressHandle;
pub use leadership::term::TermEnded;
#[cfg(feature = "_server")]
pub use net::tls::config::TlsConfig;
pub use observe::health::{HealthCheck, Unhealthy};
#[cfg(feature = "metrics")]
pub use observe::metrics_observer::MetricsObserver;
pub use observe::observer::{Observer, RequestOutcome};
pub use observe::status::{Counters, Histogram, Status};
pub use observe::transition::{Transition, Transitions};
pub use store::memory::MemoryStore;
pub use store::record::{LeaderElectionRecord, MicroTime, StoreData, VersionedRecord};
pub use store::{CallContext, Cursor, Store, StoreError, StoreErrorKind, StoreOperation, WatchEvent, WatchScope};
pub use util::cancel::{CancelHook, CancelToken};
pub use util::config_error::ConfigError;
