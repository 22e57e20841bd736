//! The second thread: whoever ends a watch must not leave it asleep.

use std::sync::Arc;

use leasehold_shuttle::channel;
use leasehold_shuttle::explore::explore;
use leasehold_shuttle::watching::Watched;
use leasehold_shuttle::{
    CallContext, CancelToken, ConfigError, Cursor, LeaderElectionRecord, Store, StoreError, StoreErrorKind,
    VersionedRecord, WatchEvent, WatchScope,
};

use crate::one_in;

/// Watches that stand until they are stopped, or end by themselves.
struct Watchable;

impl Store for Watchable {
    fn watch(
        &self,
        _: WatchScope<'_>,
        _: Option<&Cursor>,
        cancel: &CancelToken,
        tell: &mut dyn FnMut(WatchEvent),
    ) -> Result<(), StoreError> {
        if one_in(4) {
            return Err(StoreError::new(StoreErrorKind::Unavailable, "refused"));
        }
        let (end, ended) = channel::bounded::<()>(0);
        let _hook = cancel.on_cancel(move || drop(end));
        tell(WatchEvent::Opened);
        tell(WatchEvent::Bookmark(Cursor::new(7_u64)));
        match one_in(4) {
            true => Ok(()),
            false => {
                let _ = ended.recv();
                Err(StoreError::new(StoreErrorKind::Interrupted, "stopped"))
            }
        }
    }

    fn get(&self, _: &str, _: &CallContext) -> Result<Option<VersionedRecord>, StoreError> {
        unreachable!("a watcher does not read")
    }

    fn create(&self, _: &str, _: &LeaderElectionRecord, _: &CallContext) -> Result<VersionedRecord, StoreError> {
        unreachable!("a watcher does not write")
    }

    fn update(
        &self,
        _: &str,
        _: &VersionedRecord,
        _: &LeaderElectionRecord,
        _: &CallContext,
    ) -> Result<VersionedRecord, StoreError> {
        unreachable!("a watcher does not write")
    }

    fn check_key(&self, _: &str) -> Result<(), ConfigError> {
        Ok(())
    }

    fn describe(&self, _: &str) -> String {
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
