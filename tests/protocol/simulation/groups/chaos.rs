//! The faults of a group's world, and how they end.

use leasehold::election::group::GroupKey;

use super::plan::Meddling;
use super::world::{What, World};
use crate::clock::{MILLI, Nanos};
use crate::network::Cut;
use crate::plan::Violation;
use crate::trace::trace;

impl World {
    pub fn chaos(&mut self) -> Result<(), Violation> {
        let heal_at = self.plan.heal_at;
        let next = self.truth + self.random.u64(MILLI..2 * self.plan.chaos_every);
        if next >= heal_at {
            return Ok(());
        }
        self.push(next, None, What::Chaos);
        let index = self.random.usize(..self.nodes.len());
        let to = self.to(index);
        let longest = if self.random.bool() { self.plan.lease } else { 3 * self.plan.lease };
        let until = (self.truth + self.random.u64(MILLI..longest)).min(heal_at);
        let keys: Vec<_> = self.store.records.keys().copied().collect();
        let mut key = (!keys.is_empty()).then(|| keys[self.random.usize(..keys.len())]);
        let owns = self.nodes[index].owned;
        if owns != 0 && self.random.bool() {
            // The fault hits a shard of this process.
            key = Some(GroupKey::Shard(owns.trailing_zeros() as usize));
        } else if let Some((_, sent, _)) = self.nodes[index].in_flight.filter(|_| self.random.bool()) {
            key = Some(sent);
        }
        let kind = self.random.u8(..14);
        let node = &mut self.nodes[index];
        match kind {
            0..=2 if node.is_alive && !node.is_paused(self.truth) => {
                trace!(self, "{} stands still", self.nodes[index].identity);
                self.count.fault("pauses");
                self.nodes[index].paused_until = Some(until);
            }
            3 if node.is_alive => self.crash(index, until),
            4 | 5 => {
                let cut = [Cut::Requests, Cut::Answers, Cut::Refused][self.random.usize(..3)];
                let is_whole = self.random.u8(..4) == 0;
                self.count.fault("cuts");
                for other in (0..self.nodes.len()).filter(|other| is_whole || *other == index) {
                    trace!(self, "{} is cut off: {cut:?}", self.nodes[other].identity);
                    self.nodes[other].cut = Some((cut, until));
                }
            }
            6 if node.is_alive => {
                let serial = node.stream.serial;
                self.push(self.truth, to, What::Breaks(serial));
            }
            7 => self.blind(index, until),
            8 if node.is_alive && node.wants && !node.is_paused(self.truth) => {
                let (is_close, is_refused) = (self.random.u8(..4) == 0, self.random.u8(..4) == 0);
                trace!(self, "{} leaves", self.nodes[index].identity);
                self.count.fault(if is_close { "closes" } else { "leaves" });
                let node = &mut self.nodes[index];
                node.wants = false;
                let now = node.clock.local(self.truth);
                if is_close {
                    node.group.close(now);
                } else {
                    node.group.leave(now);
                }
                if is_refused {
                    node.cut = Some((Cut::Refused, until));
                }
                self.push(until, to, What::Join);
                self.drive(index)?;
            }
            9 | 10 => self.edit(key, |_| {}, "edits of metadata"),
            // Without an order of all events, an owner may learn of the foreign text after the repair.
            11 if self.plan.is_ordered
                && self.plan.meddling != Meddling::Restores
                && self.truth + 2 * self.plan.lease < heal_at =>
            {
                if let Some(GroupKey::Shard(_)) = key {
                    // The last owner may not have observed the foreign text for two thirds of a lease duration.
                    let at = self.random.u64(self.truth + self.plan.lease..heal_at);
                    self.edit(key, |holder| *holder = Some(format!("pod-{at}")), "foreign texts");
                    key.into_iter().for_each(|key| self.push(at, None, What::Repair(key)));
                }
            }
            12 | 13 => match self.plan.meddling {
                Meddling::Edits => {}
                Meddling::Deletions => {
                    if let Some(key) = key {
                        trace!(self, "{key:?} is deleted");
                        self.count.fault("deletions");
                        // The owner often does not observe the deletion, or observes the deletion by a listing.
                        match self.random.u8(..4) {
                            0 | 1 => self.blind(index, (self.truth + 3 * self.plan.lease).min(heal_at)),
                            2 => {
                                let serial = self.nodes[index].stream.serial;
                                self.nodes[index].stream.is_silent = true;
                                self.push(self.truth, to, What::Breaks(serial));
                            }
                            _ => {}
                        }
                        self.store.delete(key);
                        self.publish(key);
                    }
                }
                Meddling::Restores if self.store.backup.0 == 0 || self.random.bool() => {
                    self.store.backup = (self.store.version, self.store.records.clone());
                }
                Meddling::Restores if self.truth + 2 * self.plan.lease < heal_at => {
                    self.restore();
                    if self.random.u8(..4) == 0 {
                        let again = self.truth + self.random.u64(..self.plan.lease);
                        self.push(again, None, What::Restore);
                    }
                }
                Meddling::Restores => {}
            },
            _ => {}
        }
        Ok(())
    }

    /// Makes the watch of a process silent, often without another watch for some time.
    fn blind(&mut self, index: usize, until: Nanos) {
        trace!(self, "the watch of {} is silent", self.nodes[index].identity);
        self.count.fault("watches silent");
        self.nodes[index].stream.is_silent = true;
        if self.random.bool() {
            self.nodes[index].blind_until = until;
        }
    }

    fn crash(&mut self, index: usize, restart_at: Nanos) {
        trace!(self, "{} crashes", self.nodes[index].identity);
        self.count.fault("crashes");
        let never = self.random.u8(..4) == 0 && self.nodes.iter().filter(|node| node.is_alive).count() > 1;
        let node = &mut self.nodes[index];
        node.is_alive = false;
        node.stream = Default::default();
        node.incarnation += 1;
        if !never {
            self.push(restart_at, self.to(index), What::Start);
        }
    }

    fn edit(&mut self, key: Option<GroupKey>, edit: impl FnOnce(&mut Option<String>), kind: &'static str) {
        let Some((key, mut seen)) = key.and_then(|key| Some((key, self.store.records.get(&key)?.clone()))) else {
            return;
        };
        trace!(self, "{kind}: {key:?}");
        self.count.fault(kind);
        edit(&mut seen.record.holder_identity);
        self.store.put(key, seen.record);
        self.publish(key);
    }

    pub fn repair(&mut self, key: GroupKey) {
        // A later foreign text has its own repair.
        let foreign = format!("pod-{}", self.truth);
        if self.store.records.get(&key).is_some_and(|seen| seen.record.holder() == Some(&*foreign)) {
            self.edit(Some(key), |holder| *holder = Some(String::new()), "repairs");
        }
    }

    /// Backs up some states in which a shard is free.
    pub fn back_up_free(&mut self, key: GroupKey) {
        let is_free = self.store.records.get(&key).is_some_and(|seen| seen.record.holder().is_none());
        if is_free && self.plan.meddling == Meddling::Restores && self.random.u8(..4) == 0 {
            self.store.backup = (self.store.version, self.store.records.clone());
        }
    }

    /// Restores the store to its backup.
    ///
    /// The promise covers only processes that know the newest version, so that they observe that the version goes back.
    pub fn restore(&mut self) {
        trace!(self, "the store is restored to {}", self.store.backup.0);
        self.count.fault("restored stores");
        let newest = self.store.version;
        (self.store.version, self.store.records) = self.store.backup.clone();
        self.restores = (self.restores.0 + 1, self.truth);
        self.tokens.fill(0);
        for index in 0..self.nodes.len() {
            let node = &mut self.nodes[index];
            let is_behind = node.stream.last_of.values().chain([&node.stream.last_at]).any(|at| *at > self.truth);
            if node.is_alive && (node.knows < newest || is_behind || node.is_paused(self.truth)) {
                self.crash(index, self.truth + self.plan.lease);
            } else if node.is_alive {
                (node.stream.is_attached, node.knows) = (false, 0);
                let until = self.truth + self.random.u64(..2 * self.plan.lease);
                match self.random.u8(..6) {
                    0 | 1 => node.blind_until = until,
                    2 => (node.blind_until, node.cut) = (until, Some((Cut::Requests, until))),
                    3 => {
                        // The watch stays open and reports nothing, so the process must notice the restore otherwise.
                        self.count.fault("watches silent after a restore");
                        continue;
                    }
                    _ => {}
                }
                let (serial, at) = (node.stream.serial, self.truth + self.random.u64(..100 * MILLI));
                self.push(at, self.to(index), What::Breaks(serial));
            }
        }
    }

    /// Ends all faults except late requests, silent watches and bad workers.
    ///
    /// Hung workers of a process that is no member stay, if another process can take their shards.
    pub fn heal(&mut self) -> Result<(), Violation> {
        trace!(self, "the faults end");
        let has_healthy = self.nodes.iter().any(|node| node.is_alive && node.wants && !node.is_hung());
        for index in 0..self.nodes.len() {
            if !has_healthy || self.nodes[index].group.own_slot().is_some() {
                self.end_hangs(index);
            }
            self.nodes[index].cut = None;
            self.nodes[index].blind_until = 0;
            self.nodes[index].paused_until = None;
        }
        Ok(())
    }
}
