//! What the elector's threads must keep to in whatever order they run: each model is run under thousands of schedules.
//!
//! `SHUTTLE_TIMES=100` runs a hundred times as many. A failure names its seed: with `SHUTTLE_RANDOM_SEED` set to that, a model
//! begins with the schedule that failed.

mod both;
mod ending;
mod guard;
mod hand_over;
mod watching;

use leasehold_shuttle::explore::wait_for_all_threads;
use leasehold_shuttle::faulty::FaultyStore;
use leasehold_shuttle::{LeaderElector, LeaderGuard, StopReason};
use shuttle::rand::{Rng, thread_rng};

/// An elector with client-go's durations.
fn elector(store: &FaultyStore) -> LeaderElector {
    LeaderElector::builder("jobs").identity("me").start_on(store.clone()).expect("a good configuration")
}

/// A guard whose views the store knows of.
fn lead(elector: &LeaderElector, store: &FaultyStore) -> LeaderGuard {
    let guard = elector.block_until_leader().expect("nobody else is there");
    store.attend(guard.leadership());
    guard
}

/// The guard's term may have run out while its thread was held up, but nothing that came before may have ended it.
fn check_that_nothing_stale_ended(guard: &LeaderGuard) {
    if let Err(lost) = guard.check() {
        assert_eq!(lost.reason, StopReason::Expired);
    }
}

/// The end of a model in fair faults: all threads end, and the lease is nobody's.
fn end(elector: LeaderElector, store: &FaultyStore) {
    drop(elector);
    wait_for_all_threads();
    assert_eq!(store.holder(), None, "a term was left behind");
}

fn one_in(n: u32) -> bool {
    thread_rng().gen_ratio(1, n)
}
