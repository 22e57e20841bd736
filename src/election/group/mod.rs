//! The protocol of a group as a state machine without I/O, threads or a clock.
//!
//! A group divides shards over members. Each member holds a slot: an ordinary lease with an ordinary election. A shard
//! record names the term of the member that owns the shard. A driver reports the events of a watch of all records,
//! performs the requests that [`Group::next`] returns, and carries out the [effects](GroupEffect).
//! `docs/internals/GROUPS.md` has the rules.

use std::collections::VecDeque;
use std::time::Duration;

use crate::election::deadline::Deadline;
use crate::election::timer::Timer;
use crate::election::{Operation, Step};
use crate::store::StoreError;
use crate::store::record::VersionedRecord;
use crate::util::clock::{Moment, Now};
use crate::util::sync::Arc;

pub mod assign;
mod division;
mod membership;
mod requests;
mod row;
mod settings;
pub mod term_name;
#[cfg(test)]
mod tests;
mod view;

use row::{ShardRow, SlotRow, View};
pub use settings::GroupSettings;
pub use term_name::MAX_MEMBERS;
use term_name::{ShardOwner, TermName};

/// The largest number of shards.
pub const MAX_SHARDS: usize = 1024;

/// The fault of a foreign record.
const FOREIGN: &str = "the record names a holder that is not a member of a group";

/// The published duration of a shard. An ordinary candidate never takes over a record with such a duration.
const SHARD_SECONDS: i32 = i32::MAX;

/// The published duration of a shard whose owner leaves the group.
const LEAVING_SECONDS: i32 = SHARD_SECONDS - 1;

/// A record of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupKey {
    /// The record of a slot.
    Slot(usize),
    /// The record of a shard.
    Shard(usize),
}

/// A request to the store.
#[derive(Debug, Clone)]
pub struct GroupRequest {
    /// The number of the request.
    pub id: u64,
    /// The record.
    pub key: GroupKey,
    /// The operation.
    pub operation: GroupOperation,
    /// The longest time that the request may take.
    pub timeout: Duration,
}

/// The operation of a request. A read is linearizable.
pub type GroupOperation = Operation<()>;

/// The stored record after a read or a write, or an error.
///
/// After an error, a write is in doubt.
pub type GroupResponse = Result<Option<VersionedRecord>, StoreError>;

/// The reason why the ownership of a shard ended.
///
/// # Examples
///
/// ```
/// assert_eq!(leasehold::group::OwnershipEnd::TermEnded.to_string(), "the term of the member ended");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OwnershipEnd {
    /// The worker returned, after a request or by itself.
    Returned,
    /// The worker did not return within the drain timeout.
    DrainTimeout,
    /// The term of the member ended.
    TermEnded,
    /// The watch reported nothing current for two thirds of the lease duration.
    WatchLost,
    /// The record no longer names this member, because a client changed or deleted the record.
    RecordChanged,
}

/// An effect that the driver carries out.
#[derive(Debug, Clone)]
pub enum GroupEffect {
    /// This process owns the shard with this fencing token.
    Started(usize, u64),
    /// The worker of the shard must return.
    Recalled(usize),
    /// The process no longer owns the shard.
    Ended(usize, OwnershipEnd),
    /// The observed owner of the shard is the member with this identity, or no member.
    Owner(usize, Option<Box<str>>),
    /// The record is unreadable or foreign.
    Damaged(GroupKey, String),
    /// Campaign for this slot once, and call [`Group::joined`] or [`Group::not_joined`].
    Campaign(usize),
    /// All slots are taken, so this process is a spare.
    Spare,
    /// The workers of these shards have not returned since the last term, so this process does not campaign.
    Blocked(Vec<usize>),
    /// All workers have returned. Release the slot, and call [`Group::left`].
    MayLeave,
    /// Close the watch and open another one.
    Reopen,
    /// The member of this slot takes no shards, so it is passed over for a while.
    Idle(usize),
    /// The member of this slot uses this other number of shards, so this process must end.
    OtherDivision {
        /// The slot of the member.
        slot: usize,
        /// The number of shards of the member.
        shards: u32,
        /// The largest number of shards of one member, or `None` for no limit.
        max_shards: Option<u32>,
    },
}

/// The state of a group, as one process sees the group.
#[derive(Debug, Clone, Default)]
pub struct Group {
    settings: Arc<GroupSettings>,
    slots: Vec<SlotRow>,
    shards: Vec<ShardRow>,
    /// The slot that each shard belongs to.
    targets: Vec<Option<usize>>,
    /// `true` if `targets` must be computed again.
    is_dirty: bool,
    /// When `targets` may change without an event.
    assign_at: Moment,
    view: View,
    /// When the process began to leave the group, or `None` while the process is to be a member.
    leaving_since: Option<Moment>,
    campaign: Option<usize>,
    member: Option<Membership>,
    /// The last term of this process, after its end.
    last_term: Option<TermName>,
    /// `true` after the effect [`GroupEffect::Spare`].
    is_spare: bool,
    /// Since when a process whose workers must return has seen no member.
    deserted_since: Option<Moment>,
    own_writes: VecDeque<OwnWrite>,
    in_flight: Option<GroupInFlight>,
    last_request: u64,
    paused_until: Moment,
    /// The last `renewTime`, in microseconds since 1970.
    last_stamp: u64,
    effects: VecDeque<GroupEffect>,
}

/// The membership of this process.
#[derive(Debug, Clone)]
struct Membership {
    name: TermName,
    deadline: Arc<Deadline>,
    joined_at: Moment,
    comparison: Comparison,
    /// `true` after the effect [`GroupEffect::MayLeave`].
    may_leave: bool,
}

/// The comparison of this process's number of shards with the numbers of the other members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    /// Waits for a listing from after the beginning of the term, and for a sign of life of members with other numbers.
    Pending,
    Passed,
    Failed,
}

/// An observation of this process's own slot by the elector of the slot.
#[derive(Debug, Clone)]
struct OwnWrite {
    version: u64,
    name: TermName,
    /// When the write was sent, or `None` for a read or an event.
    sent_at: Option<Moment>,
}

#[derive(Debug, Clone)]
struct GroupInFlight {
    id: u64,
    key: GroupKey,
    is_read: bool,
    /// The number of the watch in which the request was sent.
    watch: u64,
    /// The known version of the record when the request was sent.
    version: u64,
    sent_at: Moment,
}

impl Group {
    /// Creates a group without observations, which only observes.
    pub fn new(settings: impl Into<Arc<GroupSettings>>) -> Self {
        let settings = settings.into();
        Self {
            slots: vec![SlotRow::default(); MAX_MEMBERS],
            shards: vec![ShardRow::default(); settings.shards],
            targets: vec![None; settings.shards],
            settings,
            is_dirty: true,
            leaving_since: Some(Moment::default()),
            ..Self::default()
        }
    }

    /// Returns the next effect, if there is one.
    pub fn effect(&mut self) -> Option<GroupEffect> {
        self.effects.pop_front()
    }

    /// Returns the next step. The driver carries out the effects before the step.
    pub fn next(&mut self, now: Now) -> Step<GroupRequest> {
        let mut timer = Timer::new(now.local, now.local + self.settings.lease_duration);
        self.check_slots(&mut timer);
        self.check_term(&mut timer);
        self.check_view(&mut timer);
        self.compare_shards();
        self.check_drains(&mut timer);
        self.divide(&mut timer);
        self.start_and_move(&mut timer);
        self.join_or_leave(&mut timer);
        match self.request(&mut timer, now) {
            Some(request) => Step::Send(request),
            None => Step::Wait(timer.wake()),
        }
    }

    /// Returns the slot and the identity of the member that owns the shard, as last observed.
    pub fn owner(&self, shard: usize) -> Option<(usize, &str)> {
        match self.shards.get(shard)?.owner.as_ref()? {
            ShardOwner::Term(name, identity) if self.is_current(name) && !self.slots[name.slot].has_expired => {
                Some((name.slot, identity))
            }
            _ => None,
        }
    }

    /// Returns the identity of the member in the slot, as last observed.
    ///
    /// An expired slot has no member.
    pub fn member(&self, slot: usize) -> Option<&str> {
        self.slots.get(slot).filter(|row| !row.has_expired)?.row.holder()
    }

    /// Returns the number of shards that the member in the slot has published.
    pub fn published_shards(&self, slot: usize) -> Option<usize> {
        let shards = self.slots.get(slot)?.row.seen.as_ref()?.notes.term.shards?;
        usize::try_from(shards).ok()
    }

    /// Returns the slot of this process, if this process is a member.
    pub fn own_slot(&self) -> Option<usize> {
        self.member.as_ref().map(|member| member.name.slot)
    }

    /// Returns the validity of this process's term, if this process is a member.
    pub fn deadline(&self) -> Option<&Arc<Deadline>> {
        self.member.as_ref().map(|member| &member.deadline)
    }

    /// Returns the reason why the shard is left alone.
    ///
    /// The record of the shard is unreadable or foreign, or the slot of its owner is unreadable.
    pub fn fault(&self, shard: usize) -> Option<&str> {
        let row = self.shards.get(shard)?;
        match &row.owner {
            Some(ShardOwner::Foreign) => Some(FOREIGN),
            Some(ShardOwner::Term(name, _)) => row.row.fault.as_deref().or(self.slots[name.slot].row.fault.as_deref()),
            _ => row.row.fault.as_deref(),
        }
    }

    /// Returns `true` if every record that exists has been listed.
    pub fn is_listed(&self) -> bool {
        self.view.is_listed
    }

    /// Replaces the deadline of the member, for checks that copy a group.
    #[cfg(any(test, feature = "_internals"))]
    pub fn set_deadline(&mut self, deadline: Arc<Deadline>) {
        self.member.iter_mut().for_each(|member| member.deadline = Arc::clone(&deadline));
    }

    /// Returns a text of the state between two inputs, for checks.
    ///
    /// Groups with equal texts behave alike.
    #[cfg(any(test, feature = "_internals"))]
    pub fn fingerprint(&self) -> String {
        let Self { targets, view, leaving_since, campaign, is_spare, deserted_since, paused_until, last_term, .. } =
            self;
        let (mut slots, mut shards) = (self.slots[..self.settings.max_members].to_vec(), self.shards.clone());
        let is_newer = |request: u64| shards.iter().map(|row| request > row.seen_after).collect::<Vec<_>>();
        let reads: Vec<_> = slots.iter().map(|row| is_newer(row.read)).collect();
        let in_flight = self.in_flight.as_ref().map(|it| {
            let sent_at = it.is_read.then_some(it.sent_at);
            (
                it.key,
                it.is_read,
                it.watch == view.number,
                self.row_of(it.key).version > it.version,
                sent_at,
                is_newer(it.id),
            )
        });
        slots.iter_mut().for_each(|row| row.read = 0);
        shards.iter_mut().for_each(|row| row.seen_after = 0);
        let member = self.member.as_ref().map(|it| (&it.name, it.comparison, it.may_leave));
        let joined_at = self.member.as_ref().map_or(view.as_of, |it| it.joined_at.max(view.as_of));
        let own_writes: Vec<_> = self.own_writes.iter().filter(|it| it.sent_at > Some(view.as_of)).collect();
        format!(
            "{slots:?} {shards:?} {targets:?} {view:?} {campaign:?} {is_spare} {last_term:?} {member:?} {own_writes:?} \
             leaving_since: {leaving_since:?} deserted_since: {deserted_since:?} paused_until: {paused_until:?} joined_at: {joined_at:?} {in_flight:?} {reads:?}"
        )
    }

    /// Returns `true` if the slot of the term shows no other term.
    fn is_current(&self, name: &TermName) -> bool {
        self.slots[name.slot].over_at(name, Moment::default(), self.settings.lease_duration).is_none()
    }

    /// Returns `true` if the record of the shard names the term of this process.
    fn is_ours(&self, shard: usize) -> bool {
        let own = self.member.as_ref().map(|member| &member.name);
        matches!(&self.shards[shard].owner, Some(ShardOwner::Term(name, _)) if own == Some(name))
    }

    /// Returns `true` if the term of this process is valid.
    fn is_valid(&self, now: Moment) -> bool {
        self.member.as_ref().is_some_and(|member| member.deadline.is_valid(now))
    }

    /// Returns `true` if this process may take shards.
    fn may_own(&self, now: Moment) -> bool {
        let has_passed = self.member.as_ref().is_some_and(|member| member.comparison == Comparison::Passed);
        has_passed
            && self.is_valid(now)
            && self.view.is_listed
            && now < self.valid_until()
            && self.leaving_since.is_none()
    }

    /// Ends the ownership of a shard, if this process owns the shard.
    fn end(&mut self, now: Moment, shard: usize, reason: OwnershipEnd) {
        let row = &mut self.shards[shard];
        if let Some(work) = row.work.as_mut().filter(|work| work.ended_at.is_none()) {
            work.ended_at = Some(now);
            row.is_spent = true;
            self.effects.push_back(GroupEffect::Ended(shard, reason));
        }
    }

    fn end_all(&mut self, now: Moment, reason: OwnershipEnd) {
        (0..self.shards.len()).for_each(|shard| self.end(now, shard, reason));
    }
}

impl std::fmt::Display for OwnershipEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Returned => "the worker returned",
            Self::DrainTimeout => "the worker did not return within the drain timeout",
            Self::TermEnded => "the term of the member ended",
            Self::WatchLost => "the watch is not current",
            Self::RecordChanged => "another client changed or deleted the record",
        })
    }
}
