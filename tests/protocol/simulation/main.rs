//! Deterministic simulation: several `Election`s over one made-up store, network and set of clocks.
//!
//! The real protocol runs on virtual time: every delay, loss, pause and crash is drawn from one seed, and all that the
//! protocol promises is checked after every step. A failing seed prints the line that replays it, with a trace.
//!
//! `SIM_SEEDS` sets how many seeds a suite runs, `SIM_FROM` the first of them, `SIM_SEED` runs and traces exactly one. The default is what a test run
//! can afford, 20,000 seeds inside of the promise and some beyond it; a night's worth is
//! `SIM_SEEDS=1000000 cargo test --release --test simulation`.
//!
//! Not simulated: threads (two views of one deadline at the same instant, the guard's and the campaign's channels), and
//! candidates that run client-go on one object.

mod checks;
mod clock;
mod count;
mod driver;
mod faults;
mod liveness;
mod network;
mod node;
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

/// Processes that restart under the identity they had, with and without reclaim, and, without it, two at a time.
#[test]
fn the_promise_holds_with_a_shared_identity() {
    suite::run(Suite::SharedIdentity, "the_promise_holds_with_a_shared_identity", 6_000);
}

/// A third party deletes and edits records in force: the documented bounds hold instead, and tokens stay in order.
#[test]
fn an_operator_is_survived() {
    suite::run(Suite::Operator, "an_operator_is_survived", 2_000);
}

/// The store goes back to older states: whoever leads by what was undone ends in time, and somebody leads again.
#[test]
fn a_restored_store_is_survived() {
    suite::run(Suite::Restored, "a_restored_store_is_survived", 1_500);
}

/// Candidates become unfit and fit again, and their work hangs: nobody acquires who is unfit, and nobody renews whose work hangs.
#[test]
fn the_promise_holds_with_the_unfit() {
    suite::run(Suite::Fitness, "the_promise_holds_with_the_unfit", 1_000);
}

/// The checks can fail: clock rates further apart than promised must let two leaders be seen.
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

/// As long as nothing of client-go's takes longer than its durations leave.
#[test]
fn candidates_on_both_exclude_those_on_a_multi_lock() {
    suite::run(Suite::WithMultiLock, "candidates_on_both_exclude_those_on_a_multi_lock", 2_000);
}

/// The checks can fail: without anybody on both, those on the one and on the other lead at a time.
#[test]
fn candidates_on_two_objects_apart_are_caught() {
    suite::expect_overlap(Suite::Apart, "candidates_on_two_objects_apart_are_caught", 100);
}
