//! The watcher's thread, which must wake up when its watch is stopped.

use std::sync::Arc;

use leasehold_shuttle::explore::explore;
use leasehold_shuttle::faulty::{Faults, FaultyStore};
use leasehold_shuttle::watching::Watched;

use crate::one_in;

fn watched() -> Watched {
    Watched::spawn(Arc::new(FaultyStore::new(Faults::Watched)))
}

#[test]
fn a_watcher_that_is_dropped_ends() {
    explore("a watcher that is dropped ends", 10000, || {
        let watched = watched();
        if one_in(2) {
            watched.wait_for_one_from_scratch();
        }
        if one_in(2) {
            watched.restart();
        }
        drop(watched);
    });
}

#[test]
fn a_watcher_that_is_restarted_begins_from_scratch() {
    explore("a watcher that is restarted begins from scratch", 10000, || {
        let watched = watched();
        for _ in 0..3 {
            watched.wait_for_one_from_scratch();
            watched.restart();
        }
        watched.wait_for_one_from_scratch();
        drop(watched);
    });
}
