//! A replacement for `src/util/sync.rs`.

pub(crate) use crate::channel;
pub(crate) use crate::time::Instant;
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
pub(crate) use shuttle::thread_local;
// These types come from `std`, because they never block. Shuttle does not switch threads at their operations.
pub(crate) use std::sync::{Arc, OnceLock, Weak};

use std::sync::{PoisonError, TryLockError};

use shuttle::sync::MutexGuard;

/// A condition variable for a [`Mutex`].
#[derive(Debug, Default)]
pub(crate) struct Condvar(shuttle::sync::Condvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Self(shuttle::sync::Condvar::new())
    }

    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A lock with the interface of the lock in `parking_lot`, which ignores poisoning.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

pub(crate) fn unlock_fair<T>(guard: MutexGuard<'_, T>) {
    drop(guard);
}

/// Threads that are counted, so that a model ends only after all threads of its electors.
pub(crate) mod thread {
    use std::io;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use crate::explore::Running;

    pub(crate) struct Builder(shuttle::thread::Builder);

    impl Builder {
        pub(crate) fn new() -> Self {
            Self(shuttle::thread::Builder::new())
        }

        pub(crate) fn name(self, name: String) -> Self {
            Self(self.0.name(name))
        }

        /// Ignores the size, because all of shuttle's stacks have the same size.
        pub(crate) fn stack_size(self, _: usize) -> Self {
            self
        }

        pub(crate) fn spawn(self, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
            let running = Running::new();
            self.0.spawn(move || {
                // As with a thread of the system, a panic ends only this thread.
                let _ = catch_unwind(AssertUnwindSafe(work));
                running.ended();
            })?;
            Ok(())
        }
    }
}
