//! What changed in a table, found by comparing it with what was told.

use std::time::Duration;

use crate::backends::sql::told::Told;
use crate::backends::sqlite::database::Database;
use crate::store::{Call, Cursor, StoreError, StoreErrorKind, WatchEvent, WatchScope};
use crate::util::cancel::Cancel;

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
    let (mut told, mut seen) = (Told::new(from), None);
    loop {
        let read = database.read_if_changed(scope, seen, &Call::new(READ_TIMEOUT, cancel.clone()));
        let (number, current) = match read {
            Ok(Some((number, current))) => (Some(number), current),
            Ok(None) => {
                signal.wait();
                continue;
            }
            // The file or the table is gone, and every record with it. A leader is to know that soon.
            Err(error) if error.kind() == StoreErrorKind::NotFound && told.is_open() => {
                // A leader's first write may not have been told yet.
                told.tell_the_end(database.remains(scope), on_event);
                return Err(error);
            }
            Err(error) => return Err(error),
        };
        seen = number;
        told.tell(&current, cancel, on_event)?;
        signal.wait();
    }
}
