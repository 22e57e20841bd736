//! The view of all records, and the time for which ownership may rely on the view.

use super::row::{Learned, View};
use super::term_name::{ShardOwner, TermName};
use super::{FOREIGN, Group, GroupEffect, GroupKey, LEAVING_SECONDS, OwnWrite, OwnershipEnd};
use crate::election::timer::Timer;
use crate::store::record::VersionedRecord;
use crate::util::clock::Moment;

/// The number of own observations that the group remembers.
const OWN_WRITES: usize = 16;

impl Group {
    /// Handles the start of a watch whose request was sent at `sent_at`.
    ///
    /// The watch lists all records before the driver calls [`listed`](Self::listed).
    pub fn watch_opened(&mut self, now: Moment, sent_at: Moment) {
        let number = self.view.number + 1;
        self.view = View { number, is_open: true, is_listed: false, opened_at: sent_at, heard_at: now, ..self.view };
    }

    /// Handles a changed or deleted record. A deletion has no record.
    pub fn watched(&mut self, now: Moment, key: GroupKey, version: u64, seen: Option<VersionedRecord>) {
        self.view.heard_at = now;
        self.learn(now, key, (version, seen), None);
        // The listing does not report all earlier changes before its end.
        if let GroupKey::Slot(slot) = key
            && self.view.is_listed
        {
            let reported = &mut self.slots[slot].reported;
            *reported = version.max(*reported);
            self.advance(now);
        }
    }

    /// Handles a report that the watch is alive and has delivered every earlier event.
    pub fn heard(&mut self, now: Moment) {
        self.view.heard_at = now;
    }

    /// Handles the end of the listing: the watch has reported every record that exists.
    pub fn listed(&mut self, now: Moment) {
        if !self.view.is_open {
            return;
        }
        self.end_outdated(now);
        let keys = (0..self.slots.len()).map(GroupKey::Slot).chain((0..self.shards.len()).map(GroupKey::Shard));
        for key in keys {
            if self.row(key).watch != self.view.number {
                self.learn_absence(now, key, self.view.opened_at);
            }
        }
        self.view.is_listed = true;
        self.view.as_of = self.view.as_of.max(self.view.opened_at);
        self.is_dirty = true;
    }

    /// Handles the end of the watch.
    ///
    /// The versions that the watch has reported prove nothing about later writes, because a restored store uses versions
    /// again.
    pub fn watch_ended(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.reported = 0);
        self.view.is_open = false;
        self.view.is_listed = false;
    }

    /// Closes the watch and opens another one, whose listing is newer.
    pub(super) fn reopen(&mut self) {
        self.watch_ended();
        self.effects.push_back(GroupEffect::Reopen);
    }

    /// Handles an observation of a slot with this process's identity by the elector of the slot.
    ///
    /// `sent_at` is the send time of a write.
    pub fn own_slot_observed(&mut self, now: Moment, slot: usize, sent_at: Option<Moment>, observed: &VersionedRecord) {
        let row = &mut self.slots[slot].row;
        if row.is_lost(observed.version.saturating_sub(1), sent_at) {
            // A write gets a greater version than all versions known before. So the store was restored before the
            // write, and the watch may be silent.
            row.newest = (observed.version, now);
            self.restored(now);
        }
        self.slots[slot].row.know(now, observed.version);
        // Only the name of a new term can come from a read or an event.
        if sent_at.is_none() && self.member.is_some() {
            return;
        }
        let Some(name) = TermName::of_slot(slot, &observed.record) else { return };
        if self.own_writes.len() == OWN_WRITES {
            self.own_writes.pop_front();
        }
        self.own_writes.push_back(OwnWrite { version: observed.version, name, sent_at });
        self.advance(now);
    }

    /// Returns the moment until which ownership may rely on the view.
    ///
    /// The view is relied on for two thirds of a lease duration. Other members take a shard whose record was deleted one lease duration after they see the deletion.
    pub fn valid_until(&self) -> Moment {
        self.view.as_of + self.settings.lease_duration * 2 / 3
    }

    /// Moves `as_of` to the send time of the newest own write that the watch has reported.
    pub(super) fn advance(&mut self, now: Moment) {
        self.end_outdated(now);
        let Some(member) = &self.member else { return };
        let reported = self
            .own_writes
            .iter()
            .filter(|write| write.name == member.name && write.version <= self.slots[member.name.slot].reported)
            .filter_map(|write| write.sent_at);
        self.view.as_of = reported.max().unwrap_or_default().max(self.view.as_of);
    }

    /// Ends all ownership if the view is no longer current. A later report does not revive the ownership.
    pub(super) fn end_outdated(&mut self, now: Moment) {
        if self.member.is_some() && now >= self.valid_until() {
            self.end_all(now, OwnershipEnd::WatchLost);
        }
    }

    /// Ends all ownership if the view is no longer current, and reopens a silent watch.
    pub(super) fn check_view(&mut self, timer: &mut Timer) {
        let lease_duration = self.settings.lease_duration;
        if self.member.is_some() && timer.is_due(self.valid_until()) {
            self.end_outdated(timer.now());
        }
        if !self.view.is_open {
            return;
        }
        let reopen_at = match &self.member {
            Some(member) if self.view.is_listed => member.joined_at.max(self.view.as_of) + lease_duration / 3,
            _ => self.view.heard_at + lease_duration,
        };
        if timer.is_due(reopen_at) {
            self.reopen();
        }
    }

    /// Learns the content of a record from this watch or from a response to a request of its time.
    pub(super) fn learn(
        &mut self,
        now: Moment,
        key: GroupKey,
        content: (u64, Option<VersionedRecord>),
        asked_at: Option<Moment>,
    ) {
        let View { number, is_listed, opened_at, .. } = self.view;
        let listed_at = (!is_listed).then_some(opened_at);
        let learned = self.row(key).learn(now, number, content, asked_at, listed_at);
        self.after(now, key, learned);
    }

    /// Learns that a listing or a read, which was sent at `asked_at`, found no record.
    pub(super) fn learn_absence(&mut self, now: Moment, key: GroupKey, asked_at: Moment) {
        let (number, own) = (self.view.number, self.own_slot().map(GroupKey::Slot));
        let learned = self.row(key).learn_absence(now, number);
        self.after(now, key, learned);
        let row = self.row(key);
        if own == Some(key) && row.is_lost(0, Some(asked_at)) {
            // The store may be restored to a time before this process joined.
            row.newest = (0, now);
            self.restored(now);
        }
    }

    /// Handles a restore of the store to an older state.
    ///
    /// The members that lost their terms by the restore notice the loss within a lease duration.
    pub(super) fn restored(&mut self, now: Moment) {
        self.view.settled_at = now + self.settings.lease_duration;
        self.slots.iter_mut().for_each(|slot| slot.read = 0);
        if self.view.is_listed {
            self.reopen();
        }
    }

    /// Updates what depends on a changed row.
    fn after(&mut self, now: Moment, key: GroupKey, learned: Learned) {
        if let (GroupKey::Slot(slot), Learned::Renewed | Learned::Changed) = (key, learned) {
            self.slots[slot].has_renewed = learned == Learned::Renewed;
        }
        match (key, learned) {
            // The renewal of a slot changes no owner.
            (_, Learned::Nothing) | (GroupKey::Slot(_), Learned::Renewed) => return,
            (_, Learned::Restored) => self.restored(now),
            _ => {}
        }
        self.is_dirty = true;
        match key {
            GroupKey::Slot(slot) => {
                let row = &mut self.slots[slot];
                if row.row.since == now {
                    row.idle = row.idle.filter(|_| row.term(slot).is_some());
                }
                for shard in 0..self.shards.len() {
                    self.report_owner(shard);
                }
            }
            GroupKey::Shard(shard) => self.after_shard(now, shard),
        }
    }

    /// Notices that the last owner of a shard has announced that it leaves.
    fn notice_leaving(&mut self, shard: usize) {
        let Some(record) = self.shards[shard].row.seen.as_ref().map(|seen| &seen.record) else { return };
        if record.acquire_time.is_none() || record.lease_duration_seconds != Some(LEAVING_SECONDS) {
            return;
        }
        let acquire_time = record.acquire_time.clone();
        // A released record does not name the slot, and two terms may have begun at the same time.
        let is_last = |name: &TermName| acquire_time.as_ref().is_some_and(|time| time.as_str() == &*name.acquire_time);
        let slot = match (ShardOwner::of(record), &self.shards[shard].owner) {
            (ShardOwner::Term(name, _), _) => Some(name.slot),
            (_, Some(ShardOwner::Term(name, _))) if is_last(name) => Some(name.slot),
            _ => (0..self.slots.len()).find(|slot| self.slots[*slot].term(*slot).is_some_and(|name| is_last(&name))),
        };
        if let Some(slot) = slot {
            self.slots[slot].leaving = acquire_time;
        }
    }

    fn after_shard(&mut self, now: Moment, shard: usize) {
        self.notice_leaving(shard);
        let row = &mut self.shards[shard];
        let owner = row.row.seen.as_ref().map(|seen| ShardOwner::of(&seen.record));
        if row.owner == owner {
            return;
        }
        (row.is_given, row.seen_after) = (false, self.last_request);
        match &owner {
            Some(ShardOwner::Foreign) => {
                self.effects.push_back(GroupEffect::Damaged(GroupKey::Shard(shard), FOREIGN.to_owned()));
            }
            Some(ShardOwner::Term(name, _)) => {
                let slot = &mut self.slots[name.slot];
                (slot.took_at, slot.idle) = (now, None);
            }
            _ => {}
        }
        self.shards[shard].owner = owner;
        if !self.is_ours(shard) {
            self.end(now, shard, OwnershipEnd::RecordChanged);
            self.shards[shard].is_spent = false;
        }
        self.report_owner(shard);
    }

    /// Reports the owner of a shard if the owner has changed.
    pub(super) fn report_owner(&mut self, shard: usize) {
        let owner = self.owner(shard).map(|(_, identity)| identity);
        if owner != self.shards[shard].reported.as_deref() {
            let owner: Option<Box<str>> = owner.map(Box::from);
            self.shards[shard].reported.clone_from(&owner);
            self.effects.push_back(GroupEffect::Owner(shard, owner));
        }
    }
}
