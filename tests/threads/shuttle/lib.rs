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
        pub(crate) mod log_fields;
        pub(crate) mod names;
        pub(crate) mod on_drop;
        pub(crate) mod one_line;
        pub(crate) mod panics;
        pub(crate) mod prometheus;
    }
}

mod util {
    pub(crate) use crate::leasehold::util::{
        backoff, cancel, config_error, log_fields, names, on_drop, one_line, panics, prometheus,
    };
    pub(crate) use crate::{clock, sync};
}

pub(crate) use leasehold::{backends, election, elector, leadership, net, observe, runtime, store};

pub use backends::kubernetes::events::EventRecorder;
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
pub use observe::observer::{Observer, RequestOutcome};
pub use observe::status::{Counters, Histogram, Status};
pub use observe::transition::Transition;
pub use store::memory::MemoryStore;
pub use store::record::{LeaderElectionRecord, MicroTime, StoreData, VersionedRecord};
pub use store::{CallContext, Cursor, Store, StoreError, StoreErrorKind, StoreOperation, WatchEvent, WatchScope};
pub use util::cancel::{CancelHook, CancelToken};
pub use util::config_error::ConfigError;
