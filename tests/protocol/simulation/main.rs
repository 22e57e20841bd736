//! Deterministic simulation of several `Election`s over one store, network and set of clocks.
//!
//! The real protocol runs in virtual time. Every delay, loss, pause and crash is drawn from one seed. After every step,
//! the simulation checks all promises of the protocol. A failing seed prints the command that replays it with a trace.
//!
//! `SIM_SEEDS` sets the number of seeds per suite, and `SIM_FROM` the first seed. `SIM_SEED` runs and traces exactly
//! one seed. The default is 20,000 seeds within the promise and some beyond it, which a test run can afford. A run
//! overnight can use `SIM_SEEDS=1000000 cargo test --release --test simulation`.
//!
//! The simulation omits client-go candidates on one object. Because it has no threads, it never reads two views of one
//! deadline at the same instant, and does not use the channels of the guard and the campaign.

mod checks;
mod clock;
mod count;
mod driver;
mod faults;
mod groups;
mod jobs;
mod liveness;
mod network;
mod node;
mod notes;
mod pace;
mod plan;
mod process;
mod queue;
mod server;
mod store;
mod stream;
mod suite;
mod trace;
mod two_objects;
mod user;
mod world;

use plan::Suite;

#[test]
fn the_promise_holds() {
    suite::run(Suite::Promise, "the_promise_holds", 14_000);
}

/// Processes restart with the identity that they had, with and without reclaim.
///
/// Without reclaim, two running processes may share an identity.
#[test]
fn the_promise_holds_with_a_shared_identity() {
    suite::run(Suite::SharedIdentity, "the_promise_holds_with_a_shared_identity", 6_000);
}

/// A third party deletes and edits the records of leaders.
///
/// Each affected term ends in the documented time, and fencing tokens stay in order.
#[test]
fn an_operator_is_survived() {
    suite::run(Suite::Operator, "an_operator_is_survived", 2_000);
}

/// The store is restored to older states.
///
/// A leader whose record was undone ends its term in time, and a candidate leads again.
#[test]
fn a_restored_store_is_survived() {
    suite::run(Suite::Restored, "a_restored_store_is_survived", 1_500);
}

/// Candidates become unfit and fit again, and their work hangs.
///
/// No unfit candidate acquires, and no leader renews while its work hangs.
#[test]
fn the_promise_holds_with_the_unfit() {
    suite::run(Suite::Fitness, "the_promise_holds_with_the_unfit", 1_000);
}

/// Checks that the rules can fail.
///
/// If clock rates differ by more than promised, the simulation must find two leaders.
#[test]
fn clocks_beyond_the_promise_are_caught() {
    suite::expect_overlap(Suite::RunawayClocks, "clocks_beyond_the_promise_are_caught", 500);
}

#[test]
fn candidates_on_both_exclude_those_on_the_primary() {
    suite::run(Suite::WithPrimary, "candidates_on_both_exclude_those_on_the_primary", 2_000);
}

#[test]
fn candidates_on_both_exclude_those_on_the_secondary() {
    suite::run(Suite::WithSecondary, "candidates_on_both_exclude_those_on_the_secondary", 2_000);
}

/// The exclusion requires that no request or process of client-go is too slow for its lease.
#[test]
fn candidates_on_both_exclude_those_on_a_multi_lock() {
    suite::run(Suite::WithMultiLock, "candidates_on_both_exclude_those_on_a_multi_lock", 2_000);
}

/// Checks that the rules can fail.
///
/// If no candidate uses both objects, one candidate on each object leads at the same time.
#[test]
fn candidates_on_two_objects_apart_are_caught() {
    suite::expect_overlap(Suite::Apart, "candidates_on_two_objects_apart_are_caught", 100);
}

/// No shard of a group has two owners at the same time, and the group divides all shards again after the faults.
#[test]
fn shards_have_one_owner() {
    suite::run(Suite::Groups, "shards_have_one_owner", 400);
}
