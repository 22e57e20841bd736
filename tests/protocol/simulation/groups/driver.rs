//! The simulated threads of a process: the driver of the group, the elector of the slot, and the workers.

use leasehold::election::candidate::Candidate;
use leasehold::election::candidate::messages::{Effect, Input};
use leasehold::election::group::{GroupEffect, GroupKey, GroupOperation, GroupRequest, GroupResponse, OwnershipEnd};
use leasehold::election::{Operation, Step, StoreResponse};
use leasehold::store::{StoreError, StoreErrorKind};
use leasehold::util::backoff::requested_pause;
use std::sync::Arc;
use std::time::Duration;

use super::process::{Elector, Worker};
use super::world::{Sender, Sent, What, World};
use crate::clock::{MILLI, Nanos, SECOND};
use crate::network::Fate;
use crate::plan::{Odds, Violation};
use crate::trace::trace;

/// The most requests of one campaign: a read that is repeated twice, and a write that is repeated once.
const MOST_REQUESTS: u8 = 5;

/// The most turns of a thread at one time.
const MOST_TURNS: u32 = 500;

impl World {
    /// Runs the thread of the group until the thread waits.
    pub fn drive(&mut self, index: usize) -> Result<(), Violation> {
        for _ in 0..MOST_TURNS {
            let node = &mut self.nodes[index];
            let now = node.clock.now(self.truth);
            let step = node.group.next(now);
            let mut has_acted = false;
            while let Some(effect) = self.nodes[index].group.effect() {
                has_acted = true;
                trace!(self, "{} wants {effect:?}", self.nodes[index].identity);
                self.obey(index, effect)?;
            }
            match step {
                Step::Send(request) => self.send_group(index, request)?,
                Step::Finished => return Err("a group never finishes".to_owned().into()),
                Step::Wait(_) if has_acted => {}
                Step::Wait(until) if until <= now.local => {}
                Step::Wait(until) => {
                    let node = &mut self.nodes[index];
                    node.wake += 1;
                    let (at, wake) = (node.clock.when(until), node.wake);
                    self.push(at, self.to(index), What::Wake(wake));
                    return Ok(());
                }
            }
        }
        Err(format!("{} spins", self.nodes[index].identity).into())
    }

    fn obey(&mut self, index: usize, effect: GroupEffect) -> Result<(), Violation> {
        let (truth, to) = (self.truth, self.to(index));
        match effect {
            GroupEffect::Started(shard, token) => {
                self.moves(index, shard)?;
                self.started(index, shard, token)?;
                let worker = self.worker(token);
                let is_calm = truth >= self.plan.heal_at;
                if self.plan.has_bad_workers && !is_calm && self.random.u8(..4) == 0 {
                    self.count.fault("workers that return by themselves");
                    let after = if self.random.bool() { 0 } else { self.random.u64(..2 * self.plan.lease) };
                    self.push((truth + after).min(self.plan.heal_at), to, What::Returns(shard, token));
                }
                let node = &mut self.nodes[index];
                node.owned |= 1 << shard;
                if node.workers.insert(shard, worker).is_some() {
                    return Err(format!("{} starts a second worker of {shard}", node.identity).into());
                }
            }
            GroupEffect::Recalled(shard) => {
                self.moves(index, shard)?;
                let node = &mut self.nodes[index];
                let Some(worker) = node.workers.get_mut(&shard) else {
                    return Err(format!("{} wants a shard back that has no worker", node.identity).into());
                };
                worker.is_recalled = true;
                let moving =
                    node.workers.iter().filter(|(shard, worker)| worker.is_recalled && node.owned & 1 << **shard != 0);
                let wanted = moving.count();
                if node.wants && wanted > (node.owned.count_ones() as usize / 8).max(1) {
                    return Err(format!("{} asks for {wanted} of {:b}", node.identity, node.owned).into());
                }
                let worker = node.workers[&shard];
                self.push(truth + worker.delay, to, What::Returns(shard, worker.token));
            }
            GroupEffect::Ended(shard, reason) => {
                self.moves(index, shard)?;
                self.count.fault(match reason {
                    OwnershipEnd::Returned => "returns",
                    OwnershipEnd::DrainTimeout => "drain timeouts",
                    OwnershipEnd::TermEnded => "ended terms",
                    OwnershipEnd::WatchLost => "lost watches",
                    _ => "changed records",
                });
                let node = &mut self.nodes[index];
                node.owned &= !(1 << shard);
                let now = node.clock.local(truth);
                node.workers.get_mut(&shard).into_iter().for_each(|worker| _ = worker.ended_at.get_or_insert(now));
                let is_safe = !matches!(reason, OwnershipEnd::Returned | OwnershipEnd::RecordChanged);
                let may_hang = is_safe && self.plan.has_bad_workers;
                let hangs = may_hang && truth < self.plan.heal_at && self.random.u8(..8) == 0;
                if let Some(worker) = node.workers.get_mut(&shard).filter(|_| hangs) {
                    self.count.fault("workers that hang");
                    worker.hangs = true;
                } else if let Some(worker) = node.workers.get(&shard) {
                    let after = if worker.is_stubborn { worker.delay } else { self.random.u64(..200 * MILLI) };
                    let token = worker.token;
                    self.push(truth + after, to, What::Returns(shard, token));
                }
            }
            GroupEffect::Campaign(slot) => self.campaign(index, slot)?,
            GroupEffect::MayLeave => {
                self.may_give_up(index, None)?;
                let is_early = self.random.bool();
                let node = &mut self.nodes[index];
                let now = node.clock.local(truth);
                let Some(elector) = &mut node.elector else {
                    return Err(format!("{} leaves without a slot", node.identity).into());
                };
                elector.candidate.handle(now, Input::GuardDropped { at: now });
                elector.candidate.handle(now, Input::Close);
                elector.is_leaving = !is_early;
                if is_early {
                    node.deadline = None;
                    node.group.left(now);
                }
                self.drive_slot(index)?;
            }
            GroupEffect::Reopen => {
                self.count.fault("watches reopened");
                self.open(index, false);
            }
            GroupEffect::Owner(..) | GroupEffect::Damaged(..) | GroupEffect::Spare => {}
            GroupEffect::Idle(..) | GroupEffect::Blocked(..) => {}
            GroupEffect::OtherDivision { .. } => return Err("a member has another number of shards".to_owned().into()),
        }
        Ok(())
    }

    /// Lets the workers of a process return that hang.
    pub fn end_hangs(&mut self, index: usize) {
        let hung = self.nodes[index].workers.iter().filter(|(_, worker)| worker.hangs);
        let hung: Vec<_> = hung.map(|(shard, worker)| (*shard, worker.token)).collect();
        for (shard, token) in hung {
            self.push(self.truth, self.to(index), What::Returns(shard, token));
        }
    }

    fn worker(&mut self, token: u64) -> Worker {
        let (drain, lease) = (self.plan.drain_timeout.as_nanos() as Nanos, self.plan.lease);
        let is_bad = self.plan.has_bad_workers && self.truth < self.plan.heal_at && self.random.u8(..3) == 0;
        let delay = match self.random.u8(..3) {
            _ if !is_bad => self.random.u64(..200 * MILLI).min(drain / 2),
            0 => self.random.u64(..drain),
            1 => self.random.u64(..drain + lease),
            _ => drain + self.random.u64(..2 * lease),
        };
        Worker { token, is_recalled: false, ended_at: None, delay, is_stubborn: is_bad, hangs: false }
    }

    pub fn returns(&mut self, index: usize, shard: usize, token: u64) -> Result<(), Violation> {
        let node = &mut self.nodes[index];
        if node.workers.get(&shard).is_none_or(|worker| worker.token != token) {
            return Ok(());
        }
        node.workers.remove(&shard);
        node.owned &= !(1 << shard);
        let now = node.clock.local(self.truth);
        trace!(self, "the worker of {shard} at {} returns", self.nodes[index].identity);
        self.nodes[index].group.returned(now, shard);
        self.drive(index)
    }

    // ---- the elector of the slot ----

    fn campaign(&mut self, index: usize, slot: usize) -> Result<(), Violation> {
        self.serials += 1;
        let (serial, seed) = (self.serials, self.random.u64(..));
        let node = &mut self.nodes[index];
        let now = node.clock.local(self.truth);
        if now < node.campaign_at[slot] {
            return Err(format!("{} campaigns for slot {slot} in its pause", node.identity).into());
        }
        if node.elector.is_some() {
            node.not_joined(now, slot..slot + 1, node.times.2);
            return Ok(());
        }
        let mut candidate = Candidate::new(self.plan.slot_settings(&node.identity, node.times), seed);
        candidate.handle(now, Input::Campaign { id: 1, once: true });
        node.elector = Some(Elector {
            serial,
            slot,
            candidate,
            in_flight: None,
            wake: 0,
            is_campaign: true,
            requests: Some(0),
            error: None,
            is_leaving: false,
        });
        self.drive_slot(index)
    }

    /// Runs the thread of the slot's elector until the thread waits.
    pub fn drive_slot(&mut self, index: usize) -> Result<(), Violation> {
        for _ in 0..MOST_TURNS {
            let has_acted = self.listen(index);
            let node = &mut self.nodes[index];
            let now = node.clock.now(self.truth);
            let Some(elector) = node.elector.as_mut().filter(|elector| elector.in_flight.is_none()) else {
                return Ok(());
            };
            match elector.candidate.next(now) {
                Step::Send(request) => {
                    let (sender, key) = (Sender::Slot(elector.serial), GroupKey::Slot(elector.slot));
                    let (call, context) = match request.operation {
                        Operation::Get(context) => (GroupOperation::Get(()), Some(context)),
                        Operation::Create(record) => (GroupOperation::Create(record), None),
                        Operation::Update(base, record) => (GroupOperation::Update(base, record), None),
                    };
                    elector.in_flight = Some((request.id, now.local, context));
                    // The same step may have ended the campaign.
                    self.listen(index);
                    self.count_request(index)?;
                    self.send(index, sender, request.id, key, call, request.timeout);
                    return Ok(());
                }
                Step::Wait(until) if has_acted || until <= now.local => {}
                Step::Wait(until) => {
                    elector.wake += 1;
                    let (serial, wake) = (elector.serial, elector.wake);
                    let at = node.clock.when(until);
                    self.push(at, self.to(index), What::SlotWake(serial, wake));
                    if self.listen(index) {
                        continue;
                    }
                    return Ok(());
                }
                Step::Finished => {
                    let (slot, is_campaign, is_leaving) = (elector.slot, elector.is_campaign, elector.is_leaving);
                    let error = elector.error.take();
                    node.elector = None;
                    if is_campaign {
                        let (lease, _, retry) = node.times;
                        let (slots, pause) = match error {
                            None => (slot..slot + 1, retry),
                            Some(error) if error.kind() == StoreErrorKind::Malformed => (slot..slot + 1, 4 * lease),
                            // A campaign for another slot would fail, too.
                            Some(error) => (
                                0..self.plan.max_members,
                                requested_pause(error.retry_after(), lease, self.random.f64()).max(retry),
                            ),
                        };
                        node.not_joined(now.local, slots, pause);
                    }
                    if is_leaving {
                        node.deadline = None;
                        node.group.left(now.local);
                    }
                    return self.wake(index);
                }
            }
        }
        Err(format!("the elector of {} spins", self.nodes[index].identity).into())
    }

    /// Counts a request of the elector's campaign, if the campaign has not ended.
    fn count_request(&mut self, index: usize) -> Result<(), Violation> {
        let node = &mut self.nodes[index];
        let Some(requests) = node.elector.as_mut().and_then(|elector| elector.requests.as_mut()) else { return Ok(()) };
        *requests += 1;
        match *requests > MOST_REQUESTS {
            true => Err(format!("{} sends too many requests in one campaign", node.identity).into()),
            false => Ok(()),
        }
    }

    /// Wakes the thread of the group.
    fn wake(&mut self, index: usize) -> Result<(), Violation> {
        let node = &mut self.nodes[index];
        node.wake += 1;
        let wake = node.wake;
        self.push(self.truth, self.to(index), What::Wake(wake));
        Ok(())
    }

    /// Carries out the effects of the slot's candidate, and returns `true` if there were any.
    fn listen(&mut self, index: usize) -> bool {
        let mut has_acted = false;
        let (truth, to) = (self.truth, self.to(index));
        loop {
            let node = &mut self.nodes[index];
            let now = node.clock.local(truth);
            let Some(elector) = &mut node.elector else { return has_acted };
            let Some(effect) = elector.candidate.effect() else { return has_acted };
            has_acted = true;
            let (serial, slot) = (elector.serial, elector.slot);
            if let Effect::Offer { .. } | Effect::RoundOver { .. } | Effect::Refuse { .. } = effect {
                elector.requests = None;
            }
            trace!(self, "the elector of slot {slot} at {} wants {effect:?}", self.nodes[index].identity);
            let node = &mut self.nodes[index];
            let Some(elector) = &mut node.elector else { return has_acted };
            match effect {
                Effect::Offer { deadline, fencing_token, .. } => {
                    let is_campaign = std::mem::take(&mut elector.is_campaign);
                    if is_campaign && node.group.joined(now, slot, fencing_token, Arc::clone(&deadline)) {
                        self.count.terms += 1;
                        node.deadline = Some(deadline);
                        // The group has had no member for a lease duration, so a process with a hung worker has joined.
                        if truth >= self.plan.heal_at {
                            self.end_hangs(index);
                        }
                    } else {
                        elector.candidate.handle(now, Input::NotTaken);
                        elector.candidate.handle(now, Input::Close);
                    }
                }
                Effect::RoundOver { error, .. } => {
                    elector.error = error;
                    elector.candidate.handle(now, Input::Close);
                }
                Effect::Refuse { .. } | Effect::NotFit { .. } => elector.candidate.handle(now, Input::Close),
                Effect::CancelAt(id, at) => {
                    let failed = Err(StoreError::new(StoreErrorKind::Interrupted, "canceled"));
                    let at = node.clock.when(at);
                    self.push(at, to, What::Answer(Sender::Slot(serial), id, Box::new(failed)));
                }
                _ => {}
            }
        }
    }

    // ---- requests ----

    fn send_group(&mut self, index: usize, request: GroupRequest) -> Result<(), Violation> {
        let GroupRequest { id, key, operation, timeout } = request;
        self.writes(index, &operation)?;
        self.sends(index, key, &operation)?;
        self.nodes[index].in_flight = Some((id, key, matches!(operation, GroupOperation::Get(()))));
        self.send(index, Sender::Group, id, key, operation, timeout);
        Ok(())
    }

    fn send(&mut self, index: usize, sender: Sender, id: u64, key: GroupKey, call: GroupOperation, timeout: Duration) {
        self.count.requests += 1;
        let (truth, to) = (self.truth, self.to(index));
        let is_calm = truth >= self.plan.heal_at;
        let node = &self.nodes[index];
        let times_out = node.clock.when(node.clock.local(truth) + timeout).max(truth + 1);
        let cut = node.cut.filter(|(_, until)| *until > truth).map(|(cut, _)| cut);
        let none = Odds::default();
        let odds = if is_calm { &none } else { &self.plan.odds };
        let fate = Fate::draw(&mut self.random, odds, cut, times_out - truth);
        fate.faults.iter().for_each(|kind| self.count.fault(kind));
        trace!(self, "{} sends {sender:?} {id} {key:?} {call:?}: {fate:?}", self.nodes[index].identity);
        let failed = |kind| Box::new(Err(StoreError::new(kind, "no answer")));
        self.push(times_out, to, What::Answer(sender, id, failed(StoreErrorKind::Timeout)));
        let last = (self.plan.heal_at + SECOND).max(truth + 100 * MILLI);
        for arrival in fate.arrivals {
            let sent =
                Sent { sender, id, key, call: call.clone(), answers: fate.answers.clone(), restores: self.restores.0 };
            self.push((truth + arrival).min(last), to, What::Arrives(Box::new(sent)));
        }
        if let Some((error, delay)) = fate.error {
            self.push(truth + delay, to, What::Answer(sender, id, Box::new(Err(error))));
        }
    }

    pub fn answer(&mut self, index: usize, sender: Sender, id: u64, answer: GroupResponse) -> Result<(), Violation> {
        let node = &mut self.nodes[index];
        let now = node.clock.local(self.truth);
        if let Ok(Some(seen)) = &answer {
            node.knows = node.knows.max(seen.version);
        }
        if sender == Sender::Group {
            let Some((.., is_read)) = node.in_flight.take_if(|(sent, ..)| *sent == id) else { return Ok(()) };
            if let Err(error) = &answer {
                node.failed(now, is_read, error);
            }
            node.group.on_response(now, id, answer);
            return self.drive(index);
        }
        let Some(elector) = &mut node.elector else { return Ok(()) };
        let in_flight = elector.in_flight.take_if(|(sent, ..)| sender == Sender::Slot(elector.serial) && *sent == id);
        let Some((_, sent_at, context)) = in_flight else { return Ok(()) };
        let response = match (answer, context) {
            (Ok(seen), Some(context)) => {
                if let Some(seen) = seen.as_ref().filter(|seen| seen.record.holder() == Some(&node.identity)) {
                    node.group.own_slot_observed(now, elector.slot, None, seen);
                }
                StoreResponse::Read(context, seen)
            }
            (Ok(seen), None) => {
                let seen = seen.expect("a written record");
                node.group.own_slot_observed(now, elector.slot, Some(sent_at), &seen);
                StoreResponse::Written(seen)
            }
            (Err(error), _) => StoreResponse::Failed(error),
        };
        elector.candidate.handle(now, Input::Response(id, response));
        self.drive_slot(index)?;
        self.drive(index)
    }
}
