//! A signal for threads that wait until a flag changes.

use std::time::Instant;

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

    /// Waits until `done` is true. Returns `false` after `deadline`.
    pub fn wait(&self, deadline: Option<Instant>, done: impl Fn() -> bool) -> bool {
        let mut lock = self.lock.lock();
        while !done() {
            match deadline {
                None => self.notified.wait(&mut lock),
                Some(deadline) if self.notified.wait_until(&mut lock, deadline).timed_out() => return done(),
                Some(_) => {}
            }
        }
        true
    }
}
