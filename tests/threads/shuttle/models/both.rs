//! An elector on two stores, with two threads that send requests and share one lock.

use std::time::Duration;

use leasehold_shuttle::explore::{explore, wait_for_all_threads};
use leasehold_shuttle::faulty::{Faults, FaultyStore};
use leasehold_shuttle::time::{self, Instant};
use leasehold_shuttle::{LeaderElector, LeaderGuard, StopReason, Transition};
use shuttle::thread;

use crate::{check_that_nothing_stale_ended, hang_renewal, one_in, viewer};

/// The stores of the primary and the secondary.
struct Two([FaultyStore; 2]);

impl Two {
    fn new() -> Self {
        Self([FaultyStore::new(Faults::Fair), FaultyStore::new(Faults::Fair)])
    }

    fn elector(&self) -> LeaderElector {
        let [primary, secondary] = self.0.clone();
        let builder = LeaderElector::builder("jobs").identity("me");
        builder.start_on_both(primary, secondary).expect("a good configuration")
    }

    fn lead(&self, elector: &LeaderElector) -> LeaderGuard {
        let guard = elector.block_until_leader().expect("nobody else is there");
        self.0.iter().for_each(|store| store.attend(guard.leadership()));
        guard
    }

    fn set_faults(&self, faults: Faults) {
        self.0.iter().for_each(|store| store.set_faults(faults));
    }

    fn one(&self) -> &FaultyStore {
        &self.0[usize::from(one_in(2))]
    }

    fn end(&self, elector: LeaderElector) {
        drop(elector);
        wait_for_all_threads();
        assert_eq!(self.0.each_ref().map(FaultyStore::holder), [None, None], "a term was left behind");
    }
}

#[test]
fn a_campaign_on_both_is_withdrawn_at_any_time() {
    explore("a campaign on both is withdrawn at any time", 3000, || {
        let two = Two::new();
        if one_in(2) {
            two.one().set_faults(Faults::Foul);
        }
        let elector = two.elector();
        let campaign = elector.campaign().expect("nobody else asks");
        if one_in(2) {
            time::sleep(Duration::from_millis(1));
        }
        drop(campaign);
        two.set_faults(Faults::Fair);
        if one_in(2) {
            let guard = two.lead(&elector);
            check_that_nothing_stale_ended(&guard);
            drop(guard);
        }
        two.end(elector);
    });
}

#[test]
fn views_on_both_are_false_before_either_release_is_sent() {
    explore("views on both are false before either release is sent", 3000, || {
        let two = Two::new();
        let elector = two.elector();
        let transitions = elector.transitions();
        let guard = two.lead(&elector);
        let viewer = viewer(guard.leadership());
        if one_in(3) {
            guard.step_down();
        }
        let dropped_elsewhere = thread::spawn(move || drop(guard));
        viewer.join().unwrap();
        dropped_elsewhere.join().unwrap();
        two.end(elector);
        let is_of_the_term =
            |it: &Transition| matches!(it, Transition::StartedLeading { .. } | Transition::StoppedLeading { .. });
        let told: Vec<_> = transitions.iter().filter(is_of_the_term).collect();
        assert!(matches!(told[..], [Transition::StartedLeading { .. }, Transition::StoppedLeading { .. }]), "{told:?}");
    });
}

/// The secondary is released first.
///
/// Meanwhile, a renewal of the primary may begin to hang.
#[test]
fn hanging_renewal_of_either_does_not_delay_the_release() {
    explore("a hanging renewal of either does not hold up the release of both", 3000, || {
        time::eager_for(Duration::from_millis(60));
        let two = Two::new();
        let elector = two.elector();
        let guard = two.lead(&elector);
        hang_renewal(two.one());
        let began = Instant::now();
        let released = guard.release();
        assert!(released.is_ok(), "{released:?}");
        let took = Instant::now().since(began);
        assert!(took < Duration::from_secs(2), "released after {took:?}");
        two.end(elector);
    });
}

#[test]
fn a_panic_in_either_store_ends_both_threads() {
    explore("a panic in either store ends both threads", 3000, || {
        let two = Two::new();
        let elector = two.elector();
        let transitions = elector.transitions();
        let guard = two.lead(&elector);
        two.one().set_faults(Faults::Panicking);
        assert!(guard.ended().recv().is_err());
        let reason = guard.check().expect_err("it is over").reason;
        assert!(matches!(reason, StopReason::ElectorPanicked | StopReason::Expired), "{reason:?}");
        drop(guard);
        assert!(elector.block_until_leader().is_err());
        drop(elector);
        wait_for_all_threads();
        let stops = transitions.iter().filter(|it| matches!(it, Transition::StoppedLeading { .. }));
        assert_eq!(stops.count(), 1);
    });
}
