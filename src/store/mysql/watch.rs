//! What changed in the table, found by reading it again and again.

use std::time::Duration;

use super::table::Table;
use crate::cancel::Cancel;
use crate::store::sql::{Records, changes, polling};
use crate::store::{Call, Cursor, StoreError, StoreErrorKind, WatchEvent, WatchScope};
use crate::sync::Arc;

/// How long a read may take before the watch ends for that.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) fn watch(
    table: &Table,
    interval: Duration,
    scope: WatchScope<'_>,
    from: Option<&Cursor>,
    cancel: &Cancel,
    on_event: &mut dyn FnMut(WatchEvent),
) -> Result<(), StoreError> {
    // The cursor is all that was told: versions are given before they are committed, so that none of them says what came before.
    let mut told = from.and_then(Cursor::get::<Arc<Records>>).cloned().unwrap_or_default();
    let mut is_open = false;
    loop {
        let current = match table.select("watch", scope, &Call::new(READ_TIMEOUT, cancel.clone())) {
            Ok(current) => current,
            // The table is gone, and every record with it. A leader is to know that soon.
            Err(error) if error.kind() == StoreErrorKind::NotFound && is_open => {
                changes(&told, &Records::new()).into_iter().for_each(&mut *on_event);
                return Err(error);
            }
            Err(error) => return Err(error),
        };
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
        polling::wait(&Call::new(interval, cancel.clone()), interval);
        polling::check(cancel)?;
    }
}
