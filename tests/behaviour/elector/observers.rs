//! Tests of observers, and of the status of an elector.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use leasehold::store::{MemoryStore, StoreError, StoreErrorKind, StoreOperation, WatchEvent};
use leasehold::{Error, Event, Observer, StopReason, Transition};
use log::Level;

use crate::elector::listener::{lines_of, listen};
use crate::elector::panics::panic_quietly;
use crate::elector::watched::{changed, silence, watched};
use crate::elector::{alone, builder, leading_with};
use crate::support::memory::{Connection, Memory};
use crate::support::{A_WHILE, SOON, wait_until};

/// A call that an observer received.
#[derive(Debug, Clone, PartialEq)]
enum Told {
    Started(u64),
    Stopped(StopReason),
    Leader(Option<String>),
    Renewed,
    Request(StoreOperation, Option<StoreErrorKind>, bool),
    WatchOpened,
    WatchLost,
}

struct Recorder(Sender<Told>);

impl Recorder {
    fn new() -> (Self, Receiver<Told>) {
        let (sender, told) = unbounded();
        (Self(sender), told)
    }

    fn tell(&self, what: Told) {
        let _ = self.0.send(what);
    }
}

impl Observer for Recorder {
    fn on_event(&self, event: &Event) {
        self.tell(match event {
            Event::StartedLeading { fencing_token } => Told::Started(*fencing_token),
            Event::StoppedLeading { reason } => Told::Stopped(reason.clone()),
            Event::NewLeader { identity, .. } => Told::Leader(Some(identity.clone())),
            Event::NoLeader { .. } => Told::Leader(None),
            Event::Renewed { latency } => {
                assert!(*latency < SOON);
                Told::Renewed
            }
            Event::Request(outcome) => Told::Request(outcome.operation, outcome.failure, outcome.is_slow_path),
            Event::WatchOpened => Told::WatchOpened,
            Event::WatchLost => Told::WatchLost,
            _ => return,
        });
    }
}

/// Receives calls up to the first call for which `last` returns `true`.
fn until(told: &Receiver<Told>, last: impl Fn(&Told) -> bool) -> Vec<Told> {
    let (end, mut all) = (Instant::now() + SOON, Vec::new());
    loop {
        all.push(told.recv_deadline(end).unwrap_or_else(|_| panic!("not within {SOON:?}: {all:?}")));
        if all.last().is_some_and(&last) {
            return all;
        }
    }
}

#[test]
fn observer_receives_every_fact_of_an_elector() {
    let (recorder, told) = Recorder::new();
    let elector =
        builder("a").renew_interval(Duration::from_millis(50)).observer(recorder).start_on(MemoryStore::new());
    let elector = elector.unwrap();
    let guard = elector.block_until_leader().unwrap();
    let token = guard.fencing_token();
    let begin = until(&told, |it| *it == Told::Renewed);
    assert!(begin.contains(&Told::Started(token)), "{begin:?}");
    // The watch may report the creation, and so start the term, before the store returns.
    assert!(begin.contains(&Told::Request(StoreOperation::Create, None, false)), "{begin:?}");
    assert!(begin.contains(&Told::Leader(Some("a".into()))), "{begin:?}");
    guard.step_down();
    let mut begin = begin;
    begin.extend(until(&told, |it| *it == Told::Stopped(StopReason::SteppedDown)));
    drop(guard);
    let rest = until(&told, |it| *it == Told::Leader(None));
    assert!(rest.iter().all(|it| !matches!(it, Told::Stopped(_) | Told::Started(_) | Told::Renewed)), "{rest:?}");
    wait_until("a watch", || elector.status().is_watching);
    assert_eq!(elector.status().counters.watches_opened, 1);
    drop(elector);
    // `told` ends when the elector has dropped the observer.
    let end = begin.into_iter().chain(rest).chain(told.iter());
    assert_eq!(end.filter(|it| *it == Told::WatchOpened).count(), 1);
}

#[test]
fn failed_renewal_and_its_read_are_reported() {
    let (recorder, told) = Recorder::new();
    let (store, elector, guard) = leading_with(builder("a").retry_period(Duration::from_millis(50)).observer(recorder));
    let mut left = 1;
    store.on_update(move |_| {
        left -= 1;
        if left < 0 { Ok(()) } else { Err(StoreError::new(StoreErrorKind::Conflict, "made up")) }
    });
    until(&told, |it| *it == Told::Request(StoreOperation::Update, Some(StoreErrorKind::Conflict), false));
    until(&told, |it| *it == Told::Request(StoreOperation::Get, None, true));
    until(&told, |it| *it == Told::Renewed);
    let counters = elector.status().counters;
    assert_eq!(counters.failures(StoreErrorKind::Conflict), 1);
    assert!(counters.slow_paths >= 1 && counters.requests(StoreOperation::Update) >= 2);
    assert!(guard.is_leader());
}

/// An observer that hangs or panics in every call.
struct Bad {
    panics: bool,
    called: Arc<AtomicBool>,
    hangs: Receiver<()>,
}

impl Bad {
    fn be(&self) {
        self.called.store(true, Ordering::SeqCst);
        if self.panics {
            panic_quietly();
        }
        let _ = self.hangs.recv();
    }
}

impl Observer for Bad {
    fn on_event(&self, event: &Event) {
        if let Event::Request(_) | Event::StartedLeading { .. } | Event::Renewed { .. } | Event::WatchOpened = event {
            self.be();
        }
    }
}

#[test]
fn hanging_or_panicking_observer_hurts_no_one() {
    for panics in [false, true] {
        let store = MemoryStore::new();
        let (end, hangs) = bounded::<()>(0);
        let called = Arc::new(AtomicBool::new(false));
        let bad = Bad { panics, called: Arc::clone(&called), hangs };
        let (recorder, told) = Recorder::new();
        let elector = builder("a")
            .lease_duration(Duration::from_secs(2))
            .renew_deadline(Duration::from_secs(1))
            .renew_interval(Duration::from_millis(1))
            .observer(bad)
            .observer(recorder);
        let elector = elector.start_on(store).unwrap();
        let guard = elector.block_until_leader().unwrap();
        wait_until("it is called", || called.load(Ordering::SeqCst));
        // These are more calls than an observer may be behind, for longer than the lease duration.
        wait_until("renewals", || elector.status().counters.renewals.counts.iter().sum::<u64>() > 1100);
        thread::sleep(Duration::from_secs(2));
        assert!(guard.is_leader(), "panics: {panics}");
        guard.release().expect("a release");
        until(&told, |it| *it == Told::Stopped(StopReason::Released));
        let guard = elector.block_until_leader().expect("another term");
        drop((guard, elector));
        drop(end);
    }
}

#[test]
fn status_reports_the_state_of_an_elector() {
    let store = Memory::default();
    let elector = builder("a").start_on(Connection::named(&store, "the record")).unwrap();
    let before = elector.status();
    assert_eq!((before.record.as_str(), before.name.as_str()), ("the record", "test"));
    assert!(before.is_running && !before.is_leader && before.leader.is_none() && before.fencing_token.is_none());
    let guard = elector.block_until_leader().unwrap();
    let status = elector.status();
    assert!(status.is_leader && !status.leader_lease_expired && status.remaining > Duration::ZERO);
    assert_eq!((status.leader.as_deref(), status.fencing_token), (Some("a"), Some(guard.fencing_token())));
    assert!(status.last_contact.is_some_and(|since| since < SOON));
    guard.step_down();
    let status = elector.status();
    assert!(!status.is_leader && status.remaining.is_zero() && status.fencing_token.is_some());
    drop(guard);
    wait_until("it is released", || elector.status().leader.is_none());
    assert_eq!(elector.status().fencing_token, None);
    assert_eq!((elector.status().counters.terms, elector.status().counters.terms_lost), (1, 0));
}

/// An elector that does not campaign also detects the expiry.
#[test]
fn expired_lease_has_no_leader() {
    let (store, elector) = alone();
    let transitions = elector.transitions();
    let next = || transitions.recv_timeout(SOON).expect("a transition");
    let new_leader = |identity: &str| Transition::NewLeader { identity: identity.to_owned(), address: None };
    let no_leader = |previous: &str| Transition::NoLeader { previous: previous.to_owned() };
    for second in 0..2 {
        store.edit(|record| record.renew_time = Some(leasehold::store::MicroTime::from_unix_micros(second)));
        store.give_to("gone", 1);
        assert_eq!(next(), new_leader("gone"));
        assert_eq!(next(), no_leader("gone"));
        assert_eq!(elector.current_leader(), None);
    }
    assert_eq!(elector.transitions().try_iter().count(), 0, "a subscription opens with what is so");
    // The release of an expired lease is not reported again.
    store.give_to("", 1);
    store.give_to("b", 300);
    assert_eq!(next(), new_leader("b"));
    store.give_to("", 1);
    assert_eq!(next(), no_leader("b"));
}

/// An elector that cannot renew stops naming itself when others may take over.
///
/// The guard's owner notices the expiry before the elector's thread does, and drops the guard at once.
#[test]
fn elector_that_cannot_renew_stops_naming_itself() {
    listen();
    let (store, name) = (Memory::default(), "record of a term that ran out");
    let builder = builder("a").lease_duration(Duration::from_secs(3)).renew_deadline(Duration::from_secs(1));
    let elector = builder.release_timeout(A_WHILE).start_on(Connection::named(&store, name)).unwrap();
    let transitions = elector.transitions();
    let guard = elector.block_until_leader().expect("a term");
    store.on_update(|_| Err(StoreError::new(StoreErrorKind::Unavailable, "away")));
    store.on_get(|| Err(StoreError::new(StoreErrorKind::Unavailable, "away")));
    let view = guard.leadership();
    while guard.is_leader() {
        thread::sleep(Duration::from_micros(50));
    }
    drop(guard);
    assert_eq!(view.check().unwrap_err().reason, StopReason::Expired);
    let told: Vec<_> = std::iter::from_fn(|| transitions.recv_timeout(SOON).ok()).take(4).collect();
    assert_eq!(told[2], Transition::StoppedLeading { reason: StopReason::Expired });
    assert_eq!(told[3], Transition::NoLeader { previous: "a".to_owned() });
    assert_eq!((elector.current_leader(), elector.status().leader.as_deref()), (None, Some("a")));
    let lines = lines_of(name);
    let stops: Vec<_> = lines.iter().filter(|(_, line)| line.starts_with("stopped leading")).collect();
    assert_eq!(stops, [&(Level::Warn, format!("stopped leading: {}; last error: away", StopReason::Expired))]);
    store.on_update(|_| Ok(()));
    store.on_get(|| Ok(()));
    wait_until("it is released all the same", || store.holder().is_none());
}

#[test]
fn status_reports_a_panic() {
    let (recorder, told) = Recorder::new();
    let (store, elector, guard) = leading_with(builder("a").retry_period(Duration::from_millis(50)).observer(recorder));
    assert!(elector.status().is_running);
    store.on_update(|_| panic_quietly());
    wait_until("it has ended", || !elector.status().is_running);
    assert_eq!(elector.status().counters.terms_lost, 1);
    let end: Vec<_> = told.iter().collect();
    assert_eq!(end.iter().filter(|it| matches!(it, Told::Stopped(_))).count(), 1, "{end:?}");
    assert!(end.contains(&Told::Stopped(StopReason::ElectorPanicked)));
    drop(guard);
}

/// The expiry of the previous lease is not the expiry of the new leader's lease.
#[test]
fn guard_owner_is_the_leader_after_an_expired_lease_too() {
    let electors: Vec<_> = (0..50)
        .map(|_| {
            let store = Memory::default();
            store.give_to("gone", 1);
            builder("a").start_on(Connection::new(&store)).unwrap()
        })
        .collect();
    for elector in &electors {
        wait_until("it runs out", || elector.status().leader_lease_expired);
        let campaign = elector.campaign().unwrap();
        let guard = loop {
            if let Ok(won) = campaign.receiver().try_recv() {
                break won.unwrap();
            }
        };
        let (leader, status) = (elector.current_leader(), elector.status());
        assert_eq!(leader.as_deref(), Some("a"));
        assert!(!status.leader_lease_expired && guard.is_leader());
    }
}

#[test]
fn refused_writes_are_reported_until_one_succeeds() {
    let store = Memory::default();
    store.give_to("", 1);
    store.on_update(|_| Err(StoreError::new(StoreErrorKind::Conflict, "made up")));
    let builder = builder("a").lease_duration(Duration::from_secs(3)).renew_deadline(Duration::from_secs(1));
    let elector = builder.start_on(Connection::new(&store)).unwrap();
    let campaign = elector.campaign().unwrap();
    let health = elector.health_check();
    let failed_write = || elector.status().failed_write.map(|error| error.to_string());
    wait_until("the status reports them", || failed_write().as_deref() == Some("made up"));
    drop(campaign);
    let error = elector.block_until_leader_timeout(A_WHILE).map(|guard| guard.is_some());
    assert!(matches!(&error, Err(Error::Store(error)) if error.kind() == StoreErrorKind::Conflict), "{error:?}");
    let status = elector.status();
    assert!(status.last_error.is_some() && health.check().is_ok(), "a restart does not help");
    assert!(status.to_string().contains("; the last write failed: made up"), "{status}");
    store.on_update(|_| Ok(()));
    let _guard = elector.block_until_leader_timeout(SOON).unwrap().expect("a term");
    let status = elector.status();
    assert!(status.failed_write.is_none() && status.last_error.is_none(), "{status}");
}

#[test]
fn error_is_cleared_by_a_later_watch_event() {
    let store = Memory::default();
    store.give_to("b", 300);
    let (tell, tells) = unbounded::<()>();
    let same = store.clone();
    let (watched, _) = watched(&store, move |_, cancel, on_event| {
        on_event(WatchEvent::Opened);
        for () in &tells {
            on_event(changed(&same));
        }
        silence(cancel)
    });
    let elector = builder("a").start_on(watched).unwrap();
    tell.send(()).unwrap();
    wait_until("it is seen", || elector.current_leader().as_deref() == Some("b"));
    let campaign = elector.campaign().unwrap();
    let away = || Err(StoreError::new(StoreErrorKind::Unavailable, "made up"));
    store.on_get(away);
    store.on_update(move |_| away());
    store.give_to("", 1);
    tell.send(()).unwrap();
    wait_until("its write fails", || elector.status().last_error.is_some());
    drop(campaign);
    store.give_to("c", 300);
    wait_until("it has failed no more", || {
        // A write of the campaign may still fail after the first event, so the test sends more events.
        tell.send(()).unwrap();
        elector.status().last_error.is_none()
    });
    assert_eq!(elector.current_leader().as_deref(), Some("c"));
    assert!(matches!(elector.block_until_leader_timeout(A_WHILE), Ok(None)));
    drop(tell);
}
