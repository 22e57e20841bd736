//! Models of the elector's threads, which must pass in any order of the threads.
//!
//! Each model runs under thousands of schedules. `SHUTTLE_TIMES=100` multiplies their number by a hundred. A failure
//! prints its seed. If `SHUTTLE_RANDOM_SEED` is set to this seed, the model begins with the schedule that failed.

mod ending;
mod guard;
mod hand_over;
mod watching;

use std::time::Duration;

use leasehold_shuttle::explore::wait_for_all_threads;
use leasehold_shuttle::faulty::{Faults, FaultyStore};
use leasehold_shuttle::{LeaderElector, LeaderGuard, Leadership, StopReason, time};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread::{self, JoinHandle};

/// Starts an elector with client-go's durations.
fn elector(store: &FaultyStore) -> LeaderElector {
    LeaderElector::builder("jobs").identity("me").start_on(store.clone()).expect("a good configuration")
}

/// Leads, and makes the store check that the guard's views are `false` before a release.
fn lead(elector: &LeaderElector, store: &FaultyStore) -> LeaderGuard {
    let guard = elector.block_until_leader().expect("nobody else is there");
    store.attend(guard.leadership());
    guard
}

/// Creates a store without faults and an elector on it, and returns both with a guard.
fn leading() -> (FaultyStore, LeaderElector, LeaderGuard) {
    let store = FaultyStore::new(Faults::Fair);
    let elector = elector(&store);
    let guard = lead(&elector, &store);
    (store, elector, guard)
}

/// Starts a thread that asks a view a few times.
///
/// Once `false`, the view must stay `false`.
fn viewer(view: Leadership) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut over = false;
        for _ in 0..4 {
            let valid = view.is_leader();
            assert!(!(over && valid), "a view was true again");
            over |= !valid;
        }
    })
}

/// Makes renewals hang, and waits for the next renewal.
///
/// The wait ends when the store receives the renewal, or at about the time when the renewal is due.
fn hang_renewal(store: &FaultyStore) {
    let renewals = store.ill_fated();
    store.set_faults(Faults::RenewalsHang);
    if one_in(2) {
        renewals.recv().expect("a renewal is about to be sent");
    } else {
        time::sleep(Duration::from_millis(thread_rng().gen_range(1_940..2_060)));
    }
}

/// Checks that the term is valid or has expired.
///
/// A delay of the guard's thread may let the term expire. No event from before the term may end it.
fn check_that_nothing_stale_ended(guard: &LeaderGuard) {
    if let Err(lost) = guard.check() {
        assert_eq!(lost.reason, StopReason::Expired);
    }
}

/// Ends a model without faults: all threads end, and the lease has no holder.
fn end(elector: LeaderElector, store: &FaultyStore) {
    drop(elector);
    check_end(store);
}

/// Checks that all threads end, and that the lease has no holder.
fn check_end(store: &FaultyStore) {
    wait_for_all_threads();
    assert_eq!(store.holder(), None, "a term was left behind");
}

fn one_in(n: u32) -> bool {
    thread_rng().gen_ratio(1, n)
}
