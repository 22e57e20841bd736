//! The guard and its views.

use std::time::Duration;

use leasehold_shuttle::StopReason;
use leasehold_shuttle::explore::explore;
use leasehold_shuttle::faulty::Faults;
use leasehold_shuttle::time::{self, Instant};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;

use crate::{end, hang_renewal, leading, one_in, viewer};

#[test]
fn every_view_is_false_before_the_release_is_sent() {
    explore("every view is false before the release is sent", 4000, || {
        let (store, elector, guard) = leading();
        let viewers = [guard.leadership(), guard.leadership()].map(viewer);
        let dropped_elsewhere = thread::spawn(move || drop(guard));
        for thread in viewers.into_iter().chain([dropped_elsewhere]) {
            thread.join().unwrap();
        }
        end(elector, &store);
    });
}

#[test]
fn a_step_down_ends_every_view_and_keeps_the_lease() {
    explore("a step-down ends every view and keeps the lease", 4000, || {
        let (store, elector, guard) = leading();
        let viewers = [guard.leadership(), guard.leadership()].map(viewer);
        guard.step_down();
        assert!(!guard.is_leader());
        assert!(guard.ended().recv().is_err());
        for viewer in viewers {
            viewer.join().unwrap();
        }
        time::sleep(Duration::from_secs(5));
        assert_eq!(store.holder().as_deref(), Some("me"), "released while the guard stood");
        drop(guard);
        end(elector, &store);
    });
}

/// The term ends by a drop, by a step-down, or because renewals hang.
#[test]
fn the_end_of_a_term_wakes_everybody() {
    explore("the end of a term wakes everybody", 4000, || {
        let (store, elector, guard) = leading();
        let waiters = [guard.leadership(), guard.leadership()].map(|view| {
            thread::spawn(move || {
                assert!(view.ended().recv().is_err());
                assert!(!view.is_leader(), "woken, and valid");
                view.check().expect_err("woken, and valid").reason
            })
        });
        let (expected, guard) = match thread_rng().gen_range(0..3) {
            0 => {
                drop(guard);
                (StopReason::Released, None)
            }
            1 => {
                guard.step_down();
                (StopReason::SteppedDown, Some(guard))
            }
            _ => {
                store.set_faults(Faults::RenewalsHang);
                (StopReason::Expired, Some(guard))
            }
        };
        for waiter in waiters {
            let reason = waiter.join().unwrap();
            assert!(reason == expected || reason == StopReason::Expired, "{reason} instead of {expected}");
        }
        drop(guard);
        end(elector, &store);
    });
}

/// The release may begin just before a renewal that hangs.
///
/// The release may also begin while the elector decides whether to send the renewal.
#[test]
fn a_hanging_renewal_does_not_hold_up_a_release() {
    explore("a hanging renewal does not hold up a release", 4000, || {
        time::eager_for(Duration::from_millis(60));
        let (store, elector, guard) = leading();
        hang_renewal(&store);
        let began = Instant::now();
        if one_in(2) {
            let released = guard.release();
            assert!(released.is_ok(), "{released:?}");
        } else {
            drop(guard);
        }
        let took = Instant::now().since(began);
        assert!(took < Duration::from_secs(2), "released after {took:?}");
        end(elector, &store);
    });
}

#[test]
fn a_release_is_confirmed_only_when_the_record_is_nobodys() {
    explore("a release is confirmed only when the record is nobody's", 4000, || {
        time::eager_for(Duration::from_secs(1));
        let (store, elector, guard) = leading();
        store.set_faults(Faults::Foul);
        time::sleep(Duration::from_secs(thread_rng().gen_range(0..4)));
        let released = guard.release();
        if released.is_ok() {
            assert_eq!(store.holder(), None, "confirmed, and not released");
        }
        store.set_faults(Faults::Fair);
        end(elector, &store);
    });
}
