//! What a watch has told.

use std::time::Duration;

use crate::backends::sql::{Records, changes};
use crate::store::{Call, Cursor, StoreError, StoreErrorKind, WatchEvent};
use crate::util::cancel::Cancel;
use crate::util::sync::{Arc, channel};

/// What a watch has told, which is also its cursor: versions are given before they are committed, so that none of them says what
/// came before.
pub(crate) struct Told {
    records: Arc<Records>,
    is_open: bool,
}

impl Told {
    pub(crate) fn new(from: Option<&Cursor>) -> Self {
        let records = from.and_then(Cursor::get::<Arc<Records>>).cloned().unwrap_or_default();
        Self { records, is_open: false }
    }

    #[cfg(any(feature = "mysql", feature = "sqlite"))]
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// What stands now: that the watch is open, the first time, and what has changed.
    pub(crate) fn tell(
        &mut self,
        current: &Records,
        cancel: &Cancel,
        on_event: &mut dyn FnMut(WatchEvent),
    ) -> Result<(), StoreError> {
        let is_first = !std::mem::replace(&mut self.is_open, true);
        if is_first {
            on_event(WatchEvent::Opened);
        }
        let changes = changes(&self.records, current);
        if is_first || !changes.is_empty() {
            for change in changes {
                check(cancel)?;
                on_event(change);
            }
            check(cancel)?;
            self.records = Arc::new(current.clone());
            on_event(WatchEvent::Progress(Cursor::new(Arc::clone(&self.records))));
        }
        Ok(())
    }

    /// Nothing stands any more, neither of what was told nor of what `remains` to be.
    #[cfg(any(feature = "mysql", feature = "sqlite"))]
    pub(crate) fn tell_the_end(self, remains: Records, on_event: &mut dyn FnMut(WatchEvent)) {
        let mut gone = Arc::unwrap_or_clone(self.records);
        gone.extend(remains);
        changes(&gone, &Records::new()).into_iter().for_each(on_event);
    }
}

/// Returns an error if the watch was cancelled.
pub(crate) fn check(cancel: &Cancel) -> Result<(), StoreError> {
    match cancel.is_cancelled() {
        true => Err(StoreError::new(StoreErrorKind::Interrupted, "the watch was cancelled")),
        false => Ok(()),
    }
}

/// Waits for `pause`, or until the call is cancelled or over.
pub(crate) fn wait(call: &Call, pause: Duration) {
    let (end, ended) = channel::bounded::<()>(0);
    let _hook = call.cancel().on_cancel(move || drop(end));
    let _ = ended.recv_timeout(pause.min(call.time_left()));
}
