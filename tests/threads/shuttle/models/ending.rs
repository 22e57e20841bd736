//! The end of the elector and of its thread.

use std::time::Duration;

use leasehold_shuttle::channel::TryRecvError;
use leasehold_shuttle::explore::{explore, wait_for_all_threads};
use leasehold_shuttle::faulty::{Faults, FaultyStore};
use leasehold_shuttle::{Error, Transition, time};
use shuttle::thread;

use crate::{check_that_nothing_stale_ended, elector, end, lead, leading, one_in};

#[test]
fn an_elector_is_dropped_while_its_campaign_waits() {
    explore("an elector is dropped while its campaign waits", 4000, || {
        time::eager_for(Duration::ZERO);
        let store = FaultyStore::new(Faults::Fair);
        let elector = elector(&store);
        let campaign = elector.campaign().expect("nobody else asks");
        let waiter = thread::spawn(move || {
            if one_in(2) {
                return drop(campaign);
            }
            let answer = campaign.receiver().recv().expect("it stays connected");
            assert_eq!(campaign.receiver().try_recv().err(), Some(TryRecvError::Empty), "a second word");
            match answer {
                Ok(guard) => {
                    check_that_nothing_stale_ended(&guard);
                    if one_in(2) { drop(guard) } else { drop((campaign, guard)) }
                }
                Err(Error::Stopped) => {}
                Err(error) => panic!("{error}"),
            }
        });
        drop(elector);
        waiter.join().unwrap();
        assert_eq!(store.holder(), None, "the last drop did not wait for the release");
    });
}

/// The guard keeps the elector's thread and the term alive.
#[test]
fn a_guard_outlives_its_elector() {
    explore("a guard outlives its elector", 4000, || {
        time::eager_for(Duration::ZERO);
        let (store, elector, guard) = leading();
        let dropper = thread::spawn(move || drop(elector));
        time::sleep(Duration::from_secs(30));
        assert!(guard.is_leader(), "{:?}", guard.check());
        drop(guard);
        dropper.join().unwrap();
        wait_for_all_threads();
        assert_eq!(store.holder(), None, "a term was left behind");
    });
}

/// The guard is dropped at the same moment as its elector.
#[test]
fn a_guard_and_its_elector_go_together() {
    explore("a guard and its elector go together", 4000, || {
        let store = FaultyStore::new(Faults::Fair);
        let elector = elector(&store);
        let transitions = elector.transitions();
        let guard = lead(&elector, &store);
        let dropper = thread::spawn(move || drop(guard));
        end(elector, &store);
        dropper.join().unwrap();
        let told: Vec<_> = transitions.iter().collect();
        let starts = told.iter().filter(|it| matches!(it, Transition::StartedLeading { .. })).count();
        let stops = told.iter().filter(|it| matches!(it, Transition::StoppedLeading { .. })).count();
        assert_eq!((starts, stops), (1, 1), "{told:?}");
    });
}

/// If the elector's thread panics, no thread waits for it forever, and no term stays valid.
#[test]
fn panic_in_the_store_leaves_no_waiter() {
    explore("a panic in the store leaves nobody waiting", 4000, || {
        let store = FaultyStore::new(Faults::Fair);
        let elector = elector(&store);
        let transitions = elector.transitions();
        let last_word = thread::spawn(move || transitions.iter().count());
        match one_in(2) {
            true => {
                let guard = lead(&elector, &store);
                store.set_faults(Faults::Panicking);
                let view = guard.leadership();
                let waiter = thread::spawn(move || {
                    assert!(view.ended().recv().is_err());
                    assert!(!view.is_leader(), "woken, and valid");
                });
                if one_in(2) {
                    assert!(guard.ended().recv().is_err());
                }
                let released = guard.release();
                assert!(matches!(released, Err(Error::ReleaseTimeout { .. } | Error::Stopped)), "{released:?}");
                waiter.join().unwrap();
            }
            false => {
                let campaign = elector.campaign().expect("nobody else asks");
                store.set_faults(Faults::Panicking);
                match campaign.receiver().recv().expect("it stays connected") {
                    Err(Error::Stopped) => {}
                    Ok(guard) => drop(guard),
                    Err(error) => panic!("{error}"),
                }
            }
        }
        last_word.join().unwrap();
        assert!(matches!(elector.campaign(), Err(Error::Stopped)));
        drop(elector);
    });
}
