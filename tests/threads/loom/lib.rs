//! `src/election/deadline.rs` over loom's atomics, for `deadline.rs` beside this: the file itself, with a `sync` of its own.

// The local clock's types come along, its reading does not.
#![allow(dead_code)]

#[path = "../../../src"]
mod leasehold {
    pub(crate) mod clock;
    pub(crate) mod election {
        pub(crate) mod deadline;
    }
    pub(crate) mod stop_reason;
}

mod sync {
    pub(crate) use loom::sync::atomic::AtomicU64;
    pub(crate) use std::sync::OnceLock;
    pub(crate) use std::sync::atomic::Ordering;
}

pub(crate) use leasehold::{clock, stop_reason};

pub use clock::Moment;
pub use leasehold::election::deadline::Deadline;
pub use stop_reason::StopReason;
