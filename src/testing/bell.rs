//! Waking threads that wait for a flag to change.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Whoever changes a flag that others wait for rings the bell afterwards.
#[derive(Debug, Default)]
pub(super) struct Bell {
    lock: Mutex<()>,
    rung: Condvar,
}

impl Bell {
    pub fn ring(&self) {
        // Taking the lock keeps a waiter from missing the ring between its look and its sleep.
        drop(self.lock.lock());
        self.rung.notify_all();
    }

    /// Whether `done` came true within `patience`.
    pub fn wait(&self, patience: Duration, done: impl Fn() -> bool) -> bool {
        let deadline = Instant::now().checked_add(patience);
        let mut lock = self.lock.lock();
        while !done() {
            match deadline {
                None => self.rung.wait(&mut lock),
                Some(deadline) => {
                    if self.rung.wait_until(&mut lock, deadline).timed_out() {
                        return done();
                    }
                }
            }
        }
        true
    }
}
