//! An exhaustive model of groups: every order of events for two or three processes, within bounds.
//!
//! The processes are real [`Group`](leasehold::election::group::Group)s. Their electors are simplified. Time, clocks
//! and pauses are as in the model of elections.

mod process;
mod records;
mod scope;
mod state;
mod world;

use crate::scope::{SLOW, TOO_SLOW, TRUE, deeper};
use crate::search::search;
use scope::{GroupScope, Left};
use world::GroupWorld;

const NOTHING: Left = Left { opens: 1, ..Left::FAIR };

/// The first process owns every shard and has the slow clock. The second process is a member without a shard.
const OWNED: GroupScope = GroupScope {
    name: "owned",
    rates: &[SLOW, TRUE],
    leases: &[3, 3, 3],
    slots: 2,
    shards: 1,
    is_seeded: true,
    warm: 2,
    prompt: &[1],
    ticks: 3,
    left: NOTHING,
    deletable: 0,
    in_order: false,
    skips: true,
    elector_steps: false,
    listing_steps: false,
    sample: 2_003,
};

/// A third process may start.
const THREE: GroupScope = GroupScope { rates: &[SLOW, TRUE, TRUE], ..OWNED };

/// One event of any kind.
const ANY: Left =
    Left { starts: 1, crashes: 1, faults: 1, cuts: 1, edits: 1, leaves: 1, returns: 1, any: 1, ..NOTHING };

const DELETION: Left = Left { opens: 0, deletions: 1, ..NOTHING };

/// Searches all of `scope`, and panics if a rule breaks, a `wanted` event never happens, or there are few states.
fn holds(mut scope: GroupScope, wanted: &[&str], floor: usize) {
    scope.ticks += deeper();
    let mut world = GroupWorld::new(&scope);
    let beginning = world.beginning();
    let states = match search(&mut world, beginning) {
        Ok(states) => states,
        Err(violation) => panic!("{}: {}\n{}", scope.name, violation.what, violation.how),
    };
    let missing: Vec<_> = wanted.iter().filter(|event| !world.processes.seen.contains(**event)).collect();
    assert!(missing.is_empty(), "{}: never seen: {missing:?}", scope.name);
    assert!(states >= floor, "{}: {states} states", scope.name);
}

#[test]
fn groups_owned() {
    holds(OWNED, &["started by b", "TermEnded", "WatchLost"], 8_800);
}

#[test]
fn groups_listings() {
    holds(GroupScope { name: "listings", listing_steps: true, ..OWNED }, &["started by b"], 400_000);
}

#[test]
fn groups_cuts() {
    let left = Left { cuts: 1, ..NOTHING };
    holds(GroupScope { name: "cuts", ticks: 2, listing_steps: true, left, ..OWNED }, &["Reopen"], 18_000);
}

#[test]
fn groups_every_event() {
    holds(GroupScope { name: "every event", skips: false, ..OWNED }, &["started by b"], 9_000);
}

#[test]
fn groups_faults() {
    holds(GroupScope { name: "faults", left: Left { faults: 1, ..NOTHING }, ..OWNED }, &["landed late"], 14_000);
}

#[test]
fn groups_elector() {
    let left = Left { opens: 0, faults: 1, ..NOTHING };
    holds(GroupScope { name: "elector", ticks: 2, elector_steps: true, left, ..OWNED }, &["landed late"], 10_000);
}

#[test]
fn groups_crashes() {
    let left = Left { opens: 1, crashes: 1, starts: 1, ..NOTHING };
    holds(GroupScope { name: "crashes", left, ..OWNED }, &["landed late", "started by b"], 160_000);
}

#[test]
fn groups_edits() {
    let left = Left { opens: 0, edits: 1, ..NOTHING };
    holds(GroupScope { name: "edits", left, ..OWNED }, &["conflict", "started by b"], 9_000);
}

/// The record of the shard is deleted while its owner's watch is late.
///
/// The owner notices the deletion only if its watch delivers the events of different records in their order.
#[test]
fn groups_deleted_shard() {
    let scope =
        GroupScope { name: "deleted shard", deletable: 2, in_order: true, skips: false, left: DELETION, ..OWNED };
    holds(scope, &["RecordChanged", "started by b"], 200_000);
}

/// The record of the owner's slot is deleted.
#[test]
fn groups_deleted_slot() {
    let deleted = GroupScope { name: "deleted slot", in_order: true, skips: false, left: DELETION, ..OWNED };
    holds(deleted.clone(), &["TermEnded", "started by b"], 150_000);
    // The owner may join again, because it may list all records again.
    let left = Left { opens: 1, ..DELETION };
    holds(GroupScope { name: "deleted slot, joined again", ticks: 2, left, ..deleted }, &["TermEnded"], 200_000);
}

#[test]
fn groups_leaves() {
    let left = Left { opens: 0, leaves: 1, ..NOTHING };
    holds(GroupScope { name: "leaves", left, ..OWNED }, &["Returned", "MayLeave", "DrainTimeout"], 34_000);
}

/// The worker of a leaving process may never return.
#[test]
fn groups_hung_work() {
    let left = Left { opens: 0, leaves: 1, ..NOTHING };
    // Without another process, the shard stays without an owner.
    let none = GroupScope { sample: u64::MAX, ..OWNED };
    let scope = GroupScope { name: "hung work", rates: &[TRUE], warm: 1, prompt: &[0], ticks: 7, left, ..none };
    holds(scope, &["MayLeave", "DrainTimeout"], 10_000);
}

/// The owner has a longer lease duration than the other process.
#[test]
fn groups_mixed_durations() {
    holds(GroupScope { name: "mixed durations", leases: &[3, 2], ..OWNED }, &["started by b", "WatchLost"], 13_000);
}

#[test]
fn groups_leaves_and_faults() {
    let left = Left { opens: 0, leaves: 1, faults: 1, any: 2, ..NOTHING };
    let scope = GroupScope { name: "leaves and faults", ticks: 2, left, ..OWNED };
    holds(scope, &["Returned", "MayLeave", "landed late"], 50_000);
}

#[test]
fn groups_returns() {
    let left = Left { opens: 0, returns: 1, ..NOTHING };
    holds(GroupScope { name: "returns", left, ..OWNED }, &["Returned", "started by b"], 170_000);
}

/// A second process joins, and the first process gives up one of its two shards.
#[test]
fn groups_moves() {
    let left = Left { starts: 1, ..NOTHING };
    holds(
        GroupScope { name: "moves", shards: 2, warm: 1, ticks: 2, left, ..OWNED },
        &["Recalled", "started by b"],
        68_000,
    );
}

#[test]
fn groups_from_nothing() {
    let left = Left { opens: 3, starts: 2, ..NOTHING };
    let scope = GroupScope { name: "from nothing", is_seeded: false, warm: 0, ticks: 1, left, ..OWNED };
    holds(scope, &["started by b"], 65_000);
}

#[test]
fn groups_three() {
    let left = Left { opens: 0, ..NOTHING };
    let scope = GroupScope { name: "three", warm: 3, prompt: &[1, 2], left, ..THREE };
    holds(scope, &["Spare", "started by c"], 65_000);
}

/// Three processes, two slots and two shards. One event of any kind happens, such as the late start of the third process.
#[test]
fn groups_all() {
    let scope = GroupScope { name: "all", shards: 2, prompt: &[1, 2], ticks: 2, left: ANY, ..THREE };
    holds(scope, &["started by c", "landed late", "DrainTimeout"], 250_000);
}

/// As `groups_all`, but longer. The pause of one process is one of the events.
#[test]
fn groups_all_longer() {
    let left = Left { pauses: 1, ..ANY };
    let scope = GroupScope { name: "all, longer", shards: 2, prompt: &[0, 1, 2], left, ..THREE };
    holds(scope, &["started by c", "landed late", "DrainTimeout"], 300_000);
}

#[test]
fn groups_one_slot() {
    holds(GroupScope { name: "one slot", slots: 1, ticks: 4, ..OWNED }, &["started by b"], 150_000);
}

#[test]
fn groups_two_shards() {
    holds(GroupScope { name: "two shards", shards: 2, ..OWNED }, &["started by b"], 10_000);
}

/// Both processes may pause.
#[test]
fn groups_pauses() {
    holds(GroupScope { name: "pauses", prompt: &[], ..OWNED }, &["Reopen"], 200_000);
}

/// Checks that the rules can fail, as in the model of elections.
#[test]
fn groups_with_a_clock_beyond_the_promise_are_caught() {
    let mut world =
        GroupWorld::new(&GroupScope { name: "a clock beyond the promise", rates: &[TOO_SLOW, TRUE], ..OWNED });
    let beginning = world.beginning();
    let violation = search(&mut world, beginning).expect_err("a violation");
    assert_eq!(violation.what, "shard 0 has two owners");
}
