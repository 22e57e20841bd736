//! Helpers: clock, locks, cancellation, panics and text for logs.
//!
//! The helpers do not depend on elections, stores or networks.

pub mod backoff;
pub(crate) mod cancel;
pub mod clock;
pub(crate) mod config_error;
pub(crate) mod debug_fields;
pub(crate) mod latch;
pub(crate) mod log_fields;
#[cfg(feature = "kubernetes")]
pub(crate) mod names;
pub(crate) mod on_drop;
pub mod one_line;
pub(crate) mod panics;
#[cfg(any(feature = "_server", feature = "kubeconfig"))]
pub(crate) mod program;
pub(crate) mod prometheus;
pub(crate) mod setters;
pub(crate) mod sync;
pub(crate) mod work_failures;
