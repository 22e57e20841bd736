//! The elector under shuttle: the library's own source files, with a `sync` and a `clock` of this package in their stead.
//!
//! So every lock, atomic, channel and thread start is a place where shuttle may go on with another thread, time passes when
//! a schedule says so, and a run is repeated under thousands of schedules. Only sequentially consistent ones: what the
//! memory orders allow beyond those is loom's affair, in `tests/threads/loom`.

// Not all of the library is used here, nor are its features there to be asked for.
#![allow(dead_code, unused_imports)]

pub mod channel;
mod clock;
pub mod explore;
pub mod faulty;
mod sync;
pub mod time;
pub mod watching;

#[path = "../../../src"]
mod leasehold {
    pub(crate) mod builder;
    pub(crate) mod campaign;
    pub(crate) mod cancel;
    pub(crate) mod clock;
    pub(crate) mod config;
    pub(crate) mod config_error;
    pub(crate) mod election;
    pub(crate) mod elector;
    pub(crate) mod error;
    pub(crate) mod events;
    pub(crate) mod fitness;
    pub(crate) mod guard;
    pub(crate) mod handle;
    pub(crate) mod health;
    pub(crate) mod kube;
    pub(crate) mod leadership;
    pub(crate) mod log_fields;
    pub(crate) mod net;
    pub(crate) mod observer;
    pub(crate) mod one_line;
    pub(crate) mod panics;
    pub(crate) mod progress;
    pub(crate) mod prometheus;
    pub(crate) mod record;
    pub(crate) mod runtime;
    pub(crate) mod side;
    pub(crate) mod status;
    pub(crate) mod stop_reason;
    pub(crate) mod store;
    pub(crate) mod term;
    pub(crate) mod transition;
    pub(crate) mod wind_down;
}

pub(crate) use leasehold::{
    builder, campaign, cancel, config, config_error, election, elector, error, events, fitness, guard, handle, health,
    kube, leadership, log_fields, net, observer, one_line, panics, progress, prometheus, record, runtime, side, status,
    stop_reason, store, term, transition, wind_down,
};

pub use builder::LeaderElectorBuilder;
pub use campaign::Campaign;
pub use cancel::{Cancel, Hook};
pub use config::Settings;
pub use config_error::ConfigError;
pub use elector::LeaderElector;
pub use error::Error;
pub use events::EventRecorder;
pub use fitness::Fitness;
pub use guard::{LeaderGuard, Scope};
pub use health::{HealthCheck, Unhealthy};
pub use leadership::Leadership;
pub use observer::{Observer, RequestOutcome};
pub use progress::Progress;
pub use record::{LeaderElectionRecord, MicroTime, Observed, Opaque};
pub use status::{Counters, Histogram, Status};
pub use stop_reason::StopReason;
pub use store::kubernetes::lease::LeaseStore;
pub use store::memory::MemoryStore;
pub use store::{Call, Cursor, Store, StoreError, StoreErrorKind, StoreOperation, WatchEvent, WatchScope};
pub use term::LeadershipLost;
pub use transition::Transition;
