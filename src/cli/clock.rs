//! What time it is, by both clocks.

use std::time::{Duration, SystemTime};

/// A moment, by both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventTime {
    /// By the local clock, which counts suspend as leases do: it alone decides.
    pub local: Duration,
    /// By the wall clock, which is only shown.
    pub wall: SystemTime,
}

impl EventTime {
    pub fn now() -> Self {
        Self { local: local(), wall: SystemTime::now() }
    }

    /// An earlier moment, at `local`.
    pub fn back_to(self, local: Duration) -> Self {
        let wall = self.wall.checked_sub(self.local.saturating_sub(local));
        Self { local, wall: wall.unwrap_or(self.wall) }
    }
}

/// The time since the machine was started.
pub fn local() -> Duration {
    Duration::from_nanos(crate::clock::now().as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_moment_is_earlier_by_both_clocks() {
        let now = EventTime { local: Duration::from_secs(9), wall: SystemTime::UNIX_EPOCH + Duration::from_secs(90) };
        let then = now.back_to(Duration::from_secs(7));
        assert_eq!(then.local, Duration::from_secs(7));
        assert_eq!(then.wall, SystemTime::UNIX_EPOCH + Duration::from_secs(88));
        assert!(EventTime::now().local > Duration::ZERO);
    }
}
