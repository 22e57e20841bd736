//! Many electors of one process: one watch for all of them, and the release of many guards at the same time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use leasehold::kubernetes::LeaseStore;
use leasehold::store::{
    CancelToken, Cursor, MemoryStore, SharedWatch, Store, StoreError, StoreErrorKind, VersionedRecord, WatchEvent,
    WatchScope,
};
use leasehold::{Error, LeaderElector, LeaderGuard, release_all};
use leasehold_testing::{Resource, Verb};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::on_both_servers;
use crate::support::cluster::{Cluster, NAMESPACE};
use crate::support::memory::Memory;
use crate::support::stores::{Wrapped, call, held_by};
use crate::support::{A_WHILE, AT_ONCE, SOON, wait_until};

on_both_servers!(two_hundred_electors_share_one_watch);

/// A hidden record would look absent to its electors, although a read fails.
#[test]
fn shared_watch_of_an_unreadable_record_ends_with_its_error() {
    let cluster = Cluster::in_memory("shared-unreadable");
    let server = cluster.in_memory_server().expect("it is");
    let put = |seconds: Value| {
        let object = json!({ "spec": { "holderIdentity": "a", "leaseDurationSeconds": seconds } });
        server.put(Resource::Leases, NAMESPACE, "jobs", object);
    };
    let shared = SharedWatch::new(LeaseStore::new(cluster.client("admin"), NAMESPACE).expect("a store"));
    for first in [json!("nonsense"), json!(15)] {
        put(first);
        let ended = shared.watch(WatchScope::Key("jobs"), None, &CancelToken::new(), &mut |event| {
            if let WatchEvent::Changed { .. } = event {
                put(json!("nonsense"));
            }
        });
        assert_eq!(ended.expect_err("an unreadable record").kind(), StoreErrorKind::Malformed);
    }
}

fn two_hundred_electors_share_one_watch(cluster: &Cluster) {
    let leases = Arc::new(LeaseStore::new(cluster.client("admin"), NAMESPACE).expect("a store"));
    let (running, most) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let (watched, highest) = (Arc::clone(&leases), Arc::clone(&most));
    let store = Arc::new(SharedWatch::new(Wrapped::watching(Arc::clone(&leases), move |from, cancel, on_event| {
        highest.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let ended = watched.watch(WatchScope::All, from, cancel, on_event);
        running.fetch_sub(1, Ordering::SeqCst);
        ended
    })));
    let name = |number| format!("{}-{number}", cluster.lease);
    let elector = |number| {
        let builder = LeaderElector::builder(name(number)).lease_duration(Duration::from_secs(300));
        let builder = builder.renew_deadline(Duration::from_secs(200)).retry_period(Duration::from_secs(20));
        builder.start_on(Arc::clone(&store)).expect("an elector")
    };
    let electors: Vec<_> = (0..200).map(elector).collect();
    let standby = elector(7);
    let campaigns: Vec<_> = electors.iter().map(|it| it.campaign().expect("a campaign")).collect();
    let won = |campaign: &leasehold::Campaign| campaign.receiver().recv_timeout(SOON).expect("soon").expect("a term");
    let mut guards: Vec<_> = campaigns.iter().map(won).collect();
    let campaign = standby.campaign().expect("a campaign");
    wait_until("the standby sees the leader", || standby.current_leader().is_some());
    guards.remove(7).release().expect("a release");
    drop(won(&campaign));
    let released = release_all(guards, SOON);
    assert!(released.len() == 199 && released.iter().all(Result::is_ok), "{released:?}");
    let holder = |number| leases.get(&name(number), &call()).expect("an answer").expect("a record").record;
    assert!((0..200).all(|number| holder(number).holder().is_none()));
    assert_eq!(most.load(Ordering::SeqCst), 1, "watches at a time");
    if let Some(server) = cluster.in_memory_server() {
        let requests = server.requests();
        let count = |verb| requests.iter().filter(|request| request.verb == Some(verb)).count();
        assert_eq!(count(Verb::Watch), 1);
        // Each elector reads once, its watch reads at most once, and this test has read 200 records.
        assert!(count(Verb::Get) <= 2 * 201 + 200, "{} reads", count(Verb::Get));
    }
}

/// A store in memory with a shared watch, of which a test controls the watch of all keys.
struct Collection {
    memory: Arc<MemoryStore>,
    store: Arc<SharedWatch<Wrapped<Arc<MemoryStore>>>>,
    reads: Arc<AtomicUsize>,
    control: Arc<Control>,
}

#[derive(Default)]
struct Control {
    /// The positions at which the watches of all keys have started.
    started: Mutex<Vec<Option<u64>>>,
    running: AtomicUsize,
    is_shut: AtomicBool,
    is_silent: AtomicBool,
    current: Mutex<CancelToken>,
    end: Mutex<Option<Result<(), StoreError>>>,
}

/// A watch of one key on a thread of its own.
struct Watching {
    events: Receiver<WatchEvent>,
    cancel: CancelToken,
    ended: JoinHandle<Result<(), StoreError>>,
}

impl Collection {
    fn new() -> Self {
        let (memory, control, reads) = (Arc::new(MemoryStore::new()), Arc::new(Control::default()), Arc::default());
        let store = Wrapped::watching(Arc::clone(&memory), {
            let (memory, control) = (Arc::clone(&memory), Arc::clone(&control));
            move |from, cancel, on_event| control.watch(&memory, from, cancel, on_event)
        });
        let counted: Arc<AtomicUsize> = Arc::clone(&reads);
        let store =
            store.and_answering(move |method| _ = (method == "get").then(|| counted.fetch_add(1, Ordering::SeqCst)));
        Self { memory, store: Arc::new(SharedWatch::new(store)), reads, control }
    }

    fn watch(&self, key: &str, from: Option<&Cursor>) -> Watching {
        self.watch_with(key, from, |sender, event| drop(sender.send(event)))
    }

    fn watch_with(
        &self,
        key: &str,
        from: Option<&Cursor>,
        on_event: impl Fn(&Sender<WatchEvent>, WatchEvent) + Send + 'static,
    ) -> Watching {
        let (cancel, (sender, events)) = (CancelToken::new(), unbounded());
        let (store, key, from, cancelled) = (Arc::clone(&self.store), key.to_owned(), from.cloned(), cancel.clone());
        let ended = thread::spawn(move || {
            store.watch(WatchScope::Key(&key), from.as_ref(), &cancelled, &mut |event| on_event(&sender, event))
        });
        Watching { events, cancel, ended }
    }

    /// Writes the record of `key`, and returns its version.
    fn write(&self, key: &str) -> u64 {
        let record = held_by("a");
        let written = match self.memory.get(key, &call()).expect("an answer") {
            Some(base) => self.store.update(key, &base, record.as_write(), &call()),
            None => self.store.create(key, record.as_write(), &call()),
        };
        written.expect("a write").version
    }

    fn fail(&self, kind: StoreErrorKind) {
        self.end(Err(StoreError::new(kind, "as planned")));
    }

    fn end(&self, result: Result<(), StoreError>) {
        *self.control.end.lock() = Some(result);
        let current = self.control.current.lock().clone();
        current.cancel();
    }

    fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }
}

impl Control {
    fn watch(
        &self,
        memory: &MemoryStore,
        from: Option<&Cursor>,
        cancel: &CancelToken,
        on_event: &mut dyn FnMut(WatchEvent),
    ) -> Result<(), StoreError> {
        let current = CancelToken::new();
        *self.current.lock() = current.clone();
        self.started.lock().push(from.and_then(Cursor::get).copied());
        self.running.fetch_add(1, Ordering::SeqCst);
        let cancelled = current.clone();
        let hook = cancel.on_cancel(move || cancelled.cancel());
        while self.is_shut.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
        let ended = memory.watch(WatchScope::All, from, &current, &mut |event| {
            if !self.is_silent.load(Ordering::SeqCst) {
                on_event(event);
            }
        });
        drop(hook);
        self.running.fetch_sub(1, Ordering::SeqCst);
        self.end.lock().take().unwrap_or(ended)
    }
}

impl Watching {
    fn next(&self) -> WatchEvent {
        self.events.recv_timeout(SOON).expect("an event")
    }

    fn opened(self) -> Self {
        assert!(matches!(self.next(), WatchEvent::Opened));
        self
    }

    /// Returns the version of the next change and the cursor after the change. The version of a deletion is negative.
    fn change(&self) -> (i64, Cursor) {
        let version = match self.next() {
            WatchEvent::Changed { observed, .. } => observed.version as i64,
            WatchEvent::Deleted { version, .. } => -(version as i64),
            // Shows contact with the server.
            WatchEvent::Bookmark(_) => return self.change(),
            other => panic!("{other:?}"),
        };
        let WatchEvent::Bookmark(cursor) = self.next() else { panic!("a bookmark") };
        (version, cursor)
    }

    fn assert_changed(&self, version: u64) -> Cursor {
        let (found, cursor) = self.change();
        assert_eq!(found, version as i64);
        cursor
    }

    fn end(self) -> StoreErrorKind {
        self.cancel.cancel();
        self.ended()
    }

    fn ended(self) -> StoreErrorKind {
        self.error().kind()
    }

    fn error(self) -> StoreError {
        self.ended.join().expect("no panic").expect_err("an end")
    }
}

#[test]
fn watches_of_keys_share_a_watch_that_ends_with_the_last() {
    let shared = Collection::new();
    shared.control.is_shut.store(true, Ordering::SeqCst);
    let first = shared.write("first");
    let watches = ["first", "absent"].map(|key| shared.watch(key, None));
    wait_until("a watch of all keys", || !shared.control.started.lock().is_empty());
    thread::sleep(A_WHILE);
    assert!(watches.iter().all(|watch| watch.events.is_empty()), "nothing before the watch of all keys is open");
    shared.control.is_shut.store(false, Ordering::SeqCst);
    let [of_first, of_absent] = watches.map(Watching::opened);
    of_first.assert_changed(first);
    assert_eq!(shared.reads(), 0, "the watch of all keys reports the current records");
    let late = shared.write("late");
    let of_late = shared.watch("late", None).opened();
    of_late.assert_changed(late);
    assert_eq!(shared.reads(), 1, "a watch that starts later reads once");
    of_absent.assert_changed(shared.write("absent"));
    assert_eq!(of_first.end(), StoreErrorKind::Interrupted);
    of_late.assert_changed(shared.write("late"));
    assert_eq!(of_late.end(), StoreErrorKind::Interrupted);
    assert!(shared.memory.delete("absent"));
    assert!(of_absent.change().0 < 0);
    assert_eq!(shared.control.running.load(Ordering::SeqCst), 1);
    assert_eq!(of_absent.end(), StoreErrorKind::Interrupted);
    wait_until("the watch of all keys ends", || shared.control.running.load(Ordering::SeqCst) == 0);
    assert_eq!(*shared.control.started.lock(), [None]);
}

#[test]
fn blocked_watch_delays_no_other_and_skips_to_the_newest() {
    let shared = Collection::new();
    let (go_on, goes_on) = bounded::<()>(0);
    let blocked = shared.watch_with("slow", None, move |sender, event| {
        let is_opened = matches!(event, WatchEvent::Opened);
        let _ = sender.send(event);
        if is_opened {
            let _ = goes_on.recv();
        }
    });
    let (blocked, quick) = (blocked.opened(), shared.watch("quick", None).opened());
    let written: Vec<_> = (0..500).map(|_| shared.write("slow")).collect();
    quick.assert_changed(shared.write("quick"));
    drop(go_on);
    blocked.assert_changed(written[499]);
    thread::sleep(A_WHILE);
    assert!(blocked.events.is_empty(), "no event is left");
    assert_eq!([blocked.end(), quick.end()], [StoreErrorKind::Interrupted; 2]);
}

#[test]
fn failure_ends_all_watches_and_one_restart_serves_them() {
    let shared = Collection::new();
    let keys: Vec<_> = (0..20).map(|key| key.to_string()).collect();
    let watch = |from: Option<&Cursor>, key: &String| shared.watch(key, from).opened();
    let all: Vec<_> = keys.iter().map(|key| watch(None, key)).collect();
    let cursors: Vec<_> = all.iter().zip(&keys).map(|(it, key)| it.assert_changed(shared.write(key))).collect();
    let reads = shared.reads();
    shared.fail(StoreErrorKind::Unavailable);
    assert!(all.into_iter().all(|it| it.ended() == StoreErrorKind::Unavailable));
    let changed = shared.write("7");
    let all: Vec<_> = keys.iter().zip(&cursors).map(|(key, from)| watch(Some(from), key)).collect();
    all[7].assert_changed(changed);
    assert!(all.iter().all(|it| it.events.is_empty()), "other records have not changed");
    assert!(matches!(shared.control.started.lock()[..], [None, Some(_)]));
    assert_eq!(shared.reads(), reads);

    // A watch of all keys that cannot resume misses deletions, and a read does not return the version of a deletion.
    shared.fail(StoreErrorKind::Expired);
    assert!(all.into_iter().all(|it| it.ended() == StoreErrorKind::Expired));
    assert!(shared.memory.delete("3"));
    let other = watch(None, &keys[4]);
    assert!(other.change().0 > 0);
    let resumed = shared.watch(&keys[3], Some(&cursors[3]));
    wait_until("the end", || resumed.ended.is_finished());
    assert_eq!(resumed.ended(), StoreErrorKind::Expired);
    assert_eq!(shared.control.started.lock()[2..], [None]);
    assert_eq!(other.end(), StoreErrorKind::Interrupted);
    assert_eq!(shared.watch("3", Some(&Cursor::new(7_u64))).ended(), StoreErrorKind::Expired);
}

/// Starts a watch of "jobs" on a shared watch that reports the record and then runs `script`.
fn scripted(
    script: impl Fn(VersionedRecord, &CancelToken, &mut dyn FnMut(WatchEvent)) + Send + Sync + 'static,
) -> Watching {
    let shared = Collection::new();
    let (memory, first) = (Arc::clone(&shared.memory), shared.write("jobs"));
    let store = Wrapped::watching(Arc::clone(&shared.memory), move |_, cancel, on_event| {
        let observed = memory.get("jobs", &call()).expect("an answer").expect("a record");
        on_event(WatchEvent::Opened);
        on_event(WatchEvent::Changed { key: "jobs".into(), observed: observed.clone() });
        script(observed, cancel, on_event);
        Err(StoreError::new(StoreErrorKind::Unavailable, "as planned"))
    });
    let watch = Collection { store: Arc::new(SharedWatch::new(store)), ..shared }.watch("jobs", None).opened();
    watch.assert_changed(first);
    watch
}

/// A server may send a release and close the connection in the same packet.
#[test]
fn event_before_the_end_of_the_watch_is_delivered() {
    for _ in 0..50 {
        let (go, goes) = bounded::<()>(1);
        let watch = scripted(move |mut observed, _, on_event| {
            let _ = goes.recv_timeout(SOON);
            observed.version += 1;
            on_event(WatchEvent::Changed { key: "jobs".into(), observed });
        });
        go.send(()).expect("a watch");
        assert!(watch.change().0 > 1);
        assert_eq!(watch.ended(), StoreErrorKind::Unavailable);
    }
}

/// The next watch of all keys starts from scratch, so it does not report the deletion.
#[test]
fn deletion_after_a_watch_without_a_position_is_noticed() {
    let shared = Collection::new();
    let (memory, first, is_second) = (Arc::clone(&shared.memory), shared.write("jobs"), AtomicBool::new(false));
    let (end, ended) = bounded::<()>(0);
    let store = Wrapped::watching(Arc::clone(&shared.memory), move |from, cancel, on_event| {
        if is_second.swap(true, Ordering::SeqCst) {
            return memory.watch(WatchScope::All, from, cancel, on_event);
        }
        let observed = memory.get("jobs", &call()).expect("an answer").expect("a record");
        on_event(WatchEvent::Opened);
        on_event(WatchEvent::Changed { key: "jobs".into(), observed });
        let _ = ended.recv_timeout(SOON);
        Err(StoreError::new(StoreErrorKind::Unavailable, "as planned"))
    });
    let shared = Collection { store: Arc::new(SharedWatch::new(store)), ..shared };
    let watch = shared.watch("jobs", None).opened();
    let cursor = watch.assert_changed(first);
    drop(end);
    assert_eq!(watch.ended(), StoreErrorKind::Unavailable);
    assert!(shared.memory.delete("jobs"));
    let resumed = shared.watch("jobs", Some(&cursor));
    wait_until("the end", || resumed.ended.is_finished());
    assert_eq!(resumed.ended(), StoreErrorKind::Expired);
}

/// Bookmarks are the only sign of contact if no record changes.
#[test]
fn bookmarks_of_the_shared_watch_are_passed_on() {
    let watch = scripted(|_, cancel, on_event| {
        while !cancel.is_cancelled() {
            on_event(WatchEvent::Bookmark(Cursor::new(1_u64)));
            thread::sleep(Duration::from_millis(20));
        }
    });
    assert!(matches!(watch.next(), WatchEvent::Bookmark(_)));
    thread::sleep(A_WHILE);
    assert!(watch.events.len() < 2, "not each bookmark wakes each watch");
    watch.end();
}

/// Without this, a connection that is broken without an error would leave all electors without events.
#[test]
fn silent_watch_is_replaced_after_a_known_change() {
    let shared = Collection::new();
    let watch = shared.watch("a", None).opened();
    let cursor = watch.assert_changed(shared.write("a"));
    shared.control.is_silent.store(true, Ordering::SeqCst);
    let began = Instant::now();
    while !watch.ended.is_finished() {
        assert!(began.elapsed() < SOON, "the watch does not end");
        shared.write("a");
        thread::sleep(Duration::from_millis(100));
    }
    assert!(began.elapsed() > Duration::from_secs(4), "{:?}", began.elapsed());
    let error = watch.error();
    assert_eq!(error.kind(), StoreErrorKind::Timeout);
    let (all, hint) = ("cannot watch all keys: ", "; a proxy may buffer the events");
    assert!(error.to_string().starts_with(all) && error.to_string().ends_with(hint), "{error}");
    wait_until("the watch of all keys ends", || shared.control.running.load(Ordering::SeqCst) == 0);
    shared.control.is_silent.store(false, Ordering::SeqCst);
    let newest = shared.write("a");
    let watch = shared.watch("a", Some(&cursor)).opened();
    while watch.change().0 < newest as i64 {}
    assert_eq!(watch.end(), StoreErrorKind::Interrupted);
}

#[test]
fn watches_survive_a_normal_end_of_a_lasting_watch() {
    let shared = Collection::new();
    let watch = shared.watch("a", None).opened();
    // Each watch starts at the end of the one before.
    for watches in 2..=3 {
        let last = shared.write("a");
        watch.assert_changed(last);
        thread::sleep(Duration::from_millis(1100));
        shared.end(Ok(()));
        wait_until("a restart", || shared.control.started.lock().len() == watches);
        assert_eq!(shared.control.started.lock()[watches - 1], Some(last));
    }
    watch.assert_changed(shared.write("a"));
    // A watch that lasts less than a second is not resumed at once.
    wait_until("an end", || {
        shared.end(Ok(()));
        watch.ended.is_finished()
    });
    watch.ended.join().expect("no panic").expect("a normal end");
}

// ---- releases ----

fn leaders(count: usize) -> (Vec<Memory>, Vec<LeaderElector>, Vec<LeaderGuard>) {
    (0..count).map(|_| crate::elector::leading()).collect()
}

#[test]
fn release_all_with_a_panicking_iterator_leaves_no_elector_busy() {
    let (_stores, electors, mut guards) = leaders(1);
    let guards = [guards.pop(), None].into_iter().map(|guard| guard.expect("the iterator fails"));
    catch_unwind(AssertUnwindSafe(|| release_all(guards, SOON))).expect_err("a panic");
    drop(electors[0].campaign().expect("the guard was dropped"));
}

#[test]
fn release_all_starts_every_release_before_it_waits() {
    let (stores, _electors, guards) = leaders(5);
    let barrier = Arc::new(Barrier::new(5));
    for store in &stores {
        let barrier = Arc::clone(&barrier);
        store.on_release(move || _ = barrier.wait());
    }
    let (done, is_done) = bounded(1);
    thread::spawn(move || done.send(release_all(guards, SOON * 4)));
    let released = is_done.recv_timeout(SOON).expect("no release waits for another");
    assert!(released.len() == 5 && released.iter().all(Result::is_ok), "{released:?}");
    assert!(stores.iter().all(|store| store.holder().is_none()));
}

#[test]
fn hanging_renewals_do_not_delay_the_release_of_many() {
    let (stores, _electors, guards) = leaders(5);
    stores.iter().for_each(Memory::hang_next_update);
    let views: Vec<_> = guards.iter().map(LeaderGuard::leadership).collect();
    let released = release_all(guards, SOON);
    assert!(released.iter().all(Result::is_ok), "{released:?}");
    assert!(stores.iter().all(|store| store.holder().is_none()) && !views.iter().any(|view| view.is_leader()));
}

#[test]
fn release_all_returns_at_its_timeout_and_reports_each() {
    let (stores, electors, guards) = leaders(3);
    let (go_on, goes_on) = bounded::<()>(0);
    stores[1].on_update(move |_| {
        assert_eq!(goes_on.recv_timeout(SOON), Err(RecvTimeoutError::Disconnected));
        Ok(())
    });
    let began = Instant::now();
    let released = release_all(guards, A_WHILE);
    assert!((A_WHILE..AT_ONCE).contains(&began.elapsed()), "{:?}", began.elapsed());
    let [Ok(()), Err(Error::ReleaseTimeout { waited: A_WHILE }), Ok(())] = &released[..] else {
        panic!("{released:?}");
    };
    assert!(release_all([], SOON).is_empty());
    drop(go_on);
    assert!(electors[1].block_until_leader().expect("not busy").is_leader());
}
