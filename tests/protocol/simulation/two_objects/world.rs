//! Everything that happens, one event at a time.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::election::candidate::fitness::FitnessSource;
use leasehold::election::candidate::session::{Effect, Input};
use leasehold::election::candidate::side::Side;
use leasehold::election::wind_down::WindDown;
use leasehold::election::{Change, Operation, Response, Step};
use leasehold::util::clock::Moment;
use leasehold::{StopReason, StoreError, StoreErrorKind};

use super::count::Count;
use super::multi_lock::{Ask, MultiLock, Told};
use super::node::{Mind, Node, Ours, Term};
use super::plan::{Fleet, Kind, Plan};
use crate::clock::{MILLI, Nanos, NodeClock, SECOND};
use crate::network::Fate;
use crate::plan::{Odds, Violation};
use crate::store::{Call, Store};
use crate::trace::trace;

/// Microseconds since 1970 when the world begins.
const WALL: u64 = 1_700_000_000_000_000;

/// Nobody needs more steps in all.
const MOST_STEPS: u64 = 300_000;

pub struct World {
    pub(super) plan: Plan,
    pub(super) random: fastrand::Rng,
    pub(super) traced: bool,
    pub(super) truth: Nanos,
    queue: BTreeMap<(Nanos, u64), Event>,
    queued: u64,
    pub(super) stores: [Store; 2],
    pub(super) nodes: Vec<Node>,
    names: u32,
    highest_token: u64,
    led: bool,
    /// Each leader releases, and does not campaign again.
    pub(super) turns: bool,
    pub count: Count,
}

pub(super) enum Event {
    /// Whoever waits looks again.
    Wake(usize, u32, Side, u64),
    Arrives(usize, u32, Side, u64, Call, Vec<Nanos>),
    Answer(usize, u32, Side, u64, Response),
    GiveUp(usize, u32, Side, u64, StoreErrorKind),
    Streamed(usize, u32, Side, u64, Streamed),
    Open(usize, u32, Side),
    ClientGoWakes(usize, u32),
    ClientGoAsks(usize, u32, Ask, Nanos),
    ClientGoHears(usize, u32, Told),
    StepDown(usize, u32, u64),
    User(usize, u32),
    /// The work of the term that this campaign won makes progress, or hangs.
    Work(usize, u32, u64),
    SetFit(usize, u32, bool),
    Restart(usize, u32),
    Chaos,
    Outage(usize),
    Check,
}

pub(super) enum Streamed {
    Change(Change),
    Ended,
}

impl World {
    pub fn new(fleet: Fleet, seed: u64, traced: bool) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let plan = Plan::new(fleet, &mut random);
        let mut world = Self {
            plan,
            random,
            traced,
            truth: SECOND,
            queue: BTreeMap::new(),
            queued: 0,
            stores: [Store::new(false), Store::new(false)],
            nodes: Vec::new(),
            names: 0,
            highest_token: 0,
            led: false,
            turns: false,
            count: Count::default(),
        };
        trace!(world, "{:#?}", world.plan);
        for index in 0..world.plan.kinds.len() {
            let node = world.process(index, 0);
            world.nodes.push(node);
            world.begin(index);
        }
        world.push(2 * SECOND, Event::Chaos);
        world.push(world.plan.lead_by, Event::Check);
        for (object, time, _) in world.plan.outages.clone() {
            world.push(time.start, Event::Outage(object));
        }
        world
    }

    pub(super) fn process(&mut self, index: usize, incarnation: u32) -> Node {
        self.names += 1;
        let identity = format!("node-{index}.{}", self.names);
        let kind = self.plan.kinds[index];
        let mind = match kind {
            Kind::MultiLock => {
                let durations = (self.plan.lease, self.plan.deadline, self.plan.retry);
                Mind::ClientGo(Box::new(MultiLock::new(&identity, durations)))
            }
            _ => Mind::Ours(Ours::new(kind, &self.plan, &identity, &mut self.random)),
        };
        let rate = if self.random.bool() { SECOND } else { self.random.u64(SECOND..=self.plan.fastest) };
        let clock = NodeClock::new(&mut self.random, rate);
        Node {
            kind,
            identity,
            clock,
            mind,
            incarnation,
            alive: true,
            paused_until: 0,
            wants: None,
            campaigns: 0,
            is_fit: !self.plan.asked,
            term: None,
            had_turn: false,
        }
    }

    pub(super) fn begin(&mut self, index: usize) {
        let node = &self.nodes[index];
        let (incarnation, after) = (node.incarnation, self.random.u64(..SECOND));
        self.push(self.truth + after, Event::User(index, incarnation));
        if self.plan.asked && matches!(self.nodes[index].mind, Mind::Ours(_)) {
            let after = self.random.u64(..2 * SECOND);
            self.push(self.truth + after, Event::SetFit(index, incarnation, true));
        }
        match &self.nodes[index].mind {
            Mind::ClientGo(_) => self.push(self.truth, Event::ClientGoWakes(index, incarnation)),
            Mind::Ours(ours) => {
                let sides: Vec<_> = ours.records.iter().map(|record| record.side).collect();
                for side in sides {
                    self.push(self.truth, Event::Wake(index, incarnation, side, 0));
                    if self.plan.watches && self.random.u8(..8) > 0 {
                        self.push(self.truth + MILLI, Event::Open(index, incarnation, side));
                    }
                }
            }
        }
    }

    pub(super) fn push(&mut self, at: Nanos, event: Event) {
        self.queued += 1;
        self.queue.insert((at.max(self.truth), self.queued), event);
    }

    pub fn run(&mut self) -> Result<(), Violation> {
        while let Some(((at, _), event)) = self.queue.pop_first() {
            self.truth = at;
            self.stores.iter_mut().for_each(|store| store.now = at);
            if let Some((index, incarnation)) = event.is_for() {
                let node = &self.nodes[index];
                let is_restart = matches!(event, Event::Restart(..));
                if node.incarnation != incarnation || !(node.alive || is_restart) {
                    continue;
                }
                if node.paused_until > at {
                    let until = node.paused_until;
                    self.push(until, event);
                    continue;
                }
            }
            self.count.steps += 1;
            if self.count.steps > MOST_STEPS {
                return Err("it spins".to_owned().into());
            }
            if let Event::Check = event {
                if self.has_ended()? {
                    return Ok(());
                }
                continue;
            }
            self.carry_out(event)?;
            self.tell_streams();
            self.check()?;
        }
        Ok(())
    }

    pub(super) fn carry_out(&mut self, event: Event) -> Result<(), Violation> {
        match event {
            Event::Wake(index, _, side, wake) => {
                if self.ours(index).records[side as usize].wake == wake {
                    self.drive(index, side)?;
                }
            }
            Event::Arrives(index, incarnation, side, id, call, answers) => {
                self.arrives((index, incarnation), side, id, call, answers)?;
            }
            Event::Answer(index, _, side, id, response) => self.answer(index, side, id, response)?,
            Event::GiveUp(index, _, side, id, kind) => {
                self.answer(index, side, id, Response::Failed(StoreError::new(kind, "no answer")))?;
            }
            Event::Streamed(index, _, side, stream, streamed) => self.streamed(index, side, stream, streamed)?,
            Event::Open(index, _, side) => self.open(index, side)?,
            Event::ClientGoWakes(index, _) => {
                let (now, wall) = self.clocks(index);
                let next = self.client_go(index).wake(now, wall);
                self.client_go_next(index, next);
            }
            Event::ClientGoAsks(index, incarnation, ask, answer) => {
                let told = self.client_go_asks(&ask);
                trace!(self, "{} of client-go asks {ask:?}: {told:?}", self.nodes[index].identity);
                self.push(self.truth + answer, Event::ClientGoHears(index, incarnation, told));
            }
            Event::ClientGoHears(index, _, told) => {
                let (now, wall) = self.clocks(index);
                let led = self.nodes[index].leads(self.truth);
                let next = self.client_go(index).told(now, wall, told);
                self.count.terms_of_client_go += u64::from(!led && self.nodes[index].leads(self.truth));
                self.client_go_next(index, next);
            }
            Event::StepDown(index, _, campaign) => {
                if self.nodes[index].campaigns == campaign && self.nodes[index].term.is_some() {
                    self.handle(index, Side::Primary, Input::StepDown(WindDown::AsSet))?;
                }
            }
            Event::User(index, _) => self.user(index)?,
            Event::Work(index, _, campaign) => self.work(index, campaign),
            Event::SetFit(index, _, is_fit) => {
                // What was said while it stood still does not outlast the faults.
                let is_fit = is_fit || self.truth >= self.plan.heal_at;
                self.nodes[index].is_fit = is_fit;
                self.handle(index, Side::Primary, Input::Fitness(FitnessSource::Program, is_fit))?;
            }
            Event::Restart(index, incarnation) => {
                self.nodes[index] = self.process(index, incarnation);
                self.begin(index);
            }
            Event::Chaos => self.chaos()?,
            Event::Outage(object) => self.cut(object),
            Event::Check => {}
        }
        Ok(())
    }

    pub(super) fn ours(&mut self, index: usize) -> &mut Ours {
        match &mut self.nodes[index].mind {
            Mind::Ours(ours) => ours,
            Mind::ClientGo(_) => unreachable!("it is of client-go"),
        }
    }

    pub(super) fn client_go(&mut self, index: usize) -> &mut MultiLock {
        match &mut self.nodes[index].mind {
            Mind::ClientGo(candidate) => candidate,
            Mind::Ours(_) => unreachable!("it is ours"),
        }
    }

    pub(super) fn clocks(&self, index: usize) -> (Moment, u64) {
        (self.nodes[index].clock.local(self.truth), WALL + self.truth / 1_000)
    }

    // ---- the threads of ours ----

    pub(super) fn handle(&mut self, index: usize, side: Side, input: Input) -> Result<(), Violation> {
        let now = self.nodes[index].clock.local(self.truth);
        trace!(self, "{} {side:?} is told {input:?}", self.nodes[index].identity);
        self.ours(index).candidacy.handle(now, side, input);
        self.listen(index)?;
        let sides: Vec<_> = self.ours(index).records.iter().map(|record| record.side).collect();
        sides.into_iter().try_for_each(|side| self.drive(index, side))
    }

    pub(super) fn drive(&mut self, index: usize, side: Side) -> Result<(), Violation> {
        let mut waits = 0;
        loop {
            let now = self.nodes[index].clock.now(self.truth);
            let record = &self.ours(index).records[side as usize];
            if record.in_flight.is_some() || record.finished {
                return Ok(());
            }
            let step = self.ours(index).candidacy.next(now, side);
            let told = self.listen(index)?;
            match step {
                Step::Send(request) => {
                    self.may_claim(index, &request.operation)?;
                    self.send(index, side, request.id, request.operation, request.timeout);
                    break;
                }
                Step::Wait(_) if told => {}
                Step::Wait(until) if until <= now.local => {
                    waits += 1;
                    if waits > 1 {
                        return Err(format!("{} waits for what has been", self.nodes[index].identity).into());
                    }
                }
                Step::Wait(until) => {
                    let at = self.nodes[index].clock.when(until);
                    let incarnation = self.nodes[index].incarnation;
                    let record = &mut self.ours(index).records[side as usize];
                    record.wake += 1;
                    let wake = record.wake;
                    self.push(at, Event::Wake(index, incarnation, side, wake));
                    break;
                }
                Step::Finished => {
                    self.ours(index).records[side as usize].finished = true;
                    break;
                }
            }
        }
        match self.ours(index).candidacy.touched() {
            Some(side) => self.drive(index, side),
            None => Ok(()),
        }
    }

    /// Nobody acquires who is unfit, or renews for work that makes no progress.
    fn may_claim(&self, index: usize, operation: &Operation) -> Result<(), Violation> {
        let (Operation::Create(record) | Operation::Update(_, record)) = operation else { return Ok(()) };
        let node = &self.nodes[index];
        let term = node.term.as_ref().filter(|term| term.guard_held);
        let limit = term.and_then(|term| term.deadline.progress_limit());
        let what = match term {
            _ if record.holder().is_none() => return Ok(()),
            // The primary is kept until the secondary is released.
            None if matches!(&node.mind, Mind::Ours(ours) if ours.is_giving_back()) => return Ok(()),
            None if !node.is_fit => "acquires while it is unfit",
            Some(_) if limit.is_some_and(|limit| limit.until() <= node.clock.local(self.truth)) => {
                "renews for work that makes no progress"
            }
            _ => return Ok(()),
        };
        Err(format!("{} {what}", node.identity).into())
    }

    pub(super) fn send(&mut self, index: usize, side: Side, id: u64, operation: Operation, timeout: Duration) {
        let incarnation = self.nodes[index].incarnation;
        let calm = self.truth >= self.plan.heal_at;
        let odds = if calm { Odds::default() } else { self.plan.odds.clone() };
        let times_out = self.nodes[index].clock.when(self.nodes[index].clock.local(self.truth) + timeout);
        let object = self.ours(index).records[side as usize].object;
        let refused = |kind| Fate { error: Some((StoreError::new(kind, "made up"), 10 * MILLI)), ..Fate::default() };
        let is_forbidden = matches!(operation, Operation::Get(_)) && self.plan.forbidden.contains(&(index, object));
        let fate = match self.plan.outage(object, self.truth) {
            Some((_, true)) => Fate::default(),
            Some((_, false)) => refused(StoreErrorKind::Unavailable),
            None if is_forbidden && !calm => refused(StoreErrorKind::Forbidden),
            None => Fate::draw(&mut self.random, &odds, None, (times_out - self.truth).max(MILLI)),
        };
        let call = match operation {
            Operation::Get(context) => Call::Get(context),
            Operation::Create(record) => Call::Create(record),
            Operation::Update(base, record) => Call::Update(base, record),
        };
        trace!(self, "{} {side:?} sends {id}: {}", self.nodes[index].identity, crate::trace::call(&call));
        self.ours(index).records[side as usize].in_flight = Some(id);
        self.push(times_out, Event::GiveUp(index, incarnation, side, id, StoreErrorKind::Timeout));
        let last = (self.plan.heal_at + SECOND).max(self.truth + 100 * MILLI);
        for arrival in fate.arrivals {
            let at = (self.truth + arrival).min(last);
            let answers = fate.answers.clone();
            self.push(at, Event::Arrives(index, incarnation, side, id, call.clone(), answers));
        }
        if let Some((error, delay)) = fate.error {
            let at = self.truth + delay;
            self.push(at, Event::Answer(index, incarnation, side, id, Response::Failed(error)));
        }
    }

    /// Also from one that has crashed since.
    pub(super) fn arrives(
        &mut self,
        (index, incarnation): (usize, u32),
        side: Side,
        id: u64,
        call: Call,
        answers: Vec<Nanos>,
    ) -> Result<(), Violation> {
        let object = match self.plan.kinds[index] {
            Kind::Secondary => 1,
            Kind::Primary => 0,
            _ => side as usize,
        };
        let result = self.stores[object].apply(&call)?;
        self.one_counter();
        trace!(self, "{index} {side:?} {id} arrives: {}", crate::trace::result(&result));
        for delay in answers {
            let answer = match (&call, &result) {
                (_, Err(kind)) => Response::Failed(StoreError::new(*kind, "refused")),
                (Call::Get(context), Ok(observed)) => Response::Read(*context, observed.clone()),
                (_, Ok(Some(observed))) => Response::Written(observed.clone()),
                (_, Ok(None)) => continue,
            };
            self.push(self.truth + delay, Event::Answer(index, incarnation, side, id, answer));
        }
        Ok(())
    }

    /// Both objects are in one etcd.
    pub(super) fn one_counter(&mut self) {
        let version = self.stores.iter().map(Store::version).max().unwrap_or(0);
        self.stores.iter_mut().for_each(|store| store.unrelated(version - store.version()));
    }

    pub(super) fn answer(&mut self, index: usize, side: Side, id: u64, response: Response) -> Result<(), Violation> {
        let record = &mut self.ours(index).records[side as usize];
        if record.in_flight.take_if(|in_flight| *in_flight == id).is_none() {
            return Ok(());
        }
        self.handle(index, side, Input::Response(id, response))
    }

    pub(super) fn listen(&mut self, index: usize) -> Result<bool, Violation> {
        let mut told = false;
        while let Some((side, effect)) = self.ours(index).candidacy.effect() {
            told = true;
            let incarnation = self.nodes[index].incarnation;
            trace!(self, "{} {side:?} wants {effect:?}", self.nodes[index].identity);
            let truth = self.truth;
            let node = &mut self.nodes[index];
            let name = node.identity.clone();
            match effect {
                Effect::Offer { campaign, deadline, fencing_token } => {
                    if node.term.as_ref().is_some_and(|term| term.guard_held || term.lost.is_none()) {
                        return Err(format!("{name} elected during a term").into());
                    }
                    let wanted = node.wants.take_if(|wants| campaign == Some(*wants)).is_some();
                    let term = Term { deadline, guard_held: wanted, stepped_down: false, lost: None, over: false };
                    node.term = Some(term);
                    if !node.is_fit {
                        return Err(format!("{name} elected while it is unfit").into());
                    }
                    if !node.leads(truth) {
                        return Err(format!("{name} elected to a term that has run out").into());
                    }
                    if fencing_token <= self.highest_token {
                        return Err(format!("{name}: token {fencing_token} after {}", self.highest_token).into());
                    }
                    self.highest_token = fencing_token;
                    self.count.terms += 1;
                    self.count.terms_on_both += u64::from(node.kind == Kind::Both);
                    let object = if node.kind == Kind::Primary { 0 } else { 1 };
                    let holding = self.stores[object].holding_at(fencing_token).and_then(|it| it.holder.clone());
                    if holding.as_deref() != Some(&name) {
                        return Err(format!("{name} elected by the record of {holding:?}").into());
                    }
                    if let Some(within) = self.plan.progress.filter(|_| wanted) {
                        let (campaign, next) = (self.nodes[index].campaigns, within.as_nanos() as Nanos / 3);
                        self.push(truth + next, Event::Work(index, incarnation, campaign));
                    }
                    if !wanted {
                        let now = self.nodes[index].clock.local(self.truth);
                        self.ours(index).candidacy.handle(now, Side::Primary, Input::NotTaken);
                    }
                }
                Effect::TermEnded(reason) => {
                    let Some(term) = &mut node.term else { return Err(format!("{reason:?} without a term").into()) };
                    if term.lost.is_some() {
                        return Err(format!("{name} lost its term twice").into());
                    }
                    let asked_for = match reason {
                        StopReason::Released => !term.guard_held,
                        StopReason::SteppedDown => term.stepped_down,
                        StopReason::Unfit => !node.is_fit,
                        StopReason::NoProgress => self.plan.progress.is_some(),
                        _ => true,
                    };
                    if !asked_for {
                        return Err(format!("{name}: {reason:?}, which nobody asked for").into());
                    }
                    self.count.unfit += u64::from(reason == StopReason::Unfit);
                    self.count.without_progress += u64::from(reason == StopReason::NoProgress);
                    self.count.losses += u64::from(!matches!(reason, StopReason::Released | StopReason::SteppedDown));
                    term.lost = Some(reason);
                }
                Effect::RoundOver { campaign, .. } | Effect::Refuse { campaign, .. } | Effect::NotFit { campaign } => {
                    node.wants.take_if(|wants| *wants == campaign);
                }
                Effect::CancelAt(id, at, _) => {
                    let at = node.clock.when(at);
                    let kind = StoreErrorKind::Interrupted;
                    self.push(at, Event::GiveUp(index, incarnation, side, id, kind));
                }
                Effect::RestartWatch => self.end_stream(index, side),
                Effect::IdentityConflict(_) => return Err(format!("{name} does not know its own writes").into()),
                Effect::Released
                | Effect::Log(_)
                | Effect::Leader(_)
                | Effect::LeaderHasRunOut
                | Effect::Fitness { .. }
                | Effect::WritesRefused(_)
                | Effect::CoverLost(_)
                | Effect::Renewed(_) => {}
            }
        }
        Ok(told)
    }

    // ---- what must hold ----

    pub(super) fn check(&mut self) -> Result<(), Violation> {
        let truth = self.truth;
        let leaders: Vec<_> =
            self.nodes.iter().filter(|node| node.leads(truth)).map(|node| (node.kind, node.identity.clone())).collect();
        // What client-go's do to each other is not ours to promise.
        if leaders.len() > 1 && leaders.iter().any(|(kind, _)| *kind != Kind::MultiLock) {
            return Err(Violation { what: format!("{leaders:?} lead at a time"), overlap: true });
        }
        self.led |= truth >= self.plan.heal_at && !leaders.is_empty();
        for node in &mut self.nodes {
            let (leads, name) = (node.leads(truth), &node.identity);
            let Some(term) = node.term.as_mut().filter(|_| node.alive) else { continue };
            if leads && term.over {
                return Err(format!("{name}: a term that was over is valid again").into());
            }
            if leads && term.lost.is_some() {
                return Err(format!("{name}: a term is valid after it was reported lost").into());
            }
            term.over |= !leads;
        }
        Ok(())
    }

    /// Somebody led since the last fault, and leads now or will soon. Where all candidates are ours, each then leads in turn.
    pub(super) fn has_ended(&mut self) -> Result<bool, Violation> {
        let truth = self.truth;
        if self.turns {
            let waits = self.nodes.iter().filter(|node| !node.had_turn).map(|node| node.identity.clone());
            let waits: Vec<_> = waits.collect();
            if !waits.is_empty() && truth >= self.plan.turns_by {
                return Err(format!("{waits:?} did not lead in turn").into());
            }
            self.push(truth + 10 * SECOND, Event::Check);
            return Ok(waits.is_empty());
        }
        if !self.led {
            return Err("nobody leads although nothing keeps anybody from it".to_owned().into());
        }
        if !self.nodes.iter().any(|node| node.leads(truth)) {
            return Err("nobody leads any more although nothing happened".to_owned().into());
        }
        self.turns = !self.plan.kinds.contains(&Kind::MultiLock);
        self.push(truth, Event::Check);
        Ok(!self.turns)
    }
}

impl Event {
    /// Whom it happens to: which of its processes. What is on its way to a store arrives all the same.
    pub(super) fn is_for(&self) -> Option<(usize, u32)> {
        match self {
            Event::Wake(index, incarnation, ..)
            | Event::Answer(index, incarnation, ..)
            | Event::GiveUp(index, incarnation, ..)
            | Event::Streamed(index, incarnation, ..)
            | Event::Open(index, incarnation, ..)
            | Event::ClientGoWakes(index, incarnation)
            | Event::ClientGoHears(index, incarnation, ..)
            | Event::StepDown(index, incarnation, ..)
            | Event::User(index, incarnation)
            | Event::Work(index, incarnation, _)
            | Event::SetFit(index, incarnation, _)
            | Event::Restart(index, incarnation) => Some((*index, *incarnation)),
            Event::Arrives(..) | Event::ClientGoAsks(..) | Event::Chaos | Event::Outage(_) | Event::Check => None,
        }
    }
}
