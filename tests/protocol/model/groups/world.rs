//! The world of a group: a store, and processes with abstract electors.
//!
//! An elector of this model has one slot, and renews at most once per tick. It only learns that its slot is lost from
//! the conflict of a renewal.

use std::time::Duration;

use leasehold::election::group::GroupKey;

use super::process::{Facts, Input, Processes, SHARDS, Work};
use super::records::{Call, Content, Holder, NEW, Reply, Stored};
use super::scope::{GroupScope, Left};
use super::state::{
    Elector, Event, Flight, GroupAction, GroupState, KEYS, LATE_WRITES, NODES, Node, Queues, SLOTS, abandon, node,
};
use crate::clock::Clock;
use crate::search::Space;

/// The ticks after which a continuation without faults must have an owner for every shard.
const SETTLED: u8 = 18;

pub struct GroupWorld {
    pub scope: GroupScope,
    pub processes: Processes,
    queues: Queues,
    end: u8,
}

impl GroupWorld {
    pub fn new(scope: &GroupScope) -> Self {
        let (processes, queues) = (Processes::new(), Queues::default());
        Self { scope: scope.clone(), processes, queues, end: u8::MAX }
    }

    /// Returns the state in which the search starts: the first processes have joined, one after the other.
    pub fn beginning(&mut self) -> GroupState {
        let mut store = [Stored::default(); KEYS.len()];
        if self.scope.is_seeded {
            let call = |key| Call { key, write: Some((0, Content::FREE)) };
            for (stored, key) in store.iter_mut().zip(KEYS).skip(SLOTS).take(self.scope.shards) {
                stored.perform(call(key));
            }
        }
        let (left, nodes) = (Left::FAIR, [None; NODES]);
        let mut state = GroupState { tick: 1, left, store, nodes, late: [None; LATE_WRITES], tokens: [0; SHARDS] };
        for index in 0..self.scope.warm {
            self.start(&mut state, index, index as u8);
            state = self.settle(state).expect("a beginning");
        }
        self.end = state.tick + self.scope.ticks;
        GroupState { left: self.scope.left, ..state }
    }

    fn clock(&self, index: usize) -> Clock {
        Clock { rate: self.scope.rates[index] }
    }

    fn lease_duration(&self, index: usize) -> Duration {
        Duration::from_secs(self.scope.leases[index])
    }

    fn facts(&self, node: &Node) -> Facts {
        self.processes.facts(node.process)
    }

    fn start(&mut self, state: &mut GroupState, index: usize, name: u8) {
        let process =
            self.processes.start(name, self.clock(index), &self.scope, self.lease_duration(index), state.tick);
        let is_prompt = self.scope.prompt.contains(&index);
        state.nodes[index] =
            Some(Node { process, name, watch: None, request: None, elector: Elector::Idle, is_prompt });
    }

    /// Gives an input to a process, and carries out the result.
    fn input(&mut self, state: &mut GroupState, index: usize, input: Input) -> Result<(), String> {
        let tick = state.tick;
        let node = state.nodes[index].as_mut().expect("a process");
        let outcome = self.processes.take(node.process, node.name, tick, input)?;
        node.process = outcome.after;
        if let Some(call) = outcome.call {
            node.request = Some(Flight { call, sent: 0, reply: None });
        }
        if outcome.reopen {
            node.watch = None;
        }
        if outcome.left
            && let Elector::Held { slot, known, flight, .. } = std::mem::replace(&mut node.elector, Elector::Idle)
        {
            let content = known.content.expect("a record");
            let content = Content { holder: Holder::Nobody, renewed: NEW, ..content };
            abandon(state, flight);
            let call = Call { key: GroupKey::Slot(slot), write: Some((known.version, content)) };
            abandon(state, Some(Flight { call, sent: tick, reply: None }));
        }
        for (shard, token) in outcome.started.into_iter().enumerate().filter(|(_, token)| *token > 0) {
            if token <= state.tokens[shard] {
                return Err(format!("the fencing tokens of shard {shard} do not grow"));
            }
            state.tokens[shard] = token;
            self.processes.seen.insert(["started by a", "started by b", "started by c"][index].into());
        }
        if let Some(slot) = outcome.campaign {
            let stored = state.store[slot];
            let base = stored.content.map_or(0, |_| stored.version);
            let is_conflict = stored.content.is_some_and(|content| content.holder != Holder::Nobody);
            let node = state.nodes[index].as_mut().expect("a process");
            let seconds = self.scope.leases[index] as u8;
            let content = Content { holder: Holder::Process(node.name), seconds, ..Content::FREE };
            let call = Call { key: GroupKey::Slot(slot), write: Some((base, content)) };
            let reply = is_conflict.then_some(Reply { is_conflict, stored });
            node.elector = Elector::Campaign { slot, flight: Flight { call, sent: tick, reply } };
            self.finish_elector(state, index)?;
        }
        self.prompt(state, index)
    }

    /// Renews the slot of a prompt process, and delivers the renewal and the listing to the process.
    fn prompt(&mut self, state: &mut GroupState, index: usize) -> Result<(), String> {
        let Node { watch, elector, is_prompt, .. } = node(state, index);
        if !*is_prompt {
            return Ok(());
        }
        let Some(queue) = *watch else {
            self.open(state, index);
            return self.deliver(state, index, 0);
        };
        if let Elector::Held { slot, .. } = elector {
            let own = GroupKey::Slot(*slot);
            let is_own = |event: &Event| matches!(event, Event::Changed(key, _) if *key == own);
            let queue = self.queues.get(queue);
            if let Some(at) = queue.iter().position(is_own).filter(|_| !queue.contains(&Event::Listed)) {
                return self.deliver(state, index, at);
            }
        }
        Ok(())
    }

    /// Performs the elector's request at once, unless the scope separates the steps of electors.
    fn finish_elector(&mut self, state: &mut GroupState, index: usize) -> Result<(), String> {
        if !self.scope.elector_steps {
            self.elector_lands(state, index);
            self.elector_answer(state, index)?;
        }
        Ok(())
    }

    fn elector_lands(&mut self, state: &mut GroupState, index: usize) {
        let Some(Flight { call, reply: None, .. }) = state.nodes[index].and_then(|node| node.flight()) else { return };
        let reply = self.perform(state, call);
        let node = node(state, index);
        if let Elector::Campaign { flight, .. } | Elector::Held { flight: Some(flight), .. } = &mut node.elector {
            flight.reply = Some(reply);
        }
    }

    fn elector_answer(&mut self, state: &mut GroupState, index: usize) -> Result<(), String> {
        let (tick, clock, lease_duration) = (state.tick, self.clock(index), self.lease_duration(index));
        let node = state.nodes[index].as_mut().expect("a process");
        let Some(Flight { sent, reply: Some(Reply { is_conflict, stored }), .. }) = node.flight() else {
            return Ok(());
        };
        match node.elector {
            Elector::Campaign { slot, .. } => {
                let valid_until = clock.local(sent) + lease_duration * 2 / 3;
                let has_won = !is_conflict && clock.local(tick) < valid_until;
                node.elector = match has_won {
                    true => Elector::Held { slot, known: stored, renewed_at: sent, flight: None },
                    false => Elector::Idle,
                };
                let won = Input::Joined(slot, stored, sent);
                self.input(state, index, if has_won { won } else { Input::NotJoined(slot) })
            }
            Elector::Held { slot, known, renewed_at, .. } => {
                let name = |stored: Stored| stored.content.map(|it| (it.uid, it.acquired, it.holder));
                let is_ours = name(stored) == name(known);
                let known = if is_ours { stored } else { known };
                node.elector = Elector::Held { slot, known, renewed_at, flight: None };
                let input = match (is_conflict, is_ours) {
                    (false, _) => Input::Renewed(slot, stored, sent),
                    (true, true) => Input::Observed(slot, stored),
                    (true, false) => Input::Lost,
                };
                self.input(state, index, input)
            }
            Elector::Idle => Ok(()),
        }
    }

    fn perform(&mut self, state: &mut GroupState, call: Call) -> Reply {
        let key = KEYS.iter().position(|key| *key == call.key).expect("a key");
        let (reply, has_changed) = state.store[key].perform(call);
        if reply.is_conflict {
            self.processes.seen.insert("conflict".into());
        }
        if has_changed {
            self.publish(state, key);
        }
        reply
    }

    /// Adds the newest version of a key to all watches, and forgets writes that can no longer succeed.
    fn publish(&mut self, state: &mut GroupState, key: usize) {
        let (key, stored) = (KEYS[key], state.store[key]);
        for node in state.nodes.iter_mut().flatten() {
            let Some(id) = node.watch else { continue };
            let mut queue = self.queues.get(id).to_vec();
            let start = queue.iter().position(|event| *event == Event::Listed).map_or(0, |at| at + 1);
            let later = |event: &Event| matches!(event, Event::Changed(other, _) if *other > key);
            let same = |event: &Event| matches!(event, Event::Changed(other, _) if *other == key);
            let event = Event::Changed(key, stored);
            match queue[start..].iter().position(same) {
                Some(at) if self.scope.skips => queue[start + at] = event,
                _ if self.scope.in_order => queue.push(event),
                _ => {
                    let at = queue[start..].iter().position(later).map_or(queue.len(), |at| start + at);
                    queue.insert(at, event);
                }
            }
            node.watch = Some(self.queues.number(queue));
        }
        for late in &mut state.late {
            *late = late.filter(|call| {
                call.key != key || call.write.is_some_and(|(base, _)| base == 0 || base == stored.version)
            });
        }
        state.late.sort_unstable();
    }

    fn deliver(&mut self, state: &mut GroupState, index: usize, at: usize) -> Result<(), String> {
        loop {
            let node = node(state, index);
            let mut queue = self.queues.get(node.watch.expect("a watch")).to_vec();
            let event = queue.remove(at);
            let is_last = !queue.contains(&Event::Listed);
            node.watch = Some(self.queues.number(queue));
            match event {
                Event::Opened(sent) => self.input(state, index, Input::Opened(sent))?,
                Event::Changed(key, stored) => self.input(state, index, Input::Changed(key, stored))?,
                Event::Listed => self.input(state, index, Input::Listed)?,
            }
            if is_last || self.scope.listing_steps {
                return Ok(());
            }
        }
    }

    fn open(&mut self, state: &mut GroupState, index: usize) {
        let records = KEYS.iter().zip(state.store).filter(|(_, stored)| stored.content.is_some());
        let records = records.map(|(key, stored)| Event::Changed(*key, stored));
        let queue = [Event::Opened(state.tick)].into_iter().chain(records).chain([Event::Listed]);
        let queue = self.queues.number(queue.collect());
        node(state, index).watch = Some(queue);
    }

    fn check(&self, state: &GroupState) -> Result<(), String> {
        for shard in 0..self.scope.shards {
            if self.owners(state, shard) > 1 {
                return Err(format!("shard {shard} has two owners"));
            }
        }
        Ok(())
    }

    fn owners(&self, state: &GroupState, shard: usize) -> usize {
        let owns = |node: &&Node| {
            let Facts { work, valid_until, .. } = self.facts(node);
            matches!(work[shard], Work::Runs | Work::Recalled) && u64::from(state.tick) < valid_until
        };
        state.nodes.iter().flatten().filter(owns).count()
    }

    /// Performs all actions without faults, until only time can change the state.
    fn settle(&mut self, mut state: GroupState) -> Result<GroupState, String> {
        let mut actions = Vec::new();
        'search: for _ in 0..500 {
            self.candidates(&state, &mut actions);
            for action in &actions {
                let is_fair = match *action {
                    GroupAction::Return(index, shard) => {
                        state.nodes[index].is_some_and(|node| self.facts(&node).work[shard] != Work::Runs)
                    }
                    _ => (GroupAction::rank(action)) == 0,
                };
                if !is_fair {
                    continue;
                }
                let next = self.step(&state, *action)?;
                if next != state {
                    state = next;
                    continue 'search;
                }
            }
            return Ok(state);
        }
        Err("the processes act without end".into())
    }

    /// Checks that each shard gets an owner if no more faults happen.
    fn check_progress(&mut self, state: &GroupState) -> Result<(), String> {
        let mut state = GroupState { left: Left::FAIR, ..*state };
        for index in 0..self.scope.rates.len() {
            if state.nodes[index].is_none() {
                self.start(&mut state, index, 100 + index as u8);
            }
        }
        for _ in 0..SETTLED {
            state = self.settle(state)?;
            let owned = (0..self.scope.shards).all(|shard| self.owners(&state, shard) == 1);
            if owned {
                return Ok(());
            }
            self.tick(&mut state)?;
            self.check(&state)?;
        }
        Err(format!("a shard has no owner after {SETTLED} ticks without faults: {state:?}"))
    }

    fn tick(&mut self, state: &mut GroupState) -> Result<(), String> {
        state.tick += 1;
        for index in 0..NODES {
            if state.nodes[index].is_some() {
                self.input(state, index, Input::Tick)?;
                if node(state, index).is_prompt {
                    self.act(state, GroupAction::Wake(index))?;
                    if self.can_renew(state, index) {
                        self.act(state, GroupAction::Renew(index))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Lists the actions that are possible in a state. Some of them may change nothing.
    fn candidates(&self, state: &GroupState, actions: &mut Vec<GroupAction>) {
        actions.clear();
        let left = &state.left;
        let mut add = |is_possible: bool, action: GroupAction| {
            if is_possible {
                actions.push(action);
            }
        };
        for (index, node) in state.nodes.iter().enumerate().take(self.scope.rates.len()) {
            let Some(node) = node else {
                add(left.starts > 0, GroupAction::Start(index));
                continue;
            };
            let facts = self.facts(node);
            add(true, GroupAction::Wake(index));
            match node.watch {
                None => add(left.opens > 0, GroupAction::Open(index)),
                Some(queue) => {
                    let queue = self.queues.get(queue);
                    let is_listing = queue.contains(&Event::Listed);
                    for (at, event) in queue.iter().enumerate() {
                        let of = |event: &Event| if let Event::Changed(key, _) = event { Some(*key) } else { None };
                        let is_first =
                            at == 0 || !is_listing && !self.scope.in_order && of(event) != of(&queue[at - 1]);
                        add(is_first, GroupAction::Deliver(index, at));
                    }
                    add(left.cuts > 0, GroupAction::Cut(index));
                }
            }
            if let Some(flight) = node.request {
                add(flight.reply.is_none(), GroupAction::Land(index));
                add(flight.reply.is_some(), GroupAction::Answer(index));
                add(left.faults > 0, GroupAction::Fail(index));
            }
            match node.flight() {
                Some(flight) => {
                    add(flight.reply.is_none(), GroupAction::ElectorLands(index));
                    add(flight.reply.is_some(), GroupAction::ElectorAnswer(index));
                    add(left.faults > 0, GroupAction::ElectorFails(index));
                }
                None => add(self.can_renew(state, index), GroupAction::Renew(index)),
            }
            for (shard, work) in facts.work.into_iter().enumerate() {
                let may_return = work != Work::None && (work != Work::Runs || left.returns > 0);
                add(may_return, GroupAction::Return(index, shard));
            }
            add(left.leaves > 0, GroupAction::Leave(index));
            add(left.crashes > 0, GroupAction::Crash(index));
            add(left.pauses > 0 && node.is_prompt, GroupAction::Pause(index));
        }
        (0..LATE_WRITES).for_each(|late| add(state.late[late].is_some(), GroupAction::LandLate(late)));
        for (key, _) in state.store.iter().enumerate().filter(|(_, stored)| stored.content.is_some()) {
            add(left.edits > 0 && key >= SLOTS, GroupAction::Edit(key));
            add(left.deletions > 0 && key == self.scope.deletable, GroupAction::Delete(key));
        }
        add(state.tick < self.end, GroupAction::Tick);
    }

    /// Returns `true` if the elector of a process may renew its slot, which happens at most once per tick.
    fn can_renew(&self, state: &GroupState, index: usize) -> bool {
        let is_due = |node: &Node, at: u8| state.tick > at && self.facts(node).term_until > u64::from(state.tick);
        state.nodes[index].is_some_and(
            |node| matches!(node.elector, Elector::Held { renewed_at, flight: None, .. } if is_due(&node, renewed_at)),
        )
    }

    fn act(&mut self, state: &mut GroupState, action: GroupAction) -> Result<(), String> {
        let left = &mut state.left;
        match action {
            GroupAction::Tick => self.tick(state)?,
            GroupAction::Start(index) => {
                left.starts -= 1;
                let name = index as u8 + 3 * (1 + left.starts);
                self.start(state, index, name);
            }
            GroupAction::Crash(index) => {
                left.crashes -= 1;
                let node = state.nodes[index].take().expect("a process");
                abandon(state, node.request);
                abandon(state, node.flight());
            }
            GroupAction::Pause(index) => {
                left.pauses -= 1;
                node(state, index).is_prompt = false;
            }
            GroupAction::Wake(index) => self.input(state, index, Input::Wake)?,
            GroupAction::Open(index) => {
                left.opens -= u8::from(left.opens < u8::MAX);
                self.open(state, index);
            }
            GroupAction::Cut(index) => {
                left.cuts -= 1;
                node(state, index).watch = None;
                self.input(state, index, Input::Cut)?;
            }
            GroupAction::Deliver(index, at) => self.deliver(state, index, at)?,
            GroupAction::Land(index) => {
                let flight = node(state, index).request.expect("a request");
                let reply = Some(self.perform(state, flight.call));
                node(state, index).request = Some(Flight { reply, ..flight });
            }
            GroupAction::Answer(index) => {
                let flight = node(state, index).request.take().expect("a request");
                self.input(state, index, Input::Answer(flight.call, flight.reply.expect("a reply")))?;
            }
            GroupAction::Fail(index) => {
                left.faults -= 1;
                let flight = node(state, index).request.take();
                abandon(state, flight);
                let is_read = flight.is_some_and(|flight| flight.call.write.is_none());
                self.input(state, index, Input::Failed(is_read))?;
            }
            GroupAction::Renew(index) => {
                let (tick, node) = (state.tick, node(state, index));
                if let Elector::Held { slot, known, renewed_at, flight } = &mut node.elector {
                    let content = Content { renewed: NEW, ..known.content.expect("a record") };
                    let call = Call { key: GroupKey::Slot(*slot), write: Some((known.version, content)) };
                    (*renewed_at, *flight) = (tick, Some(Flight { call, sent: tick, reply: None }));
                }
                self.finish_elector(state, index)?;
            }
            GroupAction::ElectorLands(index) => self.elector_lands(state, index),
            GroupAction::ElectorAnswer(index) => self.elector_answer(state, index)?,
            GroupAction::ElectorFails(index) => {
                left.faults -= 1;
                let flight = node(state, index).flight();
                abandon(state, flight);
                match &mut node(state, index).elector {
                    Elector::Held { flight, .. } => *flight = None,
                    Elector::Campaign { slot, .. } => {
                        let slot = *slot;
                        node(state, index).elector = Elector::Idle;
                        self.input(state, index, Input::NotJoined(slot))?;
                    }
                    Elector::Idle => {}
                }
            }
            GroupAction::Return(index, shard) => {
                if self.facts(node(state, index)).work[shard] == Work::Runs {
                    state.left.returns -= 1;
                }
                self.input(state, index, Input::Returned(shard))?;
            }
            GroupAction::Leave(index) => {
                left.leaves -= 1;
                self.input(state, index, Input::Leave)?;
            }
            GroupAction::LandLate(late) => {
                let call = state.late[late].take().expect("a write");
                state.late.sort_unstable();
                if !self.perform(state, call).is_conflict {
                    self.processes.seen.insert("landed late".into());
                }
            }
            GroupAction::Edit(key) => {
                left.edits -= 1;
                state.store[key].version += 1;
                self.publish(state, key);
            }
            GroupAction::Delete(key) => {
                left.deletions -= 1;
                state.store[key] = Stored { version: state.store[key].version + 1, content: None };
                self.publish(state, key);
            }
        }
        self.check(state)
    }
}

impl Space for GroupWorld {
    type State = GroupState;
    type Action = GroupAction;

    fn actions(&mut self, state: &GroupState, actions: &mut Vec<GroupAction>) {
        self.candidates(state, actions);
    }

    fn step(&mut self, state: &GroupState, action: GroupAction) -> Result<GroupState, String> {
        let mut next = *state;
        self.act(&mut next, action)?;
        next.left.spend(&state.left);
        Ok(next)
    }

    fn inspect(&mut self, state: &GroupState, fingerprint: u64) -> Result<(), String> {
        match fingerprint.is_multiple_of(self.scope.sample) {
            true => self.check_progress(state),
            false => Ok(()),
        }
    }

    fn tell(&mut self, path: &[GroupAction]) -> String {
        let mut state = self.beginning();
        let mut story = format!("{:?}\n", state.store);
        for action in path {
            story.push_str(&format!("{:>3} s  {action:?}", state.tick));
            if let Ok(next) = self.step(&state, *action) {
                let changed = KEYS.iter().zip(state.store.iter().zip(&next.store)).filter(|(_, (old, new))| old != new);
                changed.for_each(|(key, (_, new))| story.push_str(&format!("; {key:?} is {new:?}")));
                state = next;
            }
            let nodes = state.nodes.iter().flatten();
            let works: Vec<_> = nodes.map(|node| (self.facts(node).work, node.request.map(|it| it.call))).collect();
            story.push_str(&format!("; {works:?}\n"));
        }
        story
    }

    fn describe(&self) -> String {
        let seen: Vec<_> = self.processes.seen.iter().map(|event| &**event).collect();
        format!("groups, {}: {} of single processes; {}", self.scope.name, self.processes.count(), seen.join(", "))
    }
}
