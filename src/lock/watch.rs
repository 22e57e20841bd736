//! What a watch tells, and how it is stopped.

use crate::record::Observed;
use crate::sync::{Arc, Mutex};

/// What a watch tells; see [`Lock::watch`](crate::Lock::watch).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum WatchEvent {
    /// The watch stands: every later change will be told, for as long as it lasts.
    Opened,
    /// The record was created or changed, or something else in its object.
    Changed(Observed),
    /// The object was deleted, by a write to the store with this version.
    Deleted {
        /// The version of the deletion.
        version: u64,
    },
    /// Nothing has changed up to this version.
    Bookmark {
        /// Where a later watch may begin.
        version: u64,
    },
}

/// Stops a watch from another thread. Clones stop the same watch.
///
/// # Examples
///
/// A lock hooks in whatever ends its blocking call:
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use std::sync::Arc;
/// use leasehold::WatchStop;
///
/// let stop = WatchStop::new();
/// let ended = Arc::new(AtomicBool::new(false));
/// stop.on_stop({
///     let ended = Arc::clone(&ended);
///     move || ended.store(true, Ordering::SeqCst)
/// });
/// stop.stop();
/// assert!(stop.is_stopped() && ended.load(Ordering::SeqCst));
/// ```
#[derive(Clone, Default)]
pub struct WatchStop(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    stopped: bool,
    hook: Option<Box<dyn FnOnce() + Send>>,
}

impl WatchStop {
    /// A stop that nobody has called yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops the watch, for good.
    pub fn stop(&self) {
        let hook = {
            let mut state = self.0.lock();
            state.stopped = true;
            state.hook.take()
        };
        if let Some(hook) = hook {
            hook();
        }
    }

    /// Whether the watch was stopped.
    pub fn is_stopped(&self) -> bool {
        self.0.lock().stopped
    }

    /// Runs `hook` when the watch is stopped, or now if it was. It replaces an earlier hook, and must not block.
    pub fn on_stop(&self, hook: impl FnOnce() + Send + 'static) {
        let mut state = self.0.lock();
        if state.stopped {
            drop(state);
            hook();
        } else {
            state.hook = Some(Box::new(hook));
        }
    }
}

impl std::fmt::Debug for WatchStop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WatchStop").field("stopped", &self.is_stopped()).finish()
    }
}
