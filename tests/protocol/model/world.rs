//! The effects of each action.

use crate::action::Action;
use crate::candidate::{Event, Facts, Failure, Guard, identity, letter};
use crate::candidates::Candidates;
use crate::clock::Clock;
use crate::coverage::{Coverage, Witnesses};
use crate::records::{Call, Records};
use crate::scope::Scope;
use crate::state::{LateWrites, MOST_CANDIDATES, Node, Stage, State};
use crate::store::{Reply, StoreId, Stores};

pub struct World {
    pub scope: Scope,
    pub candidates: Candidates,
    pub stores: Stores,
    pub records: Records,
    /// The events that the search has reached.
    pub covered: Witnesses,
}

impl World {
    pub fn new(scope: &Scope) -> Self {
        Self {
            scope: scope.clone(),
            candidates: Candidates::new(scope),
            stores: Stores::new(scope.watches),
            records: Records::default(),
            covered: Witnesses::default(),
        }
    }

    /// Returns the state in which the search starts.
    ///
    /// If the scope is `led`, the first candidate leads and the others have read its record. Otherwise the store is
    /// empty, and every candidate campaigns.
    pub fn beginning(&mut self) -> State {
        let mut state = self.nothing();
        if self.scope.led {
            while self.node_facts(&state, 0).token == 0 {
                state = self.request(&state, 0);
            }
            for index in 1..self.scope.rates.len() as u8 {
                state = self.request(&state, index);
            }
        }
        state
    }

    /// Performs one request of a candidate, up to its answer.
    fn request(&mut self, state: &State, index: u8) -> State {
        let mut state = self.step(state, Action::Next(index)).expect("a request");
        if node(&mut state, index).request == Stage::Sent {
            state = self.step(&state, Action::Arrives(index)).expect("an answer");
        }
        self.step(&state, Action::Answer(index)).expect("an answer")
    }

    fn nothing(&mut self) -> State {
        let store = self.stores.empty();
        let mut nodes = [None; MOST_CANDIDATES];
        for (index, node) in nodes.iter_mut().enumerate().take(self.scope.rates.len()) {
            *node = Some(self.process(index, 0, 0, store));
        }
        let left = self.scope.limits;
        State { tick: 0, left, store, nodes, late_writes: LateWrites::default(), highest_token: 0, deleted_at: 0 }
    }

    /// Starts a process that campaigns.
    fn process(&mut self, index: usize, incarnation: u8, tick: u8, store: StoreId) -> Node {
        let mut candidate = self.candidates.start(index, incarnation);
        let watch = self.scope.watches.then_some(Event::WatchOpened { from_scratch: true });
        for event in watch.into_iter().chain([Event::Campaign]) {
            let outcome = self.candidates.take(candidate, tick, event, &mut self.records);
            candidate = outcome.expect("a beginning").after;
        }
        let told = self.told_at_first(store);
        Node { candidate, request: Stage::None, incarnation, over: false, watches: self.scope.watches, told }
    }

    /// Returns the version after which a new watch starts to deliver changes.
    ///
    /// If the object exists, a new watch delivers it first.
    fn told_at_first(&self, store: StoreId) -> u16 {
        let stored = self.stores.get(store);
        if stored.object.is_some() { stored.version - 1 } else { stored.version }
    }

    /// Returns the state after `action`, or the rule that `action` breaks.
    pub fn step(&mut self, state: &State, action: Action) -> Result<State, String> {
        let mut next = *state;
        match action {
            Action::Tick => next.tick += 1,
            Action::Next(index) => {
                self.give(&mut next, index, Event::Next)?;
                // Without watches, the moment at which a read is sent has no effect. So sending the read and its
                // arrival at the store are one action.
                if !self.scope.watches && self.node_facts(&next, index).pending == Some(Call::Get) {
                    let reply = self.apply(&mut next, Call::Get)?;
                    node(&mut next, index).request = Stage::Answered(reply);
                }
            }
            Action::Arrives(index) => {
                let call = self.node_facts(state, index).pending.expect("a request");
                let reply = self.apply(&mut next, call)?;
                node(&mut next, index).request = Stage::Answered(reply);
            }
            Action::Answer(index) => {
                let call = self.node_facts(state, index).pending.expect("a request");
                let Stage::Answered(reply) = node(&mut next, index).request else { unreachable!("no answer") };
                let event = match (call, reply) {
                    (Call::Get, Reply::Stands(standing)) => Event::Read(Some(standing)),
                    (Call::Get, _) => Event::Read(None),
                    (_, Reply::Stands(standing)) => Event::Written(standing),
                    (_, _) => {
                        self.covered.add(Coverage::Conflict);
                        Event::Failed(Failure::Conflict)
                    }
                };
                self.give(&mut next, index, event)?;
            }
            Action::Fails(index, failure) => {
                let facts = *self.node_facts(state, index);
                let free = failure == Failure::NoAnswer && facts.interrupted;
                next.left.faults -= u8::from(!free);
                if self.abandon(&mut next, index) {
                    self.give(&mut next, index, Event::Failed(failure))?;
                } else {
                    return Ok(*state);
                }
            }
            Action::Lands(index) => {
                let call = state.late_writes.get(usize::from(index)).expect("a late write");
                next.late_writes.remove(usize::from(index));
                if let Reply::Stands(_) = self.apply(&mut next, call)? {
                    self.covered.add(Coverage::LandedLate);
                }
            }
            Action::Hears { node: index, late } => {
                let told = node(&mut next, index).told;
                let stored = *self.stores.next_after(state.store, told).expect("a change");
                node(&mut next, index).told = stored.version;
                let received = if late { stored.written_at } else { state.tick };
                let event = match stored.object {
                    Some(standing) => Event::Heard { standing, received },
                    None => Event::HeardDeleted { version: stored.version, received },
                };
                self.give(&mut next, index, event)?;
            }
            Action::WatchCut(index) => {
                next.left.faults -= 1;
                node(&mut next, index).watches = false;
                self.give(&mut next, index, Event::WatchLost)?;
            }
            Action::WatchOpens { node: index, from_scratch } => {
                let newest = self.told_at_first(state.store);
                let node = node(&mut next, index);
                node.watches = true;
                if from_scratch {
                    node.told = newest;
                }
                self.give(&mut next, index, Event::WatchOpened { from_scratch })?;
            }
            Action::Ask(index) => self.give(&mut next, index, Event::Ask)?,
            Action::DropGuard(index) => {
                let nodes = state.nodes[usize::from(index)];
                let valid = nodes.is_some_and(|node| self.is_valid(&node, index, state.tick));
                next.left.wishes -= u8::from(valid);
                self.give(&mut next, index, Event::DropGuard)?;
            }
            Action::StepDown(index) => self.wish(&mut next, index, Event::StepDown)?,
            Action::Withdraw(index) => self.wish(&mut next, index, Event::Withdraw)?,
            Action::Campaign(index) => self.wish(&mut next, index, Event::Campaign)?,
            Action::TellGone(index) => self.give(&mut next, index, Event::TellGone)?,
            Action::TellStepDown(index) => self.give(&mut next, index, Event::TellStepDown)?,
            Action::Restart(index) => {
                next.left.crashes -= 1;
                if !self.abandon(&mut next, index) {
                    return Ok(*state);
                }
                let incarnation = node(&mut next, index).incarnation + 1;
                let process = self.process(usize::from(index), incarnation, state.tick, state.store);
                next.nodes[usize::from(index)] = Some(process);
            }
            Action::Progress(index) => self.give(&mut next, index, Event::Progress)?,
            Action::SetFit(index, fit) => {
                next.left.flaps -= 1;
                self.give(&mut next, index, Event::SetFit(fit))?;
            }
            Action::Edit => {
                next.left.edits -= 1;
                next.store = self.stores.edit(state.store, state.tick).expect("an object");
            }
            Action::Request => {
                next.left.requests -= 1;
                next.store = self.stores.request(state.store, state.tick, &mut self.records).expect("an object");
            }
            Action::Delete => {
                next.left.deletions -= 1;
                next.store = self.stores.delete(state.store, state.tick).expect("an object");
                next.deleted_at = self.stores.get(next.store).version;
            }
        }
        self.forget_what_cannot_land(&mut next);
        self.retire(&mut next);
        self.judge(&mut next)?;
        Ok(next)
    }

    /// Applies `event` to a candidate, and returns an error if a rule breaks.
    fn give(&mut self, state: &mut State, index: u8, event: Event) -> Result<(), String> {
        let tick = state.tick;
        let node = node(state, index);
        let before = *self.candidates.facts(node.candidate);
        let outcome = self.candidates.take(node.candidate, tick, event, &mut self.records)?;
        let after = *self.candidates.facts(outcome.after);
        node.candidate = outcome.after;
        if before.pending.is_none() != after.pending.is_none() {
            node.request = if after.pending.is_some() { Stage::Sent } else { Stage::None };
        }
        if after.silent_watch {
            node.watches = false;
        }
        self.covered.join(outcome.covered);
        if after.token != before.token {
            node.over = false;
            // A late answer can elect the candidate to a term whose lease has been deleted since.
            let bygone = after.token < state.deleted_at && after.token != state.highest_token;
            if after.token <= state.highest_token && !bygone {
                return Err(format!("token {} after {}", after.token, state.highest_token));
            }
            state.highest_token = state.highest_token.max(after.token);
        }
        Ok(())
    }

    fn wish(&mut self, state: &mut State, index: u8, event: Event) -> Result<(), String> {
        state.left.wishes -= 1;
        self.give(state, index, event)
    }

    fn apply(&mut self, state: &mut State, call: Call) -> Result<Reply, String> {
        let (store, reply) = self.stores.apply(state.store, state.tick, call, &mut self.records)?;
        state.store = store;
        Ok(reply)
    }

    /// Gives up the candidate's request, so that the candidate no longer waits for an answer.
    ///
    /// Returns `false` if there is no room to record that the write is still under way.
    fn abandon(&self, state: &mut State, index: u8) -> bool {
        let sent = node(state, index).request == Stage::Sent;
        match self.node_facts(state, index).pending {
            Some(call @ (Call::Create(_) | Call::Update(..))) if sent => state.late_writes.add(call),
            _ => true,
        }
    }

    /// Removes the late writes that the store is certain to refuse.
    fn forget_what_cannot_land(&self, state: &mut State) {
        let stored = self.stores.get(state.store);
        let lasts = state.left.deletions == 0;
        state.late_writes.retain(|call| match call {
            Call::Get => false,
            Call::Create(_) => stored.object.is_none() || !lasts,
            Call::Update(base, _) => base.version == stored.version && stored.object.is_some(),
        });
    }

    /// Removes the candidates that can no longer affect the world.
    ///
    /// Such a candidate has no guard, no campaign and no write under way, and is not the holder. No candidate is
    /// removed while a user action, a crash, a change of fitness or a late write is still possible.
    fn retire(&self, state: &mut State) {
        if state.left.wishes > 0
            || state.left.flaps > 0
            || state.left.crashes > 0
            || state.late_writes != LateWrites::default()
        {
            return;
        }
        let holder = self.stores.get(state.store).object.map(|standing| self.records.get(standing.record).holder());
        for (index, node) in state.nodes.iter_mut().enumerate() {
            let retires = |node: &Node| {
                let facts = self.candidates.facts(node.candidate);
                let gone = facts.guard == Guard::None && !facts.campaigning;
                let writes = node.request == Stage::Sent && facts.pending != Some(Call::Get);
                gone && !writes && holder.flatten() != Some(&*identity(&self.scope, index, node.incarnation))
            };
            *node = node.filter(|node| !retires(node));
        }
    }

    fn node_facts(&self, state: &State, index: u8) -> &Facts {
        self.candidates.facts(state.nodes[usize::from(index)].expect("a candidate").candidate)
    }

    /// Returns `true` if the node's term is valid at `tick`.
    pub fn is_valid(&self, node: &Node, index: u8, tick: u8) -> bool {
        let clock = Clock { rate: self.scope.rates[usize::from(index)] };
        self.candidates.facts(node.candidate).valid_until > clock.local(tick).as_nanos()
    }

    /// Checks the rules that must hold in every state.
    fn judge(&self, state: &mut State) -> Result<(), String> {
        let mut leaders = Vec::new();
        for (index, node) in (0..).zip(&mut state.nodes) {
            let Some(node) = node else { continue };
            let facts = self.candidates.facts(node.candidate);
            let name = letter(usize::from(index));
            if !self.is_valid(node, index, state.tick) {
                node.over = true;
            } else if node.over {
                return Err(format!("{name} leads again in a term that was over"));
            } else if facts.token > state.deleted_at {
                leaders.push(name);
            } else if facts.shown >= state.deleted_at {
                return Err(format!("{name} leads although it has been shown what came after its lease was deleted"));
            }
        }
        if leaders.len() > 1 { Err(format!("{leaders:?} lead at a time")) } else { Ok(()) }
    }
}

fn node(state: &mut State, index: u8) -> &mut Node {
    state.nodes[usize::from(index)].as_mut().expect("a candidate")
}
