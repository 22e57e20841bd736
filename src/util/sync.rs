//! The one place that imports atomics, locks, channels, threads and their clock, so that a model checker can put its own in
//! their stead: `tests/threads/loom` and `tests/threads/shuttle` do.

pub(crate) use crossbeam_channel as channel;
pub(crate) use parking_lot::Mutex;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
pub(crate) use std::sync::{Arc, OnceLock, Weak};
pub(crate) use std::time::Instant;
pub(crate) use std::{thread, thread_local};

/// Unlocks, and hands the lock to the thread that waits the longest.
pub(crate) fn unlock_fair<T>(guard: parking_lot::MutexGuard<'_, T>) {
    parking_lot::MutexGuard::unlock_fair(guard);
}
