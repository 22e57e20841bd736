//! What changed in the table, found by reading it again and again.

use std::time::Duration;

use super::table::Table;
use crate::backends::sql::Records;
use crate::backends::sql::told;
use crate::backends::sql::told::Told;
use crate::store::{Call, Cursor, StoreError, StoreErrorKind, WatchEvent, WatchScope};
use crate::util::cancel::Cancel;

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
    let mut told = Told::new(from);
    loop {
        let current = match table.select("watch", scope, &Call::new(READ_TIMEOUT, cancel.clone())) {
            Ok(current) => current,
            // The table is gone, and every record with it. A leader is to know that soon.
            Err(error) if error.kind() == StoreErrorKind::NotFound && told.is_open() => {
                told.tell_the_end(Records::new(), on_event);
                return Err(error);
            }
            Err(error) => return Err(error),
        };
        told.tell(&current, cancel, on_event)?;
        told::wait(&Call::new(interval, cancel.clone()), interval);
        told::check(cancel)?;
    }
}
