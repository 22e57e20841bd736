//! Notes beside the record, and the delays of candidates that hold back.

use std::time::Duration;

use leasehold::election::{LeaderInfo, Operation, StoreRequest};
use leasehold::store::{LeaderElectionRecord, RecordNotes, RequestAcceptance, TermNotes};

use crate::clock::{MILLI, Nanos, SECOND};
use crate::node::{Node, Wants};
use crate::plan::{Plan, Suite, Violation};
use crate::queue::What;
use crate::trace::trace;
use crate::world::World;

/// The address that an operator writes.
const EDITED: &str = "edited";

/// Returns the delay of each node, which is zero for most nodes.
pub fn hold_backs(settings: &[(Duration, Duration, Duration)], random: &mut fastrand::Rng) -> Vec<Duration> {
    let odds = [0, 0, 0, 1, 3][random.usize(..5)];
    let delay = |(lease, ..): &(Duration, _, _)| {
        let longest = [SECOND / 2, lease.as_nanos() as Nanos / 2][random.usize(..2)];
        let delay = Duration::from_nanos(random.u64(MILLI..=longest));
        if random.u8(..3) < odds { delay } else { Duration::ZERO }
    };
    settings.iter().map(delay).collect()
}

fn address(identity: &str) -> String {
    format!("{identity}:9000")
}

impl Plan {
    /// Lets some nodes accept requests, and lets an operator edit the notes, in a third of the plans.
    pub fn with_notes(mut self, random: &mut fastrand::Rng) -> Self {
        if random.u8(..3) == 0 {
            self.notes_every = Some(self.longest / [1, 4][random.usize(..2)]);
            self.accepts = (0..self.nodes).map(|_| random.u8(..4) > 0).collect();
            self.advertises = (0..self.nodes).map(|_| random.u8(..4) > 0).collect();
        }
        self.with_jobs(random)
    }

    /// Returns the address that a node advertises.
    pub fn address(&self, node: usize, identity: &str) -> Option<String> {
        self.advertises.get(node).copied().unwrap_or_default().then(|| address(identity))
    }

    /// Returns the longest time by which the delays postpone the first takeover.
    pub fn held_back(&self) -> Nanos {
        self.hold_backs.iter().min().map_or(0, |delay| delay.as_nanos() as Nanos)
    }
}

impl Node {
    /// Keeps the time from which the node accepts requests, as an acquisition publishes the time.
    fn publishes(
        &mut self,
        truth: Nanos,
        record: &LeaderElectionRecord,
        accepts: Option<RequestAcceptance>,
    ) -> Result<(), Violation> {
        let at = match accepts {
            Some(RequestAcceptance::After(delay)) if self.settings.accepts_requests => self.clock.local(truth) + delay,
            Some(RequestAcceptance::Never) if !self.settings.accepts_requests => return Ok(()),
            other => return Err(format!("{} publishes {other:?}", self.identity).into()),
        };
        // An earlier write of the same attempt may win the term.
        let earlier = self.accepts_at.take().filter(|(of, _)| Some(of) == record.acquire_time.as_ref());
        let at = earlier.map_or(at, |(_, earlier)| earlier.min(at));
        self.accepts_at = record.acquire_time.clone().map(|of| (of, at));
        Ok(())
    }
}

impl World {
    /// Edits the address, or writes a request to step down, for `again` or for any identity.
    pub fn edit_notes(&mut self, again: Option<String>) {
        let Some(every) = self.plan.notes_every.filter(|_| self.truth < self.plan.heal_at) else { return };
        if again.is_none() {
            let next = self.truth + self.random.u64(MILLI..2 * every);
            self.queue.push(next, None, What::EditNotes(None));
        }
        let history = &self.stores[0].history;
        let identity = match self.random.u8(..8) {
            _ if again.is_some() => again,
            0 => {
                let edited = self.random.bool().then(|| EDITED.to_owned());
                let attempts = self.random.bool().then(|| self.random.u32(..));
                return self.stores[0].annotate(|notes| {
                    notes.term.address = edited;
                    let job = notes.job.get_or_insert_default();
                    job.attempts = attempts.or(job.attempts);
                });
            }
            1 => Some(self.nodes[self.random.usize(..self.nodes.len())].identity.clone()),
            // The term of an earlier holder is over.
            2 if !history.is_empty() => history[self.random.usize(..history.len())].holder.clone(),
            _ => self.stores[0].record().and_then(|record| record.holder()).map(str::to_owned),
        };
        let Some(identity) = identity else { return };
        if self.random.bool() {
            let soon = self.truth + self.random.u64(10 * MILLI..3 * SECOND);
            self.queue.push(soon, None, What::EditNotes(Some(identity.clone())));
        }
        self.request(identity);
    }

    /// Writes a request to step down beside the record.
    pub fn request(&mut self, identity: String) {
        trace!(self, "a request asks {identity} to step down");
        self.stores[0].annotate(|notes| notes.step_down = Some(identity));
    }

    /// Returns an error if a node writes wrong notes, or acquires too early.
    pub fn may_write(&mut self, index: usize, request: &StoreRequest) -> Result<(), Violation> {
        let node = &self.nodes[index];
        let (base, record) = match &request.operation {
            Operation::Get(_) => return Ok(()),
            Operation::Create(record) => (None, record),
            Operation::Update(base, record) => (Some(base), record),
        };
        let acquires = record.holder().is_some() && !node.holds_guard();
        let mut notes = base.map_or_else(RecordNotes::default, |base| (*base.notes).clone());
        notes.step_down.take_if(|_| acquires);
        notes.term = TermNotes::default();
        if record.holder().is_some() {
            notes.term.address = self.plan.address(index, &node.identity);
            notes.term.accepts_requests = request.notes.term.accepts_requests;
        }
        let history = notes.job.take();
        node.may_note(history.as_deref(), &request.notes)?;
        notes.job = request.notes.job.clone();
        if request.notes != notes {
            return Err(format!("{} writes {:?} instead of {notes:?}", node.identity, request.notes).into());
        }
        if acquires {
            self.nodes[index].publishes(self.truth, record, notes.term.accepts_requests)?;
        }
        let node = &self.nodes[index];
        if !acquires || self.plan.suite == Suite::Restored {
            return Ok(());
        }
        let version = node.requested.map_or(0, |(_, version)| version);
        let is_recent = node.obeyed_recently(node.clock.local(self.truth));
        if is_recent && !self.stores[0].has_named_another(&node.identity, version) {
            return Err(format!("{} acquires although it was asked to step down", node.identity).into());
        }
        // A node does not wait for a lease that it holds, or that its predecessor held.
        let Some(base) = base.filter(|base| base.record.holder() != Some(&node.identity)) else { return Ok(()) };
        // An operator may write a record again that the node knows. The node then does not notice the changes between.
        if self.plan.suite.meddles() {
            return Ok(());
        }
        let since = self.stores[0].unchanged_since(base.version).filter(|since| !node.clock.jumped_after(*since));
        let Some(since) = since else { return Ok(()) };
        let published = base.record.lease_duration_seconds.filter(|seconds| *seconds > 0);
        let published = published.map_or(node.settings.lease_duration, |it| Duration::from_secs(it as u64));
        let lease = if base.record.holder().is_some() { published } else { Duration::ZERO };
        let passed = u128::from(self.truth - since) * u128::from(self.plan.fastest) / u128::from(SECOND) + 1;
        let is_early = passed < (lease + node.settings.hold_back).as_nanos();
        match node.wants {
            Some(Wants::Round) if is_early && passed >= lease.as_nanos() => self.count.fault("rounds not held back"),
            Some(Wants::Term) if is_early => {
                return Err(format!("{} takes over {passed} ns after a change", node.identity).into());
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns an error if no request justifies the end of the node's term.
    pub fn requested(&mut self, index: usize) -> Result<(), Violation> {
        let node = &mut self.nodes[index];
        let now = node.reading.unwrap_or(node.clock.local(self.truth));
        let token = node.term.as_ref().map_or(0, |term| term.token);
        let is_early = node.obeyed_recently(now);
        if is_early || !node.settings.accepts_requests || !self.stores[0].has_asked(&node.identity, token) {
            return Err(format!("{} obeys a request that it must ignore", node.identity).into());
        }
        // The published time is rounded up to whole seconds.
        if node.accepts_at.as_ref().is_none_or(|(_, at)| now + Duration::from_secs(1) < *at) {
            return Err(format!("{} obeys a request before the published time", node.identity).into());
        }
        node.requested = Some((now, node.record.known.0));
        node.awaits_successor = true;
        self.count.fault("terms ended by a request");
        if self.handing_over.is_some() {
            // The user drops the guard at once.
            self.queue.push(self.truth, Some((index, node.incarnation)), What::User);
        }
        Ok(())
    }

    /// Returns `true` if the node obeys a request at once.
    pub fn obeys_promptly(&self, node: &Node) -> bool {
        let rests = node.awaits_successor || node.obeyed_recently(node.clock.local(self.truth));
        node.settings.accepts_requests && !rests && node.record.hears_promptly(self.truth, self.stores[0].version())
    }

    /// Returns an error if the node reports the address of another term.
    pub fn may_report(&mut self, index: usize, leader: Option<&LeaderInfo>) -> Result<(), Violation> {
        let node = &mut self.nodes[index];
        node.is_led_by_another = leader.is_some_and(|leader| leader.identity != node.identity);
        node.awaits_successor &= !node.is_led_by_another;
        let Some(LeaderInfo { identity, address: Some(reported) }) = leader else { return Ok(()) };
        match self.plan.suite.meddles() || *reported == address(identity) || reported == EDITED {
            true => Ok(()),
            false => Err(format!("{} reports {identity} at {reported}", node.identity).into()),
        }
    }
}
