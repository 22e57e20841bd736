//! Groups, which divide shards over processes.

pub(crate) mod builder;
pub(crate) mod core;
pub(crate) mod lease_group;
mod member;
pub(crate) mod shard;
pub(crate) mod status;
mod threads;

pub use builder::LeaseGroupBuilder;
pub use lease_group::{LeaseGroup, Shards};
pub use shard::{OwnershipEnded, Shard};
pub use status::{GroupMember, GroupStatus, GroupTransition, ShardStatus};

pub use crate::election::group::OwnershipEnd;

/// Converts the number of a shard or a slot, because a group has at most 1,024 shards and 64 slots.
fn number(index: usize) -> u32 {
    index as u32
}
