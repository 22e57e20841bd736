//! The rules that must hold after every step of a group's world.

use std::time::Duration;

use leasehold::election::group::{GroupKey, GroupOperation};

use super::process::Worker;
use super::world::{What, World};
use crate::clock::Nanos;
use crate::plan::Violation;
use crate::trace::trace;

/// The most steps that a world needs.
const MOST_STEPS: u64 = 2_000_000;

/// The observations after the faults.
#[derive(Default)]
pub struct Calm {
    /// The shards that have had an owner, as bits.
    owned: u64,
    shared_since: Option<Nanos>,
    /// `true` once no shard may move.
    is_settled: bool,
}

impl World {
    /// Checks that no shard has two owners.
    pub fn check(&mut self) -> Result<(), Violation> {
        let (mut all, mut twice) = (0, 0);
        for node in &self.nodes {
            let owns = node.owns(self.truth);
            twice |= all & owns;
            all |= owns;
            let valid_until = node.clock.local(node.proven_at) + node.times.0 * 2 / 3;
            if owns != 0 && node.group.valid_until() > valid_until {
                return Err(format!("{} relies on a watch that has reported nothing", node.identity).into());
            }
        }
        if twice != 0 {
            let owners = self.nodes.iter().filter(|node| node.owns(self.truth) & twice != 0);
            let owners: Vec<_> = owners.map(|node| &node.identity).collect();
            let what = format!("{owners:?} own {twice:b} at a time");
            return Err(Violation { what, overlap: true });
        }
        if self.count.steps > MOST_STEPS {
            return Err("endless steps".to_owned().into());
        }
        if self.truth >= self.plan.heal_at {
            self.note_recovery(all);
        }
        Ok(())
    }

    pub fn started(&mut self, index: usize, shard: usize, token: u64) -> Result<(), Violation> {
        let name = &self.nodes[index].identity;
        let last = std::mem::replace(&mut self.tokens[shard], token);
        if token <= last { Err(format!("{name} owns {shard} with token {token} after {last}").into()) } else { Ok(()) }
    }

    /// Returns an error if a shard moves in a settled group.
    pub fn moves(&self, index: usize, shard: usize) -> Result<(), Violation> {
        let name = &self.nodes[index].identity;
        if self.calm.is_settled { Err(format!("{name}: {shard} moves in a settled group").into()) } else { Ok(()) }
    }

    /// Returns an error if a worker of the shard, or of any shard, runs and has not hung for a lease duration.
    pub fn may_give_up(&self, index: usize, shard: Option<usize>) -> Result<(), Violation> {
        let node = &self.nodes[index];
        let now = node.clock.local(self.truth);
        let is_over = |worker: &Worker| worker.ended_at.is_some_and(|at| now >= at + node.times.0);
        let mut workers = node.workers.iter().filter(|(of, _)| shard.is_none_or(|shard| shard == **of));
        match workers.find(|(_, worker)| !is_over(worker)) {
            Some((of, _)) => Err(format!("{} gives up {of} while its worker runs", node.identity).into()),
            None => Ok(()),
        }
    }

    /// Returns an error if a request comes in a pause, empties the record of a running worker, or retires a slot early.
    pub fn sends(&self, index: usize, key: GroupKey, call: &GroupOperation) -> Result<(), Violation> {
        let node = &self.nodes[index];
        let (name, now) = (&node.identity, node.clock.local(self.truth));
        if now < node.quiet_until {
            return Err(format!("{name} sends a request in its pause: {key:?} {call:?}").into());
        }
        let GroupOperation::Update(base, record) = call else { return Ok(()) };
        match (key, base.record.holder(), record.holder()) {
            (GroupKey::Shard(shard), _, None) => self.may_give_up(index, Some(shard)),
            (GroupKey::Slot(_), Some(holder), None) if holder != name && self.restores.0 == 0 => {
                let is_newest = self.store.records.get(&key).is_some_and(|seen| seen.version == base.version);
                let Some((_, at)) = self.changed_at.get(&key).filter(|_| is_newest) else { return Ok(()) };
                let seconds = base.record.lease_duration_seconds.unwrap_or_default();
                let lease_duration = Duration::from_secs(seconds.max(0) as u64);
                match now.since(node.clock.local(*at)) < lease_duration {
                    true => Err(format!("{name} retires {key:?} before its lease has expired").into()),
                    false => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Returns an error if the group writes after it has settled.
    pub fn writes(&self, index: usize, call: &GroupOperation) -> Result<(), Violation> {
        let name = &self.nodes[index].identity;
        match self.calm.is_settled && !matches!(call, GroupOperation::Get(())) {
            true => Err(format!("{name} writes in a settled group: {call:?}").into()),
            false => Ok(()),
        }
    }

    fn all_shards(&self) -> u64 {
        u64::MAX >> (64 - self.plan.shards)
    }

    fn note_recovery(&mut self, owned: u64) {
        let passed = (self.truth - self.plan.heal_at) as f64 / self.plan.lease as f64;
        let before = self.calm.owned;
        self.calm.owned |= owned;
        if before != self.calm.owned && self.calm.owned == self.all_shards() {
            trace!(self, "every shard has had an owner");
            self.count.slowest(if self.plan.has_bad_workers { "owned, bad workers" } else { "owned" }, passed);
        }
        match self.is_shared() {
            false => self.calm.shared_since = None,
            true if self.calm.shared_since.is_none() => self.calm.shared_since = Some(self.truth),
            true => {}
        }
    }

    /// Returns `true` if every shard has an owner, and the shares of all members are equal.
    fn is_shared(&self) -> bool {
        let alive = self.nodes.iter().filter(|node| node.is_alive && !node.is_hung());
        let members = alive.clone().filter(|node| node.group.own_slot().is_some()).count();
        let owns = self.nodes.iter().map(|node| node.owns(self.truth));
        let shares = self.nodes.iter().filter(|node| node.is_alive && node.group.own_slot().is_some());
        let shares = shares.map(|node| node.owns(self.truth).count_ones());
        let (least, most) = (shares.clone().min().unwrap_or(0), shares.max().unwrap_or(0));
        members == alive.count().min(self.plan.max_members)
            && owns.fold(0, |all, owns| all | owns) == self.all_shards()
            && most - least <= 1
    }

    pub fn must_own(&mut self) -> Result<(), Violation> {
        let missing = self.all_shards() & !self.calm.owned;
        if missing == 0 { Ok(()) } else { Err(format!("{missing:b} have no owners after the faults").into()) }
    }

    /// Checks that the shares are equal in time, and then ends the world after a time without moves.
    pub fn must_share(&mut self) -> Result<(), Violation> {
        let lease = self.plan.lease;
        match self.calm.shared_since.filter(|since| since + lease <= self.truth || self.truth >= self.plan.shared_by) {
            Some(since) => {
                let passed = (since - self.plan.heal_at) as f64 / lease as f64;
                self.count.slowest(if self.plan.has_bad_workers { "shared, bad workers" } else { "shared" }, passed);
                trace!(self, "no shard may move");
                self.calm.is_settled = true;
                self.push(self.truth + self.plan.calm, None, What::End);
                Ok(())
            }
            None if self.truth < self.plan.shared_by => {
                self.push(self.truth + lease, None, What::MustShare);
                Ok(())
            }
            None => {
                let shares: Vec<_> = self.nodes.iter().map(|node| format!("{:b}", node.owns(self.truth))).collect();
                Err(format!("the shares are not equal: {shares:?}").into())
            }
        }
    }
}
