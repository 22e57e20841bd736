//! Every input wakes its elector, although the elector would otherwise wait for a minute.

use std::thread;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, bounded};
use leasehold::{Error, Fitness, LeaderElector, LeaderElectorBuilder, Status, StopReason, Transition};

use crate::elector::{builder, elector, leading_with, release_at_once};
use crate::support::memory::{Connection, Memory};
use crate::support::{A_WHILE, AT_ONCE, SOON, wait_until};

/// Returns a builder of an elector that sends no request by itself during a test.
fn patient() -> LeaderElectorBuilder {
    let minute = Duration::from_secs(60);
    builder("a").retry_period(minute).renew_interval(minute)
}

/// Starts an elector, and waits until its thread has nothing to do.
fn idle(builder: LeaderElectorBuilder) -> (Memory, LeaderElector) {
    let store = Memory::default();
    let elector = builder.start_on(Connection::new(&store)).unwrap();
    wait_until("the first read", || elector.status().last_contact.is_some());
    thread::sleep(A_WHILE);
    (store, elector)
}

#[test]
fn campaign_wakes_an_idle_elector() {
    // On a busy machine, the thread may not be idle yet at the first campaign.
    let (_store, elector) = idle(patient());
    for _ in 0..3 {
        let campaign = elector.campaign().unwrap();
        let guard = campaign.receiver().recv_timeout(AT_ONCE).expect("an answer").expect("a term");
        release_at_once(guard);
        thread::sleep(A_WHILE);
    }
}

#[test]
fn release_and_step_down_wake_an_idle_leader() {
    let (store, elector, guard) = leading_with(patient());
    thread::sleep(A_WHILE);
    let transitions = elector.transitions();
    guard.step_down();
    let ended = |transition| matches!(transition, Transition::StoppedLeading { reason: StopReason::SteppedDown, .. });
    while !ended(transitions.recv_timeout(AT_ONCE).expect("the end of the term")) {}
    release_at_once(guard);
    assert_eq!(store.holder(), None);
}

#[test]
fn fitness_wakes_waiting_candidates_and_idle_leaders() {
    let fitness = Fitness::new();
    let electors = [(); 2].map(|()| idle(patient().fitness(&fitness)));
    let campaigns = electors.each_ref().map(|(_, elector)| elector.campaign().unwrap());
    thread::sleep(A_WHILE);
    fitness.set(true);
    let answers = campaigns.map(|campaign| campaign.receiver().recv_timeout(AT_ONCE).expect("an answer"));
    let guards = answers.map(|answer| answer.expect("a term"));
    thread::sleep(A_WHILE);
    fitness.set(false);
    for guard in guards {
        assert_eq!(guard.ended().recv_timeout(AT_ONCE), Err(RecvTimeoutError::Disconnected));
        assert_eq!(guard.check().unwrap_err().reason, StopReason::Unfit);
    }
}

/// The first result of the probe comes after the first read of the elector.
#[test]
fn late_probe_wakes_a_waiting_candidate() {
    let (result, results) = bounded(0);
    let probe = move || results.recv_timeout(SOON).is_ok();
    let (_store, elector) = idle(patient().fit_while(probe).probe_timeout(Duration::from_secs(100)));
    let campaign = elector.campaign().unwrap();
    thread::sleep(4 * A_WHILE);
    result.send(()).unwrap();
    drop(campaign.receiver().recv_timeout(AT_ONCE).expect("an answer").expect("a term"));
}

#[test]
fn release_is_confirmed_while_its_elector_is_dropped() {
    let (store, elector, guard) = leading_with(builder("a"));
    let ((reached, is_reached), (end, ended)) = (bounded(1), bounded::<()>(0));
    store.on_release(move || _ = (reached.send(()), ended.recv_timeout(SOON)));
    let released = thread::spawn(move || guard.release());
    is_reached.recv_timeout(SOON).expect("a release");
    let dropped = thread::spawn(move || drop(elector));
    thread::sleep(A_WHILE);
    drop(end);
    assert!(matches!(released.join(), Ok(Ok(()))));
    dropped.join().unwrap();
    assert_eq!(store.holder(), None);
}

/// The caller of the release has given up, so its result must not end the wait of the drop.
#[test]
fn drop_after_a_release_timeout_waits_for_the_release() {
    let (store, elector, guard) = leading_with(builder("a").release_timeout(Duration::from_secs(2)));
    let (end, ended) = bounded::<()>(0);
    store.on_release(move || _ = ended.recv_timeout(SOON));
    assert!(matches!(guard.release(), Err(Error::ReleaseTimeout { .. })));
    let dropped = thread::spawn(move || {
        drop(elector);
        store.holder()
    });
    thread::sleep(A_WHILE);
    drop(end);
    assert_eq!(dropped.join().unwrap(), None);
}

#[test]
fn dead_holder_is_no_leader_in_status_and_metrics() {
    let store = Memory::default();
    store.give_to("gone", 1);
    let elector = elector(&store, "b");
    wait_until("its lease expires", || elector.status().leader_lease_expired);
    let (status, mut metrics) = (elector.status(), String::new());
    Status::write_prometheus([&status], &mut metrics).unwrap();
    assert_eq!((elector.current_leader(), status.leader.as_deref()), (None, Some("gone")));
    assert!(status.to_string().contains("no leader; the lease of gone has expired"), "{status}");
    assert!(!metrics.contains("leader=\"gone\""), "{metrics}");
}

#[test]
fn drop_wakes_an_idle_elector() {
    let (_store, elector) = idle(patient());
    let transitions = elector.transitions();
    drop(elector);
    assert_eq!(transitions.recv_timeout(AT_ONCE).err(), Some(RecvTimeoutError::Disconnected));
}
