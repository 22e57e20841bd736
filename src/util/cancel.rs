//! Ending what other threads are blocked in.

use std::collections::VecDeque;
use std::fmt;

use crate::util::sync::{Arc, Mutex};

/// Ends calls and watches from another thread, once and for good. Clones are the same one.
///
/// # Examples
///
/// Whoever blocks hooks in what ends that:
///
/// ```
/// use leasehold::CancelToken;
/// use leasehold::crossbeam_channel::{bounded, RecvError};
///
/// let cancel = CancelToken::new();
/// let (end, ended) = bounded::<()>(0);
/// let hook = cancel.on_cancel(move || drop(end));
/// let elsewhere = cancel.clone();
/// std::thread::spawn(move || elsewhere.cancel());
/// assert_eq!(ended.recv(), Err(RecvError));
/// assert!(cancel.is_cancelled());
/// drop(hook);
/// ```
#[derive(Clone, Default)]
pub struct CancelToken(Arc<Mutex<CancelState>>);

#[derive(Default)]
struct CancelState {
    is_cancelled: bool,
    hooks: VecDeque<Slot>,
}

/// A hook until it has run or is unregistered. It runs under the lock, so that to unregister it is to wait for it.
type Slot = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// Keeps a hook registered. Dropping it unregisters the hook, and waits if that is running just then: afterwards it does
/// not run any more.
#[must_use = "a hook that is dropped is unregistered"]
pub struct CancelHook {
    cancel: CancelToken,
    slot: Slot,
}

impl CancelToken {
    /// One that nobody has cancelled yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels, and runs the hooks before it returns, but for one that another thread is running just then.
    ///
    /// # Panics
    ///
    /// When a hook does. Those that have not run by then run the next time that this is called.
    pub fn cancel(&self) {
        self.0.lock().is_cancelled = true;
        while let Some(slot) = self.next_hook() {
            run(&slot);
        }
    }

    fn next_hook(&self) -> Option<Slot> {
        self.0.lock().hooks.pop_front()
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.lock().is_cancelled
    }

    /// Runs `hook` when this is cancelled, or now if it was. It must not block, panic, nor drop its own
    /// [`CancelHook`].
    pub fn on_cancel(&self, hook: impl FnOnce() + Send + 'static) -> CancelHook {
        let slot: Slot = Arc::new(Mutex::new(Some(Box::new(hook))));
        let is_cancelled = {
            let mut state = self.0.lock();
            if !state.is_cancelled {
                state.hooks.push_back(Arc::clone(&slot));
            }
            state.is_cancelled
        };
        if is_cancelled {
            run(&slot);
        }
        CancelHook { cancel: self.clone(), slot }
    }
}

fn run(slot: &Slot) {
    let mut slot = slot.lock();
    if let Some(hook) = slot.take() {
        hook();
    }
}

impl Drop for CancelHook {
    fn drop(&mut self) {
        *self.slot.lock() = None;
        self.cancel.0.lock().hooks.retain(|slot| !Arc::ptr_eq(slot, &self.slot));
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken").field("is_cancelled", &self.is_cancelled()).finish()
    }
}

impl fmt::Debug for CancelHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelHook").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use crossbeam_channel::bounded;

    use super::*;

    fn counting(cancel: &CancelToken) -> (Arc<AtomicUsize>, CancelHook) {
        let runs = Arc::new(AtomicUsize::new(0));
        let hook = cancel.on_cancel({
            let runs = Arc::clone(&runs);
            move || _ = runs.fetch_add(1, Ordering::SeqCst)
        });
        (runs, hook)
    }

    #[test]
    fn each_hook_runs_once_and_a_late_one_at_once() {
        let cancel = CancelToken::new();
        let (first, _first) = counting(&cancel);
        let (second, _second) = counting(&cancel);
        assert!(!cancel.is_cancelled());
        cancel.clone().cancel();
        cancel.cancel();
        let (late, _late) = counting(&cancel);
        assert!(cancel.is_cancelled());
        assert_eq!([first, second, late].map(|runs| runs.load(Ordering::SeqCst)), [1, 1, 1]);
    }

    #[test]
    fn dropped_hook_does_not_run_and_leaves_nothing_behind() {
        let cancel = CancelToken::new();
        for _ in 0..1000 {
            drop(counting(&cancel).1);
        }
        let (runs, hook) = counting(&cancel);
        drop(hook);
        assert!(cancel.0.lock().hooks.is_empty());
        cancel.cancel();
        assert_eq!(runs.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_hook_that_panics_keeps_no_other_from_running_at_last() {
        let cancel = CancelToken::new();
        let _panics = cancel.on_cancel(|| std::panic::resume_unwind(Box::new("a hook")));
        let (runs, _hook) = counting(&cancel);
        assert!(std::panic::catch_unwind(AssertUnwindSafe(|| cancel.cancel())).is_err());
        cancel.cancel();
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn dropping_a_hook_waits_while_it_runs() {
        let cancel = CancelToken::new();
        let (runs, go_on) = (bounded(0), bounded::<()>(0));
        let ended = Arc::new(AtomicUsize::new(0));
        let hook = cancel.on_cancel({
            let ended = Arc::clone(&ended);
            move || {
                runs.0.send(()).unwrap();
                let _ = go_on.1.recv();
                ended.store(1, Ordering::SeqCst);
            }
        });
        thread::scope(|scope| {
            scope.spawn(|| cancel.cancel());
            runs.1.recv().unwrap();
            scope.spawn(move || {
                thread::sleep(std::time::Duration::from_millis(50));
                drop(go_on.0);
            });
            drop(hook);
            assert_eq!(ended.load(Ordering::SeqCst), 1, "it has come to its end");
        });
    }
}
