//! Waiting, by those who look again and again.

use std::time::Duration;

use crate::cancel::Cancel;
use crate::store::{Call, StoreError, StoreErrorKind};
use crate::sync::channel;

/// That a watch is to go on.
pub(crate) fn check(cancel: &Cancel) -> Result<(), StoreError> {
    match cancel.is_cancelled() {
        true => Err(StoreError::new(StoreErrorKind::Interrupted, "the watch was cancelled")),
        false => Ok(()),
    }
}

/// At most until the call is cancelled or over.
pub(crate) fn wait(call: &Call, pause: Duration) {
    let (end, ended) = channel::bounded::<()>(0);
    let _hook = call.cancel().on_cancel(move || drop(end));
    let _ = ended.recv_timeout(pause.min(call.time_left()));
}
