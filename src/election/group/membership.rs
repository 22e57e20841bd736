//! The membership of this process: the campaign for a slot, the term, and its end.

use std::ops::Range;
use std::time::Duration;

use super::assign::weight;
use super::{Comparison, Group, GroupEffect, Membership, OwnershipEnd};
use crate::election::deadline::Deadline;
use crate::election::stop_reason::StopReason;
use crate::election::timer::Timer;
use crate::util::clock::Moment;
use crate::util::sync::Arc;

impl Group {
    /// Makes this process campaign for a slot, now and after each end of its term.
    pub fn join(&mut self) {
        (self.leaving_since, self.is_spare, self.campaign) = (None, false, None);
    }

    /// Makes this process give up its slot once all workers have returned.
    pub fn leave(&mut self, now: Moment) {
        self.leaving_since.get_or_insert(now);
        (0..self.shards.len()).for_each(|shard| self.want(now, shard));
    }

    /// Ends all ownership, and gives up the slot once all workers have returned.
    pub fn close(&mut self, now: Moment) {
        self.end_all(now, OwnershipEnd::TermEnded);
        self.leave(now);
    }

    /// Handles a won term of a slot.
    ///
    /// Returns `false` if the term must be released, because its name is unknown. `token` is the fencing token of the term.
    pub fn joined(&mut self, now: Moment, slot: usize, token: u64, deadline: Arc<Deadline>) -> bool {
        self.campaign = None;
        // A restored store uses versions again.
        let observed = self.own_writes.iter().rev().find(|write| write.version == token && write.name.slot == slot);
        let Some(name) = observed.map(|write| write.name.clone()) else {
            self.slots[slot].campaign_at = now + self.settings.retry_period;
            return false;
        };
        // Another process that joins at the same time finds this term, or this process finds the other term.
        let comparison = Comparison::Pending;
        self.reopen();
        self.member = Some(Membership { name, deadline, joined_at: now, comparison, may_leave: false });
        self.advance(now);
        (self.is_dirty, self.is_spare, self.deserted_since) = (true, false, None);
        true
    }

    /// Compares the numbers of shards with those of all members, in the first listing after the own term has begun.
    ///
    /// The slot of a crashed member shows its number until the slot expires. Only a renewal shows that the member runs.
    pub(super) fn compare_shards(&mut self) {
        let is_pending = |member: &&mut Membership| member.comparison == Comparison::Pending && self.view.is_listed;
        let Some(member) = self.member.as_mut().filter(is_pending) else { return };
        let others = self
            .slots
            .iter()
            .enumerate()
            .filter_map(|(slot, row)| Some((slot, row, row.other_division(&self.settings)?)));
        let others: Vec<_> = others.collect();
        if others.is_empty() {
            member.comparison = Comparison::Passed;
        } else if let Some((slot, _, (shards, max_shards))) = others.into_iter().find(|(_, row, _)| row.has_renewed) {
            member.comparison = Comparison::Failed;
            self.effects.push_back(GroupEffect::OtherDivision { slot, shards, max_shards });
        }
    }

    /// Handles a campaign that won no term.
    ///
    /// The process campaigns for `slots` again after `pause`.
    pub fn not_joined(&mut self, now: Moment, slots: Range<usize>, pause: Duration) {
        self.campaign = None;
        self.slots[slots].iter_mut().for_each(|row| row.campaign_at = now + pause);
    }

    /// Handles the release of the slot, or its loss.
    pub fn left(&mut self, now: Moment) {
        self.end_all(now, OwnershipEnd::TermEnded);
        self.last_term = self.member.as_ref().map(|member| member.name.clone());
        let ended = self.member.take().filter(|member| !member.deadline.is_valid(now));
        // A restore to a time before the slot existed looks like a deletion.
        let is_restored = |reason| matches!(reason, StopReason::StoreRestored | StopReason::Deleted);
        if ended.is_some_and(|member| is_restored(member.deadline.reason())) {
            self.restored(now);
        }
        for row in &mut self.shards {
            (row.is_spent, row.is_given) = (false, false);
        }
        self.own_writes.clear();
        self.is_dirty = true;
    }

    /// Notices the slots that have expired. Their owners are reported no longer.
    pub(super) fn check_slots(&mut self, timer: &mut Timer) {
        for slot in 0..self.slots.len() {
            let expires_at = self.slots[slot].expires_at(self.settings.lease_duration);
            let has_expired = self.own_slot() != Some(slot) && expires_at.is_some_and(|at| timer.is_due(at));
            if std::mem::replace(&mut self.slots[slot].has_expired, has_expired) != has_expired {
                self.is_dirty = true;
                (0..self.shards.len()).for_each(|shard| self.report_owner(shard));
            }
        }
    }

    /// Ends all ownership if the term of this process has ended.
    pub(super) fn check_term(&mut self, timer: &mut Timer) {
        let Some(member) = &self.member else { return };
        if timer.is_due(timer.now() + member.deadline.remaining(timer.now())) {
            self.end_all(timer.now(), OwnershipEnd::TermEnded);
        }
    }

    /// Ends all ownership if the term has ended, or if the view is no longer current.
    pub(super) fn end_expired(&mut self, now: Moment) {
        if self.member.as_ref().is_some_and(|member| member.deadline.remaining(now).is_zero()) {
            self.end_all(now, OwnershipEnd::TermEnded);
        }
        self.end_outdated(now);
    }

    /// Campaigns for a free slot, or gives up the slot.
    pub(super) fn join_or_leave(&mut self, timer: &mut Timer) {
        if self.member.is_some() {
            return self.allow_leaving(timer);
        }
        if self.leaving_since.is_some() || self.campaign.is_some() || !self.view.is_listed {
            return;
        }
        if self.must_wait_for_workers(timer) {
            return;
        }
        let free: Vec<_> =
            (0..self.settings.max_members).filter(|slot| self.slots[*slot].row.holder().is_none()).collect();
        if free.is_empty() && !std::mem::replace(&mut self.is_spare, true) {
            self.effects.push_back(GroupEffect::Spare);
        }
        // Processes that start at the same time begin with different slots.
        let own = self.identity_hash();
        let due = free.into_iter().filter(|slot| timer.is_due(self.slots[*slot].campaign_at));
        if let Some(slot) = due.max_by_key(|slot| weight(*slot, own)) {
            self.campaign = Some(slot);
            self.effects.push_back(GroupEffect::Campaign(slot));
        }
    }

    /// Returns `true` if workers of the last term must return before this process campaigns.
    ///
    /// This process could not take the shards of these workers, and the other members would move the shards in vain. A
    /// group that has had no member for a lease duration needs every process.
    fn must_wait_for_workers(&mut self, timer: &mut Timer) -> bool {
        let hung: Vec<_> = (0..self.shards.len()).filter(|shard| self.shards[*shard].work.is_some()).collect();
        if hung.is_empty() {
            return false;
        }
        if self.deserted_since.is_none() {
            self.effects.push_back(GroupEffect::Blocked(hung));
        }
        let has_members = (0..self.slots.len()).any(|slot| self.member(slot).is_some());
        let deserted_since = self.deserted_since.filter(|_| !has_members).unwrap_or(timer.now());
        self.deserted_since = Some(deserted_since);
        !timer.is_due(deserted_since + self.settings.lease_duration)
    }

    /// Returns a number that differs between processes.
    pub(super) fn identity_hash(&self) -> usize {
        self.settings
            .identity
            .bytes()
            .fold(0, |hash: usize, byte| hash.wrapping_mul(31).wrapping_add(usize::from(byte)))
    }

    /// Allows the release of the slot once no worker needs the term.
    ///
    /// A worker that ignores the end of its ownership delays the release by at most one lease duration.
    fn allow_leaving(&mut self, timer: &mut Timer) {
        let Some(member) = self.member.as_ref().filter(|member| !member.may_leave) else { return };
        if self.leaving_since.is_none() && member.deadline.is_valid(timer.now()) {
            return;
        }
        let lease_duration = self.settings.lease_duration;
        let mut has_returned = |ended_at: Option<Moment>| ended_at.is_some_and(|at| timer.is_due(at + lease_duration));
        let all_returned = self.shards.iter().all(|row| row.work.is_none_or(|work| has_returned(work.ended_at)));
        if all_returned {
            self.effects.push_back(GroupEffect::MayLeave);
            self.member.iter_mut().for_each(|member| member.may_leave = true);
        }
    }
}
