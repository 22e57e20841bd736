//! The settings of a group.

use std::time::Duration;

/// The settings of a group.
#[derive(Debug, Clone, Default)]
pub struct GroupSettings {
    /// The number of shards.
    pub shards: usize,
    /// The largest number of shards of one member, or `None` for no limit.
    pub max_shards: Option<usize>,
    /// The number of slots that this process campaigns for.
    pub max_members: usize,
    /// The identity of this process.
    pub identity: String,
    /// The lease duration of each slot.
    pub lease_duration: Duration,
    /// The delay between retries.
    pub retry_period: Duration,
    /// The time that a worker has to return before the shard moves.
    pub drain_timeout: Duration,
}

impl GroupSettings {
    /// Returns the longest pause of an idle member, a dropped shard or an unreadable slot.
    pub fn longest_pause(&self) -> Duration {
        self.lease_duration * 4
    }
}
