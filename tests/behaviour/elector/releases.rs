//! A dropped guard releases its lease, whatever the elector's thread is doing.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use leasehold::store::{MemoryStore, StoreError, StoreErrorKind};
use leasehold::{LeaderGuard, StopReason};
use parking_lot::Mutex;

use crate::elector::listener::{listen, on_line};
use crate::elector::{alone, builder, leading_with, release_at_once};
use crate::support::memory::{Connection, Memory};
use crate::support::stores::Wrapped;
use crate::support::{A_WHILE, AT_ONCE, SOON, wait_until};

/// If a server usually responds at once, a hanging request is abandoned soon.
///
/// The wait does not grow with the release timeout.
#[test]
fn hanging_request_is_abandoned_soon_at_any_release_timeout() {
    for timeout in [Duration::from_secs(60), Duration::from_secs(i32::MAX as u64)] {
        let (store, _elector, guard) = leading_with(builder("a").release_timeout(timeout));
        let view = guard.leadership();
        store.hang_next_update();
        release_at_once(guard);
        assert_eq!(store.holder(), None);
        assert_eq!(view.check().unwrap_err().reason, StopReason::Released);
    }
}

/// Without this release, the lease would stay held after the process has ended.
#[test]
fn dropped_elector_releases_a_late_win() {
    let store = Memory::default();
    store.give_to("", 1);
    let (acquiring, acquires) = bounded(1);
    let (released, has_released) = bounded(1);
    store.on_update(move |record| {
        if record.holder().is_none() {
            let _ = released.try_send(());
        } else {
            let _ = acquiring.try_send(());
            thread::sleep(A_WHILE);
        }
        Ok(())
    });
    let elector = builder("a").start_on(Connection::new(&store)).unwrap();
    let campaign = elector.campaign().unwrap();
    acquires.recv_timeout(SOON).expect("an acquisition is under way");
    drop(campaign);
    drop(elector);
    assert!(has_released.try_recv().is_ok(), "it goes on when the elector is gone");
    assert_eq!(store.holder(), None);

    // The second elector can hold no lease, so its drop does not wait.
    let began = Instant::now();
    drop(builder("b").release_timeout(Duration::from_secs(60)).start_on(Connection::new(&store)).unwrap());
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
}

/// A place for a guard that another thread drops.
type Slot = Arc<Mutex<Option<LeaderGuard>>>;

/// Drops the guard in `slot` inside the next update of `store`.
///
/// Returns the duration of the drop.
fn drop_in_update(store: &Memory, slot: Slot) -> Duration {
    let (dropped, drops) = bounded(1);
    store.on_update(move |_| {
        let began = Instant::now();
        if let Some(guard) = slot.lock().take() {
            drop(guard);
            let _ = dropped.send(began.elapsed());
        }
        Ok(())
    });
    drops.recv_timeout(SOON).expect("a renewal")
}

/// The other elector's thread must send its own requests, so it must not wait for a release.
#[test]
fn guard_dropped_on_another_electors_thread_does_not_wait() {
    let (store, others) = (Memory::default(), Memory::default());
    let elector = builder("a").start_on(Connection::new(&store)).unwrap();
    let other = builder("b").start_on(Connection::new(&others)).unwrap();
    let slot: Slot = Arc::default();
    let _guard = elector.block_until_leader().unwrap();
    *slot.lock() = Some(other.block_until_leader().unwrap());
    let (released, releases) = bounded::<()>(0);
    others.on_release(move || _ = releases.recv_timeout(SOON));
    let took = drop_in_update(&store, slot);
    drop(released);
    assert!(took < AT_ONCE, "{took:?}");
    wait_until("it is released all the same", || others.holder().is_none());
}

#[test]
fn guard_dropped_inside_its_own_lock_does_not_deadlock() {
    let (store, elector) = alone();
    let slot: Slot = Arc::default();
    *slot.lock() = Some(elector.block_until_leader().unwrap());
    let took = drop_in_update(&store, slot);
    assert!(took < AT_ONCE, "{took:?}");
    wait_until("it is released all the same", || store.holder().is_none());
    drop(elector.block_until_leader().unwrap());
}

#[test]
fn guard_dropped_inside_a_log_call_does_not_deadlock() {
    listen();
    let name = "record of a guard that is dropped in a log call";
    let store = Memory::default();
    let elector = builder("a").start_on(Connection::named(&store, name)).unwrap();
    let guard = elector.block_until_leader().unwrap();
    let (dropped, drops) = bounded(1);
    on_line(&format!("{name} a: update failed"), move || {
        let began = Instant::now();
        drop(guard);
        let _ = dropped.send(began.elapsed());
    });
    store.on_update(|_| Err(StoreError::new(StoreErrorKind::Unavailable, "made up")));
    let took = drops.recv_timeout(SOON).expect("a renewal");
    assert!(took < AT_ONCE, "{took:?}");
    store.on_update(|_| Ok(()));
    wait_until("it is released all the same", || store.holder().is_none());
    drop(elector.block_until_leader().unwrap());
}

#[test]
fn hanging_logger_delays_neither_caller_nor_requests() {
    listen();
    // The logger hangs before the release, or during the release.
    for (name, is_earlier) in
        [("record of a logger that hangs", true), ("record whose release hangs in the log", false)]
    {
        let store = Memory::default();
        let elector = builder("a").start_on(Connection::named(&store, name)).unwrap();
        let guard = elector.block_until_leader().unwrap();
        let ((hang, hangs), (reached, is_reached)) = (bounded::<()>(0), bounded(1));
        on_line(&format!("{name} a: stopped leading"), move || _ = (reached.send(()), hangs.recv_timeout(SOON)));
        let began = Instant::now();
        if is_earlier {
            guard.step_down();
            is_reached.recv_timeout(SOON).expect("the logger hangs");
        }
        assert!(matches!(guard.release(), Ok(())));
        assert_eq!(store.holder(), None);
        assert!(is_earlier || is_reached.recv_timeout(SOON).is_ok(), "the logger hangs");
        let (logged, is_logged) = bounded(1);
        on_line(&format!("{name} a: started leading"), move || _ = logged.send(()));
        drop(elector.block_until_leader().expect("a second term"));
        assert_eq!(store.holder(), None);
        assert!(began.elapsed() < AT_ONCE, "{:?} with a release timeout of 20 s", began.elapsed());
        assert!(is_logged.recv_timeout(A_WHILE).is_err(), "no other thread logs");
        drop(hang);
    }
}

/// No caller waits for the release of an unclaimed term.
#[test]
fn unclaimed_term_is_released_despite_a_hanging_renewal() {
    let (store, elector) = alone();
    let campaign = elector.campaign().unwrap();
    wait_until("it leads", || store.holder().is_some());
    store.hang_next_update();
    let began = Instant::now();
    drop(campaign);
    wait_until("it is released", || store.holder().is_none());
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
}

/// The process may end after the last drop.
#[test]
fn last_drop_of_a_campaign_waits_for_the_release_of_its_term() {
    let (store, elector) = alone();
    let campaign = elector.campaign().unwrap();
    wait_until("it leads", || store.holder().is_some());
    drop(elector);
    store.on_update(|record| {
        if record.holder().is_none() {
            thread::sleep(A_WHILE);
        }
        Ok(())
    });
    drop(campaign);
    assert_eq!(store.holder(), None);
}

#[test]
fn failed_release_is_logged_on_another_thread() {
    listen();
    let (store, name) = (Memory::default(), "record of a drop whose release fails");
    let timeout = Duration::from_millis(100);
    let elector = builder("a").release_timeout(timeout).start_on(Connection::named(&store, name)).unwrap();
    let guard = elector.block_until_leader().unwrap();
    store.on_update(|_| {
        thread::sleep(Duration::from_millis(500));
        Err(StoreError::new(StoreErrorKind::Timeout, "made up"))
    });
    let (logged, is_logged) = bounded(1);
    let line = format!("{name} a: release of the lease not confirmed");
    on_line(&line, move || _ = logged.send(thread::current().id()));
    drop(guard);
    assert_ne!(is_logged.recv_timeout(SOON).expect("a line"), thread::current().id());
}

/// The store applies writes at once, but responds late.
///
/// A create takes 2 s, and a release takes 10 s.
#[test]
fn release_seen_by_the_watch_ends_the_wait() {
    let released_at: Arc<Mutex<Option<Instant>>> = Arc::default();
    let noted = Arc::clone(&released_at);
    let store = Wrapped::answering(MemoryStore::new(), move |method| match method {
        "create" => thread::sleep(Duration::from_secs(2)),
        "update" => {
            *noted.lock() = Some(Instant::now());
            thread::sleep(Duration::from_secs(10));
        }
        _ => {}
    });
    let elector = builder("a").renew_interval(Duration::from_secs(60)).start_on(store).unwrap();
    wait_until("it watches", || elector.status().is_watching);
    // The watch reports the win. The late response to the create shows how long requests take.
    let guard = elector.block_until_leader().unwrap();
    thread::sleep(Duration::from_millis(2_500));
    guard.release().expect("a release");
    let since = released_at.lock().expect("it is applied").elapsed();
    // If an event waits behind a request, the elector abandons the request before its usual duration, 2 s.
    assert!(since < Duration::from_millis(1_500), "{since:?}");
}
