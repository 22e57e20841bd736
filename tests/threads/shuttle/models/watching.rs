//! The second thread: whoever ends a watch must not leave it asleep.

use std::sync::Arc;

use leasehold_shuttle::channel;
use leasehold_shuttle::explore::explore;
use leasehold_shuttle::watching::Watched;
use leasehold_shuttle::{Call, Cancel, LeaderElectionRecord, Lock, LockError, LockErrorKind, Observed, WatchEvent};

use crate::one_in;

/// Watches that stand until they are stopped, or end by themselves.
struct Watchable;

impl Lock for Watchable {
    fn watch(&self, _: Option<u64>, cancel: &Cancel, tell: &mut dyn FnMut(WatchEvent)) -> Result<(), LockError> {
        if one_in(4) {
            return Err(LockError::new(LockErrorKind::Unavailable, "refused"));
        }
        let (end, ended) = channel::bounded::<()>(0);
        let _hook = cancel.on_cancel(move || drop(end));
        tell(WatchEvent::Opened);
        tell(WatchEvent::Bookmark { version: 7 });
        match one_in(4) {
            true => Ok(()),
            false => {
                let _ = ended.recv();
                Err(LockError::new(LockErrorKind::Interrupted, "stopped"))
            }
        }
    }

    fn get(&self, _: &Call) -> Result<Option<Observed>, LockError> {
        unreachable!("a watcher does not read")
    }

    fn create(&self, _: &LeaderElectionRecord, _: &Call) -> Result<Observed, LockError> {
        unreachable!("a watcher does not write")
    }

    fn update(&self, _: &Observed, _: &LeaderElectionRecord, _: &Call) -> Result<Observed, LockError> {
        unreachable!("a watcher does not write")
    }

    fn describe(&self) -> String {
        "watches".into()
    }
}

#[test]
fn a_watcher_that_is_dropped_ends() {
    explore("a watcher that is dropped ends", 10000, || {
        let watched = Watched::spawn(Arc::new(Watchable));
        if one_in(2) {
            watched.wait_for_one_from_scratch();
        }
        if one_in(2) {
            watched.restart();
        }
        drop(watched);
    });
}

#[test]
fn a_watcher_that_is_restarted_begins_from_scratch() {
    explore("a watcher that is restarted begins from scratch", 10000, || {
        let watched = Watched::spawn(Arc::new(Watchable));
        for _ in 0..3 {
            watched.wait_for_one_from_scratch();
            watched.restart();
        }
        watched.wait_for_one_from_scratch();
        drop(watched);
    });
}
