//! Watches that end, are refused, expire or fall silent.
//!
//! The tests check the time of the next watch, and that the election continues.

use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, bounded, unbounded};
use leasehold::store::{Cursor, StoreError, StoreErrorKind, WatchEvent};
use leasehold::{LeaderElector, LeaderElectorBuilder};

use crate::elector::listener::{listen, on_line};
use crate::elector::watched::{changed, silence, watched};
use crate::support::memory::{Connection, Memory};
use crate::support::stores::Wrapped;
use crate::support::{AT_ONCE, SOON, wait_until};

const RETRY: Duration = Duration::from_millis(100);

fn builder(identity: &str) -> LeaderElectorBuilder {
    crate::elector::builder(identity).retry_period(RETRY)
}

/// Starts a leader that renews every 200 ms, with a lease of 3 s.
///
/// A standby suspects a silent watch after one second.
fn busy_leader(store: &Memory) -> LeaderElector {
    let builder = builder("a").lease_duration(Duration::from_secs(3)).renew_deadline(Duration::from_secs(2));
    builder.renew_interval(2 * RETRY).start_on(Connection::new(store)).unwrap()
}

/// After five watches, the next watch opens 16 retry periods later.
///
/// A change that is noticed sooner was found by polling.
#[test]
fn short_watches_reopen_at_growing_intervals_beside_polls() {
    let store = Memory::default();
    // A watch that lasts longer than a retry period ends the series. A stall of the machine must be shorter than this
    // period.
    const RETRY: Duration = Duration::from_secs(1);
    // The leader does not renew during the test, so its renewals cause no events.
    let leader = builder("a").renew_interval(Duration::from_secs(100)).start_on(Connection::new(&store)).unwrap();
    let guard = leader.block_until_leader().unwrap();
    // Each watch reports the current record and ends. If the watch stayed open, the standby would not poll.
    let (watched, calls) = watched(&store, {
        let store = store.clone();
        move |_, _, tell| {
            tell(WatchEvent::Opened);
            tell(changed(&store));
            Ok(())
        }
    });
    let standby = builder("b").retry_period(RETRY).start_on(watched).unwrap();
    let campaign = standby.campaign().unwrap();
    // A watch that is still open would report the release below, and the next watch comes much later.
    wait_until("five watches have ended", || calls.all().iter().filter(|call| call.ended.is_some()).count() >= 5);
    let began = Instant::now();
    drop(guard);
    let won = campaign.receiver().recv_timeout(SOON).expect("an answer").expect("a term");
    assert!(began.elapsed() < 8 * RETRY, "{:?}", began.elapsed());
    assert!(won.is_leader());
    let pauses = calls.pauses();
    assert!(pauses.iter().all(|pause| *pause >= RETRY), "{pauses:?}");
    assert!(pauses.iter().any(|pause| *pause >= 8 * RETRY), "they grow: {pauses:?}");
}

#[test]
fn retry_after_delays_the_next_watch() {
    for kind in [StoreErrorKind::Unavailable, StoreErrorKind::Expired] {
        let asked = Duration::from_secs(1);
        let store = Memory::default();
        let (watched, calls) =
            watched(&store, move |_, _, _| Err(StoreError::new(kind, "made up").with_retry_after(Some(asked))));
        let _elector = builder("a").retry_period(Duration::from_millis(20)).start_on(watched).unwrap();
        wait_until("it is asked again", || calls.count() >= 3);
        let pauses = calls.pauses();
        assert!(pauses.iter().all(|pause| *pause >= asked), "{kind:?}: {pauses:?}");
    }
}

#[test]
fn watch_resumes_at_its_end_and_restarts_after_an_expiry() {
    let store = Memory::default();
    let (watched, calls) = watched(&store, |number, stop, tell| {
        if number < 4 {
            tell(WatchEvent::Opened);
            tell(WatchEvent::Bookmark(Cursor::new(70 + number as u64)));
        }
        match number {
            0 => Err(StoreError::new(StoreErrorKind::Unavailable, "made up")),
            1 => Ok(()),
            2 | 4 => Err(StoreError::new(StoreErrorKind::Expired, "made up")),
            3 => Err(StoreError::new(StoreErrorKind::Malformed, "made up")),
            _ => silence(stop),
        }
    });
    let _elector = builder("a").retry_period(Duration::from_millis(20)).start_on(watched).unwrap();
    wait_until("six watches", || calls.count() == 6);
    let after: Vec<_> = calls.all().iter().map(|call| call.after).collect();
    assert_eq!(after, [None, Some(70), Some(71), None, Some(73), None]);
}

/// The logger hangs, and the elector polls.
#[test]
fn loss_of_a_watch_is_reported_before_it_is_logged() {
    listen();
    let ((hang, hangs), (reached, is_reached)) = (bounded::<()>(0), bounded(1));
    let (store, name) = (Memory::default(), "record of a slow log");
    on_line(&format!("{name} b: watch failed"), move || _ = (reached.send(()), hangs.recv_timeout(SOON)));
    let leader = builder("a").start_on(Connection::new(&store)).unwrap();
    let guard = leader.block_until_leader().unwrap();
    let watched = Wrapped::watching(Connection::named(&store, name), {
        let store = store.clone();
        move |_, _, tell| {
            tell(WatchEvent::Opened);
            tell(changed(&store));
            tell(WatchEvent::Bookmark(Cursor::new(store.version())));
            Err(StoreError::new(StoreErrorKind::Unavailable, "made up"))
        }
    });
    let standby = builder("b").start_on(watched).unwrap();
    let campaign = standby.campaign().unwrap();
    is_reached.recv_timeout(SOON).expect("the logger hangs");
    drop(guard);
    drop(campaign.receiver().recv_timeout(AT_ONCE).expect("an answer").expect("a term"));
    drop(hang);
}

/// The proxy opens every watch, but passes no later events on.
#[test]
fn silent_watch_restarts_from_scratch_not_in_a_tight_loop() {
    let store = Memory::default();
    let leader = busy_leader(&store);
    let guard = leader.block_until_leader().unwrap();
    let (watched, calls) = watched(&store, {
        let store = store.clone();
        move |_, stop, tell| {
            tell(WatchEvent::Opened);
            tell(changed(&store));
            tell(WatchEvent::Bookmark(Cursor::new(store.version())));
            silence(stop)
        }
    });
    let standby = builder("b").start_on(watched).unwrap();
    let campaign = standby.campaign().unwrap();
    wait_until("it is given up again and again", || calls.count() >= 5);
    assert!(calls.all().iter().all(|call| call.after.is_none()), "what was missed is to be told");
    let pauses = calls.pauses();
    let least = [Duration::ZERO, 2 * RETRY, 4 * RETRY, 8 * RETRY];
    assert!(pauses.iter().zip(least).all(|(pause, least)| *pause >= least), "{pauses:?}");
    assert!(guard.is_leader() && campaign.receiver().is_empty());
    drop(guard);
    drop(campaign.receiver().recv_timeout(SOON).expect("an answer").expect("a term"));
}

/// The hook of some stores joins the thread that reads the events.
#[test]
fn watch_is_dropped_even_if_its_hook_waits_for_its_events() {
    let store = Memory::default();
    let leader = busy_leader(&store);
    let _guard = leader.block_until_leader().unwrap();
    let (taken, hooks) = unbounded();
    let (watched, _) = watched(&store, {
        let store = store.clone();
        move |_, stop, tell| {
            tell(WatchEvent::Opened);
            tell(changed(&store));
            let (end, ended) = bounded::<()>(0);
            let (last, last_is_taken) = bounded::<()>(0);
            let taken = taken.clone();
            let _hook = stop.on_cancel(move || {
                drop(end);
                let _ = taken.send(last_is_taken.recv_timeout(SOON) == Err(RecvTimeoutError::Disconnected));
            });
            let _ = ended.recv();
            tell(changed(&store));
            drop(last);
            Err(StoreError::new(StoreErrorKind::Interrupted, "stopped"))
        }
    });
    let _standby = builder("b").start_on(watched).unwrap();
    assert_eq!(hooks.recv_timeout(2 * SOON), Ok(true));
}
