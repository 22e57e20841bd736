//! Watches of a table, which deliver the differences between consecutive reads.

use std::time::Duration;

#[cfg(any(feature = "mysql", feature = "sqlite"))]
use crate::backends::sql::store::WatchRequest;
use crate::backends::sql::{Records, deletion_version};
#[cfg(any(feature = "mysql", feature = "sqlite"))]
use crate::store::StoreErrorKind;
use crate::store::record::VersionedRecord;
use crate::store::{CallContext, Cursor, StoreError, WatchEvent, check_watch};
use crate::util::cancel::CancelToken;
use crate::util::sync::{Arc, channel};

/// The records that a watch has last delivered, to compare with the next read.
///
/// The records are also the cursor of the watch. A version cannot be the cursor, because a database does not commit
/// changes in the order of their versions.
pub(crate) struct WatchDiff {
    records: Arc<Records>,
    is_open: bool,
}

impl WatchDiff {
    pub(crate) fn new(from: Option<&Cursor>) -> Self {
        let records = from.and_then(Cursor::get::<Arc<Records>>).cloned().unwrap_or_default();
        Self { records, is_open: false }
    }

    /// Delivers the changes from the last delivered records to `current`.
    ///
    /// The first call reports the watch as open.
    pub(crate) fn deliver(
        &mut self,
        current: &Records,
        cancel: &CancelToken,
        on_event: &mut dyn FnMut(WatchEvent),
    ) -> Result<(), StoreError> {
        let is_first = !std::mem::replace(&mut self.is_open, true);
        if is_first {
            on_event(WatchEvent::Opened);
        }
        let changes = changes(&self.records, current);
        if is_first || !changes.is_empty() {
            for change in changes.into_iter().chain(is_first.then_some(WatchEvent::Synced)) {
                check_watch(cancel)?;
                on_event(change);
            }
            check_watch(cancel)?;
            self.records = Arc::new(current.clone());
            on_event(WatchEvent::Bookmark(Cursor::new(Arc::clone(&self.records))));
        }
        Ok(())
    }
}

/// Watches a table by calling `read` and `wait` in turn.
///
/// `read` returns `None` if nothing has changed. If the table is missing, the watch reports all known records as
/// deleted, so that a leader soon detects the loss. The known records are the last delivered records and the records of
/// `remains`.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(crate) fn watch_by_reading(
    WatchRequest { from, cancel, .. }: WatchRequest<'_>,
    on_event: &mut dyn FnMut(WatchEvent),
    mut read: impl FnMut() -> Result<Option<Records>, StoreError>,
    wait: impl Fn(),
    remains: impl FnOnce() -> Records,
) -> Result<(), StoreError> {
    let mut diff = WatchDiff::new(from);
    loop {
        match read() {
            Ok(Some(current)) => diff.deliver(&current, cancel, on_event)?,
            Ok(None) => {}
            Err(error) => {
                if error.kind() == StoreErrorKind::NotFound && diff.is_open {
                    let mut gone = Arc::unwrap_or_clone(diff.records);
                    gone.extend(remains());
                    changes(&gone, &Records::new()).into_iter().for_each(on_event);
                }
                return Err(error);
            }
        }
        wait();
        check_watch(cancel)?;
    }
}

/// Returns the changes between two reads.
///
/// The function also compares the records, because a version may repeat with another record after a restore.
fn changes(before: &Records, current: &Records) -> Vec<WatchEvent> {
    let is_known = |key: &str, observed: &VersionedRecord| {
        before.get(key).is_some_and(|it| it.version == observed.version && it.record == observed.record)
    };
    let gone = before.iter().filter(|(key, _)| !current.contains_key(*key));
    let gone =
        gone.map(|(key, last)| WatchEvent::Deleted { key: key.clone(), version: deletion_version(last.version) });
    let changed = current.iter().filter(|(key, observed)| !is_known(key, observed));
    let changed = changed.map(|(key, observed)| WatchEvent::Changed { key: key.clone(), observed: observed.clone() });
    gone.chain(changed).collect()
}

/// Blocks for `pause`, or until the call is cancelled or times out.
pub(crate) fn wait(call: &CallContext, pause: Duration) {
    let (end, ended) = channel::bounded::<()>(0);
    let _hook = call.cancel().on_cancel(move || drop(end));
    let _ = ended.recv_timeout(pause.min(call.remaining()));
}
