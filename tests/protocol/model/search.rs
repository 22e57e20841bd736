//! Breadth-first search through all reachable states.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::io::{Write, stdout};
use std::time::Instant;

use foldhash::quality::FixedState;

use crate::action::Action;
use crate::candidate::letter;
use crate::coverage::Coverage;
use crate::scope::{Scope, deeper};
use crate::state::{Stage, State};
use crate::world::World;

/// A broken rule, and the actions that led to it.
pub struct Violation {
    pub what: String,
    pub how: String,
}

/// A world that a search explores.
pub trait Space {
    type State: Copy + Hash;
    type Action: Copy;

    /// Lists the actions that are possible in `state`.
    fn actions(&mut self, state: &Self::State, actions: &mut Vec<Self::Action>);

    /// Performs an action, or returns the rule that it breaks.
    fn step(&mut self, state: &Self::State, action: Self::Action) -> Result<Self::State, String>;

    /// Checks a new state.
    fn inspect(&mut self, _: &Self::State, _fingerprint: u64) -> Result<(), String> {
        Ok(())
    }

    /// Describes a path from the beginning, with one line for each action and its effects.
    fn tell(&mut self, path: &[Self::Action]) -> String;

    /// Describes the search.
    fn describe(&self) -> String;
}

impl Space for World {
    type State = State;
    type Action = Action;

    fn actions(&mut self, state: &State, actions: &mut Vec<Action>) {
        World::actions(self, state, actions);
    }

    fn step(&mut self, state: &State, action: Action) -> Result<State, String> {
        World::step(self, state, action)
    }

    fn tell(&mut self, path: &[Action]) -> String {
        let mut story = String::new();
        let mut state = self.beginning();
        for action in path {
            story.push_str(&format!("{:>3} s  {action:?}", state.tick));
            if let Ok(next) = self.step(&state, *action) {
                story.push_str(&changes(self, &state, &next));
                state = next;
            }
            story.push('\n');
        }
        story
    }

    fn describe(&self) -> String {
        let (scope, candidates) = (&self.scope, self.candidates.len());
        let (name, ticks) = (scope.name, scope.ticks);
        let count = scope.rates.len();
        format!("{name}: {count} candidates, {ticks} ticks, {candidates} states of single candidates; {}", self.covered)
    }
}

/// Searches all of `scope`, and panics if a rule breaks or a `wanted` event never happens.
pub fn hold(mut scope: Scope, wanted: &[Coverage]) {
    scope.ticks += deeper();
    let mut world = World::new(&scope);
    let beginning = world.beginning();
    if let Err(Violation { what, how }) = search(&mut world, beginning) {
        panic!("{}: {what}\n{how}", scope.name);
    }
    let missing = world.covered.missing(wanted);
    assert!(missing.is_empty(), "{}: never seen: {missing:?}; seen: {}", scope.name, world.covered);
}

/// Returns a hash of `state` with 64 bits.
///
/// Among ten million states, the chance that two share a hash is below one in a hundred thousand.
fn fingerprint(state: &impl Hash) -> u64 {
    FixedState::default().hash_one(state)
}

/// Searches all states from `beginning` on, and returns their number or a shortest path to a violation.
pub fn search<S: Space>(space: &mut S, beginning: S::State) -> Result<usize, Violation> {
    let began = Instant::now();
    let mut seen = HashSet::<u64, FixedState>::default();
    // Each entry belongs to one state: the number of the previous state, and the action after it.
    let mut trail = vec![(0_u32, None)];
    let mut frontier = VecDeque::from([(beginning, 0_u32, 0_u16)]);
    seen.insert(fingerprint(&beginning));
    let (mut steps, mut depth) = (0_u64, 0);
    let mut actions = Vec::new();
    let mut violation = None;
    'search: while let Some((state, number, length)) = frontier.pop_front() {
        depth = length;
        space.actions(&state, &mut actions);
        for action in &actions {
            steps += 1;
            let next = space.step(&state, *action).and_then(|next| {
                let fingerprint = fingerprint(&next);
                let is_new = seen.insert(fingerprint);
                if is_new {
                    space.inspect(&next, fingerprint)?;
                }
                Ok(is_new.then_some(next))
            });
            match next {
                Ok(Some(next)) => {
                    frontier.push_back((next, trail.len() as u32, length + 1));
                    trail.push((number, Some(*action)));
                }
                Ok(None) => {}
                Err(what) => {
                    violation = Some((what, number, *action));
                    break 'search;
                }
            }
        }
    }
    // The test harness captures `println!`, but not a direct write to stdout. The figures must appear in every run.
    let _ = writeln!(
        stdout(),
        "model: {} states, {steps} actions, depth {depth}, {:.1?}, {} violations; {}",
        seen.len(),
        began.elapsed(),
        u8::from(violation.is_some()),
        space.describe(),
    );
    let Some((what, mut number, last)) = violation else { return Ok(seen.len()) };
    let mut path = vec![last];
    while let (before, Some(action)) = trail[number as usize] {
        path.push(action);
        number = before;
    }
    path.reverse();
    let how = space.tell(&path);
    Err(Violation { what, how })
}

fn changes(world: &World, before: &State, after: &State) -> String {
    let mut told = String::new();
    let stored = world.stores.get(after.store);
    if before.store != after.store {
        let object = stored.object.map_or_else(|| "nothing".into(), |standing| world.records.show(standing));
        told.push_str(&format!("; the store now has {object}"));
    }
    for (index, nodes) in before.nodes.iter().zip(&after.nodes).enumerate() {
        let (Some(old), Some(new)) = nodes else { continue };
        let (was, is) = (world.candidates.facts(old.candidate), world.candidates.facts(new.candidate));
        if was.pending != is.pending
            && let Some(call) = is.pending
        {
            told.push_str(&format!("; it sends {}", world.records.show_call(call)));
        }
        if old.request != new.request
            && let Stage::Answered(reply) = new.request
        {
            told.push_str(&format!("; the answer is {}", world.records.show_reply(reply)));
        }
        if was.token != is.token {
            told.push_str(&format!("; it is elected with token {}", is.token));
        }
        let name = letter(index);
        let (led, leads) =
            (world.is_valid(old, index as u8, before.tick), world.is_valid(new, index as u8, after.tick));
        if led != leads {
            told.push_str(&format!("; {name} {}", if leads { "leads" } else { "leads no more" }));
        }
    }
    told
}
