//! Several members on one store in memory and one virtual clock.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::time::{Duration, SystemTime};

use super::super::*;
use crate::election::stop_reason::StopReason;
use crate::store::StoreErrorKind;
use crate::store::record::{LeaderElectionRecord, MicroTime, StoreData};

pub(super) const LEASE: Duration = Duration::from_secs(15);
pub(super) const RETRY: Duration = Duration::from_secs(2);
pub(super) const DRAIN: Duration = Duration::from_secs(20);
pub(super) const STEP: Duration = Duration::from_millis(10);

/// Several members on one store in memory and one virtual clock.
pub(super) struct World {
    pub(super) now: Moment,
    pub(super) version: u64,
    pub(super) records: BTreeMap<GroupKey, VersionedRecord>,
    pub(super) nodes: Vec<Node>,
    /// The record that no node can read or change.
    pub(super) damaged: Option<GroupKey>,
}

/// One process. Its elector renews the slot, and its workers return when they are asked.
pub(super) struct Node {
    pub(super) group: DrivenGroup,
    pub(super) name: String,
    pub(super) slot: Option<usize>,
    pub(super) deadline: Option<Arc<Deadline>>,
    pub(super) renewed_at: Moment,
    pub(super) owned: BTreeMap<usize, u64>,
    /// The shards whose workers ignore that they are wanted.
    pub(super) stubborn: BTreeSet<usize>,
    pub(super) ended: Vec<(usize, OwnershipEnd)>,
    /// The owners that the group has reported.
    pub(super) owners: BTreeMap<usize, Option<Box<str>>>,
    /// The damaged records and the idle members that the group has reported.
    pub(super) damaged: Vec<GroupKey>,
    pub(super) idle: Vec<usize>,
    /// The shards whose workers kept the process from a campaign, as last reported.
    pub(super) blocked: Vec<usize>,
    /// The number of shards of the member that has ended this process.
    pub(super) other_shards: Option<u32>,
    pub(super) wanted: usize,
    /// `true` while the process gets no events.
    pub(super) is_deaf: bool,
    /// The failure of each request and campaign.
    pub(super) failure: Option<fn() -> StoreError>,
    /// The number of requests of the group, and of campaigns.
    pub(super) requests: usize,
    pub(super) campaigns: usize,
    /// The pause that the answer to the next request asks for.
    pub(super) retry_after: Option<Duration>,
    pub(super) is_dead: bool,
    pub(super) writes: usize,
    /// The number of watches that were opened.
    pub(super) opens: usize,
}

/// A group whose `next` is called after an input, and at the moments for which the group asked.
pub(super) struct DrivenGroup {
    group: Group,
    has_input: bool,
    wake: Moment,
}

impl Deref for DrivenGroup {
    type Target = Group;

    fn deref(&self) -> &Group {
        &self.group
    }
}

/// Each mutable access counts as an input.
impl DerefMut for DrivenGroup {
    fn deref_mut(&mut self) -> &mut Group {
        self.has_input = true;
        &mut self.group
    }
}

impl World {
    pub(super) fn new(nodes: usize, shards: usize) -> Self {
        let mut world = Self {
            now: Moment::from_nanos(1 << 40),
            version: 0,
            records: BTreeMap::new(),
            nodes: Vec::new(),
            damaged: None,
        };
        (0..nodes).for_each(|_| world.add(shards));
        world
    }

    pub(super) fn add(&mut self, shards: usize) {
        let name = format!("node-{}", self.nodes.len());
        let settings = GroupSettings {
            shards,
            max_shards: None,
            max_members: 8,
            identity: name.clone(),
            lease_duration: LEASE,
            retry_period: RETRY,
            drain_timeout: DRAIN,
        };
        let mut group = Group::new(settings);
        group.join();
        let group = DrivenGroup { group, has_input: true, wake: self.now };
        self.nodes.push(Node {
            group,
            name,
            slot: None,
            deadline: None,
            renewed_at: self.now,
            owned: BTreeMap::new(),
            stubborn: BTreeSet::new(),
            ended: Vec::new(),
            owners: BTreeMap::new(),
            damaged: Vec::new(),
            idle: Vec::new(),
            blocked: Vec::new(),
            other_shards: None,
            wanted: 0,
            is_deaf: false,
            failure: None,
            requests: 0,
            campaigns: 0,
            retry_after: None,
            is_dead: false,
            writes: 0,
            opens: 0,
        });
        self.open(self.nodes.len() - 1);
    }

    /// Opens the watch of a node, and lists all records.
    pub(super) fn open(&mut self, node: usize) {
        self.nodes[node].opens += 1;
        let group = &mut self.nodes[node].group;
        group.watch_opened(self.now, self.now);
        let shards = group.shards.len();
        for (key, seen) in self.records.iter().filter(|(key, _)| is_known(shards, **key)) {
            // A canceled watch delivers no other event.
            if group.view.is_open {
                group.watched(self.now, *key, seen.version, Some(seen.clone()));
            }
        }
        group.listed(self.now);
    }

    pub(super) fn wall(&self) -> Now {
        Now { local: self.now, wall: SystemTime::UNIX_EPOCH + Duration::from_nanos(self.now.as_nanos()) }
    }

    /// Stores a record if the version of the stored record is `base`, and reports the change to all nodes.
    pub(super) fn store(&mut self, key: GroupKey, base: u64, record: &LeaderElectionRecord) -> Option<VersionedRecord> {
        if self.records.get(&key).map_or(0, |it| it.version) != base || self.damaged == Some(key) {
            return None;
        }
        self.version += 1;
        let uid = self.records.get(&key).map_or(Some(format!("uid-{}", self.version)), |it| it.record.uid.clone());
        let record = LeaderElectionRecord { uid, ..record.clone() };
        let mut seen = VersionedRecord::new(record, self.version, StoreData::none());
        let holder = self.nodes.iter().find(|node| seen.record.holder() == Some(&*node.name));
        seen.notes.term.shards = holder.map(|node| node.group.shards.len() as u32);
        seen.notes.term.max_shards = holder.and_then(|node| node.group.settings.max_shards).map(|number| number as u32);
        self.records.insert(key, seen.clone());
        self.tell(key, self.version, Some(&seen));
        Some(seen)
    }

    pub(super) fn delete(&mut self, key: GroupKey) {
        self.records.remove(&key);
        self.version += 1;
        self.tell(key, self.version, None);
    }

    fn tell(&mut self, key: GroupKey, version: u64, seen: Option<&VersionedRecord>) {
        for node in self.nodes.iter_mut().filter(|node| !node.is_deaf && is_known(node.group.shards.len(), key)) {
            node.group.watched(self.now, key, version, seen.cloned());
        }
    }

    pub(super) fn edit(&mut self, key: GroupKey, change: impl FnOnce(&mut LeaderElectionRecord)) {
        let mut seen = self.records[&key].clone();
        change(&mut seen.record);
        self.store(key, seen.version, &seen.record);
    }

    /// Runs all nodes for a time, and checks after every step that no shard has two owners.
    pub(super) fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            for node in 0..self.nodes.len() {
                self.renew(node);
                let turns = (0..1_000).take_while(|_| !self.nodes[node].is_dead && self.drive(node)).count();
                assert!(turns < 1_000, "node {node} acts without an end");
            }
            self.check_exclusion();
            self.now = self.now + STEP;
        }
    }

    /// Runs all nodes until `holds` returns `true`, and returns the time.
    pub(super) fn run_until(&mut self, holds: impl Fn(&World) -> bool) -> Duration {
        let began_at = self.now;
        while !holds(self) {
            assert!(self.now.since(began_at) < LEASE * 20, "never");
            self.run(STEP);
        }
        self.now.since(began_at)
    }

    /// Returns the settings of a node.
    pub(super) fn settings(&mut self, node: usize) -> &mut GroupSettings {
        Arc::make_mut(&mut self.nodes[node].group.settings)
    }

    /// Ends the term of a node, if the node has one.
    pub(super) fn end_term(&mut self, node: usize, reason: StopReason) {
        let node = &mut self.nodes[node];
        node.deadline.iter().for_each(|deadline| _ = deadline.end(self.now, reason.clone()));
        node.group.has_input = true;
    }

    /// Renews the slot of a node, as its elector does.
    fn renew(&mut self, index: usize) {
        let node = &self.nodes[index];
        let (Some(slot), Some(deadline)) = (node.slot, node.deadline.clone()) else { return };
        if node.is_dead || self.now < node.renewed_at + RETRY || !deadline.is_valid(self.now) {
            return;
        }
        let Some(seen) = self.records.get(&GroupKey::Slot(slot)).cloned() else {
            return self.end_term(index, StopReason::Expired);
        };
        let renew_time = Some(MicroTime::from_unix_micros(self.now.as_nanos() / 1_000));
        let record = LeaderElectionRecord { renew_time, ..seen.record.clone() };
        if seen.record.holder() != Some(&*node.name) {
            return self.end_term(index, StopReason::Expired);
        }
        let stored = self.store(GroupKey::Slot(slot), seen.version, &record).unwrap();
        let node = &mut self.nodes[index];
        node.renewed_at = self.now;
        deadline.extend(self.now, self.now + node.group.settings.lease_duration * 2 / 3);
        node.group.own_slot_observed(self.now, slot, Some(self.now), &stored);
    }

    /// Performs the effects and the next request of a node. Returns `false` if the node waits.
    pub(super) fn drive(&mut self, index: usize) -> bool {
        let (now, wall) = (self.now, self.wall());
        let driven = &mut self.nodes[index].group;
        if !std::mem::take(&mut driven.has_input) && now < driven.wake {
            return false;
        }
        let step = driven.group.next(wall);
        let effects: Vec<_> = std::iter::from_fn(|| driven.group.effect()).collect();
        driven.has_input = !effects.is_empty();
        if let Step::Wait(until) = step {
            driven.wake = until;
        }
        let acted = !effects.is_empty();
        effects.into_iter().for_each(|effect| self.carry_out(index, effect));
        let node = &mut self.nodes[index];
        let Step::Send(GroupRequest { id, key, operation, .. }) = step else { return acted };
        node.requests += 1;
        let response = match operation {
            _ if node.failure.is_some() => Err(node.failure.unwrap()()),
            _ if node.retry_after.is_some() => {
                let busy = StoreError::new(StoreErrorKind::Unavailable, "busy");
                Err(busy.with_retry_after(node.retry_after.take()))
            }
            GroupOperation::Get(()) if self.damaged == Some(key) => {
                Err(StoreError::new(StoreErrorKind::Malformed, "unreadable"))
            }
            GroupOperation::Get(()) => Ok(self.records.get(&key).cloned()),
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

    pub(super) fn written(&mut self, key: GroupKey, base: u64, record: &LeaderElectionRecord) -> GroupResponse {
        let refused = || StoreError::new(StoreErrorKind::Conflict, "conflict");
        self.store(key, base, record).map(Some).ok_or_else(refused)
    }

    fn carry_out(&mut self, index: usize, effect: GroupEffect) {
        let now = self.now;
        match effect {
            GroupEffect::Campaign(slot) => {
                self.nodes[index].campaigns += 1;
                self.campaign(index, slot);
            }
            GroupEffect::Started(shard, token) => {
                assert!(self.nodes[index].owned.insert(shard, token).is_none());
            }
            GroupEffect::Recalled(shard) => {
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
            GroupEffect::Owner(shard, owner) => drop(self.nodes[index].owners.insert(shard, owner)),
            GroupEffect::Blocked(shards) => self.nodes[index].blocked = shards,
            GroupEffect::OtherDivision { shards, .. } => {
                assert_eq!(self.nodes[index].other_shards.replace(shards), None);
                self.nodes[index].group.close(now);
            }
            GroupEffect::Idle(slot) => self.nodes[index].idle.push(slot),
            GroupEffect::Damaged(key, _) => self.nodes[index].damaged.push(key),
            GroupEffect::Reopen if !self.nodes[index].is_deaf => self.open(index),
            _ => {}
        }
    }

    fn campaign(&mut self, index: usize, slot: usize) {
        let GroupSettings { lease_duration, max_members, .. } = *self.nodes[index].group.settings;
        if self.nodes[index].failure.is_some() {
            // A campaign for another slot would fail, too.
            return self.nodes[index].group.not_joined(self.now, 0..max_members, RETRY);
        }
        let key = GroupKey::Slot(slot);
        let base = self.records.get(&key).cloned();
        let name = self.nodes[index].name.clone();
        if base.as_ref().is_some_and(|it| it.record.holder().is_some()) {
            return self.nodes[index].group.not_joined(self.now, slot..slot + 1, RETRY);
        }
        let time = Some(MicroTime::from_unix_micros(self.now.as_nanos() / 1_000 + self.version));
        let record = LeaderElectionRecord {
            holder_identity: Some(name),
            lease_duration_seconds: Some(lease_duration.as_secs() as i32),
            acquire_time: time.clone(),
            renew_time: time,
            ..base.as_ref().map_or_else(Default::default, |it| it.record.clone())
        };
        let stored = self.store(key, base.map_or(0, |it| it.version), &record).unwrap();
        let deadline = Arc::new(Deadline::new(self.now + lease_duration * 2 / 3));
        let node = &mut self.nodes[index];
        (node.slot, node.deadline, node.renewed_at) = (Some(slot), Some(Arc::clone(&deadline)), self.now);
        node.group.own_slot_observed(self.now, slot, Some(self.now), &stored);
        assert!(node.group.joined(self.now, slot, stored.version, deadline));
    }

    pub(super) fn owners(&self, shard: usize) -> Vec<usize> {
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
    pub(super) fn assert_shared(&self, nodes: &[usize]) {
        let shards = self.nodes[0].group.shards.len();
        let unowned: Vec<_> = (0..shards).filter(|shard| self.owners(*shard).is_empty()).collect();
        assert!(unowned.is_empty(), "without an owner: {unowned:?}");
        let shares: Vec<_> = nodes.iter().map(|node| self.nodes[*node].owned.len()).collect();
        assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1, "{shares:?}");
    }
}

fn is_known(shards: usize, key: GroupKey) -> bool {
    !matches!(key, GroupKey::Shard(shard) if shard >= shards)
}

pub(super) fn started(nodes: usize, shards: usize) -> World {
    let mut world = World::new(nodes, shards);
    world.run(LEASE + RETRY * 2);
    world.assert_shared(&(0..nodes).collect::<Vec<_>>());
    world
}
