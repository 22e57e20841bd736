//! An exhaustive model: every order of events for two or three candidates, within bounds.
//!
//! The candidates are real `Candidate`s over a simulated store, network and set of clocks. Time advances in ticks of one
//! second. Within a tick, all possible actions may happen in any order, and each may be delayed without limit.
//!
//! The number of faults, crashes, user actions, edits and deletions is bounded, so the number of states is finite. The
//! search visits every state and checks the rules in each. If a rule breaks, the search prints a shortest list of
//! actions that leads to the violation.
//!
//! The first candidate's clock is as slow as the promised rates permit, to the nanosecond. `MODEL_DEPTH` extends each
//! search by the given number of ticks. Each further tick multiplies time and memory by three to ten:
//! `MODEL_DEPTH=1 cargo test --release --test model`.
//!
//! The model omits jitter (which decides nothing here), duplicated requests, answers to abandoned requests, restored
//! stores, and events between two ticks.

mod action;
mod candidate;
mod candidates;
mod clock;
mod coverage;
mod groups;
mod normal;
mod records;
mod scope;
mod search;
mod state;
mod store;
mod world;

use coverage::Coverage::*;
use scope::{Limits, SLOW, Scope, TOO_SLOW, TRUE};
use search::{hold, search};
use world::World;

const NOTHING: Limits = Limits { faults: 0, wishes: 0, crashes: 0, edits: 0, deletions: 0, flaps: 0, requests: 0 };

/// Two candidates, of which the first leads and has the slow clock.
const LED: Scope = Scope {
    name: "led",
    rates: &[SLOW, TRUE],
    ticks: 4,
    led: true,
    limits: NOTHING,
    watches: false,
    same_identity: false,
    mixed: false,
    progress: false,
    hold_back: false,
};

#[test]
fn from_nothing() {
    let scope = Scope { name: "from nothing", led: false, ticks: 3, ..LED };
    hold(scope, &[Elected, TakenOver, RetakenOwn, Expired, Resolved, Conflict, LandedLate]);
}

#[test]
fn faults_from_nothing() {
    let limits = Limits { faults: 1, ..NOTHING };
    let scope = Scope { name: "faults from nothing", led: false, ticks: 2, limits, ..LED };
    hold(scope, &[Elected, ElectedByEcho, RenewedByEcho, Conflict, LandedLate]);
}

#[test]
fn faults() {
    let limits = Limits { faults: 2, ..NOTHING };
    hold(Scope { name: "faults", limits, ..LED }, &[ElectedByEcho, RenewedByEcho, TakenOver, Expired, LandedLate]);
}

#[test]
fn long() {
    let limits = Limits { faults: 1, ..NOTHING };
    let scope = Scope { name: "long", ticks: 5, limits, ..LED };
    hold(scope, &[Elected, ElectedByEcho, RenewedByEcho, TakenOver, RetakenOwn, Expired, Resolved]);
}

#[test]
fn wishes() {
    let limits = Limits { wishes: 1, faults: 1, ..NOTHING };
    let scope = Scope { name: "wishes", limits, ..LED };
    hold(scope, &[TakenOver, RetakenOwn, Expired, Released, SteppedDown, Resolved, LandedLate]);
}

#[test]
fn crashes_under_one_identity() {
    let limits = Limits { crashes: 1, faults: 1, ..NOTHING };
    let scope = Scope { name: "crashes under one identity", ticks: 3, limits, same_identity: true, ..LED };
    hold(scope, &[Elected, TakenOver, Expired, LandedLate]);
}

/// A standby waits for the duration that the holder published, not for its own.
#[test]
fn mixed_durations() {
    let scope = Scope { name: "mixed durations", ticks: 5, mixed: true, ..LED };
    hold(scope, &[TakenOver, Expired, Conflict, LandedLate]);
}

#[test]
fn edits() {
    let limits = Limits { edits: 1, ..NOTHING };
    hold(Scope { name: "edits", limits, ..LED }, &[TakenOver, Expired, Conflict]);
}

#[test]
fn watches() {
    let scope = Scope { name: "watches", watches: true, ticks: 3, ..LED };
    hold(scope, &[ElectedByEcho, RenewedByEcho, TakenOver, Conflict]);
}

#[test]
fn watches_and_faults() {
    let limits = Limits { faults: 1, edits: 1, ..NOTHING };
    let scope = Scope { name: "watches and faults", watches: true, ticks: 2, limits, ..LED };
    hold(scope, &[RenewedByEcho, Conflict, LandedLate]);
}

/// The lease is deleted while a candidate leads.
///
/// A second candidate may then lead too, until the first leader has received the deletion or a newer version.
#[test]
fn deletions() {
    let limits = Limits { deletions: 1, ..NOTHING };
    hold(Scope { name: "deletions", limits, ..LED }, &[TakenOver, Superseded, Deleted, Conflict]);
}

#[test]
fn deletions_are_observed() {
    let limits = Limits { deletions: 1, ..NOTHING };
    hold(Scope { name: "deletions, watched", watches: true, ticks: 2, limits, ..LED }, &[Deleted, Conflict]);
}

#[test]
fn three() {
    let scope = Scope { name: "three", rates: &[SLOW, TRUE, TRUE], ..LED };
    hold(scope, &[Elected, TakenOver, Expired, Conflict, LandedLate]);
}

#[test]
fn three_with_faults() {
    let limits = Limits { faults: 1, ..NOTHING };
    let scope = Scope { name: "three with faults", rates: &[SLOW, TRUE, TRUE], ticks: 3, limits, ..LED };
    hold(scope, &[ElectedByEcho, RenewedByEcho, TakenOver, Conflict]);
}

/// The work may stop making progress forever, both during the term and while it drains.
#[test]
fn progress() {
    let limits = Limits { wishes: 1, ..NOTHING };
    let scope = Scope { name: "progress", progress: true, limits, ..LED };
    hold(scope, &[Progressed, NoProgress, TakenOver, RetakenOwn, Expired, SteppedDown, Released, Resolved, LandedLate]);
}

#[test]
fn progress_and_faults() {
    let limits = Limits { faults: 1, ..NOTHING };
    let scope = Scope { name: "progress and faults", progress: true, limits, ..LED };
    hold(scope, &[Elected, ElectedByEcho, Progressed, NoProgress, TakenOver, LandedLate]);
}

#[test]
fn fitness() {
    let limits = Limits { flaps: 2, wishes: 1, ..NOTHING };
    let scope = Scope { name: "fitness", ticks: 3, limits, ..LED };
    hold(scope, &[Unfit, TakenOver, RetakenOwn, Expired, SteppedDown, Resolved, LandedLate]);
}

#[test]
fn fitness_and_faults() {
    let limits = Limits { flaps: 2, faults: 1, ..NOTHING };
    let scope = Scope { name: "fitness and faults", ticks: 3, limits, ..LED };
    hold(scope, &[Unfit, Elected, TakenOver, Resolved, LandedLate]);
}

#[test]
fn hold_back() {
    let limits = Limits { wishes: 1, crashes: 1, ..NOTHING };
    let scope = Scope { name: "hold back", hold_back: true, limits, ..LED };
    hold(scope, &[TakenOver, RetakenOwn, Expired, Released, SteppedDown, Resolved, LandedLate]);
}

#[test]
fn three_hold_back() {
    let scope = Scope { name: "three hold back", rates: &[SLOW, TRUE, TRUE], hold_back: true, ..LED };
    hold(scope, &[TakenOver, Expired, Conflict, LandedLate]);
}

/// An operator asks the holder to step down, at any time and twice.
#[test]
fn requests() {
    let limits = Limits { requests: 2, wishes: 1, ..NOTHING };
    let scope = Scope { name: "requests", ticks: 3, limits, ..LED };
    hold(scope, &[Requested, TakenOver, RetakenOwn, Resolved, LandedLate]);
}

#[test]
fn requests_and_faults() {
    let limits = Limits { requests: 1, faults: 1, ..NOTHING };
    let scope = Scope { name: "requests and faults", ticks: 3, limits, ..LED };
    hold(scope, &[Requested, RenewedByEcho, TakenOver, Resolved, LandedLate]);
}

/// Checks that the rules can fail.
///
/// If a clock is one nanosecond per tick slower than promised, the search finds two leaders.
#[test]
fn a_clock_beyond_the_promise_is_caught() {
    let name = "a clock beyond the promise, which must show two leaders";
    let mut world = World::new(&Scope { name, rates: &[TOO_SLOW, TRUE], ..LED });
    let beginning = world.beginning();
    let violation = search(&mut world, beginning).expect_err("a violation");
    assert!(violation.what.contains("lead at a time"), "{}\n{}", violation.what, violation.how);
}
