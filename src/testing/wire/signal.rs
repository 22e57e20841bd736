//! A signal for threads that wait until a flag changes.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// A signal that a flag may have changed. Code that changes the flag calls `notify`.
#[derive(Debug, Default)]
pub(crate) struct FlagSignal {
    lock: Mutex<()>,
    notified: Condvar,
}

impl FlagSignal {
    pub fn notify(&self) {
        // Without the lock, a waiter could miss a notification between its check and its wait.
        drop(self.lock.lock());
        self.notified.notify_all();
    }

    /// Waits until `done` is true. Returns `false` after `timeout`.
    pub fn wait(&self, timeout: Duration, done: impl Fn() -> bool) -> bool {
        let deadline = Instant::now().checked_add(timeout);
        let mut lock = self.lock.lock();
        while !done() {
            match deadline {
                None => self.notified.wait(&mut lock),
                Some(deadline) => {
                    if self.notified.wait_until(&mut lock, deadline).timed_out() {
                        return done();
                    }
                }
            }
        }
        true
    }
}
