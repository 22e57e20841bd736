//! The newest known content of each record of a group.

use std::time::Duration;

use super::assign::ShardPlace;
use super::settings::GroupSettings;
use super::term_name::{ShardOwner, TermName};
use crate::store::record::{LeaderElectionRecord, MicroTime, VersionedRecord};
use crate::util::clock::Moment;

/// The newest known content of one record.
#[derive(Debug, Clone, Default)]
pub(super) struct Row {
    /// The record, or `None` if there is no record.
    pub(super) seen: Option<VersionedRecord>,
    /// The newest known version. Zero if the last listing did not contain the record.
    pub(super) version: u64,
    /// The number of the watch that confirmed the content.
    pub(super) watch: u64,
    /// When this member first saw this version.
    pub(super) version_since: Moment,
    /// The newest version that any response or event has contained, and when this member first saw the version.
    pub(super) newest: (u64, Moment),
    /// When this member first saw this record.
    pub(super) since: Moment,
    /// When this member first saw the `uid` of the record, or the absence of the record.
    pub(super) uid_since: Moment,
    /// When the next request may be sent.
    pub(super) retry_at: Moment,
    /// `true` after a failed request, if the record must be read before the next write.
    pub(super) must_read: bool,
    /// The reason why the last read could not use the record.
    pub(super) fault: Option<String>,
}

/// The effect of an observation on a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Learned {
    Nothing,
    /// Only the `renewTime` and the version have changed.
    Renewed,
    Changed,
    /// The version went back or belongs to another record, so the store was restored.
    Restored,
}

/// The slot of a member.
#[derive(Debug, Clone, Default)]
pub(super) struct SlotRow {
    pub(super) row: Row,
    /// The newest version that the watch has reported since its listing.
    pub(super) reported: u64,
    /// The number of the newest answered request for the slot.
    pub(super) read: u64,
    /// The end of the time for which the member is idle, and the length of this time.
    pub(super) idle: Option<(Moment, Duration)>,
    /// When the member last took a shard.
    pub(super) took_at: Moment,
    /// When this process may campaign for the slot again.
    pub(super) campaign_at: Moment,
    /// The `acquireTime` of the last term whose member has announced that it leaves.
    pub(super) leaving: Option<MicroTime>,
    /// `true` if the slot has expired, as this process observes it.
    pub(super) has_expired: bool,
    /// `true` if this process has observed a renewal of the current term.
    pub(super) has_renewed: bool,
}

/// A shard, and the use of the shard by this process.
#[derive(Debug, Clone, Default)]
pub(super) struct ShardRow {
    pub(super) row: Row,
    pub(super) owner: Option<ShardOwner>,
    /// The number of the last request before this process first saw the owner.
    ///
    /// Moments do not order a request and an event, because a clock may return the same moment twice.
    pub(super) seen_after: u64,
    /// The member that is to take the free shard, and the start of this offer.
    pub(super) offer: Option<(usize, Moment)>,
    /// The work of this process on the shard, until the worker has returned.
    pub(super) work: Option<ShardWork>,
    /// `true` if this process must empty the record before the process owns the shard again.
    pub(super) is_spent: bool,
    /// `true` while the record is as this process emptied it.
    pub(super) is_given: bool,
    /// The pause after the last worker that returned by itself, and the end of the pause.
    pub(super) pause: Duration,
    pub(super) paused_until: Moment,
    /// The owner that the last [`GroupEffect::Owner`](super::GroupEffect::Owner) reported.
    pub(super) reported: Option<Box<str>>,
}

/// The work of this process on one shard.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ShardWork {
    /// When the worker was asked to return.
    pub(super) wanted_at: Option<Moment>,
    /// When the ownership ended.
    pub(super) ended_at: Option<Moment>,
}

/// The watch of all records.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    /// The number of the watch. Each watch starts with a listing.
    pub(super) number: u64,
    pub(super) is_open: bool,
    /// `true` once this watch has reported every record.
    pub(super) is_listed: bool,
    pub(super) opened_at: Moment,
    /// Every change before this moment has been reported.
    pub(super) as_of: Moment,
    /// When the watch last reported an event.
    pub(super) heard_at: Moment,
    /// No shard is taken before this moment, because the store was restored.
    pub(super) settled_at: Moment,
}

impl Row {
    pub(super) fn holder(&self) -> Option<&str> {
        self.seen.as_ref()?.record.holder()
    }

    /// Learns the content `seen` of `version`, which the watch number `watch` or a request of its time reported.
    ///
    /// `asked_at` is the send time of a read, and `listed_at` is the send time of a listing.
    pub(super) fn learn(
        &mut self,
        now: Moment,
        watch: u64,
        (version, seen): (u64, Option<VersionedRecord>),
        asked_at: Option<Moment>,
        listed_at: Option<Moment>,
    ) -> Learned {
        let is_older = version < self.version;
        let is_later = |at: Option<Moment>| at.is_some_and(|at| at > self.version_since);
        let is_lost = self.is_lost(version, asked_at.max(listed_at));
        if is_older && !is_later(asked_at) && (self.watch >= watch || !is_later(listed_at)) {
            // A response has overtaken the listing, unless the store was restored at the same time. A read decides.
            self.must_read |= self.watch < watch;
            self.watch = watch;
            return Learned::Nothing;
        }
        self.watch = watch;
        self.fault = None;
        self.must_read &= version == self.version && asked_at.is_none();
        let has_changed = self.seen.as_ref().map(|it| &it.record) != seen.as_ref().map(|it| &it.record);
        if version == self.version && !has_changed && !is_lost {
            return Learned::Nothing;
        }
        let uid = |it: &Option<VersionedRecord>| it.as_ref().map(|it| it.record.uid.clone());
        if uid(&self.seen) != uid(&seen) {
            self.uid_since = now;
        }
        if has_changed {
            self.since = now;
        }
        self.retry_at = Moment::default();
        let is_renewal = self.seen.as_ref().zip(seen.as_ref()).is_some_and(|(old, new)| {
            new.record == LeaderElectionRecord { renew_time: new.record.renew_time.clone(), ..old.record.clone() }
        });
        // A restored store uses versions again.
        let is_restored = version <= self.version || is_lost;
        self.version = version;
        self.version_since = now;
        self.seen = seen;
        if is_restored {
            self.newest = (version, now);
            return Learned::Restored;
        }
        self.know(now, version);
        if is_renewal { Learned::Renewed } else { Learned::Changed }
    }

    /// Returns `true` if the store has lost a known version.
    ///
    /// A request of `asked_at` found or wrote only `version`, although a newer version was already known. Zero is no record.
    pub(super) fn is_lost(&self, version: u64, asked_at: Option<Moment>) -> bool {
        version < self.newest.0 && asked_at > Some(self.newest.1)
    }

    /// Remembers that the store has stored `version` of the record.
    pub(super) fn know(&mut self, now: Moment, version: u64) {
        if version > self.newest.0 {
            self.newest = (version, now);
        }
    }

    /// Learns that a listing or a read found no record.
    pub(super) fn learn_absence(&mut self, now: Moment, watch: u64) -> Learned {
        self.watch = watch;
        self.fault = None;
        self.must_read = false;
        if self.seen.is_none() && self.since != Moment::default() {
            return Learned::Nothing;
        }
        (self.seen, self.version) = (None, 0);
        (self.since, self.uid_since, self.version_since) = (now, now, now);
        Learned::Changed
    }
}

impl SlotRow {
    /// Returns `true` if the member takes part in the division.
    ///
    /// Its term is current, it divides the shards by these settings, and it has not announced that it leaves.
    pub(super) fn is_divided(&self, settings: &GroupSettings) -> bool {
        let term = self.row.seen.as_ref().filter(|seen| seen.record.holder().is_some() && !self.has_expired);
        term.is_some_and(|seen| seen.record.acquire_time != self.leaving) && self.other_division(settings).is_none()
    }

    /// Returns the number of shards of the member and its largest number per member, if one of them differs.
    pub(super) fn other_division(&self, settings: &GroupSettings) -> Option<(u32, Option<u32>)> {
        let seen = self.row.seen.as_ref().filter(|seen| seen.record.holder().is_some() && !self.has_expired)?;
        let (shards, max_shards) = (seen.notes.term.shards?, seen.notes.term.max_shards);
        let number = |number: Option<u32>| number.and_then(|number| usize::try_from(number).ok());
        let is_same = number(Some(shards)) == Some(settings.shards) && number(max_shards) == settings.max_shards;
        (!is_same).then_some((shards, max_shards))
    }

    /// Returns the current term of the slot.
    pub(super) fn term(&self, slot: usize) -> Option<TermName> {
        TermName::of_slot(slot, &self.row.seen.as_ref()?.record)
    }

    /// Returns the moment at which the slot expires, or `None` if the slot has no holder.
    pub(super) fn expires_at(&self, otherwise: Duration) -> Option<Moment> {
        let record = &self.row.seen.as_ref()?.record;
        record.holder()?;
        Some(self.row.since + record.lease_duration_or(otherwise))
    }

    /// Returns the moment from which the slot shows that the term `name` is over, or `None` if the term is current.
    ///
    /// After a deletion, the term may be valid for up to a lease duration. A new `uid` shows a deletion. A slot that was
    /// created and deleted between two listings seems never to have existed, so the time since `named_since` counts,
    /// when the shard record that names the term was first seen.
    pub(super) fn over_at(&self, name: &TermName, named_since: Moment, lease_duration: Duration) -> Option<Moment> {
        let seen = self.row.seen.as_ref().map(|seen| &seen.record);
        match seen {
            Some(record) if TermName::uid(record) == name.uid => {
                let is_current = TermName::of_slot(name.slot, record).is_some_and(|term| term == *name);
                (!is_current).then_some(Moment::default())
            }
            _ => Some(self.row.uid_since.max(named_since) + lease_duration),
        }
    }
}

impl ShardRow {
    /// Returns `true` if this process owns the shard, apart from the validity of its term.
    pub(super) fn is_owned(&self) -> bool {
        self.work.is_some_and(|work| work.ended_at.is_none())
    }

    /// Returns the number of owners that the shard has had.
    pub(super) fn moves(&self) -> i32 {
        self.row.seen.as_ref().and_then(|seen| seen.record.lease_transitions).unwrap_or_default()
    }

    /// Returns the place of the shard if `current` returns `true` for the terms that are not over.
    pub(super) fn place(&self, current: impl Fn(&TermName) -> bool) -> ShardPlace {
        match &self.owner {
            Some(ShardOwner::Foreign) => ShardPlace::Excluded,
            Some(ShardOwner::Term(name, _)) if current(name) => ShardPlace::Owned(name.slot),
            _ => ShardPlace::Free,
        }
    }
}
