//! The requests of a group: one at a time, the most urgent first.

use std::time::Duration;

use super::assign::mix;
use super::row::Row;
use super::term_name::ShardOwner;
use super::{
    Group, GroupEffect, GroupInFlight, GroupKey, GroupOperation, GroupRequest, GroupResponse, LEAVING_SECONDS,
    SHARD_SECONDS,
};
use crate::election::timer::Timer;
use crate::store::record::{LeaderElectionRecord, MicroTime, VersionedRecord, unix_micros};
use crate::store::{StoreError, StoreErrorKind};
use crate::util::backoff::requested_pause;
use crate::util::clock::{Moment, Now};

impl Group {
    /// Handles the response to the request `id`.
    pub fn on_response(&mut self, now: Moment, id: u64, response: GroupResponse) {
        let Some(sent) = self.in_flight.take_if(|sent| sent.id == id) else { return };
        let GroupInFlight { key, is_read, watch, sent_at, .. } = sent;
        let seen = match response {
            Ok(seen) => seen,
            Err(error) => return self.failed(now, &sent, &error),
        };
        // A response to a request of an earlier watch is older than the listing, which may have found a deletion.
        if watch != self.view.number {
            return seen.iter().for_each(|seen| self.row(key).know(now, seen.version));
        }
        match seen {
            Some(seen) => self.learn(now, key, (seen.version, Some(seen)), is_read.then_some(sent_at)),
            None => self.learn_absence(now, key, sent_at),
        }
        match key {
            GroupKey::Slot(slot) if !self.row(key).must_read => self.slots[slot].read = id,
            GroupKey::Shard(shard) if !is_read => {
                let row = &mut self.shards[shard];
                row.is_given = row.owner == Some(ShardOwner::Released);
            }
            _ => {}
        }
    }

    fn failed(&mut self, now: Moment, sent: &GroupInFlight, error: &StoreError) {
        let key = sent.key;
        let retry_period = self.settings.retry_period;
        let lease_duration = self.settings.lease_duration;
        let row = self.row(key);
        if error.kind().is_conflict() && row.version > sent.version {
            // The watch has reported a newer version before the response.
            return;
        }
        row.must_read = true;
        if error.kind().is_conflict() {
            // The watch usually reports the newer version before the read is due.
            row.retry_at = now + retry_period / 8;
            return;
        }
        if error.kind() == StoreErrorKind::Malformed && sent.is_read {
            row.retry_at = now + lease_duration;
            let text = error.to_string();
            if row.fault.replace(text.clone()).is_none() {
                self.effects.push_back(GroupEffect::Damaged(key, text));
            }
            return;
        }
        // A state machine without random numbers gives the same result to the same calls.
        let random = mix(self.identity_hash() as u64 ^ now.as_nanos()) as f64 / u64::MAX as f64;
        self.paused_until = now + requested_pause(error.retry_after(), lease_duration, random).max(retry_period);
    }

    /// Shortens the pause of a member that must empty a shard, if another attempt would not fit into its term.
    fn shorten_pause(&mut self, timer: &mut Timer) {
        let Some(member) = &self.member else { return };
        let left = member.deadline.remaining(timer.now());
        let does_fit = self.paused_until.since(timer.now()) + self.request_timeout() <= left;
        if !does_fit && (0..self.shards.len()).any(|shard| self.must_empty(timer, shard)) {
            // Without a minimum, the pauses would shrink towards zero as the term ends.
            let pause = (left / 2).max(self.settings.retry_period / 8);
            self.paused_until = self.paused_until.min(timer.now() + pause);
        }
    }

    fn request_timeout(&self) -> Duration {
        self.settings.lease_duration / 3
    }

    /// Returns the next request, if one is due and none is in flight.
    pub(super) fn request(&mut self, timer: &mut Timer, now: Now) -> Option<GroupRequest> {
        let may_send = self.leaving_since.is_none() || self.member.is_some();
        self.shorten_pause(timer);
        if self.in_flight.is_some() || !timer.is_due(self.paused_until) || !may_send {
            return None;
        }
        let (key, operation) = self
            .release(timer, now)
            .or_else(|| self.announce(timer, now))
            .or_else(|| self.take(timer, now))
            .or_else(|| self.read(timer))
            .or_else(|| self.retire(timer, now))
            .or_else(|| self.create(timer, now))?;
        self.last_request += 1;
        let (id, is_read) = (self.last_request, matches!(operation, GroupOperation::Get(())));
        let (watch, version) = (self.view.number, self.row(key).version);
        self.in_flight = Some(GroupInFlight { id, key, is_read, watch, version, sent_at: now.local });
        Some(GroupRequest { id, key, operation, timeout: self.request_timeout() })
    }

    /// Empties a shard record after the last worker has returned.
    fn release(&mut self, timer: &mut Timer, now: Now) -> Option<(GroupKey, GroupOperation)> {
        let shard = (0..self.shards.len())
            .find(|shard| self.must_empty(timer, *shard) && self.shards[*shard].row.is_ready(timer))?;
        self.empty(now, GroupKey::Shard(shard))
    }

    /// Returns `true` if this member must empty the record of the shard.
    fn must_empty(&self, timer: &mut Timer, shard: usize) -> bool {
        let row = &self.shards[shard];
        // The release of the slot frees all shards with one write, unless a worker takes long to return.
        let is_early = self.leaving_since.is_some_and(|at| !timer.is_due(at + self.settings.retry_period));
        let mut has_passed = |at| timer.is_due(at + self.settings.lease_duration);
        let has_returned = row.work.is_none_or(|work| work.ended_at.is_some_and(&mut has_passed));
        row.is_spent && has_returned && !is_early && self.is_valid(timer.now()) && self.is_ours(shard)
    }

    /// Announces in a shard that this member leaves, so that the other members offer no shards to this member.
    ///
    /// A release announces the same. A member whose workers return soon needs no announcement.
    fn announce(&mut self, timer: &mut Timer, now: Now) -> Option<(GroupKey, GroupOperation)> {
        let name = &self.member.as_ref()?.name;
        let announced = self.slots[name.slot].leaving.as_ref();
        let has_announced = announced.is_some_and(|time| time.as_str() == &*name.acquire_time);
        let is_due = self.leaving_since.is_some_and(|at| timer.is_due(at + self.settings.retry_period));
        if has_announced || !is_due || !self.is_valid(timer.now()) {
            return None;
        }
        let shard = (0..self.shards.len())
            .find(|shard| self.is_ours(*shard) && self.row_of(GroupKey::Shard(*shard)).is_ready(timer))?;
        self.write(now, GroupKey::Shard(shard), |base| base)
    }

    /// Takes a free shard that belongs to this member.
    fn take(&mut self, timer: &mut Timer, now: Now) -> Option<(GroupKey, GroupOperation)> {
        if !self.may_own(timer.now()) {
            return None;
        }
        let name = self.member.as_ref()?.name.clone();
        let shard = (0..self.shards.len()).find(|shard| {
            let row = &self.shards[*shard];
            let is_confirmed = match &row.owner {
                Some(ShardOwner::Term(term, _)) => self.slots[term.slot].read > row.seen_after,
                _ => true,
            };
            self.targets[*shard] == Some(name.slot)
                && row.work.is_none()
                && timer.is_due(row.paused_until)
                && is_confirmed
                && row.row.is_ready(timer)
                && self.free_from(*shard).is_some_and(|at| timer.is_due(at))
        })?;
        let holder = name.to_holder(&self.settings.identity);
        self.write(now, GroupKey::Shard(shard), |base| LeaderElectionRecord {
            holder_identity: Some(holder),
            acquire_time: Some(MicroTime::from_text(name.acquire_time)),
            lease_transitions: Some(base.lease_transitions.unwrap_or(0).max(0).saturating_add(1)),
            ..base
        })
    }

    /// Reads a record whose state is in doubt, or a slot whose term seems to be over.
    fn read(&mut self, timer: &mut Timer) -> Option<(GroupKey, GroupOperation)> {
        if !self.view.is_listed {
            return None;
        }
        let own = self.own_slot();
        let named = (0..self.shards.len()).filter(|shard| own.is_some() && self.targets[*shard] == own);
        let in_doubt = named.filter_map(|shard| match &self.shards[shard].owner {
            Some(ShardOwner::Term(name, _)) if !self.is_current(name) => {
                Some((name.slot, self.shards[shard].seen_after))
            }
            _ => None,
        });
        let unread = in_doubt
            .filter(|(slot, seen_after)| self.slots[*slot].read <= *seen_after)
            .map(|(slot, _)| GroupKey::Slot(slot))
            .find(|key| timer.is_due(self.row_of(*key).retry_at));
        let keys = (0..self.slots.len()).map(GroupKey::Slot).chain((0..self.shards.len()).map(GroupKey::Shard));
        let mut must_read = keys.filter(|key| self.row_of(*key).must_read);
        let key = unread.or_else(|| must_read.find(|key| timer.is_due(self.row_of(*key).retry_at)))?;
        Some((key, GroupOperation::Get(())))
    }

    /// Empties the record of an expired slot.
    fn retire(&mut self, timer: &mut Timer, now: Now) -> Option<(GroupKey, GroupOperation)> {
        let own = self.own_slot();
        let slot = (0..self.slots.len()).find(|slot| {
            let row = &self.slots[*slot];
            // A late renewal of an ended term does not delay the next owners.
            let is_ours = self.last_term.is_some() && row.term(*slot) == self.last_term;
            let has_expired = row.has_expired || is_ours;
            has_expired && self.view.is_listed && own != Some(*slot) && row.row.is_ready(timer)
        })?;
        self.empty(now, GroupKey::Slot(slot))
    }

    /// Creates a missing shard record without an owner.
    ///
    /// A creation cannot compare with an earlier record. If a creation named an owner and arrived late, the shard could
    /// have two owners.
    fn create(&mut self, timer: &mut Timer, now: Now) -> Option<(GroupKey, GroupOperation)> {
        if !self.may_own(timer.now()) {
            return None;
        }
        let shard = (0..self.shards.len()).find(|shard| {
            let row = &self.shards[*shard].row;
            let from = if self.targets[*shard] == self.own_slot() {
                row.since
            } else {
                row.since + self.settings.retry_period
            };
            row.seen.is_none() && row.is_ready(timer) && timer.is_due(from)
        })?;
        let record = LeaderElectionRecord {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(SHARD_SECONDS),
            renew_time: Some(MicroTime::from(now.wall)),
            lease_transitions: Some(0),
            ..LeaderElectionRecord::default()
        };
        Some((GroupKey::Shard(shard), GroupOperation::Create(record)))
    }

    /// Returns an update that removes the holder of a record.
    fn empty(&mut self, now: Now, key: GroupKey) -> Option<(GroupKey, GroupOperation)> {
        self.write(now, key, |base| LeaderElectionRecord { holder_identity: Some(String::new()), ..base })
    }

    /// Returns an update of a shard record, or of a slot that has no holder afterwards.
    fn write(
        &mut self,
        now: Now,
        key: GroupKey,
        change: impl FnOnce(LeaderElectionRecord) -> LeaderElectionRecord,
    ) -> Option<(GroupKey, GroupOperation)> {
        let base = self.row(key).seen.clone()?;
        let renew_time = Some(self.stamp(now, &base));
        let seconds = match key {
            GroupKey::Slot(_) => 1,
            GroupKey::Shard(_) if self.leaving_since.is_some() => LEAVING_SECONDS,
            GroupKey::Shard(_) => SHARD_SECONDS,
        };
        let record = change(base.record.clone());
        let record = LeaderElectionRecord { lease_duration_seconds: Some(seconds), renew_time, ..record };
        Some((key, GroupOperation::Update(base, record)))
    }

    /// Returns a `renewTime` that differs from the time in the record, so that every write changes the version.
    pub(super) fn stamp(&mut self, now: Now, base: &VersionedRecord) -> MicroTime {
        self.last_stamp = unix_micros(now.wall).max(self.last_stamp + 1);
        let time = MicroTime::from_unix_micros(self.last_stamp);
        match base.record.renew_time.as_ref() == Some(&time) {
            true => self.stamp(now, base),
            false => time,
        }
    }

    pub(super) fn row(&mut self, key: GroupKey) -> &mut Row {
        match key {
            GroupKey::Slot(slot) => &mut self.slots[slot].row,
            GroupKey::Shard(shard) => &mut self.shards[shard].row,
        }
    }

    pub(super) fn row_of(&self, key: GroupKey) -> &Row {
        match key {
            GroupKey::Slot(slot) => &self.slots[slot].row,
            GroupKey::Shard(shard) => &self.shards[shard].row,
        }
    }
}

impl Row {
    /// Returns `true` if the next write may be sent.
    fn is_ready(&self, timer: &mut Timer) -> bool {
        !self.must_read && timer.is_due(self.retry_at)
    }
}
