//! Helpers that know nothing of elections, stores or networks: clock, locks, cancellation, panics, and text for logs.

pub mod backoff;
pub(crate) mod cancel;
pub mod clock;
pub(crate) mod config_error;
pub(crate) mod log_fields;
#[cfg(feature = "kubernetes")]
pub(crate) mod names;
pub(crate) mod on_drop;
pub mod one_line;
pub(crate) mod panics;
pub(crate) mod prometheus;
pub(crate) mod sync;
