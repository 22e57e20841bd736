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
//! | work in every term until SIGTERM | [`LeaderElector::run_until`], [`Stop`] |
//! | wait for leadership, or campaign in a `select!` | [`LeaderElector`], [`Campaign`] |
//! | work as the leader | [`LeaderGuard`], [`Leadership`], [`Scope`], [`Worker`] |
//! | notice work that hangs | [`ProgressHandle`], [`HealthCheck`] |
//! | keep an unfit replica from leading | [`Fitness`] |
//! | publish the address of the leader | [`advertise`](LeaderElectorBuilder::advertise) |
//! | accept requests to step down | [`accept_requests`](LeaderElectorBuilder::accept_requests) |
//! | prefer some candidates | [`hold_back`](LeaderElectorBuilder::hold_back) |
//! | run many electors in one process | [`store::SharedWatch`], [`release_all`] |
//! | divide shards over processes | [`group::LeaseGroup`], [`group::Shards`], [`group::Shard`] |
//! | observe the election | [`Transitions`], [`Status`], [`Observer`], [`Event`] |
//! | write callbacks in the style of client-go | [`client_go::Callbacks`] |
//! | elect without Kubernetes | [`open_store`], [`store::MemoryStore`], [`store::Store`] |
//!
//! # Guarantees
//!
//! Two valid guards never exist at the same time if the store is linearizable and clocks run at about the same rate.
//! [SAFETY.md] has the conditions, the exceptions and the argument.
//!
//! - [`Leadership::is_leader`] is the safety check. The check costs two or three atomic loads and one clock read. The
//!   result is exact even if every other thread is stopped. Once the result is `false`, it stays `false`.
//! - No library can stop work that has passed its check when the term ends. [`Leadership::fencing_token`] grows with
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
//! - any implementation of [`store::Store`].
//!
//! Async code and other uses of the Kubernetes API are out of scope. A [`group`] divides shards over several processes.
//!
//! # Features
//!
//! | Feature | Adds |
//! | --- | --- |
//! | `kubernetes` (default) | Leases and other objects of a Kubernetes API server |
//! | `kubeconfig` (default) | support for kubeconfig files |
//! | `etcd` | [`EtcdStore`](https://docs.rs/leasehold/latest/leasehold/etcd/struct.EtcdStore.html), records in etcd, without a Kubernetes cluster |
//! | `postgres` | [`PostgresStore`](https://docs.rs/leasehold/latest/leasehold/postgres/struct.PostgresStore.html), a table in PostgreSQL, with a small client of this crate |
//! | `mysql` | [`MySqlStore`](https://docs.rs/leasehold/latest/leasehold/mysql/struct.MySqlStore.html), a table in MySQL or MariaDB, with a small client of this crate |
//! | `sqlite` | [`SqliteStore`](https://docs.rs/leasehold/latest/leasehold/sqlite/struct.SqliteStore.html), a table in a file, for processes of one host ([STORES.md]) |
//! | `signals` (default) | [`Stop::on_signals`], on Unix |
//! | `ring` (default), `aws-lc-rs`, `fips` | the cryptography of TLS |
//! | `metrics` | [`MetricsObserver`](https://docs.rs/leasehold/latest/leasehold/metrics/struct.MetricsObserver.html), for the `metrics` facade |
//! | `serde` | `serde::Serialize` for [`Status`] and [`Transition`] |
//! | `json` | [`RecordNotes::to_json`](https://docs.rs/leasehold/latest/leasehold/store/struct.RecordNotes.html), for your own store; each feature of a store includes `json` |
//!
//! - Without default features, the crate has [`store::MemoryStore`] and accepts your own [`store::Store`]. A feature
//!   that adds another store also adds TLS to the dependency tree, except `sqlite`.
//! - `kubernetes`, `etcd`, `postgres` and `mysql` need one of `ring`, `aws-lc-rs` and `fips`. `aws-lc-rs` supports
//!   P-521, which `ring` does not, and has precedence if both are enabled.
//! - `fips` uses the AWS-LC module that is validated for FIPS 140-3. The build needs CMake, Go and Perl. With `fips`,
//!   creating a client for an `https` server fails unless FIPS mode is active.
//! - `sqlite` compiles SQLite from source, which needs a C compiler and some seconds.
//!
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
pub mod group;
mod leadership;
#[cfg(feature = "_tls")]
#[cfg_attr(
    not(feature = "kubernetes"),
    expect(dead_code, reason = "only Kubernetes uses proxies and counts reloads of files")
)]
mod net;
mod observe;
mod runtime;
pub mod store;
#[cfg(feature = "_internals")]
#[doc(hidden)]
pub mod util;
#[cfg(not(feature = "_internals"))]
mod util;

/// Callbacks, configuration and locks in the style of client-go's `tools/leaderelection`.
///
/// [CLIENT-GO.md] maps each name of client-go to a name of this crate.
///
/// [CLIENT-GO.md]: https://docs.rs/crate/leasehold/latest/source/docs/CLIENT-GO.md
pub mod client_go {
    #[cfg(feature = "kubernetes")]
    pub use crate::backends::kubernetes::resource_lock::ResourceLock;
    pub use crate::elector::callbacks::{Callbacks, RunOutcome, run};
    #[cfg(feature = "kubernetes")]
    pub use crate::elector::leader_election_config::{LeaderElectionConfig, LeaderElectionFlag};
}

/// Records in etcd, without a Kubernetes cluster.
#[cfg(feature = "etcd")]
pub mod etcd {
    pub use crate::backends::etcd::config::EtcdConfig;
    pub use crate::backends::etcd::store::{EtcdOperation, EtcdStore};
}

/// Jobs that run with success once per period, on one of several processes.
///
/// [`LeaderElector::run_once_per`] runs such a job.
pub mod job {
    pub use crate::leadership::job::{NotDue, OncePer, RunOnce};
}

#[cfg(feature = "kubernetes")]
pub use backends::kubernetes;

/// Numbers about electors and requests, and their export to the `metrics` facade.
pub mod metrics {
    #[cfg(feature = "metrics")]
    pub use crate::observe::metrics_observer::MetricsObserver;
    pub use crate::observe::status::{Counters, Histogram};
}

/// Records in a table of MySQL or MariaDB.
#[cfg(feature = "mysql")]
pub mod mysql {
    pub use crate::backends::mysql::{config::MySqlConfig, store::MySqlStore};
}

/// Records in a table of PostgreSQL.
#[cfg(feature = "postgres")]
pub mod postgres {
    pub use crate::backends::postgres::{config::PostgresConfig, store::PostgresStore};
}

/// Records in a table of an SQLite file, for processes of one host.
#[cfg(feature = "sqlite")]
pub mod sqlite {
    pub use crate::backends::sqlite::store::SqliteStore;
}

#[cfg(feature = "_server")]
pub use backends::password::Password;
pub use crossbeam_channel;
pub use election::settings::Settings;
pub use election::stop_reason::StopReason;
pub use elector::builder::LeaderElectorBuilder;
pub use elector::leader_elector::LeaderElector;
pub use elector::open_store::{StoreOptions, open_store};
pub use leadership::campaign::Campaign;
pub use leadership::error::Error;
pub use leadership::fitness::Fitness;
pub use leadership::guard::{LeaderGuard, Leadership, Scope, Worker};
pub use leadership::progress::ProgressHandle;
pub use leadership::release_all::release_all;
pub use leadership::stop::Stop;
pub use leadership::term::TermEnded;
#[cfg(feature = "_tls")]
pub use net::tls::config::TlsConfig;
pub use observe::health::{HealthCheck, Unhealthy};
pub use observe::observer::{Event, Observer, RequestOutcome};
pub use observe::status::Status;
pub use observe::transition::{Transition, Transitions};
pub use util::config_error::ConfigError;
