//! What the elector's threads must keep to in whatever order they run: each model is run under thousands of schedules.
//!
//! `SHUTTLE_TIMES=100` runs a hundred times as many. A failure names its seed: with `SHUTTLE_RANDOM_SEED` set to that, a model
//! begins with the schedule that failed.

mod both;
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

/// A store without faults, an elector on the store, and its guard.
fn leading() -> (FaultyStore, LeaderElector, LeaderGuard) {
    let store = FaultyStore::new(Faults::Fair);
    let elector = elector(&store);
    let guard = lead(&elector, &store);
    (store, elector, guard)
}

/// A thread that asks a view a few times. Once `false`, the view must stay `false`.
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

/// Makes renewals hang, and waits until the store receives the next renewal or until about the time when it is due.
fn hang_renewal(store: &FaultyStore) {
    let renewals = store.ill_fated();
    store.set_faults(Faults::RenewalsHang);
    if one_in(2) {
        renewals.recv().expect("a renewal is about to be sent");
    } else {
        time::sleep(Duration::from_millis(thread_rng().gen_range(1_940..2_060)));
    }
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
