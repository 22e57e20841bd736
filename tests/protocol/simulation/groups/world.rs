//! The simulated world of a group, which carries out one event at a time.

use std::collections::BTreeMap;

use leasehold::election::group::{Group, GroupKey, GroupOperation, GroupResponse, MAX_MEMBERS};
use leasehold::store::{LeaderElectionRecord, StoreError, StoreErrorKind, VersionedRecord};
use leasehold::util::clock::Moment;

use super::checks::Calm;
use super::plan::GroupPlan;
use super::process::{Process, Stream};
use super::store::{GroupStore, Records};
use crate::clock::{MILLI, Nanos, NodeClock, SECOND};
use crate::count::Count;
use crate::plan::Violation;
use crate::trace::trace;

/// The recipient of an event: a process, and the number of its incarnation.
pub type To = (usize, u32);

/// The sender of a request: the group, or the elector with this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    Group,
    Slot(u64),
}

/// A request on its way to the store, and the delays of its answers.
#[derive(Debug, Clone)]
pub struct Sent {
    pub sender: Sender,
    pub id: u64,
    pub key: GroupKey,
    pub call: GroupOperation,
    pub answers: Vec<Nanos>,
    /// The number of restores of the store before the request. A restore loses all requests on their way.
    pub restores: u64,
}

pub enum What {
    Wake(u64),
    SlotWake(u64, u64),
    Arrives(Box<Sent>),
    Answer(Sender, u64, Box<GroupResponse>),
    /// A watch reaches the store, which takes the snapshot for the listing.
    Opens(u64, Moment),
    /// The process receives the listing, which ends after this time.
    Opened(u64, Moment, Box<Records>),
    /// The listing has ended, and contains every change up to this version, which was the newest at this time.
    Listed(u64, u64, Nanos),
    /// A change with its version, and its time.
    Event(u64, GroupKey, u64, Nanos, Option<Box<VersionedRecord>>),
    /// The watch breaks, or a watch that could not be opened is opened again.
    Breaks(u64),
    Open(u64),
    Returns(usize, u64),
    Join,
    Start,
    Repair(GroupKey),
    Restore,
    Chaos,
    Heal,
    MustOwn,
    MustShare,
    End,
}

pub struct World {
    pub plan: GroupPlan,
    pub random: fastrand::Rng,
    pub traced: bool,
    pub truth: Nanos,
    queue: BTreeMap<(Nanos, u64), (Option<To>, What)>,
    pushes: u64,
    pub store: GroupStore,
    /// The time of the last change of each record, except edits of metadata.
    pub changed_at: BTreeMap<GroupKey, (LeaderElectionRecord, Nanos)>,
    /// The number of restores, and the time of the last one.
    pub restores: (u64, Nanos),
    pub nodes: Vec<Process>,
    pub serials: u64,
    /// The last fencing token of each shard.
    pub tokens: Vec<u64>,
    pub calm: Calm,
    pub count: Count,
}

/// Runs the world of one seed.
pub fn simulate(seed: u64, traced: bool, total: &mut Count) -> Result<(), Violation> {
    let mut world = World::new(seed, traced);
    let outcome = world.run();
    world.count.truth = world.truth;
    total.add(&world.count);
    outcome
}

impl World {
    fn new(seed: u64, traced: bool) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let plan = GroupPlan::new(&mut random);
        let mut world = Self {
            random,
            traced,
            truth: SECOND,
            queue: BTreeMap::new(),
            pushes: 0,
            store: GroupStore::default(),
            changed_at: BTreeMap::new(),
            restores: (0, 0),
            nodes: Vec::new(),
            serials: 0,
            tokens: vec![0; plan.shards],
            calm: Calm::default(),
            count: Count::default(),
            plan,
        };
        trace!(world, "{:#?}", world.plan);
        for index in 0..world.plan.nodes {
            let node = world.process(index, 0);
            world.nodes.push(node);
            let late = if world.random.u8(..4) == 0 { world.plan.heal_at } else { 3 * SECOND };
            let at = SECOND + world.random.u64(..late - SECOND);
            world.push(at, Some((index, 0)), What::Start);
        }
        let GroupPlan { heal_at, owned_by, .. } = world.plan;
        for (at, what) in
            [(2 * SECOND, What::Chaos), (heal_at, What::Heal), (owned_by, What::MustOwn), (owned_by, What::MustShare)]
        {
            world.push(at, None, what);
        }
        world
    }

    /// Creates a process that has not started.
    fn process(&mut self, index: usize, incarnation: u32) -> Process {
        self.serials += 1;
        let identity = format!("node-{index}.{}", self.serials);
        let rate = if self.random.bool() { SECOND } else { self.random.u64(SECOND..=self.plan.fastest) };
        let is_short = (index + incarnation as usize) % 2 == 1;
        let times = self.plan.short.filter(|_| is_short).unwrap_or(self.plan.times);
        if times != self.plan.times {
            self.count.fault("shorter lease durations");
        }
        let mut group = Group::new(self.plan.group_settings(&identity, times));
        group.join();
        Process {
            clock: NodeClock::new(&mut self.random, rate),
            identity,
            times,
            incarnation,
            is_alive: false,
            paused_until: None,
            cut: None,
            blind_until: 0,
            group,
            wake: 0,
            in_flight: None,
            wants: true,
            elector: None,
            deadline: None,
            stream: Stream::default(),
            knows: 0,
            proven_at: 0,
            quiet_until: Moment::default(),
            campaign_at: [Moment::default(); MAX_MEMBERS],
            owned: 0,
            workers: BTreeMap::new(),
        }
    }

    pub fn push(&mut self, at: Nanos, to: Option<To>, what: What) {
        self.pushes += 1;
        self.queue.insert((at.max(self.truth), self.pushes), (to, what));
    }

    /// Returns the address of the current incarnation of a process.
    pub fn to(&self, index: usize) -> Option<To> {
        Some((index, self.nodes[index].incarnation))
    }

    fn run(&mut self) -> Result<(), Violation> {
        while let Some(((at, _), (to, what))) = self.queue.pop_first() {
            self.truth = at;
            if let (Some((index, incarnation)), false) = (to, matches!(what, What::Arrives(_) | What::Opens(..))) {
                let node = &self.nodes[index];
                if node.incarnation != incarnation || (!node.is_alive && !matches!(what, What::Start)) {
                    continue;
                }
                if let Some(until) = node.paused_until.filter(|until| *until > self.truth) {
                    self.push(until, to, what);
                    continue;
                }
            }
            if let What::End = what {
                return Ok(());
            }
            self.count.steps += 1;
            self.carry_out(to, what)?;
            self.check()?;
        }
        Ok(())
    }

    fn carry_out(&mut self, to: Option<To>, what: What) -> Result<(), Violation> {
        let index = to.map_or(0, |(index, _)| index);
        match what {
            What::Wake(wake) if self.nodes[index].wake != wake => {}
            What::Wake(_) => self.drive(index)?,
            What::SlotWake(serial, wake) => match &self.nodes[index].elector {
                Some(elector) if (elector.serial, elector.wake) == (serial, wake) => self.drive_slot(index)?,
                _ => {}
            },
            What::Arrives(sent) => self.arrives(to, *sent),
            What::Answer(sender, id, answer) => self.answer(index, sender, id, *answer)?,
            What::Opens(serial, sent_at) => self.opens(index, to, serial, sent_at),
            What::Opened(serial, ..)
            | What::Listed(serial, ..)
            | What::Event(serial, ..)
            | What::Breaks(serial)
            | What::Open(serial)
                if self.nodes[index].stream.serial != serial => {}
            What::Opened(_, sent_at, records) => {
                let now = self.nodes[index].clock.local(self.truth);
                trace!(self, "{} gets a listing of {} records", self.nodes[index].identity, records.len());
                self.nodes[index].group.watch_opened(now, sent_at);
                for (key, seen) in *records {
                    self.nodes[index].group.watched(now, key, seen.version, Some(seen));
                }
                self.drive(index)?;
            }
            What::Listed(_, version, at) => {
                let node = &mut self.nodes[index];
                let now = node.clock.local(self.truth);
                (node.knows, node.proven_at) = (node.knows.max(version), node.proven_at.max(at));
                node.group.listed(now);
                self.drive(index)?;
            }
            What::Event(_, key, version, at, seen) => {
                let node = &mut self.nodes[index];
                if matches!(key, GroupKey::Slot(slot) if node.group.own_slot() == Some(slot)) {
                    node.proven_at = node.proven_at.max(at);
                }
                self.watched(index, key, version, seen.map(|seen| *seen))?;
            }
            What::Breaks(_) => {
                trace!(self, "the watch of {} breaks", self.nodes[index].identity);
                self.count.fault("watches broken");
                self.nodes[index].group.watch_ended();
                self.open(index, true);
                self.drive(index)?;
            }
            What::Open(_) => self.open(index, false),
            What::Returns(shard, token) => self.returns(index, shard, token)?,
            // A process takes part again after it has left.
            What::Join if self.nodes[index].group.own_slot().is_some() => {
                self.push(self.truth + self.plan.lease / 8, to, What::Join);
            }
            What::Join => {
                self.nodes[index].wants = true;
                self.nodes[index].group.join();
                self.drive(index)?;
            }
            What::Start => self.start(index)?,
            What::Repair(key) => self.repair(key),
            What::Restore => self.restore(),
            What::Chaos => self.chaos()?,
            What::Heal => self.heal()?,
            What::MustOwn => self.must_own()?,
            What::MustShare => self.must_share()?,
            What::End => {}
        }
        Ok(())
    }

    fn start(&mut self, index: usize) -> Result<(), Violation> {
        // The promise does not cover a process that starts soon after a restore.
        let (restores, at) = self.restores;
        if restores > 0 && self.truth < at + self.plan.lease {
            self.push(at + self.plan.lease, self.to(index), What::Start);
            return Ok(());
        }
        let incarnation = self.nodes[index].incarnation + 1;
        self.nodes[index] = self.process(index, incarnation);
        self.nodes[index].is_alive = true;
        self.count.candidates += 1;
        trace!(self, "{} starts", self.nodes[index].identity);
        self.open(index, false);
        self.drive(index)
    }

    // ---- watches ----

    /// Opens the watch of a process, now or after a delay.
    pub fn open(&mut self, index: usize, is_delayed: bool) {
        let is_calm = self.truth >= self.plan.heal_at;
        let retry = self.nodes[index].times.2.as_nanos() as Nanos;
        let to = self.to(index);
        let node = &self.nodes[index];
        let is_cut = node.cut.is_some_and(|(_, until)| until > self.truth) || node.blind_until > self.truth;
        let stream = &mut self.nodes[index].stream;
        let serial = stream.serial + 1;
        *stream = Stream { serial, ..Stream::default() };
        if is_delayed || is_cut || (!is_calm && self.random.u8(..8) == 0) {
            let at = self.truth + self.random.u64(retry / 2..retry * 3 / 2);
            return self.push(at, to, What::Open(serial));
        }
        let sent_at = self.nodes[index].clock.local(self.truth);
        let at = self.truth + self.delay();
        self.push(at, to, What::Opens(serial, sent_at));
    }

    /// Draws the delay of a message of a watch.
    fn delay(&mut self) -> Nanos {
        let last = self.plan.heal_at.saturating_sub(self.truth);
        let delay = self.random.u64(MILLI..30 * MILLI);
        if self.random.u32(..1000) >= self.plan.event_late || last == 0 {
            return delay;
        }
        self.count.fault("events late");
        delay + self.random.u64(..2 * self.plan.lease).min(last)
    }

    fn opens(&mut self, index: usize, to: Option<To>, serial: u64, sent_at: Moment) {
        let (opened_at, listed_at) = (self.truth + self.delay(), self.delay());
        let is_silent = self.truth < self.plan.heal_at && self.random.u8(..16) == 0;
        let node = &mut self.nodes[index];
        if to != Some((index, node.incarnation)) || !node.is_alive || node.stream.serial != serial {
            return;
        }
        let last_at = opened_at + listed_at;
        node.stream = Stream { serial, is_attached: true, is_silent, last_at, last_of: BTreeMap::new() };
        let records = Box::new(self.store.records.clone());
        self.push(opened_at, to, What::Opened(serial, sent_at, records));
        let (version, at) = (self.store.version, self.truth);
        self.push(last_at, to, What::Listed(serial, version, at));
    }

    /// Delivers the newest change of a record to all watches.
    pub fn publish(&mut self, key: GroupKey) {
        let (version, seen) = (self.store.version, self.store.records.get(&key).cloned().map(Box::new));
        let truth = self.truth;
        match &seen {
            Some(seen) if self.changed_at.get(&key).is_some_and(|(last, _)| *last == seen.record) => {}
            Some(seen) => _ = self.changed_at.insert(key, (seen.record.clone(), truth)),
            None => _ = self.changed_at.remove(&key),
        }
        for index in 0..self.nodes.len() {
            let (delay, again) = (self.delay(), self.random.u8(..32) == 0);
            let to = self.to(index);
            let stream = &mut self.nodes[index].stream;
            if !stream.is_attached || stream.is_silent {
                continue;
            }
            let last_at = match self.plan.is_ordered {
                true => &mut stream.last_at,
                false => stream.last_of.entry(key).or_insert(stream.last_at),
            };
            *last_at = (*last_at).max(self.truth + delay);
            let (at, serial) = (*last_at, stream.serial);
            self.push(at, to, What::Event(serial, key, version, truth, seen.clone()));
            if again {
                let at = at + self.random.u64(..SECOND);
                self.count.fault("events doubled");
                self.push(at, to, What::Event(serial, key, version, truth, seen.clone()));
            }
        }
    }

    fn watched(
        &mut self,
        index: usize,
        key: GroupKey,
        version: u64,
        seen: Option<VersionedRecord>,
    ) -> Result<(), Violation> {
        self.count.events += 1;
        let node = &mut self.nodes[index];
        let now = node.clock.local(self.truth);
        node.knows = node.knows.max(version);
        // The elector of the slot may receive the event first.
        if let (GroupKey::Slot(slot), Some(seen), true) = (key, &seen, version.is_multiple_of(2))
            && seen.record.holder() == Some(&node.identity)
        {
            node.group.own_slot_observed(now, slot, None, seen);
        }
        node.group.watched(now, key, version, seen);
        if version.is_multiple_of(8) {
            node.group.heard(now);
        }
        self.drive(index)
    }

    // ---- requests at the store ----

    fn arrives(&mut self, to: Option<To>, sent: Sent) {
        if sent.restores != self.restores.0 {
            return;
        }
        let before = self.store.version;
        let result = self.store.apply(sent.key, &sent.call);
        trace!(self, "the store answers {to:?} {:?} {}: {result:?}", sent.sender, sent.id);
        if self.store.version != before {
            self.publish(sent.key);
            self.back_up_free(sent.key);
        }
        let answer = match result {
            Ok(None) if !matches!(sent.call, GroupOperation::Get(())) => {
                Err(StoreError::new(StoreErrorKind::NotFound, "no record"))
            }
            other => other.map_err(|kind| StoreError::new(kind, "refused")),
        };
        for delay in sent.answers {
            self.push(self.truth + delay, to, What::Answer(sent.sender, sent.id, Box::new(answer.clone())));
        }
    }
}
