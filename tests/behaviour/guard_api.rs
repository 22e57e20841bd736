//! Tests of the documented effects of dropping, leaking, withdrawing, stopping and panics.
//!
//! The store is in memory.

use std::panic::{RefUnwindSafe, UnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::elector::{alone, builder, leader_and_standby, leading};
use crate::support::memory::{Connection, Memory};
use crate::support::{A_WHILE, AT_ONCE, SOON, wait_until};
use crossbeam_channel::{RecvTimeoutError, bounded};
use leasehold::{
    Campaign, Error, HealthCheck, LeaderElector, LeaderGuard, Leadership, StopReason, Transition, Unhealthy, Worker,
};

#[test]
fn guard_and_elector_are_send_sync_static_and_unwind_safe() {
    fn everywhere<T: Send + Sync + 'static>() {}
    fn unwind_safe<T: UnwindSafe + RefUnwindSafe>() {}
    everywhere::<LeaderElector>();
    everywhere::<LeaderGuard>();
    everywhere::<Leadership>();
    everywhere::<Campaign>();
    everywhere::<Worker<()>>();
    everywhere::<HealthCheck>();
    everywhere::<Transition>();
    everywhere::<Error>();
    unwind_safe::<LeaderGuard>();
    unwind_safe::<Leadership>();
}

#[test]
fn views_are_false_before_the_release_is_sent() {
    let (store, _elector, guard) = leading();
    let view = guard.leadership();
    let (tell, seen) = bounded(9);
    store.on_release(move || tell.send(view.is_leader()).unwrap());
    guard.release().unwrap();
    assert_eq!(seen.try_iter().collect::<Vec<_>>(), [false]);
}

#[test]
fn a_second_campaign_beside_a_guard_or_a_campaign_is_busy() {
    let (_store, elector, guard) = leading();
    assert!(matches!(elector.campaign(), Err(Error::Busy)));
    assert!(matches!(elector.try_acquire(), Err(Error::Busy)));
    guard.step_down();
    assert!(matches!(elector.block_until_leader(), Err(Error::Busy)), "even a guard that is lost");
    drop(guard);
    let campaign = elector.campaign().unwrap();
    assert!(matches!(elector.campaign(), Err(Error::Busy)));
    drop(campaign);
    drop(elector.campaign().unwrap());
}

#[test]
fn a_new_term_has_a_greater_token_and_does_not_revive_old_views() {
    let (store, elector) = alone();
    let first = elector.block_until_leader().unwrap();
    let old = first.leadership();
    let token = first.fencing_token();
    drop(first);
    thread::sleep(A_WHILE);
    assert_eq!(store.holder(), None, "nobody campaigns");
    let second = elector.block_until_leader().unwrap();
    assert!(second.fencing_token() > token);
    assert!(second.is_leader());
    assert!(!old.is_leader());
}

#[test]
fn lost_wakes_every_waiter() {
    let (_store, _elector, guard) = leading();
    thread::scope(|scope| {
        for _ in 0..4 {
            let view = guard.leadership();
            scope.spawn(move || assert_eq!(view.ended().recv_timeout(AT_ONCE), Err(RecvTimeoutError::Disconnected)));
        }
        guard.step_down();
    });
}

#[test]
fn health_turns_when_winding_down_takes_longer_than_a_lease() {
    let (store, builder) = (Memory::default(), builder("a").lease_duration(Duration::from_secs(3)));
    let elector = builder.renew_deadline(Duration::from_secs(2)).start_on(Connection::new(&store)).unwrap();
    let health = elector.health_check();
    let guard = elector.block_until_leader().unwrap();
    guard.step_down();
    assert!(health.check().is_ok());
    wait_until("unhealthy", || health.check().is_err());
    assert!(
        matches!(health.check(), Err(Unhealthy::GuardNotDropped { over_for }) if over_for > Duration::from_secs(3))
    );
    drop(guard);
    assert!(health.check().is_ok());
}

/// The store does not react to the cancellation of a request.
#[test]
fn drop_does_not_wait_for_a_hanging_request() {
    let store = Memory::default();
    let elector = builder("a").release_timeout(A_WHILE).start_on(Connection::new(&store)).unwrap();
    let (reached, reaches) = bounded(1);
    let (go_on, goes_on) = bounded::<()>(1);
    store.on_create(move || {
        let _ = reached.send(());
        let _ = goes_on.recv_timeout(SOON);
    });
    let campaign = elector.campaign().unwrap();
    reaches.recv_timeout(SOON).expect("the create is under way");
    let began = Instant::now();
    drop(elector);
    assert!(matches!(campaign.receiver().try_recv(), Ok(Err(Error::Stopped))));
    assert!(began.elapsed() < Duration::from_secs(2));
    go_on.send(()).unwrap();
    wait_until("what was won late is released", || store.version() > 1 && store.holder().is_none());
}

#[test]
fn dropping_the_elector_ends_its_campaign_but_not_a_guard() {
    let (store, a, b, guard) = leader_and_standby();
    let campaign = b.campaign().unwrap();
    drop(b);
    assert!(matches!(campaign.receiver().recv_timeout(SOON), Ok(Err(Error::Stopped))));
    let transitions = a.transitions();
    drop(a);
    let version = store.version();
    wait_until("it renews", || store.version() > version + 2);
    assert!(guard.is_leader());
    drop(guard);
    assert_eq!(store.holder(), None);
    assert!(transitions.recv_timeout(SOON).is_ok());
    let told: Vec<_> = transitions.iter().collect();
    let stopped = Transition::StoppedLeading { reason: StopReason::Released };
    assert!(told.ends_with(&[stopped, Transition::NoLeader { previous: "a".into() }]), "and then it disconnects");
}

#[test]
fn transitions_pair_each_start_with_one_stop() {
    let (_store, elector) = alone();
    let (transitions, mut expected) = (elector.transitions(), Vec::new());
    for _ in 0..3 {
        let fencing_token = elector.block_until_leader().unwrap().fencing_token();
        let stopped = Transition::StoppedLeading { reason: StopReason::Released };
        expected.extend([Transition::StartedLeading { fencing_token }, stopped]);
    }
    drop(elector);
    let is_of_a_leader = |it: &Transition| matches!(it, Transition::NewLeader { .. } | Transition::NoLeader { .. });
    assert_eq!(transitions.iter().filter(|it| !is_of_a_leader(it)).collect::<Vec<_>>(), expected);
}

#[test]
fn scope_ends_protected_work_before_the_release() {
    let (store, _elector, guard) = leading();
    let worked = AtomicBool::new(false);
    let sum = guard.scope(|scope| {
        let parts: Vec<_> = (1..=3).map(|part| scope.spawn(move || part)).collect();
        scope.spawn(|| {
            while guard.is_leader() {
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(A_WHILE);
            assert_eq!(store.holder().as_deref(), Some("a"), "still covered");
            worked.store(true, Ordering::SeqCst);
        });
        guard.step_down();
        parts.into_iter().map(|part| part.join().unwrap()).sum::<i32>()
    });
    assert_eq!(sum, 6);
    assert!(worked.load(Ordering::SeqCst));
    drop(guard);
    assert_eq!(store.holder(), None);
}

#[test]
fn a_panic_in_a_scope_or_in_a_thread_of_it_steps_down_at_once() {
    for in_thread in [false, true] {
        let (_store, _elector, guard) = leading();
        let panic = catch_unwind(|| {
            guard.scope(|scope| {
                // The other worker is notified, so that no worker continues beside a panicked one.
                scope.spawn(|| {
                    assert_eq!(guard.ended().recv_timeout(SOON), Err(RecvTimeoutError::Disconnected));
                });
                if in_thread {
                    scope.spawn(|| panic!("as planned"));
                } else {
                    panic!("as planned");
                }
            });
        });
        assert!(panic.is_err());
        assert!(!guard.is_leader());
        assert_eq!(guard.check().unwrap_err().reason, StopReason::SteppedDown);
    }
}
