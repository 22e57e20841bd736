//! The status and the transitions of a group.

use std::fmt;

use crate::election::group::OwnershipEnd;
use crate::util::one_line::OneLine;

/// The state of a group, as this process last observed the group.
///
/// The `Display` form is text for people, and may change.
///
/// # Examples
///
/// ```
/// use leasehold::group::LeaseGroup;
/// use leasehold::store::MemoryStore;
///
/// let group = LeaseGroup::builder("ingest").shards(4).start_on(MemoryStore::new())?;
/// assert_eq!(group.status().shards.len(), 4);
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupStatus {
    /// The name of the group.
    pub name: String,
    /// The identity of this process.
    pub identity: String,
    /// The slot of this process, or `None` if this process is not a member.
    pub own_slot: Option<u32>,
    /// `true` if a watch is open and has reported all records.
    pub is_current: bool,
    /// The members, ordered by slot.
    pub members: Vec<GroupMember>,
    /// The shards, ordered by index.
    pub shards: Vec<ShardStatus>,
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupMember {
    /// The number of the member's slot. Slot numbers have gaps.
    pub slot: u32,
    /// The identity of the member.
    pub identity: String,
    /// The number of shards that the member publishes, or `None` if it is unknown.
    pub shards: Option<u32>,
}

/// The state of one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardStatus {
    /// The number of the shard.
    pub index: u32,
    /// The slot of the owner, or `None` without an owner.
    pub slot: Option<u32>,
    /// The identity of the owner, or `None` without an owner.
    pub owner: Option<String>,
    /// The reason why no member takes the shard, or `None` without a fault.
    pub fault: Option<String>,
}

/// A change of the owner of a shard. Joining and leaving members cause no transition.
///
/// # Examples
///
/// ```no_run
/// use leasehold::group::{GroupTransition, LeaseGroup};
///
/// let group = LeaseGroup::builder("ingest").start()?;
/// for transition in group.transitions() {
///     if let GroupTransition::NewOwner { shard, identity } = transition {
///         println!("{identity} owns shard {shard}");
///     }
/// }
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupTransition {
    /// A new owner of the shard, which may be this process.
    NewOwner {
        /// The number of the shard.
        shard: u32,
        /// The identity of the owner.
        identity: String,
    },
    /// The end of an ownership. A new owner may follow.
    NoOwner {
        /// The number of the shard.
        shard: u32,
    },
    /// The start of an ownership by this process.
    ShardStarted {
        /// The number of the shard.
        shard: u32,
        /// The fencing token, which grows with every ownership of the shard.
        fencing_token: u64,
    },
    /// The end of an ownership by this process.
    ShardEnded {
        /// The number of the shard.
        shard: u32,
        /// The reason for the end.
        reason: OwnershipEnd,
    },
}

impl fmt::Display for GroupStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let view = if self.is_current { "" } else { ", not current" };
        writeln!(
            f,
            "group {}: {} shards, {} members{view}",
            OneLine(&self.name),
            self.shards.len(),
            self.members.len()
        )?;
        for GroupMember { slot, identity, .. } in &self.members {
            let owned = self.shards.iter().filter(|shard| shard.slot == Some(*slot));
            let owned: Vec<_> = owned.map(|shard| format!(" {}", shard.index)).collect();
            let own = if self.own_slot == Some(*slot) { " (this process)" } else { "" };
            writeln!(f, "  member {slot} {identity:?}{own}: {} shards:{}", owned.len(), owned.concat())?;
        }
        for ShardStatus { index, owner, fault, .. } in &self.shards {
            match (fault, owner) {
                (Some(fault), _) => writeln!(f, "  shard {index} is left alone: {fault:?}")?,
                (None, None) => writeln!(f, "  shard {index} has no owner")?,
                (None, Some(_)) => {}
            }
        }
        Ok(())
    }
}
