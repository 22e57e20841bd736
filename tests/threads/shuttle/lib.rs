//! The library's source files under shuttle, with other `sync` and `clock` modules.
//!
//! Shuttle may switch threads at every lock, atomic access, channel operation and thread start. Time passes only when a
//! schedule permits. Each model runs under thousands of schedules.
//!
//! Shuttle explores only sequentially consistent executions. The loom models in `tests/threads/loom` explore
//! the executions that weaker memory orders permit.

// This package does not use every part of the library, and does not have the library's features.
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
    pub(crate) mod backends;
    pub(crate) mod election;
    pub(crate) mod elector {
        pub(crate) mod builder;
        pub(crate) mod leader_elector;
    }
    pub(crate) mod leadership;
    pub(crate) mod net;
    pub(crate) mod observe;
    pub(crate) mod runtime;
    pub(crate) mod store;
    pub(crate) mod util {
        pub(crate) mod backoff;
        pub(crate) mod cancel;
        pub(crate) mod clock;
        pub(crate) mod config_error;
        pub(crate) mod debug_fields;
        pub(crate) mod latch;
        pub(crate) mod log_fields;
        pub(crate) mod names;
        pub(crate) mod on_drop;
        pub(crate) mod one_line;
        pub(crate) mod panics;
        pub(crate) mod prometheus;
        pub(crate) mod setters;
    }
}

mod util {
    pub(crate) use crate::leasehold::util::{
        backoff, cancel, config_error, debug_fields, latch, log_fields, names, on_drop, one_line, panics, prometheus,
        setters,
    };
    pub(crate) use crate::{clock, sync};
}

pub(crate) use leasehold::{backends, election, elector, leadership, net, observe, runtime, store};

pub(crate) use backends::kubernetes::events::EventRecorder;
pub use backends::kubernetes::lease::LeaseStore;
pub use election::settings::Settings;
pub use election::stop_reason::StopReason;
pub use elector::builder::LeaderElectorBuilder;
pub use elector::leader_elector::LeaderElector;
pub use leadership::campaign::Campaign;
pub use leadership::error::Error;
pub use leadership::fitness::Fitness;
pub use leadership::guard::{LeaderGuard, Leadership, Scope};
pub use leadership::progress::ProgressHandle;
pub use leadership::term::TermEnded;
pub use observe::health::{HealthCheck, Unhealthy};
pub use observe::observer::{Event, Observer, RequestOutcome};
pub use observe::status::{Counters, Histogram, Status};
pub use observe::transition::Transition;
pub use store::memory::MemoryStore;
pub use store::notes::{JobNotes, RecordNotes, RequestAcceptance, TermNotes};
pub use store::record::{LeaderElectionRecord, MicroTime, RecordWrite, StoreData, VersionedRecord};
pub use store::{CallContext, Cursor, Store, StoreError, StoreErrorKind, StoreOperation, WatchEvent, WatchScope};
pub use util::cancel::{CancelHook, CancelToken};
pub use util::config_error::ConfigError;
