//! The library's `src/election/deadline.rs` over loom's atomics.
//!
//! The models are in `deadline.rs` in this directory.
//!
//! The library's source file is included unchanged, but its `sync` module is replaced.

// The module of the local clock is included for its types, and its functions are not used.
#![allow(dead_code)]

#[path = "../../../src"]
mod leasehold {
    pub(crate) mod election {
        pub(crate) mod deadline;
        pub(crate) mod progress;
        pub(crate) mod stop_reason;
    }
    pub(crate) mod util {
        pub(crate) mod clock;
    }
}

mod util {
    pub(crate) use crate::leasehold::util::clock;

    pub(crate) mod sync {
        pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64};
        pub(crate) use std::sync::atomic::Ordering;
        pub(crate) use std::sync::{Arc, OnceLock};
    }
}

pub(crate) use leasehold::election;

pub use leasehold::election::deadline::Deadline;
pub use leasehold::election::progress::ProgressLimit;
pub use leasehold::election::stop_reason::StopReason;
pub use leasehold::util::clock::Moment;
