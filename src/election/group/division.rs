//! The division of the shards, and the ownership of this process.

use std::time::Duration;

use super::assign::{ShardPlace, assign};
use super::row::ShardWork;
use super::term_name::ShardOwner;
use super::{Group, GroupEffect, OwnershipEnd};
use crate::election::timer::Timer;
use crate::util::clock::Moment;

impl Group {
    /// Handles the return of the last worker of the shard.
    ///
    /// The worker may have noticed the end of the ownership before this group, such as after a pause of the process.
    pub fn returned(&mut self, now: Moment, shard: usize) {
        self.end_expired(now);
        let Some(work) = self.shards.get(shard).and_then(|row| row.work) else { return };
        self.end(now, shard, OwnershipEnd::Returned);
        self.shards[shard].work = None;
        let (shortest, longest) = (self.settings.retry_period, self.settings.longest_pause());
        if work.wanted_at.or(work.ended_at).is_some() {
            self.shards[shard].pause = Duration::ZERO;
        } else if let Some(slot) = self.own_slot() {
            // A worker that returns by itself would get the shard back at once.
            let row = &mut self.shards[shard];
            row.pause = (row.pause * 2).clamp(shortest, longest);
            row.paused_until = now + row.pause;
            self.set_idle(now, slot);
        }
    }

    /// Ends the ownership of the shards whose workers have not returned in time.
    pub(super) fn check_drains(&mut self, timer: &mut Timer) {
        for shard in 0..self.shards.len() {
            let wanted_at = self.shards[shard].work.filter(|work| work.ended_at.is_none()).and_then(|it| it.wanted_at);
            if wanted_at.is_some_and(|at| timer.is_due(at + self.settings.drain_timeout)) {
                self.end(timer.now(), shard, OwnershipEnd::DrainTimeout);
            }
        }
    }

    /// Computes which member each shard belongs to.
    ///
    /// A member that takes no offered shard for a retry period is idle for a while, so that another member takes the
    /// shard.
    pub(super) fn divide(&mut self, timer: &mut Timer) {
        if !self.view.is_listed || !(self.is_dirty || timer.is_due(self.assign_at)) {
            return;
        }
        let mut at = Timer::new(timer.now(), timer.now() + self.settings.lease_duration);
        loop {
            let members: Vec<_> =
                (0..self.slots.len()).filter(|slot| self.slots[*slot].is_divided(&self.settings)).collect();
            let busy = |slot: &usize| self.slots[*slot].idle.is_none_or(|(until, _)| at.is_due(until));
            let busy: Vec<_> = members.iter().copied().filter(busy).collect();
            let places: Vec<_> = self.shards.iter().map(|row| row.place(|name| self.is_current(name))).collect();
            let moves = |shard: usize| self.shards[shard].moves();
            self.targets =
                assign(if busy.is_empty() { &members } else { &busy }, &places, self.settings.max_shards, moves);
            let became_idle = (0..self.shards.len()).filter_map(|shard| self.offer(&mut at, shard, &places)).next();
            match became_idle {
                Some(slot) if !busy.is_empty() => self.set_idle(timer.now(), slot),
                _ => break,
            }
        }
        self.is_dirty = false;
        self.assign_at = at.wake();
        timer.is_due(at.wake());
    }

    /// Updates the offer of a shard. Returns the member that has not taken the shard in time.
    fn offer(&mut self, timer: &mut Timer, shard: usize, places: &[ShardPlace]) -> Option<usize> {
        let free_from = self.free_from(shard).filter(|_| places[shard] == ShardPlace::Free);
        let row = &mut self.shards[shard];
        let target = self.targets[shard].filter(|_| free_from.is_some_and(|at| timer.is_due(at)));
        let Some(slot) = target else {
            row.offer = None;
            return None;
        };
        let (_, since) = *row.offer.insert(row.offer.filter(|offer| offer.0 == slot).unwrap_or((slot, timer.now())));
        timer.is_due(since.max(self.slots[slot].took_at) + self.settings.retry_period).then_some(slot)
    }

    pub(super) fn set_idle(&mut self, now: Moment, slot: usize) {
        let lease_duration = self.settings.lease_duration;
        // In a new group, the waits of two members end at different times, so one idle time is normal.
        let is_second = self.slots[slot].idle.is_some_and(|(_, last)| last == lease_duration);
        if is_second && self.own_slot() != Some(slot) {
            self.effects.push_back(GroupEffect::Idle(slot));
        }
        let pause =
            self.slots[slot].idle.map_or(lease_duration, |(_, last)| (last * 2).min(self.settings.longest_pause()));
        self.slots[slot].idle = Some((now + pause, pause));
        self.is_dirty = true;
    }

    /// Returns the moment from which the shard may be taken, or `None` if the shard has an owner or no record.
    ///
    /// A term that is over still needs a confirming read of the slot.
    pub(super) fn free_from(&self, shard: usize) -> Option<Moment> {
        let row = &self.shards[shard];
        let lease_duration = self.settings.lease_duration;
        let free_from = match row.owner.as_ref()? {
            ShardOwner::Released => Moment::default(),
            // The record was created after a deletion. A deletion may not have reached the last owner.
            ShardOwner::Unowned => row.row.since + lease_duration,
            ShardOwner::Term(name, _) => self.slots[name.slot].over_at(name, row.row.since, lease_duration)?,
            ShardOwner::Foreign => return None,
        };
        Some(free_from.max(self.view.settled_at))
    }

    /// Starts the ownership of shards whose records name this member, and asks workers of surplus shards to return.
    pub(super) fn start_and_move(&mut self, timer: &mut Timer) {
        if !self.may_own(timer.now()) {
            return;
        }
        let own = self.own_slot();
        let (mut owned, mut moving, mut surplus) = (0, 0, Vec::new());
        for shard in 0..self.shards.len() {
            let is_ours = self.is_ours(shard);
            let row = &mut self.shards[shard];
            // In a restored store, the record may name this member although another member has owned the shard since.
            let is_confirmed = !row.row.must_read && timer.is_due(self.view.settled_at);
            if is_ours && row.work.is_none() && !row.is_spent && is_confirmed {
                row.work = Some(ShardWork::default());
                self.effects.push_back(GroupEffect::Started(shard, row.row.version));
            }
            owned += usize::from(row.is_owned());
            match row.work {
                Some(ShardWork { wanted_at: None, ended_at: None }) if self.targets[shard] != own => {
                    surplus.push(shard)
                }
                Some(ShardWork { wanted_at: Some(_), .. }) if is_ours => moving += 1,
                _ => moving += usize::from(row.is_given || row.is_spent),
            }
        }
        // At most one eighth of the shards moves at a time.
        for shard in surplus.into_iter().take((owned / 8).max(1).saturating_sub(moving)) {
            self.want(timer.now(), shard);
        }
    }

    /// Asks the worker of a shard to return.
    pub(super) fn want(&mut self, now: Moment, shard: usize) {
        let work = self.shards[shard].work.as_mut().filter(|work| work.wanted_at.is_none() && work.ended_at.is_none());
        if let Some(work) = work {
            work.wanted_at = Some(now);
            self.effects.push_back(GroupEffect::Recalled(shard));
        }
    }
}
