//! A store that panics ends the thread of its elector, and no other thread.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError, bounded};
use leasehold::client_go::run;
use leasehold::store::{StoreError, StoreErrorKind, WatchEvent};
use leasehold::{Error, LeaderElector, LeaderGuard, Stop, StopReason, Transition, Unhealthy};

use crate::elector::callbacks::Work;
use crate::elector::watched::{changed, watched};
use crate::elector::{alone, builder, elector, time_on_processor};
use crate::support::memory::{Connection, Memory};
use crate::support::{A_WHILE, AT_ONCE, SOON, wait_until};

/// Panics without a message on the terminal.
pub fn panic_quietly() -> ! {
    resume_unwind(Box::new("as planned"))
}

/// Makes a leader's store panic, in the next renewal or in the read after a refused one.
fn break_down(store: &Memory, in_get: bool) {
    if in_get {
        store.on_get(|| panic_quietly());
        store.on_update(|_| Err(StoreError::new(StoreErrorKind::Conflict, "made up")));
    } else {
        store.on_update(|_| panic_quietly());
    }
}

/// Returns all transitions until the subscription disconnects.
fn all(transitions: &Receiver<Transition>) -> Vec<Transition> {
    let told: Vec<_> = std::iter::from_fn(|| transitions.recv_timeout(SOON).ok()).collect();
    assert_eq!(transitions.try_recv(), Err(TryRecvError::Disconnected), "after {told:?}");
    told
}

/// Returns all reported ends of terms until the subscription disconnects.
fn stops(transitions: &Receiver<Transition>) -> Vec<Transition> {
    all(transitions).into_iter().filter(|it| matches!(it, Transition::StoppedLeading { .. })).collect()
}

fn assert_gone(elector: &LeaderElector) {
    assert!(matches!(elector.campaign(), Err(Error::Stopped)));
    assert!(matches!(elector.try_acquire(), Err(Error::Stopped)));
    assert!(matches!(elector.block_until_leader(), Err(Error::Stopped)));
    assert!(matches!(elector.block_until_leader_timeout(SOON), Err(Error::Stopped)));
    assert_eq!(elector.health_check().check(), Err(Unhealthy::ElectorPanicked));
}

#[test]
fn panicking_lock_ends_the_term_once_and_frees_all_waiters() {
    for in_get in [false, true] {
        let (store, elector) = alone();
        let transitions = elector.transitions();
        let guard = elector.block_until_leader().unwrap();
        let (view, health) = (guard.leadership(), elector.health_check());
        assert_eq!(health.check(), Ok(()));
        break_down(&store, in_get);

        assert_eq!(view.ended().recv_timeout(SOON), Err(RecvTimeoutError::Disconnected));
        assert!(!view.is_leader() && !guard.is_leader());
        assert_eq!(view.check().unwrap_err().reason, StopReason::ElectorPanicked);
        assert_eq!(stops(&transitions), [Transition::StoppedLeading { reason: StopReason::ElectorPanicked }]);
        assert_eq!(health.check(), Err(Unhealthy::ElectorPanicked));
        assert_gone(&elector);

        let began = Instant::now();
        guard.step_down();
        assert!(matches!(guard.release(), Err(Error::Stopped)));
        assert!(began.elapsed() < AT_ONCE, "{:?} of a release timeout of 20 s", began.elapsed());
        assert_eq!(view.check().unwrap_err().reason, StopReason::ElectorPanicked);
        assert_eq!(all(&elector.transitions()).len(), 1, "who leads, as last seen, and no second end");
        assert_gone(&elector);
        drop(elector);
        assert_eq!(health.check(), Err(Unhealthy::ElectorPanicked), "for good");
    }
}

#[test]
fn a_lock_that_panics_ends_a_campaign() {
    for round in [false, true] {
        for in_create in [false, true] {
            let store = Memory::default();
            match in_create {
                true => store.on_create(|| panic_quietly()),
                false => store.on_get(|| panic_quietly()),
            }
            let elector = Arc::new(elector(&store, "a"));
            let (answered, answers) = bounded(1);
            thread::spawn({
                let elector = Arc::clone(&elector);
                move || {
                    answered.send(if round { elector.try_acquire() } else { elector.block_until_leader().map(Some) })
                }
            });
            let answer = answers.recv_timeout(SOON).expect("an answer");
            assert!(matches!(answer, Err(Error::Stopped)), "{answer:?}");
            assert_eq!(all(&elector.transitions()), []);
            assert_gone(&elector);
        }
    }
}

#[test]
fn panicking_lock_after_a_term_does_not_end_it_again() {
    let (store, elector) = alone();
    let transitions = elector.transitions();
    let guard = elector.block_until_leader().unwrap();
    store.give_to("b", 300);
    assert_eq!(guard.ended().recv_timeout(SOON), Err(RecvTimeoutError::Disconnected));
    // The elector reads the record while a guard exists after its term. This read panics.
    store.on_get(|| panic_quietly());
    let superseded = StopReason::Superseded { by: Some("b".into()) };
    assert_eq!(stops(&transitions), [Transition::StoppedLeading { reason: superseded.clone() }]);
    assert_eq!(guard.check().unwrap_err().reason, superseded);
    assert_gone(&elector);
}

#[test]
fn callbacks_outlive_a_store_that_panics_without_spinning() {
    let (store, elector) = alone();
    let slow = Work(|guard: &LeaderGuard| {
        break_down(&store, false);
        assert!(guard.ended().recv_timeout(SOON).is_err());
        // The work continues for a while after the term has ended.
        thread::sleep(Duration::from_secs(2));
    });
    let before = time_on_processor();
    let began = Instant::now();
    run(&elector, &Stop::new(), &slow).unwrap();
    assert!(began.elapsed() >= Duration::from_secs(2), "the work is waited for");
    let used = time_on_processor() - before;
    assert!(used < Duration::from_millis(200), "{used:?} on a processor, to wait for two seconds");
    assert!(matches!(run(&elector, &Stop::new(), &slow), Err(Error::Stopped)));
}

/// The panic must end the watch.
///
/// An elector that relied on the watch would poll only after a third of the lease duration, 100 s.
#[test]
fn a_watch_that_panics_is_replaced_by_polling() {
    let store = Memory::default();
    let (watched, calls) = watched(&store, {
        let store = store.clone();
        move |_, _, tell| {
            tell(WatchEvent::Opened);
            tell(changed(&store));
            thread::sleep(A_WHILE);
            panic_quietly()
        }
    });
    let leader = builder("a").renew_interval(Duration::from_secs(100)).start_on(Connection::new(&store)).unwrap();
    let guard = leader.block_until_leader().unwrap();
    let standby = builder("b").start_on(watched).unwrap();
    let campaign = standby.campaign().unwrap();
    wait_until("the standby sees the leader", || standby.current_leader().as_deref() == Some("a"));
    wait_until("it watches", || calls.count() == 1);
    thread::sleep(2 * A_WHILE);
    drop(guard);
    let guard = campaign.receiver().recv_timeout(SOON).expect("an answer").expect("a term");
    assert!(guard.is_leader());
    assert_eq!(standby.health_check().check(), Ok(()), "it leads all the same");
    assert_eq!(calls.count(), 1);
}
