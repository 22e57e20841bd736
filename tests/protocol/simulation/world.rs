//! Everything that happens, one event at a time.

use leasehold::StoreErrorKind;

use crate::checks::Checks;
use crate::clock::{Nanos, SECOND};
use crate::count::Count;
use crate::node::Node;
use crate::plan::{Plan, Suite, Violation};
use crate::queue::{Queue, Queued, To, What};
use crate::server::Server;
use crate::store::Store;
use crate::trace::trace;

pub struct World {
    pub plan: Plan,
    pub random: fastrand::Rng,
    pub traced: bool,
    pub truth: Nanos,
    pub queue: Queue,
    pub store: Store,
    /// The API servers that watches are of, each with a cache of its own.
    pub servers: Vec<Server>,
    /// What of the store the streams have.
    pub pumped: (u64, usize),
    pub nodes: Vec<Node>,
    pub checks: Checks,
    pub names: u32,
    /// The term that must not end in calm faults.
    pub led_since: Option<u64>,
    pub recovered: bool,
    pub handing_over: Option<Nanos>,
    pub count: Count,
}

impl World {
    pub fn new(suite: Suite, seed: u64, traced: bool) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let plan = Plan::new(suite, &mut random);
        let mut world = Self {
            random,
            traced,
            truth: SECOND,
            queue: Queue::default(),
            store: Store::new(plan.uid_blind),
            servers: (0..plan.servers).map(|_| Server::default()).collect(),
            pumped: (0, 0),
            nodes: Vec::new(),
            checks: Checks::default(),
            names: 0,
            led_since: None,
            recovered: false,
            handing_over: None,
            count: Count::NOTHING,
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
        if let Some(every) = world.plan.operator_every {
            world.queue.push(every, None, What::Operator);
        }
        if let Some(every) = world.plan.restore_every {
            world.queue.push(every, None, What::Restore);
        }
        world
    }

    /// Runs to the end of the world, or to the first violation.
    pub fn run(&mut self) -> Result<(), Violation> {
        while let Some(Queued { at, to, what, .. }) = self.queue.pop() {
            debug_assert!(at >= self.truth);
            self.truth = at.max(self.truth);
            self.store.now = self.truth;
            let what = *what;
            if let What::End = what {
                break;
            }
            if let (Some((index, incarnation)), false) = (to, matches!(what, What::Arrives(..))) {
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
            self.checks.all(self.truth, &self.plan, &mut self.nodes, &self.store)?;
        }
        self.count.truth = self.truth;
        Ok(())
    }

    /// Whether it is a timer of something that is over.
    fn is_overtaken(&self, index: usize, what: &What) -> bool {
        let node = &self.nodes[index];
        match what {
            What::Wake(wake) => node.wake != *wake,
            What::TimesOut(id) | What::Interrupt(id) => node.in_flight != Some(*id),
            What::Watch(serial, turn) => node.watcher.as_ref().is_none_or(|watcher| !watcher.hears(*serial, turn)),
            _ => false,
        }
    }

    fn carry_out(&mut self, to: Option<To>, what: What) -> Result<(), Violation> {
        let index = to.map_or(0, |(index, _)| index);
        match what {
            What::Wake(_) => self.drive(index)?,
            What::Arrives(sent, call, answers) => self.arrives(to, sent, call, answers)?,
            What::Answer(sent, answer) => self.answer(index, sent, answer)?,
            What::TimesOut(id) => self.give_up(index, id, StoreErrorKind::Timeout)?,
            What::Interrupt(id) => self.give_up(index, id, StoreErrorKind::Interrupted)?,
            What::Watch(serial, turn) => self.watch(index, serial, turn)?,
            What::StepDown(serial) => self.step_down(index, serial)?,
            What::User => self.user(index)?,
            What::Restart => self.restart(index)?,
            What::Chaos => self.chaos()?,
            What::Operator => self.operator(),
            What::Restore => self.restore(),
            What::Lag(server) => self.catch_up(server),
            What::Label => {
                self.store.label();
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
