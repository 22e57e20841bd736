//! Blocking leader election on a Kubernetes `Lease`, for programs without an async runtime.
//!
//! A service runs as several replicas, and at most one replica may act at a time. The replicas compete for a `Lease`
//! object in Kubernetes. The replica that writes its identity to the `Lease` leads while it keeps renewing. This crate
//! competes and renews on its own thread, and returns a guard to the program:
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
//!     drop(guard); // releases the lease, so that a standby does not wait for its expiry
//!     Ok(())
//! }
//! ```
//!
//! | Task | Start with |
//! | --- | --- |
//! | configure and start an elector | [`LeaderElectorBuilder`] |
//! | wait for leadership, or campaign in a `select!` | [`LeaderElector`], [`Campaign`] |
//! | work as the leader | [`LeaderGuard`], [`Leadership`], [`Scope`], [`Worker`] |
//! | notice work that hangs | [`ProgressHandle`], [`HealthCheck`] |
//! | keep an unfit replica from leading | [`Fitness`] |
//! | publish the address of the leader | [`advertise`](LeaderElectorBuilder::advertise) |
//! | accept requests to step down | [`accept_requests`](LeaderElectorBuilder::accept_requests) |
//! | prefer some candidates | [`hold_back`](LeaderElectorBuilder::hold_back) |
//! | run many electors in one process | [`SharedWatch`], [`release_all`] |
//! | divide shards over processes | [`LeaseGroup`], [`Shards`], [`Shard`] |
//! | observe the election | [`Transitions`], [`Status`], [`Observer`], [`Event`] |
//! | write callbacks in the style of client-go | [`Callbacks`] |
//! | elect without Kubernetes | [`open_store`], [`MemoryStore`], [`Store`] |
//!
//! # Guarantees
//!
//! Two valid guards never exist at the same time if the store is linearizable and clocks run at about the same rate.
//! [SAFETY.md] has the conditions, the exceptions and the argument.
//!
//! - [`LeaderGuard::is_leader`] is the safety check. The check costs two or three atomic loads and one clock read. The result is
//!   exact even if every other thread is stopped. Once the result is `false`, it stays `false`.
//! - No library can stop work that has passed its check when the term ends. [`LeaderGuard::fencing_token`] grows with
//!   every term, so that the resource can reject the writes of a former leader.
//! - [`LeaderGuard::scope`] makes the compiler prove that protected work ends before the lease is released.
//!
//! [SAFETY.md]: https://docs.rs/crate/leasehold/latest/source/docs/SAFETY.md
//!
//! # Scope
//!
//! The crate elects one leader on any of these:
//!
//! - Kubernetes `Lease` objects;
//! - ConfigMaps and Endpoints, for elections whose other candidates use these objects;
//! - keys in etcd;
//! - tables in SQLite, PostgreSQL and MySQL;
//! - any implementation of [`Store`].
//!
//! The crate contains a small HTTP/1.1 client for the API server ([`kubernetes`]). Async code, other uses of the
//! Kubernetes API, and elections of more than one leader are out of scope.
//!
//! # Features
//!
//! | Feature | Adds |
//! | --- | --- |
//! | `kubernetes` (default) | Leases, and the client for the Kubernetes API |
//! | `kubeconfig` (default) | support for kubeconfig files |
//! | `etcd` | [`EtcdStore`](https://docs.rs/leasehold/latest/leasehold/struct.EtcdStore.html), records in etcd, without a Kubernetes cluster |
//! | `postgres` | [`PostgresStore`](https://docs.rs/leasehold/latest/leasehold/struct.PostgresStore.html), a table in PostgreSQL, with a small client of this crate |
//! | `mysql` | [`MySqlStore`](https://docs.rs/leasehold/latest/leasehold/struct.MySqlStore.html), a table in MySQL or MariaDB, with a small client of this crate |
//! | `sqlite` | [`SqliteStore`](https://docs.rs/leasehold/latest/leasehold/struct.SqliteStore.html), a table in a file, for processes of one host ([STORES.md]) |
//! | `ring` (default), `aws-lc-rs`, `fips` | the cryptography of TLS |
//! | `metrics` | [`MetricsObserver`](https://docs.rs/leasehold/latest/leasehold/struct.MetricsObserver.html), for the `metrics` facade |
//! | `testing` | an in-memory API server with fault injection for tests; includes `conformance` |
//! | `json` | [`RecordNotes::to_json`](https://docs.rs/leasehold/latest/leasehold/struct.RecordNotes.html), for your own store; each feature of a store includes `json` |
//! | `conformance` | [`testing::conformance`](https://docs.rs/leasehold/latest/leasehold/testing/conformance/index.html), checks for your own store |
//! | `cli` | the command `leasehold`, for programs that cannot link a library ([COMMAND.md]) |
//!
//! - Without default features, the crate has [`MemoryStore`] and accepts your own [`Store`]. A feature that adds
//!   another store also adds TLS to the dependency tree, except `sqlite`.
//! - `kubernetes`, `etcd`, `postgres` and `mysql` need one of `ring`, `aws-lc-rs` and `fips`. `aws-lc-rs` supports
//!   P-521, which `ring` does not, and has precedence if both are enabled.
//! - `fips` uses the AWS-LC module that is validated for FIPS 140-3. The build needs CMake, Go and Perl. With `fips`,
//!   creating a client for an `https` server fails unless FIPS mode is active.
//! - `sqlite` compiles SQLite from source, which needs a C compiler and some seconds.
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
#[doc = include_str!("../docs/TUTORIAL.md")]
struct Tutorial;

#[cfg(doctest)]
#[doc = include_str!("../docs/GUIDE.md")]
struct Guide;

#[cfg(doctest)]
#[doc = include_str!("../docs/CLIENT-GO.md")]
struct ClientGo;

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
#[cfg(all(feature = "_internals", feature = "kubernetes"))]
#[doc(hidden)]
pub use backends::kubernetes::multi_lock::composite;
mod group;
mod leadership;
#[cfg(feature = "_tls")]
#[cfg_attr(
    not(feature = "kubernetes"),
    expect(dead_code, reason = "only Kubernetes uses proxies and counts reloads of files")
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
pub use election::group::OwnershipEnd;
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
pub use group::builder::LeaseGroupBuilder;
pub use group::lease_group::{LeaseGroup, Shards};
pub use group::shard::{OwnershipEnded, Shard};
pub use group::status::{GroupMember, GroupStatus, GroupTransition, ShardStatus};
pub use leadership::campaign::Campaign;
pub use leadership::error::Error;
pub use leadership::fitness::Fitness;
pub use leadership::guard::{LeaderGuard, Leadership, Scope, Worker};
pub use leadership::progress::ProgressHandle;
pub use leadership::release_all::release_all;
pub use leadership::stop::Stop;
pub use leadership::term::TermEnded;
#[cfg(feature = "_server")]
pub use net::tls::config::TlsConfig;
pub use observe::health::{HealthCheck, Unhealthy};
#[cfg(feature = "metrics")]
pub use observe::metrics_observer::MetricsObserver;
pub use observe::observer::{Event, Observer, RequestOutcome};
pub use observe::status::{Counters, Histogram, Status};
pub use observe::transition::{Transition, Transitions};
pub use store::memory::MemoryStore;
pub use store::notes::{JobNotes, RecordNotes, RequestAcceptance, TermNotes};
pub use store::record::{LeaderElectionRecord, MicroTime, RecordWrite, StoreData, VersionedRecord};
pub use store::shared_watch::SharedWatch;
pub use store::{CallContext, Cursor, Store, StoreError, StoreErrorKind, StoreOperation, WatchEvent, WatchScope};
pub use util::cancel::{CancelHook, CancelToken};
pub use util::config_error::ConfigError;
