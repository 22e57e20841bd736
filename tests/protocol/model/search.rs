//! Breadth-first search through all reachable states.

use std::collections::{HashSet, VecDeque};
use std::hash::BuildHasher;
use std::io::{Write, stdout};
use std::time::Instant;

use foldhash::quality::FixedState;

use crate::action::Action;
use crate::candidate::letter;
use crate::coverage::Coverage;
use crate::scope::Scope;
use crate::state::{Stage, State};
use crate::world::World;

/// A broken rule, and the actions that led to it.
pub struct Violation {
    pub what: String,
    pub how: String,
}

/// Searches all of `scope`, and panics if a rule breaks or a `wanted` event never happens.
pub fn hold(scope: Scope, wanted: &[Coverage]) {
    let scope = scope.deepened();
    let mut world = World::new(&scope);
    if let Some(Violation { what, how }) = search(&mut world) {
        panic!("{}: {what}\n{how}", scope.name);
    }
    let missing = world.covered.missing(wanted);
    assert!(missing.is_empty(), "{}: never seen: {missing:?}; seen: {}", scope.name, world.covered);
}

/// Searches `scope`, and panics unless a rule breaks whose message contains `expected`.
pub fn break_down(scope: Scope, expected: &str) {
    let mut world = World::new(&scope);
    let Some(violation) = search(&mut world) else { panic!("{}: nothing breaks: the checks see nothing", scope.name) };
    assert!(violation.what.contains(expected), "{}: {}\n{}", scope.name, violation.what, violation.how);
}

/// Returns a hash of `state` with 64 bits.
///
/// Among ten million states, the chance that two share a hash is below one in a hundred thousand.
fn fingerprint(state: &State) -> u64 {
    FixedState::default().hash_one(state)
}

fn search(world: &mut World) -> Option<Violation> {
    let began = Instant::now();
    let beginning = world.beginning();
    let mut seen = HashSet::<u64, FixedState>::default();
    // Each entry belongs to one state: the number of the previous state, and the action after it.
    let mut trail = vec![(0_u32, Action::Tick)];
    let mut frontier = VecDeque::from([(beginning, 0_u32, 0_u16)]);
    seen.insert(fingerprint(&beginning));
    let (mut steps, mut depth) = (0_u64, 0);
    let mut actions = Vec::new();
    let mut violation = None;
    'search: while let Some((state, number, length)) = frontier.pop_front() {
        depth = length;
        world.actions(&state, &mut actions);
        for action in &actions {
            steps += 1;
            match world.step(&state, *action) {
                Ok(next) => {
                    if seen.insert(fingerprint(&next)) {
                        frontier.push_back((next, trail.len() as u32, length + 1));
                        trail.push((number, *action));
                    }
                }
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
        "model: {}: {} candidates, {} ticks, {} states ({} of single candidates), {steps} actions, depth {depth}, {:.1?}, {} violations; {}",
        world.scope.name,
        world.scope.rates.len(),
        world.scope.ticks,
        seen.len(),
        world.candidates.len(),
        began.elapsed(),
        u8::from(violation.is_some()),
        world.covered,
    );
    let (what, mut number, last) = violation?;
    let mut path = vec![last];
    while number != 0 {
        let (before, action) = trail[number as usize];
        path.push(action);
        number = before;
    }
    path.reverse();
    let how = tell(world, &path);
    Some(Violation { what, how })
}

/// Describes `path`, with one line for each action and its effects.
fn tell(world: &mut World, path: &[Action]) -> String {
    let mut story = String::new();
    let mut state = world.beginning();
    for action in path {
        story.push_str(&format!("{:>3} s  {action}", state.tick));
        if let Ok(next) = world.step(&state, *action) {
            story.push_str(&changes(world, &state, &next));
            state = next;
        }
        story.push('\n');
    }
    story
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
