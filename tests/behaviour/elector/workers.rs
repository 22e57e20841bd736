//! Guards that move into threads, and the view of a term through the elector alone.

use crossbeam_channel::{RecvTimeoutError, TryRecvError};
use leasehold::{Error, StopReason, Transition, Worker};

use super::{alone, leading};
use crate::support::{SOON, wait_until};

#[test]
fn a_guard_may_move_into_its_work_and_goes_when_that_ends() {
    let (store, elector) = alone();
    let worker = elector.block_until_leader().unwrap().spawn(|guard| {
        guard.ended().recv_timeout(SOON).unwrap_err();
        guard.check().unwrap_err().reason
    });
    let worker = worker.expect("a thread");
    assert!(worker.leadership().is_leader() && matches!(elector.campaign(), Err(Error::Busy)));
    assert!(worker.ended().try_recv().is_err_and(|e| e == TryRecvError::Empty));
    worker.leadership().step_down();
    worker.leadership().step_down();
    assert!(worker.ended().recv_timeout(SOON).is_err_and(|e| e == RecvTimeoutError::Disconnected));
    assert_eq!(store.holder(), None, "released before that is told");
    assert_eq!(worker.join().expect("no panic"), StopReason::SteppedDown);
}

#[test]
fn a_step_down_is_of_its_own_term() {
    let (store, elector) = alone();
    let worker = elector.block_until_leader().unwrap().spawn(|_| {}).expect("a thread");
    assert!(worker.ended().recv_timeout(SOON).is_err_and(|e| e == RecvTimeoutError::Disconnected));
    let transitions = elector.transitions();
    let guard = elector.block_until_leader().unwrap();
    worker.leadership().step_down();
    assert!(guard.is_leader() && !worker.leadership().is_leader());
    let version = store.version();
    wait_until("it renews", || store.version() > version + 2);
    drop(guard);
    drop(elector);
    let stops: Vec<_> = transitions.iter().filter(|it| matches!(it, Transition::StoppedLeading { .. })).collect();
    assert_eq!(stops, [Transition::StoppedLeading { reason: StopReason::Released }]);
}

#[test]
fn work_that_panics_releases_the_lease() {
    let (store, _elector, guard) = leading();
    let worker = guard.spawn(|_| std::panic::resume_unwind(Box::new("as planned"))).expect("a thread");
    assert!(worker.ended().recv_timeout(SOON).is_err_and(|e| e == RecvTimeoutError::Disconnected));
    assert_eq!(store.holder(), None);
    let worker: Worker<()> = worker;
    assert!(worker.join().is_err());
}

#[test]
fn elector_owner_sees_its_term() {
    let (_store, elector) = alone();
    assert_eq!(elector.status().settings.identity, elector.identity());
    let guard = elector.block_until_leader().unwrap();
    assert_eq!(elector.status().fencing_token, Some(guard.fencing_token()));
    drop(guard);
    assert!(!elector.status().is_leader);
}
