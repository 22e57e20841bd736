//! Tests of the rules of `docs/internals/GROUPS.md` on virtual time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use super::*;
use crate::election::stop_reason::StopReason;
use crate::store::StoreErrorKind;
use crate::store::record::{MicroTime, StoreData};

const LEASE: Duration = Duration::from_secs(15);
const RETRY: Duration = Duration::from_secs(2);
const DRAIN: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(10);

/// Several members on one store in memory and one virtual clock.
struct World {
    now: Moment,
    version: u64,
    records: BTreeMap<GroupKey, VersionedRecord>,
    nodes: Vec<Node>,
}

/// One process. Its elector renews the slot, and its workers return when they are asked.
struct Node {
    group: Group,
    name: String,
    slot: Option<usize>,
    deadline: Option<Arc<Deadline>>,
    renewed_at: Moment,
    owned: BTreeMap<usize, u64>,
    /// The shards whose workers ignore that they are wanted.
    stubborn: BTreeSet<usize>,
    ended: Vec<(usize, OwnershipEnd)>,
    wanted: usize,
    /// `true` while the process gets no events.
    is_deaf: bool,
    /// `true` while no request of the group is answered.
    is_stuck: bool,
    is_dead: bool,
    reads: usize,
    writes: usize,
}

impl World {
    fn new(nodes: usize, shards: usize) -> Self {
        let mut world =
            Self { now: Moment::from_nanos(1 << 40), version: 0, records: BTreeMap::new(), nodes: Vec::new() };
        (0..nodes).for_each(|_| world.add(shards));
        world
    }

    fn add(&mut self, shards: usize) {
        let name = format!("node-{}", self.nodes.len());
        let settings = GroupSettings {
            shards,
            max_members: 8,
            identity: name.clone(),
            lease_duration: LEASE,
            retry_period: RETRY,
            drain_timeout: DRAIN,
        };
        let mut group = Group::new(settings);
        group.join();
        self.nodes.push(Node {
            group,
            name,
            slot: None,
            deadline: None,
            renewed_at: self.now,
            owned: BTreeMap::new(),
            stubborn: BTreeSet::new(),
            ended: Vec::new(),
            wanted: 0,
            is_deaf: false,
            is_stuck: false,
            is_dead: false,
            reads: 0,
            writes: 0,
        });
        self.open(self.nodes.len() - 1);
    }

    /// Opens the watch of a node, and lists all records.
    fn open(&mut self, node: usize) {
        let group = &mut self.nodes[node].group;
        group.watch_opened(self.now, self.now);
        for (key, seen) in &self.records {
            group.watched(self.now, *key, seen.version, Some(seen.clone()));
        }
        group.listed(self.now);
    }

    fn wall(&self) -> Now {
        Now { local: self.now, wall: SystemTime::UNIX_EPOCH + Duration::from_nanos(self.now.as_nanos()) }
    }

    /// Stores a record if the version of the stored record is `base`, and reports the change to all nodes.
    fn store(&mut self, key: GroupKey, base: u64, record: &LeaderElectionRecord) -> Option<VersionedRecord> {
        if self.records.get(&key).map_or(0, |it| it.version) != base {
            return None;
        }
        self.version += 1;
        let uid = self.records.get(&key).map_or(Some(format!("uid-{}", self.version)), |it| it.record.uid.clone());
        let record = LeaderElectionRecord { uid, ..record.clone() };
        let seen = VersionedRecord::new(record, self.version, StoreData::none());
        self.records.insert(key, seen.clone());
        self.tell(key, self.version, Some(&seen));
        Some(seen)
    }

    fn delete(&mut self, key: GroupKey) {
        self.records.remove(&key);
        self.version += 1;
        self.tell(key, self.version, None);
    }

    fn tell(&mut self, key: GroupKey, version: u64, seen: Option<&VersionedRecord>) {
        for node in self.nodes.iter_mut().filter(|node| !node.is_deaf) {
            node.group.watched(self.now, key, version, seen.cloned());
        }
    }

    fn edit(&mut self, key: GroupKey, change: impl FnOnce(&mut LeaderElectionRecord)) {
        let mut seen = self.records[&key].clone();
        change(&mut seen.record);
        self.store(key, seen.version, &seen.record);
    }

    /// Runs all nodes for a time, and checks after every step that no shard has two owners.
    fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            for node in 0..self.nodes.len() {
                self.renew(node);
                while !self.nodes[node].is_dead && self.drive(node) {}
            }
            self.check_exclusion();
            self.now = self.now + STEP;
        }
    }

    /// Renews the slot of a node, as its elector does.
    fn renew(&mut self, index: usize) {
        let node = &self.nodes[index];
        let (Some(slot), Some(deadline)) = (node.slot, node.deadline.clone()) else { return };
        if node.is_dead || self.now < node.renewed_at + RETRY || !deadline.is_valid(self.now) {
            return;
        }
        let Some(seen) = self.records.get(&GroupKey::Slot(slot)).cloned() else {
            deadline.end(self.now, StopReason::Expired);
            return;
        };
        let renew_time = Some(MicroTime::from_unix_micros(self.now.as_nanos() / 1_000));
        let record = LeaderElectionRecord { renew_time, ..seen.record.clone() };
        if seen.record.holder() != Some(&*node.name) {
            deadline.end(self.now, StopReason::Expired);
            return;
        }
        let stored = self.store(GroupKey::Slot(slot), seen.version, &record).unwrap();
        let node = &mut self.nodes[index];
        node.renewed_at = self.now;
        deadline.extend(self.now, self.now + LEASE * 2 / 3);
        node.group.own_slot_observed(self.now, slot, Some(self.now), &stored);
    }

    /// Performs the effects and the next request of a node. Returns `false` if the node waits.
    fn drive(&mut self, index: usize) -> bool {
        let (now, wall) = (self.now, self.wall());
        let step = self.nodes[index].group.next(wall);
        let mut acted = false;
        while let Some(effect) = self.nodes[index].group.effect() {
            acted = true;
            self.carry_out(index, effect);
        }
        let node = &mut self.nodes[index];
        let GroupStep::Send(GroupRequest { id, key, operation, .. }) = step else { return acted };
        let response = match operation {
            _ if node.is_stuck => GroupResponse::Failed(StoreError::new(StoreErrorKind::Timeout, "stuck")),
            GroupOperation::Get => {
                node.reads += 1;
                GroupResponse::Read(self.records.get(&key).cloned())
            }
            GroupOperation::Create(record) => {
                node.writes += 1;
                self.written(key, 0, &record)
            }
            GroupOperation::Update(base, record) => {
                node.writes += 1;
                self.written(key, base.version, &record)
            }
        };
        self.nodes[index].group.on_response(now, id, response);
        true
    }

    fn written(&mut self, key: GroupKey, base: u64, record: &LeaderElectionRecord) -> GroupResponse {
        let refused = || GroupResponse::Failed(StoreError::new(StoreErrorKind::Conflict, "conflict"));
        self.store(key, base, record).map_or_else(refused, GroupResponse::Written)
    }

    fn carry_out(&mut self, index: usize, effect: GroupEffect) {
        let now = self.now;
        match effect {
            GroupEffect::Campaign(slot) => self.campaign(index, slot),
            GroupEffect::Started(shard, token) => {
                assert!(self.nodes[index].owned.insert(shard, token).is_none());
            }
            GroupEffect::Wanted(shard) => {
                let node = &mut self.nodes[index];
                node.wanted += 1;
                if !node.stubborn.contains(&shard) {
                    node.owned.remove(&shard);
                    node.group.returned(now, shard);
                }
            }
            GroupEffect::Ended(shard, reason) => {
                let node = &mut self.nodes[index];
                node.ended.push((shard, reason));
                node.owned.remove(&shard);
                if !node.stubborn.contains(&shard) {
                    node.group.returned(now, shard);
                }
            }
            GroupEffect::MayLeave => {
                let node = &mut self.nodes[index];
                let deadline = node.deadline.take().unwrap();
                deadline.end(now, StopReason::Released);
                let key = GroupKey::Slot(node.slot.take().unwrap());
                if self.records.get(&key).is_some_and(|it| it.record.holder() == Some(&*self.nodes[index].name)) {
                    self.edit(key, |record| record.holder_identity = Some(String::new()));
                }
                self.nodes[index].group.left(now);
            }
            GroupEffect::Reopen if !self.nodes[index].is_deaf => self.open(index),
            _ => {}
        }
    }

    fn campaign(&mut self, index: usize, slot: usize) {
        let key = GroupKey::Slot(slot);
        let base = self.records.get(&key).cloned();
        let name = self.nodes[index].name.clone();
        if base.as_ref().is_some_and(|it| it.record.holder().is_some()) {
            return self.nodes[index].group.not_joined(self.now, slot);
        }
        let time = Some(MicroTime::from_unix_micros(self.now.as_nanos() / 1_000 + self.version));
        let record = LeaderElectionRecord {
            holder_identity: Some(name),
            lease_duration_seconds: Some(15),
            acquire_time: time.clone(),
            renew_time: time,
            ..base.as_ref().map_or_else(Default::default, |it| it.record.clone())
        };
        let stored = self.store(key, base.map_or(0, |it| it.version), &record).unwrap();
        let deadline = Arc::new(Deadline::new(self.now + LEASE * 2 / 3));
        let node = &mut self.nodes[index];
        (node.slot, node.deadline, node.renewed_at) = (Some(slot), Some(Arc::clone(&deadline)), self.now);
        node.group.own_slot_observed(self.now, slot, Some(self.now), &stored);
        assert!(node.group.joined(self.now, slot, stored.version, deadline));
    }

    fn owners(&self, shard: usize) -> Vec<usize> {
        let owns = |node: &Node| {
            let is_valid = node.deadline.as_ref().is_some_and(|deadline| deadline.is_valid(self.now));
            node.owned.contains_key(&shard) && is_valid && self.now < node.group.valid_until()
        };
        (0..self.nodes.len()).filter(|node| owns(&self.nodes[*node])).collect()
    }

    fn check_exclusion(&self) {
        for shard in 0..self.nodes[0].group.shards.len() {
            assert!(self.owners(shard).len() <= 1, "shard {shard} has the owners {:?}", self.owners(shard));
        }
    }

    /// Asserts that each shard has one owner, and that the shares of these nodes are equal.
    fn assert_shared(&self, nodes: &[usize]) {
        let shards = self.nodes[0].group.shards.len();
        let unowned: Vec<_> = (0..shards).filter(|shard| self.owners(*shard).is_empty()).collect();
        assert!(unowned.is_empty(), "without an owner: {unowned:?}");
        let shares: Vec<_> = nodes.iter().map(|node| self.nodes[*node].owned.len()).collect();
        assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1, "{shares:?}");
    }
}

fn started(nodes: usize, shards: usize) -> World {
    let mut world = World::new(nodes, shards);
    world.run(LEASE + RETRY * 2);
    world.assert_shared(&(0..nodes).collect::<Vec<_>>());
    world
}

#[test]
fn shards_are_shared_and_stay() {
    let mut world = started(3, 64);
    let moves = |world: &World| world.nodes.iter().map(|node| node.wanted).sum::<usize>();
    let before = (moves(&world), world.nodes.iter().map(|node| node.writes).sum::<usize>());
    world.run(LEASE * 3);
    let after = (moves(&world), world.nodes.iter().map(|node| node.writes).sum::<usize>());
    assert_eq!(after, before, "no shard moves, and shards need no renewals");
    assert_eq!(before.1, 128, "each shard is created and taken by one member");
}

#[test]
fn new_member_gets_its_share_an_eighth_at_a_time() {
    let mut world = started(3, 64);
    world.add(64);
    world.run(RETRY);
    world.assert_shared(&[0, 1, 2, 3]);
    assert_eq!(world.nodes.iter().map(|node| node.wanted).sum::<usize>(), 16);
}

#[test]
fn leaving_member_frees_its_shards_with_one_write() {
    let mut world = started(3, 9);
    let writes = world.nodes[0].writes;
    let now = world.now;
    world.nodes[0].group.leave(now);
    world.run(STEP * 5);
    world.assert_shared(&[1, 2]);
    assert_eq!(world.nodes[0].writes, writes);
}

#[test]
fn shards_of_a_crashed_member_move_after_its_slot_expires() {
    let mut world = started(3, 9);
    world.nodes[0].is_dead = true;
    let lost = world.nodes[0].owned.keys().copied().collect::<Vec<_>>();
    world.run(LEASE - RETRY);
    assert!(lost.iter().all(|shard| world.owners(*shard).iter().all(|node| *node == 0)));
    world.run(RETRY * 2);
    world.assert_shared(&[1, 2]);
}

#[test]
fn stubborn_worker_loses_its_shard_after_the_drain_timeout() {
    let mut world = started(1, 2);
    world.nodes[0].stubborn.extend([0, 1]);
    world.add(2);
    world.run(DRAIN - RETRY);
    assert_eq!(world.nodes[1].owned.len(), 0);
    world.run(RETRY * 2);
    assert!(matches!(world.nodes[0].ended[..], [(_, OwnershipEnd::DrainTimeout)]));
    assert_eq!(world.nodes[1].owned.len(), 0, "the worker may still run");
    world.run(LEASE);
    world.assert_shared(&[0, 1]);
}

#[test]
fn member_without_a_current_watch_loses_its_shards() {
    let mut world = started(2, 4);
    world.nodes[0].is_deaf = true;
    world.run(LEASE * 2 / 3 - RETRY * 2);
    assert_eq!(world.nodes[0].owned.len(), 2);
    world.run(RETRY * 2 + STEP);
    assert!(world.nodes[0].ended.iter().all(|(_, reason)| *reason == OwnershipEnd::WatchLost));
    assert_eq!(world.nodes[0].owned.len(), 0);
}

#[test]
fn member_that_has_lost_its_shards_is_not_idle() {
    let mut world = started(2, 4);
    world.nodes[0].is_deaf = true;
    world.run(LEASE * 2 / 3 + STEP * 2);
    assert_eq!(world.nodes[0].owned.len(), 0);
    world.nodes[0].is_deaf = false;
    world.open(0);
    world.run(RETRY / 2);
    world.assert_shared(&[0, 1]);
}

#[test]
fn deleted_shard_has_a_new_owner_one_lease_duration_later() {
    let mut world = started(2, 4);
    world.nodes[0].is_deaf = true;
    let shard = *world.nodes[0].owned.keys().next().unwrap();
    world.delete(GroupKey::Shard(shard));
    world.run(LEASE - RETRY);
    assert!(world.owners(shard).is_empty());
    world.run(RETRY * 4);
    assert_eq!(world.owners(shard), [1]);
}

#[test]
fn deleted_slot_has_no_second_owner_of_its_shards() {
    let mut world = started(2, 4);
    let slot = world.nodes[0].slot.unwrap();
    world.delete(GroupKey::Slot(slot));
    world.run(LEASE * 2);
    world.assert_shared(&[0, 1]);
}

#[test]
fn foreign_record_is_left_alone_and_reported() {
    let mut world = started(2, 4);
    world.edit(GroupKey::Shard(3), |record| record.holder_identity = Some("pod-9".into()));
    let before = world.records[&GroupKey::Shard(3)].version;
    world.run(LEASE * 2);
    assert_eq!(world.records[&GroupKey::Shard(3)].version, before);
    assert_eq!((world.owners(3), world.owners(2).len()), (vec![], 1));
    assert!(world.nodes.iter().all(|node| node.group.fault(3).is_some()));
    world.edit(GroupKey::Shard(3), |record| record.holder_identity = Some(String::new()));
    world.run(RETRY * 2);
    world.assert_shared(&[0, 1]);
}

#[test]
fn member_that_takes_nothing_is_passed_over() {
    let mut world = started(2, 4);
    world.add(4);
    world.run(LEASE);
    world.nodes[1].is_stuck = true;
    world.nodes[0].is_dead = true;
    world.run(LEASE + RETRY * 4);
    let others: usize = world.nodes[1..].iter().map(|node| node.owned.len()).sum();
    assert_eq!(others, 4, "the third member takes every shard of the first member");
}

#[test]
fn restored_store_has_no_second_owner() {
    let mut world = started(2, 4);
    let backup = (world.records.clone(), world.version);
    world.add(4);
    world.run(LEASE);
    world.assert_shared(&[0, 1, 2]);
    (world.records, _) = backup;
    (0..3).for_each(|node| world.open(node));
    world.run(LEASE * 3);
    world.assert_shared(&[0, 1, 2]);
}

#[test]
fn seventeenth_process_is_a_spare_until_a_slot_is_free() {
    let mut world = started(8, 8);
    world.add(8);
    world.run(RETRY);
    assert_eq!(world.nodes[8].slot, None);
    world.nodes[2].is_dead = true;
    world.run(LEASE + RETRY * 2);
    assert!(world.nodes[8].slot.is_some());
    world.assert_shared(&[0, 1, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn edits_of_a_record_move_nothing() {
    let mut world = started(2, 4);
    let shard = *world.nodes[0].owned.keys().next().unwrap();
    for _ in 0..20 {
        world.edit(GroupKey::Shard(shard), |_| {});
        world.run(STEP * 3);
    }
    world.assert_shared(&[0, 1]);
    assert!(world.nodes[0].ended.is_empty());
}

#[test]
fn response_that_overtakes_a_listing_is_not_undone() {
    let mut world = started(1, 1);
    let key = GroupKey::Shard(0);
    let listing = world.records.clone();
    let sent_at = world.now;
    world.nodes[0].is_deaf = true;
    world.now = world.now + STEP;
    // The worker returns by itself, and the response to the release overtakes the listing.
    world.nodes[0].owned.clear();
    let now = world.now;
    world.nodes[0].group.returned(now, 0);
    assert!(world.drive(0));
    assert_eq!(world.records[&key].record.holder(), None);
    let group = &mut world.nodes[0].group;
    group.watch_opened(now, sent_at);
    for (key, seen) in listing {
        group.watched(now, key, seen.version, Some(seen));
    }
    group.listed(now);
    world.drive(0);
    assert!(world.nodes[0].owned.is_empty() && world.nodes[0].group.owner(0).is_none());
}

#[test]
fn ownership_waits_for_a_read_after_an_old_listing() {
    let mut world = started(1, 1);
    let (key, wall) = (GroupKey::Shard(0), world.wall());
    world.edit(key, |record| record.holder_identity = Some(String::new()));
    world.drive(0);
    world.nodes[0].is_deaf = true;
    let GroupStep::Send(GroupRequest { id, operation: GroupOperation::Update(base, record), .. }) =
        world.nodes[0].group.next(wall)
    else {
        panic!("the member takes the shard")
    };
    let (listing, sent_at) = (world.records.clone(), world.now);
    world.now = world.now + STEP;
    let (now, wall, response) = (world.now, world.wall(), world.written(key, base.version, &record));
    let group = &mut world.nodes[0].group;
    group.on_response(now, id, response);
    group.watch_opened(now, sent_at);
    listing.into_iter().for_each(|(key, seen)| group.watched(now, key, seen.version, Some(seen)));
    group.listed(now);
    // The listing may be old, or the store was restored. A read decides.
    let step = group.next(wall);
    assert!(matches!(step, GroupStep::Send(GroupRequest { operation: GroupOperation::Get, .. })), "{step:?}");
    assert!(std::iter::from_fn(|| group.effect()).all(|effect| !matches!(effect, GroupEffect::Started(..))));
}

#[test]
fn another_record_with_a_known_version_is_learned() {
    let mut world = started(2, 1);
    let key = GroupKey::Shard(0);
    let mut seen = world.records[&key].clone();
    seen.record.holder_identity = Some(String::new());
    world.records.insert(key, seen);
    (0..2).for_each(|node| world.open(node));
    assert!(world.nodes.iter().all(|node| node.group.owner(0).is_none()));
}

#[test]
fn record_of_a_restored_store_starts_no_ownership_at_once() {
    let mut world = started(1, 2);
    let backup = world.records.clone();
    world.add(2);
    world.run(LEASE);
    world.assert_shared(&[0, 1]);
    world.nodes[1].is_deaf = true;
    world.records = backup;
    world.open(0);
    world.run(LEASE * 2);
}

#[test]
fn stamp_differs_from_the_time_in_the_record() {
    let mut world = started(1, 1);
    let base = world.records[&GroupKey::Shard(0)].clone();
    let group = &mut world.nodes[0].group;
    group.last_stamp -= 1;
    let now = Now { local: world.now, wall: SystemTime::UNIX_EPOCH };
    assert_ne!(Some(group.stamp(now, &base)), base.record.renew_time);
}

#[test]
fn response_of_an_earlier_watch_is_ignored() {
    let mut world = started(1, 1);
    world.nodes[0].owned.clear();
    let now = world.now + STEP;
    world.nodes[0].group.returned(now, 0);
    let wall = world.wall();
    let GroupStep::Send(GroupRequest { id, .. }) = world.nodes[0].group.next(wall) else { panic!("no release") };
    let seen = world.records[&GroupKey::Shard(0)].clone();
    world.nodes[0].is_deaf = true;
    world.delete(GroupKey::Shard(0));
    world.open(0);
    world.nodes[0].group.on_response(now, id, GroupResponse::Written(seen));
    assert_eq!(world.nodes[0].group.owner(0), None);
}

#[test]
fn restored_shard_is_not_taken_for_a_lease_duration() {
    let mut world = started(1, 1);
    let shard = GroupKey::Shard(0);
    let backup = world.records[&shard].clone();
    world.run(RETRY);
    world.edit(shard, |record| record.holder_identity = Some(String::new()));
    world.run(RETRY);
    world.records.insert(shard, VersionedRecord { version: backup.version - 1, ..backup });
    world.records.get_mut(&shard).unwrap().record.holder_identity = Some(String::new());
    world.now = world.now + STEP;
    world.open(0);
    world.run(LEASE - RETRY);
    assert!(world.owners(0).is_empty());
    world.run(RETRY * 3);
    world.assert_shared(&[0]);
}

#[test]
fn surplus_moves_an_eighth_at_a_time() {
    let mut world = started(1, 32);
    world.nodes[0].stubborn.extend(0..32);
    world.add(32);
    world.run(RETRY);
    assert_eq!(world.nodes[0].wanted, 4);
}

#[test]
fn changed_shard_is_not_taken_before_its_worker_returns() {
    let mut world = started(1, 1);
    world.nodes[0].stubborn.insert(0);
    world.edit(GroupKey::Shard(0), |record| record.holder_identity = Some(String::new()));
    world.run(RETRY);
    assert!(world.nodes[0].owned.is_empty());
}

#[test]
fn shard_is_not_taken_before_the_listing_ends() {
    let mut world = started(1, 1);
    let now = world.now;
    world.nodes[0].group.watch_opened(now, now);
    world.edit(GroupKey::Shard(0), |record| record.holder_identity = Some(String::new()));
    while world.drive(0) {}
    assert!(world.owners(0).is_empty());
}

#[test]
fn recreated_slot_ends_a_term_one_lease_duration_later() {
    let mut world = started(2, 2);
    let (key, shard) = (GroupKey::Slot(world.nodes[0].slot.unwrap()), *world.nodes[0].owned.keys().next().unwrap());
    world.delete(key);
    let acquire_time = Some(MicroTime::from_unix_micros(7));
    let holder_identity = Some("node-9".into());
    world.store(key, 0, &LeaderElectionRecord { holder_identity, acquire_time, ..Default::default() });
    world.run(LEASE - RETRY);
    assert!(world.owners(shard).is_empty());
}

#[test]
fn late_event_changes_nothing() {
    let mut world = started(2, 2);
    let key = GroupKey::Shard(0);
    let late = world.records[&key].clone();
    world.edit(key, |record| record.lease_transitions = Some(7));
    world.run(STEP);
    let now = world.now;
    let group = &mut world.nodes[0].group;
    group.watched(now, key, late.version, Some(late));
    assert!(group.effect().is_none() && group.is_listed());
    world.run(STEP);
    world.assert_shared(&[0, 1]);
}

#[test]
fn slot_deleted_unseen_keeps_its_shards_for_a_lease_duration() {
    let mut world = started(1, 1);
    world.add(1);
    world.nodes[1].is_deaf = true;
    world.run(RETRY);
    // The first member gets a new slot that the second member never sees.
    let slot = GroupKey::Slot(5);
    let name = TermName { slot: 5, acquire_time: "t".into(), uid: "unseen".into() };
    let now = world.now;
    let mut shard = world.records[&GroupKey::Shard(0)].clone();
    shard.record.holder_identity = Some(name.to_holder("unseen"));
    shard.record.acquire_time = Some(MicroTime::from_text("t"));
    shard.version += 100;
    let group = &mut world.nodes[1].group;
    group.watched(now, GroupKey::Shard(0), shard.version, Some(shard));
    let row = &group.shards[0];
    assert_eq!(group.slots[5].over_at(&name, row.row.since, LEASE), Some(now + LEASE));
    assert!(!world.records.contains_key(&slot));
    assert_eq!(group.free_from(0), Some(now + LEASE));
}
