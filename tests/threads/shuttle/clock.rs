//! What stands in for `src/util/clock/mod.rs`: its types, over the virtual time.

pub use crate::leasehold::util::clock::Moment;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::time;

/// Both clocks, read at one time.
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
