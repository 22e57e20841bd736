//! `src/election/deadline.rs` over loom's atomics, for `deadline.rs` beside this: the file itself, with a `sync` of its own.

// The local clock's types come along, its reading does not.
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
        pub(crate) use loom::sync::atomic::{AtomicU64, fence};
        pub(crate) use std::sync::atomic::Ordering;
        pub(crate) use std::sync::{Arc, OnceLock};
    }
}

pub(crate) use leasehold::election;

pub use leasehold::election::deadline::Deadline;
pub use leasehold::election::progress::ProgressLimit;
pub use leasehold::election::stop_reason::StopReason;
pub use leasehold::util::clock::Moment;
