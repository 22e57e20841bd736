//! What changed in a table, found by comparing it with what was told.

use std::time::Duration;

use crate::cancel::Cancel;
use crate::store::sql::{Records, changes, polling};
use crate::store::sqlite::database::Database;
use crate::store::{Call, Cursor, StoreError, StoreErrorKind, WatchEvent, WatchScope};
use crate::sync::Arc;

/// How long a read may be kept out before the watch ends for that.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn watch(
    database: &Database,
    scope: WatchScope<'_>,
    from: Option<&Cursor>,
    cancel: &Cancel,
    on_event: &mut dyn FnMut(WatchEvent),
) -> Result<(), StoreError> {
    // Before anything is read: nothing falls between.
    let (signal, _registered) = database.signal();
    let waker = signal.waker();
    let _hook = cancel.on_cancel(move || waker.wake());
    // The cursor is all that was told: versions are given before they are committed, so that none of them says what came before.
    let mut told = from.and_then(Cursor::get::<Arc<Records>>).cloned().unwrap_or_default();
    let (mut is_open, mut seen) = (false, None);
    loop {
        let read = database.read_if_changed(scope, seen, &Call::new(READ_TIMEOUT, cancel.clone()));
        let (number, current) = match read {
            Ok(Some((number, current))) => (Some(number), current),
            Ok(None) => {
                signal.wait();
                continue;
            }
            // The file or the table is gone, and every record with it. A leader is to know that soon.
            Err(error) if error.kind() == StoreErrorKind::NotFound && is_open => {
                // A leader's first write may not have been told yet.
                let mut gone = Arc::unwrap_or_clone(told);
                gone.extend(database.remains(scope));
                changes(&gone, &Records::new()).into_iter().for_each(&mut *on_event);
                return Err(error);
            }
            Err(error) => return Err(error),
        };
        seen = number;
        let is_first = !std::mem::replace(&mut is_open, true);
        if is_first {
            on_event(WatchEvent::Opened);
        }
        let changes = changes(&told, &current);
        if is_first || !changes.is_empty() {
            for change in changes {
                polling::check(cancel)?;
                on_event(change);
            }
            polling::check(cancel)?;
            told = Arc::new(current);
            on_event(WatchEvent::Progress(Cursor::new(Arc::clone(&told))));
        }
        signal.wait();
    }
}
