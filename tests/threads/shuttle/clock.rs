//! A replacement for `src/util/clock/mod.rs` with the same types, over virtual time.

pub use crate::leasehold::util::clock::Moment;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::time;

/// The readings of both clocks at the same moment.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    pub local: Moment,
    pub wall: SystemTime,
}

impl Now {
    pub(crate) fn read() -> Self {
        Self { local: now(), wall: UNIX_EPOCH + time::now() }
    }
}

pub(crate) fn now() -> Moment {
    Moment::from_nanos(0) + time::now()
}
