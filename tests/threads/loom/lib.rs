//! `src/election/deadline.rs` over loom's atomics, for `deadline.rs` beside this: the file itself, with a `sync` of its own.

// The local clock's types come along, its reading does not.
#![allow(dead_code)]

#[path = "../../../src"]
mod leasehold {
    pub(crate) mod clock;
    pub(crate) mod election {
        pub(crate) mod deadline;
        pub(crate) mod progress;
    }
    pub(crate) mod stop_reason;
}

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, fence};
    pub(crate) use std::sync::atomic::Ordering;
    pub(crate) use std::sync::{Arc, OnceLock};
}

pub(crate) use leasehold::{clock, election, stop_reason};

pub use clock::Moment;
pub use leasehold::election::deadline::Deadline;
pub use leasehold::election::progress::ProgressLimit;
pub use stop_reason::StopReason;
