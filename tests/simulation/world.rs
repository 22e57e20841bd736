//! Everything that happens, one event at a time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use leasehold::election::{Answer, Election, Event, Request, Step, Verb};
use leasehold::{LockError, LockErrorKind, Observed};

use crate::checks::Checks;
use crate::clock::{MILLI, Nanos, NodeClock, SECOND};
use crate::network::{Cut, Fate};
use crate::node::{Command, Node, Term, Wants};
use crate::plan::{Odds, Plan, Suite, Violation};
use crate::store::{Call, Store};

/// How long a guard that goes leaves a request under way to finish by itself.
const GRACE: Nanos = 50 * MILLI;

pub struct World {
    plan: Plan,
    random: fastrand::Rng,
    traced: bool,
    truth: Nanos,
    queue: BinaryHeap<Reverse<Queued>>,
    queued: u64,
    store: Store,
    nodes: Vec<Node>,
    checks: Checks,
    names: u32,
    led_since: Option<u64>,
    pub count: Count,
}

/// What has happened, for the report.
#[derive(Debug, Default, Clone, Copy)]
pub struct Count {
    pub steps: u64,
    pub terms: u64,
    pub requests: u64,
    pub faults: u64,
    pub truth: Nanos,
}

struct Queued {
    at: Nanos,
    number: u64,
    to: Option<(usize, u32)>,
    what: What,
}

enum What {
    Wake(u64),
    /// A request reaches the store, and its answers are sent.
    Arrives(u64, Call, Vec<Nanos>),
    Answer(u64, Answer),
    TimesOut(u64),
    Interrupt(u64),
    /// The user's thread tells of a step-down of the term.
    StepDown(u64),
    User,
    Restart,
    Chaos,
    Operator,
    Label,
    Heal,
    Check,
    End,
}

macro_rules! trace {
    ($world:expr, $($what:tt)*) => {
        if $world.traced {
            println!("{:>14.6}  {}", $world.truth as f64 / SECOND as f64, format_args!($($what)*));
        }
    };
}

impl World {
    pub fn new(suite: Suite, seed: u64, traced: bool) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let plan = Plan::new(suite, &mut random);
        let mut world = Self {
            random,
            traced,
            truth: SECOND,
            queue: BinaryHeap::new(),
            queued: 0,
            store: Store::new(plan.uid_blind),
            nodes: Vec::new(),
            checks: Checks::default(),
            names: 0,
            led_since: None,
            count: Count::default(),
            plan,
        };
        trace!(world, "{:#?}", world.plan);
        for index in 0..world.plan.nodes {
            let node = world.process(index, 0, None);
            world.nodes.push(node);
            world.push(world.truth, Some((index, 0)), What::User);
        }
        for (at, what) in [
            (world.plan.heal_at, What::Heal),
            (world.plan.lead_by, What::Check),
            (world.plan.end_at, What::End),
            (2 * SECOND, What::Chaos),
        ] {
            world.push(at, None, what);
        }
        if let Some(every) = world.plan.operator_every {
            world.push(every, None, What::Operator);
        }
        world
    }

    /// Runs to the end of the world, or to the first violation.
    pub fn run(&mut self) -> Result<(), Violation> {
        while let Some(Reverse(Queued { at, to, what, .. })) = self.queue.pop() {
            debug_assert!(at >= self.truth);
            self.truth = at.max(self.truth);
            if let What::End = what {
                break;
            }
            if let (Some((index, incarnation)), false) = (to, matches!(what, What::Arrives(..))) {
                let node = &mut self.nodes[index];
                if node.incarnation != incarnation || (!node.alive && !matches!(what, What::Restart)) {
                    continue;
                }
                match node.paused_until {
                    Some(until) if until > self.truth => {
                        self.push(until, to, what);
                        continue;
                    }
                    Some(_) => self.resume(index)?,
                    None => {}
                }
            }
            self.count.steps += 1;
            self.carry_out(to, what)?;
            self.checks.all(self.truth, &self.plan, &mut self.nodes)?;
        }
        self.count.truth = self.truth;
        Ok(())
    }

    fn push(&mut self, at: Nanos, to: Option<(usize, u32)>, what: What) {
        self.queued += 1;
        self.queue.push(Reverse(Queued { at, number: self.queued, to, what }));
    }

    fn carry_out(&mut self, to: Option<(usize, u32)>, what: What) -> Result<(), Violation> {
        let index = to.map_or(0, |(index, _)| index);
        match what {
            What::Wake(wake) if self.nodes[index].wake == wake => self.drive(index),
            What::Wake(_) => Ok(()),
            What::Arrives(id, call, answers) => self.arrives(to, id, call, answers),
            What::Answer(id, answer) => self.answer(index, id, answer),
            What::TimesOut(id) if self.nodes[index].in_flight == Some(id) => {
                self.answer(index, id, Answer::Failed(LockError::new(LockErrorKind::Timeout, "no answer")))
            }
            What::Interrupt(id) if self.nodes[index].in_flight == Some(id) => {
                self.answer(index, id, Answer::Failed(LockError::new(LockErrorKind::Interrupted, "interrupted")))
            }
            What::TimesOut(_) | What::Interrupt(_) => Ok(()),
            What::StepDown(serial) => self.step_down(index, serial),
            What::User => self.user(index),
            What::Restart => self.restart(index),
            What::Chaos => self.chaos(),
            What::Operator => {
                self.operator();
                Ok(())
            }
            What::Label => {
                self.store.label();
                self.push(self.truth + self.plan.label_every, None, What::Label);
                Ok(())
            }
            What::Heal => {
                self.heal();
                Ok(())
            }
            What::Check => self.must_lead(),
            What::End => Ok(()),
        }
    }

    // ---- the driver ----

    /// What the driver does until it has to wait for something.
    fn drive(&mut self, index: usize) -> Result<(), Violation> {
        let mut waits = 0;
        loop {
            if self.nodes[index].in_flight.is_some() || self.nodes[index].finished {
                return Ok(());
            }
            self.obey_all(index)?;
            let node = &mut self.nodes[index];
            self.checks.stepped(node, self.truth)?;
            let now = node.clock.now(self.truth);
            let was_valid = node.valid(self.truth);
            let step = node.election.next(now);
            let told = self.listen(index, was_valid)?;
            let node = &mut self.nodes[index];
            match step {
                Step::Send(request) => return self.send(index, request),
                Step::Wait(_) if told => {}
                Step::Wait(until) if until <= now.local => {
                    waits += 1;
                    if waits > 1 {
                        return Err(format!("{} waits for what has been", node.identity).into());
                    }
                }
                Step::Wait(until) => {
                    node.wake += 1;
                    let (at, wake, to) = (node.clock.when(until), node.wake, (index, node.incarnation));
                    self.push(at, Some(to), What::Wake(wake));
                    return Ok(());
                }
                Step::Finished => {
                    trace!(self, "{} has finished", node.identity);
                    node.finished = true;
                    if node.holds_guard() {
                        return Err(format!("{} finished beside a guard", node.identity).into());
                    }
                    let to = (index, node.incarnation);
                    let after = self.random.u64(..3 * SECOND);
                    self.push(self.truth + after, Some(to), What::Restart);
                    return Ok(());
                }
            }
        }
    }

    fn send(&mut self, index: usize, request: Request) -> Result<(), Violation> {
        let call = match &request.verb {
            Verb::Get(look) => Call::Get(*look),
            Verb::Create(record) => Call::Create(record.clone()),
            Verb::Update(base, record) => Call::Update(base.clone(), record.clone()),
        };
        let node = &mut self.nodes[index];
        node.refresh();
        self.checks.sent(node, &request, &call, self.truth, &self.plan)?;
        node.in_flight = Some(request.id);
        let to = Some((index, node.incarnation));
        let local = node.clock.local(self.truth);
        let times_out = node.clock.when(local + request.timeout).max(self.truth + 1);
        let cut = node.cut(self.truth);
        let fate = Fate::draw(&mut self.random, &self.plan.odds, cut, times_out - self.truth);
        trace!(self, "{} sends {}: {}, {fate:?}", node.identity, request.id, brief(&call));
        self.count.requests += 1;
        self.count.faults += u64::from(fate.arrivals.len() != 1 || fate.answers.len() != 1 || fate.error.is_some());
        self.push(times_out, to, What::TimesOut(request.id));
        // What is under way when the faults end lands soon after.
        let last = self.plan.heal_at + SECOND;
        for arrival in fate.arrivals {
            let at = (self.truth + arrival).min(last.max(self.truth + 100 * MILLI));
            self.push(at, to, What::Arrives(request.id, call.clone(), fate.answers.clone()));
        }
        if let Some((error, delay)) = fate.error {
            self.push(self.truth + delay, to, What::Answer(request.id, Answer::Failed(error)));
        }
        Ok(())
    }

    fn arrives(&mut self, to: Option<(usize, u32)>, id: u64, call: Call, answers: Vec<Nanos>) -> Result<(), Violation> {
        let result = self.store.apply(&call)?;
        trace!(self, "the store answers {id} of {to:?} with {}", brief_result(&result));
        for delay in answers {
            let answer = match (&call, &result) {
                (_, Err(kind)) => Answer::Failed(LockError::new(*kind, "refused")),
                (Call::Get(look), Ok(observed)) => Answer::Read(*look, observed.clone()),
                (_, Ok(Some(observed))) => Answer::Written(observed.clone()),
                (_, Ok(None)) => continue,
            };
            self.push(self.truth + delay, to, What::Answer(id, answer));
        }
        Ok(())
    }

    fn answer(&mut self, index: usize, id: u64, answer: Answer) -> Result<(), Violation> {
        let under_way = self.nodes[index].in_flight == Some(id);
        if !under_way && !self.plan.late_answers {
            return Ok(());
        }
        if under_way {
            // What the user said meanwhile counts before the answer.
            self.obey_all(index)?;
        }
        let node = &mut self.nodes[index];
        let shown = match &answer {
            Answer::Read(_, Some(observed)) | Answer::Written(observed) => {
                Some((observed.version, observed.record.uid.clone()))
            }
            _ => None,
        };
        if let Some(shown) = &shown
            && shown.0 > node.known.0
        {
            node.known = shown.clone();
        }
        trace!(self, "{} hears of {id}: {}", node.identity, brief_answer(&answer));
        let was_valid = node.valid(self.truth);
        let now = node.clock.local(self.truth);
        node.election.answered(now, id, answer);
        self.listen(index, was_valid)?;
        let node = &mut self.nodes[index];
        // A late answer may be one to a closed write, which is ignored: the next renewal finds out.
        if let Some((version, uid)) = shown.filter(|_| under_way) {
            self.checks.one_object(node, version, &uid, self.truth)?;
        }
        if under_way {
            node.in_flight = None;
        }
        self.drive(index)
    }

    /// A command from the user's thread, obeyed between requests.
    fn tell(&mut self, index: usize, command: Command) -> Result<(), Violation> {
        self.nodes[index].commands.push_back(command);
        self.drive(index)
    }

    fn obey_all(&mut self, index: usize) -> Result<(), Violation> {
        while let Some(command) = self.nodes[index].commands.pop_front() {
            let node = &mut self.nodes[index];
            trace!(self, "{} obeys {command:?}", node.identity);
            let was_valid = node.valid(self.truth);
            let now = node.clock.local(self.truth);
            match command {
                Command::Campaign(wants) => node.election.campaign(wants == Wants::Round),
                Command::Withdraw => node.election.withdraw(),
                Command::StepDown => node.election.step_down(),
                Command::GuardGone => {
                    node.release_by = self
                        .plan
                        .steady_network
                        .then(|| self.truth + node.settings.release_timeout.as_nanos() as Nanos + SECOND / 2);
                    node.election.guard_gone(now);
                }
                Command::Close => node.election.close(),
            }
            self.listen(index, was_valid)?;
        }
        Ok(())
    }

    /// Hears what the election has to tell. True if there was anything.
    fn listen(&mut self, index: usize, was_valid: bool) -> Result<bool, Violation> {
        let mut told = false;
        while let Some(event) = self.nodes[index].election.event() {
            told = true;
            let node = &mut self.nodes[index];
            trace!(self, "{} tells {event:?}", node.identity);
            match event {
                Event::Elected { deadline, fencing_token } => {
                    if node.term.as_ref().is_some_and(|term| term.guard_held || term.lost.is_none()) {
                        return Err(format!("{} elected during a term", node.identity).into());
                    }
                    self.checks.elected(node, fencing_token, &self.plan, &self.store)?;
                    self.count.terms += 1;
                    let wanted = node.wants.take().is_some();
                    node.term = Some(Term {
                        serial: self.count.terms,
                        deadline,
                        token: fencing_token,
                        uid: node.known.1.clone(),
                        valid_until: 0,
                        over: false,
                        lost: None,
                        stepped_down: false,
                        guard_held: wanted,
                    });
                    node.refresh();
                    if !node.valid(self.truth) {
                        return Err(format!("{} elected to a term that has run out", node.identity).into());
                    }
                    if !wanted {
                        let now = node.clock.local(self.truth);
                        node.election.guard_gone(now);
                    }
                }
                Event::Lost(reason) => {
                    self.checks.lost(node, &reason, was_valid, &self.plan, &self.store)?;
                    if let Some(term) = &mut node.term {
                        term.lost = Some(reason);
                    }
                }
                Event::RoundOver => node.wants = None,
                Event::IdentityConflict if matches!(self.plan.suite, Suite::Promise | Suite::RunawayClocks) => {
                    return Err(format!("{} does not know its own writes", node.identity).into());
                }
                Event::Settled => node.release_by = None,
                Event::IdentityConflict | Event::Leader(_) | Event::WatchStale => {}
            }
        }
        self.nodes[index].refresh();
        Ok(told)
    }

    // ---- users ----

    fn user(&mut self, index: usize) -> Result<(), Violation> {
        let calm = self.truth >= self.plan.heal_at;
        let every = if calm { SECOND / 2 } else { self.plan.user_every };
        let next = self.truth + self.random.u64(MILLI..2 * every);
        let node = &mut self.nodes[index];
        let to = (index, node.incarnation);
        self.push(next, Some(to), What::User);
        let roll = self.random.u32(..100);
        let truth = self.truth;
        let node = &mut self.nodes[index];
        let valid = node.valid(truth);
        if let Some(term) = node.term.as_mut().filter(|term| term.guard_held) {
            if (calm && !valid) || (!calm && roll < if valid { 20 } else { 50 }) {
                return self.drop_guard(index);
            }
            if !calm && roll < 30 && !term.stepped_down {
                term.deadline.end();
                term.stepped_down = true;
                let serial = term.serial;
                node.refresh();
                trace!(self, "{} steps down", node.identity);
                // The user's thread may be held up between the two.
                let after = if roll < 24 { self.random.u64(..15 * SECOND) } else { 0 };
                self.push(truth + after, Some(to), What::StepDown(serial));
                return Ok(());
            }
            return Ok(());
        }
        if !calm && roll < 3 && !node.closing {
            node.closing = true;
            node.wants = None;
            return self.tell(index, Command::Close);
        }
        match node.wants {
            Some(Wants::Term) if !calm && roll < 15 => {
                node.commands.push_back(Command::Withdraw);
                node.wants = None;
                if roll < 8 {
                    node.wants = Some(Wants::Term);
                    node.commands.push_back(Command::Campaign(Wants::Term));
                }
                self.drive(index)
            }
            None if !node.closing && (calm || roll < 70) => {
                let wants = if roll < 20 { Wants::Round } else { Wants::Term };
                node.wants = Some(wants);
                self.tell(index, Command::Campaign(wants))
            }
            _ => Ok(()),
        }
    }

    fn step_down(&mut self, index: usize, serial: u64) -> Result<(), Violation> {
        match &self.nodes[index].term {
            Some(term) if term.serial == serial && term.guard_held => self.tell(index, Command::StepDown),
            // The guard went with it.
            _ => Ok(()),
        }
    }

    fn drop_guard(&mut self, index: usize) -> Result<(), Violation> {
        let node = &mut self.nodes[index];
        trace!(self, "{} drops its guard", node.identity);
        if let Some(term) = &mut node.term {
            term.deadline.end();
            term.guard_held = false;
        }
        node.refresh();
        let interrupt = node.in_flight.map(|id| (id, (index, node.incarnation)));
        let again = self.random.bool();
        let node = &mut self.nodes[index];
        node.commands.push_back(Command::GuardGone);
        if again && !node.closing {
            node.wants = Some(Wants::Term);
            node.commands.push_back(Command::Campaign(Wants::Term));
        }
        self.drive(index)?;
        if let Some((id, to)) = interrupt {
            self.push(self.truth + GRACE, Some(to), What::Interrupt(id));
        }
        Ok(())
    }

    // ---- processes ----

    fn process(&mut self, index: usize, incarnation: u32, before: Option<&Node>) -> Node {
        self.names += 1;
        let identity = match (self.plan.suite, before) {
            (Suite::Namesakes, Some(before)) if self.random.u8(..4) > 0 => before.identity.clone(),
            (Suite::Namesakes, None) if self.plan.twins => format!("twin-{}", index % 2),
            _ => format!("node-{index}.{}", self.names),
        };
        let settings = self.plan.settings(index, &identity);
        let rate = self.plan.rate(&mut self.random);
        Node {
            election: Election::new(settings.clone(), self.random.u64(..)),
            clock: NodeClock::new(&mut self.random, rate),
            identity,
            settings,
            incarnation,
            alive: true,
            finished: false,
            closing: false,
            paused_until: None,
            cut: None,
            in_flight: None,
            commands: Default::default(),
            wake: 0,
            wants: None,
            term: None,
            known: (0, None),
            steps_in_second: (0, 0),
            release_by: None,
        }
    }

    fn restart(&mut self, index: usize) -> Result<(), Violation> {
        let before = self.nodes.remove(index);
        let node = self.process(index, before.incarnation + 1, Some(&before));
        trace!(self, "{} starts", node.identity);
        let to = (index, node.incarnation);
        self.nodes.insert(index, node);
        self.push(self.truth, Some(to), What::User);
        self.drive(index)
    }

    fn resume(&mut self, index: usize) -> Result<(), Violation> {
        let truth = self.truth;
        let node = &mut self.nodes[index];
        node.paused_until = None;
        trace!(self, "{} goes on", node.identity);
        // A holder that was about to check when it was stopped.
        let now = node.clock.local(truth);
        let valid = node.valid(truth);
        match &node.term {
            // Not in every world: the question latches, and so would hide a loss that the election does not see.
            Some(term) if self.plan.asking && term.deadline.is_valid(now) != valid => {
                Err(format!("{}: the first check after a pause says {}", node.identity, !valid).into())
            }
            _ => Ok(()),
        }
    }

    // ---- what goes wrong ----

    fn chaos(&mut self) -> Result<(), Violation> {
        if self.truth >= self.plan.heal_at {
            return Ok(());
        }
        let next = self.truth + self.random.u64(MILLI..2 * self.plan.chaos_every);
        self.push(next, None, What::Chaos);
        let index = self.random.usize(..self.nodes.len());
        let scale = self.nodes[index].settings.lease_duration.as_nanos() as Nanos;
        let until = (self.truth + self.random.u64(..2 * scale)).min(self.plan.heal_at);
        self.count.faults += 1;
        let calm = self.plan.steady_network;
        match self.random.u8(..12) {
            0..=2 if !calm => {
                // Often a leader that waits for an answer, for about as long as its term lasts.
                let leads = |node: &Node| node.valid(self.truth) && node.in_flight.is_some();
                let leader = self.nodes.iter().position(leads).filter(|_| self.random.u8(..4) > 0);
                let (index, until) = match leader {
                    Some(leader) => {
                        let deadline = self.nodes[leader].settings.renew_deadline.as_nanos() as Nanos;
                        let length = deadline / 2 + self.random.u64(..deadline * 3 / 5);
                        (leader, (self.truth + length).min(self.plan.heal_at))
                    }
                    None => (index, until),
                };
                let node = &mut self.nodes[index];
                if node.alive && node.paused_until.is_none() {
                    trace!(self, "{} stands still", node.identity);
                    node.paused_until = Some(until);
                    // So that it goes on even if nobody calls.
                    let to = (index, node.incarnation);
                    node.wake += 1;
                    let wake = node.wake;
                    self.push(until, Some(to), What::Wake(wake));
                }
            }
            3 => {
                let node = &mut self.nodes[index];
                if node.alive && !node.finished {
                    trace!(self, "{} crashes", node.identity);
                    node.alive = false;
                    node.term = None;
                    node.paused_until = None;
                    node.incarnation += 1;
                    let to = (index, node.incarnation);
                    let at = if self.random.bool() { self.truth + MILLI } else { until };
                    self.push(at, Some(to), What::Restart);
                }
            }
            4..=6 if !calm => {
                let cuts = [Cut::Requests, Cut::Answers, Cut::Refused];
                let cut = cuts[self.random.usize(..3)];
                let whole = self.random.u8(..4) == 0;
                for (other, node) in self.nodes.iter_mut().enumerate() {
                    if whole || other == index {
                        trace!(self, "{} is cut off: {cut:?}", node.identity);
                        node.cut = Some((cut, until));
                    }
                }
            }
            7 | 8 => {
                trace!(self, "a label is edited");
                self.store.label();
            }
            9 => self.store.unrelated(1 + self.random.u64(..100)),
            10 => self.nodes[index].clock.set_wall(&mut self.random),
            _ => {}
        }
        Ok(())
    }

    fn operator(&mut self) {
        let Some(every) = self.plan.operator_every.filter(|_| self.truth < self.plan.heal_at) else { return };
        let next = self.truth + self.random.u64(MILLI..2 * every);
        self.push(next, None, What::Operator);
        self.checks.undermine(self.truth, &self.plan, &self.nodes);
        let what = self.random.u8(..6);
        trace!(self, "the operator does {what}");
        match what {
            0..=2 => self.store.delete(),
            3 => self.store.edit(|record| record.holder_identity = Some("operator".into())),
            4 => self.store.edit(|record| record.holder_identity = None),
            _ => self.store.edit(|record| record.lease_duration_seconds = Some(1)),
        }
    }

    fn heal(&mut self) {
        trace!(self, "all faults end");
        self.plan.odds = Odds::default();
        // An edit of metadata is no fault.
        self.push(self.truth + self.plan.label_every, None, What::Label);
        for index in 0..self.nodes.len() {
            let to = (index, self.nodes[index].incarnation);
            self.nodes[index].cut = None;
            // Users come back within a second.
            self.push(self.truth + SECOND, Some(to), What::User);
        }
    }

    /// Long enough after the last fault somebody leads.
    fn must_lead(&mut self) -> Result<(), Violation> {
        let leader = self.nodes.iter().find(|node| node.valid(self.truth));
        let Some(serial) = leader.and_then(|node| node.term.as_ref()).map(|term| term.serial) else {
            return Err("nobody leads although nothing keeps anybody from it".to_owned().into());
        };
        // And goes on leading.
        if *self.led_since.get_or_insert(serial) != serial {
            return Err("a leader lost its term although nothing happened".to_owned().into());
        }
        self.push(self.truth + SECOND, None, What::Check);
        Ok(())
    }
}

impl PartialEq for Queued {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Queued {}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Queued {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

fn brief(call: &Call) -> String {
    match call {
        Call::Get(_) => "get".into(),
        Call::Create(record) => format!("create {:?} {:?}", record.holder(), record.renew_time),
        Call::Update(base, record) => format!("update {} {:?} {:?}", base.version, record.holder(), record.renew_time),
    }
}

fn brief_observed(observed: &Observed) -> String {
    let record = &observed.record;
    format!("{} {:?} {:?} {:?}", observed.version, record.holder(), record.renew_time, record.uid)
}

fn brief_result(result: &Result<Option<Observed>, LockErrorKind>) -> String {
    match result {
        Ok(Some(observed)) => brief_observed(observed),
        Ok(None) => "nothing".into(),
        Err(kind) => format!("{kind:?}"),
    }
}

fn brief_answer(answer: &Answer) -> String {
    match answer {
        Answer::Read(_, Some(observed)) => format!("read {}", brief_observed(observed)),
        Answer::Read(_, None) => "read nothing".into(),
        Answer::Written(observed) => format!("written {}", brief_observed(observed)),
        Answer::Failed(error) => format!("{:?} {:?}", error.kind(), error.retry_after()),
    }
}
