//! Cancellation of calls and watches in which other threads are blocked.

use std::collections::VecDeque;

use crate::util::debug_fields::debug_fields;
use crate::util::sync::{Arc, Mutex};

/// Cancels calls and watches from another thread.
///
/// A cancellation is final. Clones share the state.
///
/// # Examples
///
/// A blocking function registers a hook that unblocks the function:
///
/// ```
/// use leasehold::store::CancelToken;
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

/// A registered hook, or `None` after the hook has run or was unregistered.
///
/// A hook runs under this lock, so unregistering waits for a running hook.
type Slot = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// Keeps a hook registered.
///
/// Dropping the value unregisters the hook and waits for a running hook. After the drop, the hook does not run.
///
/// # Examples
///
/// ```
/// use leasehold::store::CancelToken;
///
/// let cancel = CancelToken::new();
/// let hook = cancel.on_cancel(|| unreachable!("unregistered"));
/// drop(hook);
/// cancel.cancel();
/// ```
#[must_use = "dropping the value unregisters the hook"]
pub struct CancelHook {
    cancel: CancelToken,
    slot: Slot,
}

impl CancelToken {
    /// Creates a token that is not canceled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels the token and runs the hooks.
    ///
    /// Does not wait for a hook that another thread is running at the same time.
    ///
    /// # Panics
    ///
    /// Panics if a hook panics. The next call runs the remaining hooks.
    pub fn cancel(&self) {
        self.0.lock().is_cancelled = true;
        while let Some(slot) = self.next_hook() {
            run(&slot);
        }
    }

    fn next_hook(&self) -> Option<Slot> {
        self.0.lock().hooks.pop_front()
    }

    /// Returns `true` if the token is canceled.
    pub fn is_cancelled(&self) -> bool {
        self.0.lock().is_cancelled
    }

    /// Registers `hook`, which runs when the token is canceled.
    ///
    /// If the token is canceled already, the hook runs at once.
    ///
    /// The hook must not block, panic, or drop its own [`CancelHook`].
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

debug_fields!(impl Debug for CancelToken { self => is_cancelled: self.is_cancelled() });

debug_fields!(impl Debug for CancelHook { self => .. });

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
