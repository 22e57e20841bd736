//! Atomics, locks, channels, threads and `Instant`.
//!
//! All code imports these items from this module. The model checkers in `tests/threads/loom` and
//! `tests/threads/shuttle` replace the items.

pub(crate) use crossbeam_channel as channel;
pub(crate) use parking_lot::Mutex;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
pub(crate) use std::sync::{Arc, OnceLock, Weak};
pub(crate) use std::time::Instant;
pub(crate) use std::{thread, thread_local};

/// Unlocks, and gives the lock to the thread that has waited longest.
pub(crate) fn unlock_fair<T>(guard: parking_lot::MutexGuard<'_, T>) {
    parking_lot::MutexGuard::unlock_fair(guard);
}
