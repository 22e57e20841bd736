//! The transactions that block a write.

use std::cell::OnceCell;
use std::time::{Duration, Instant};

use crate::store::{CallContext, StoreError};

/// The transactions that block a write, which the error of the write names.
///
/// A server forgets a wait that has ended, so the client looks up the transactions during the wait.
pub(crate) struct Blockers<'a> {
    look_up_at: Instant,
    look_up: &'a dyn Fn() -> Option<String>,
    found: OnceCell<String>,
}

impl<'a> Blockers<'a> {
    /// Plans one call of `look_up`, unless the write is answered after two fifths of the time of `call`.
    ///
    /// `look_up` returns the transactions, and the statement that ends them.
    pub(crate) fn new(call: &CallContext, look_up: &'a dyn Fn() -> Option<String>) -> Self {
        let left = call.remaining().min(Duration::from_secs(3600));
        Self { look_up_at: Instant::now() + left * 2 / 5, look_up, found: OnceCell::new() }
    }

    /// Calls `wait`, which returns `false` if there is still no answer at the given time. Then looks up the blockers.
    pub(crate) fn wait<E>(&self, wait: impl FnOnce(Instant) -> Result<bool, E>) -> Result<(), E> {
        if !wait(self.look_up_at)?
            && let Some(found) = (self.look_up)()
        {
            let _ = self.found.set(found);
        }
        Ok(())
    }

    /// Adds the blockers to the error of the write.
    pub(crate) fn explain(&self, error: StoreError) -> StoreError {
        match self.found.get() {
            Some(found) => StoreError::new(error.kind(), format!("{error}; blocked by {found}")),
            None => error,
        }
    }
}
