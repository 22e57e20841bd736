//! The simulated world, which carries out one event at a time.

use leasehold::store::StoreErrorKind;

use crate::checks::Checks;
use crate::clock::{Nanos, SECOND};
use crate::count::Count;
use crate::node::Node;
use crate::plan::{Plan, Suite, Violation};
use crate::queue::{Queue, To, What};
use crate::server::Server;
use crate::store::Store;
use crate::trace::trace;

pub struct World {
    pub plan: Plan,
    pub random: fastrand::Rng,
    pub traced: bool,
    pub truth: Nanos,
    pub queue: Queue,
    /// One store for each object.
    pub stores: Vec<Store>,
    /// The API servers that deliver watches, each with its own cache.
    pub servers: Vec<Server>,
    /// The version and the number of changes that the streams of each store have received.
    pub pumped: Vec<(u64, usize)>,
    pub nodes: Vec<Node>,
    pub checks: Checks,
    pub names: u32,
    /// The term that must not end after the faults.
    pub led_since: Option<u64>,
    pub recovered: bool,
    /// The time from which the last handover counts, after the delay of the candidates.
    pub handing_over: Option<Nanos>,
    /// On two objects, `true` in the last phase, in which each leader releases and retires.
    pub turns: bool,
    pub count: Count,
}

impl World {
    pub fn new(suite: Suite, seed: u64, traced: bool) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let plan = Plan::new(suite, &mut random);
        let objects = if suite.is_on_two() { 2 } else { 1 };
        let mut world = Self {
            random,
            traced,
            truth: SECOND,
            queue: Queue::default(),
            stores: (0..objects).map(|_| Store::new(plan.uid_blind)).collect(),
            servers: (0..plan.servers).map(|_| Server::default()).collect(),
            pumped: vec![(0, 0); objects],
            nodes: Vec::new(),
            checks: Checks::default(),
            names: 0,
            led_since: None,
            recovered: false,
            handing_over: None,
            turns: false,
            count: Count::default(),
            plan,
        };
        trace!(world, "{:#?}", world.plan);
        for index in 0..world.plan.nodes {
            let node = world.process(index, 0, None);
            world.nodes.push(node);
            world.begin((index, 0));
        }
        for (at, what) in
            [(world.plan.heal_at, What::Heal), (world.plan.settled_at, What::Check), (2 * SECOND, What::Chaos)]
        {
            world.queue.push(at, None, what);
        }
        for (object, time, _) in world.plan.outages.clone() {
            world.queue.push(time.start.max(world.truth), None, What::Outage(object));
        }
        if let Some(every) = world.plan.notes_every {
            world.queue.push(world.truth + every, None, What::EditNotes(None));
        }
        if let Some(every) = world.plan.operator_every {
            world.queue.push(every, None, What::Operator);
        }
        if let Some(every) = world.plan.restore_every {
            world.queue.push(every, None, What::Restore);
        }
        world
    }

    /// Runs until the world ends or a rule breaks.
    pub fn run(&mut self) -> Result<(), Violation> {
        while let Some((at, to, what)) = self.queue.pop() {
            debug_assert!(at >= self.truth);
            self.truth = at.max(self.truth);
            self.stores.iter_mut().for_each(|store| store.now = self.truth);
            if let What::End = what {
                break;
            }
            // A request on its way to a store arrives even if the process that sent it is gone.
            let is_under_way = matches!(what, What::Arrives(..) | What::ObjectArrives(..) | What::ClientGoAsks(..));
            if let (Some((index, incarnation)), false) = (to, is_under_way) {
                if self.is_overtaken(index, &what) {
                    continue;
                }
                let node = &mut self.nodes[index];
                if node.incarnation != incarnation || (!node.alive && !matches!(what, What::Restart)) {
                    continue;
                }
                match node.paused_until {
                    Some(until) if until > self.truth => {
                        self.queue.push(until, to, what);
                        continue;
                    }
                    Some(_) => self.resume(index)?,
                    None => {}
                }
            }
            self.count.steps += 1;
            self.carry_out(to, what)?;
            self.pump_all();
            self.note_recovery();
            match self.plan.suite.is_on_two() {
                true => self.check_two()?,
                false => self.checks.all(self.truth, &self.plan, &mut self.nodes, &self.stores[0])?,
            }
        }
        self.count.truth = self.truth;
        Ok(())
    }

    /// Returns `true` if `what` is an obsolete timer, or an event of a stream that has ended.
    fn is_overtaken(&self, index: usize, what: &What) -> bool {
        let node = &self.nodes[index];
        match what {
            What::Wake(wake) => node.record.wake != *wake,
            What::TimesOut(id) | What::Interrupt(id) => node.record.in_flight != Some(*id),
            What::Watch(serial, turn) => {
                node.record.watcher.as_ref().is_none_or(|watcher| !watcher.hears(*serial, turn))
            }
            _ => false,
        }
    }

    fn carry_out(&mut self, to: Option<To>, what: What) -> Result<(), Violation> {
        let index = to.map_or(0, |(index, _)| index);
        match what {
            What::Wake(_) => self.drive(index)?,
            What::Arrives(sent, request, answers) => self.arrives(to, sent, &request, answers)?,
            What::Answer(sent, answer) => self.answer(index, sent, answer)?,
            What::TimesOut(id) => self.give_up(index, id, StoreErrorKind::Timeout)?,
            What::Interrupt(id) => self.give_up(index, id, StoreErrorKind::Interrupted)?,
            What::Watch(serial, turn) => self.watch(index, serial, turn)?,
            What::ObjectArrives(request, operation, answers) => self.object_arrives(to, request, &operation, answers),
            What::ObjectAnswer(request, answer) => self.object_answers(index, request, answer)?,
            What::ClientGoWakes | What::ClientGoAsks(..) | What::ClientGoHears(_) => self.client_go(to, what),
            What::Work(campaign) => self.work(index, campaign),
            What::SetFit(is_fit) => self.set_fit(index, is_fit)?,
            What::Outage(object) => self.cut_watches(object),
            What::StepDown(serial) => self.step_down(index, serial)?,
            What::User => self.user(index)?,
            What::Restart => self.restart(index)?,
            What::Chaos => self.chaos()?,
            What::Operator => self.operator(),
            What::EditNotes(again) => self.edit_notes(again),
            What::Restore => self.restore(),
            What::Lag(server) => self.catch_up(server),
            What::Label => {
                self.stores[0].label();
                self.queue.push(self.truth + self.plan.label_every, None, What::Label);
            }
            What::Heal => self.heal(),
            What::Check => self.must_lead()?,
            What::HandOver => self.hand_over()?,
            What::HandedOver => self.must_have_handed_over()?,
            What::End => {}
        }
        Ok(())
    }
}
