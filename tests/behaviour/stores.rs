//! What every store owes an election: the same tests on every kind of object on both servers, and on memory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, unbounded};
use leasehold::kube::{Method, Request};
use leasehold::{
    Call, Cancel, Cursor, LeaderElectionRecord, LeaderElector, LeaderGuard, LeaseStore, MemoryStore, MicroTime,
    Observed, Store, StoreError, StoreErrorKind, WatchEvent, WatchScope,
};
use serde_json::json;

use crate::on_both_servers;
use crate::support::SOON;
use crate::support::cluster::{Cluster, NAMESPACE, request};
use crate::support::kind::Kind;

/// A store, and a key that is a test's own: others begin with it.
struct Table {
    store: Arc<dyn Store>,
    key: String,
    /// Deletes a record, past the store.
    delete: Box<dyn Fn(&str) + Send + Sync>,
}

impl Table {
    fn of(cluster: &Cluster, kind: Kind) -> Self {
        let store = kind.store(cluster.client("admin"));
        let admin = cluster.client("admin");
        let delete = move |key: &str| {
            let path = format!("{}/{key}", kind.collection());
            request(&admin, Method::Delete, &path, None).expect("an object to delete");
        };
        Self { store, key: cluster.lease.clone(), delete: Box::new(delete) }
    }

    fn in_memory() -> Self {
        let store = Arc::new(MemoryStore::new());
        let same = Arc::clone(&store);
        let delete = move |key: &str| assert!(same.delete(key), "a record to delete");
        Self { store: Arc::new(Box::new(store)), key: "jobs".to_owned(), delete: Box::new(delete) }
    }

    fn get(&self, key: &str) -> Option<Observed> {
        self.store.get(key, &call()).expect("an answer")
    }

    fn create(&self, key: &str, record: &LeaderElectionRecord) -> Result<Observed, StoreError> {
        self.store.create(key, record, &call())
    }

    fn update(&self, base: &Observed, record: &LeaderElectionRecord) -> Result<Observed, StoreError> {
        self.store.update(&self.key, base, record, &call())
    }

    fn delete(&self) {
        (self.delete)(&self.key);
    }

    /// What a watch tells, until `see` has been seen to return.
    fn watching<T>(
        &self,
        scope: WatchScope<'_>,
        from: Option<&Cursor>,
        see: impl FnOnce(&Receiver<WatchEvent>) -> T,
    ) -> T {
        let cancel = Cancel::new();
        let (told, tells) = unbounded();
        thread::scope(|threads| {
            let watch = threads.spawn(|| self.store.watch(scope, from, &cancel, &mut |event| drop(told.send(event))));
            let first = tells.recv_timeout(SOON);
            assert!(matches!(first, Ok(WatchEvent::Opened)), "{first:?}");
            let seen = see(&tells);
            cancel.cancel();
            let ended = watch.join().expect("no panic").expect_err("it was cancelled");
            assert_eq!(ended.kind(), StoreErrorKind::Interrupted);
            seen
        })
    }
}

fn call() -> Call {
    Call::new(Duration::from_secs(20), Cancel::new())
}

fn held_by(identity: &str) -> LeaderElectionRecord {
    LeaderElectionRecord {
        uid: None,
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: Some(15),
        acquire_time: Some(MicroTime::from_unix_micros(1_700_000_000_000_001)),
        renew_time: Some(MicroTime::from_unix_micros(1_700_000_000_999_999)),
        lease_transitions: Some(3),
    }
}

/// The next event about a record, and the last cursor before it.
fn next(tells: &Receiver<WatchEvent>) -> (String, Option<Observed>, u64) {
    loop {
        match tells.recv_timeout(SOON).expect("an event") {
            WatchEvent::Changed { key, observed } => {
                let version = observed.version;
                return (key.into(), Some(observed), version);
            }
            WatchEvent::Deleted { key, version } => return (key.into(), None, version),
            _ => {}
        }
    }
}

fn cursor(tells: &Receiver<WatchEvent>) -> Cursor {
    loop {
        if let WatchEvent::Progress(cursor) = tells.recv_timeout(SOON).expect("a cursor") {
            return cursor;
        }
    }
}

fn kind(result: Result<Observed, StoreError>) -> StoreErrorKind {
    result.expect_err("it is refused").kind()
}

/// Nothing was created, or replaced, and the store may be certain of that.
fn assert_beaten(result: Result<Observed, StoreError>, or: StoreErrorKind, why: &str) {
    let kind = kind(result);
    assert!(kind == or || kind == StoreErrorKind::NotApplied, "{why}: {kind:?}");
}

macro_rules! on_every_kind {
    ($kind:ident $value:expr; $($test:ident),*) => {
        mod $kind {
            use super::*;
            $(fn $test(cluster: &Cluster) { duties::$test(&Table::of(cluster, $value)) })*
            on_both_servers!($($test),*);
        }
    };
    ($kind:ident $value:expr, $($more:ident $others:expr),*; $($test:ident),*) => {
        on_every_kind!($kind $value; $($test),*);
        on_every_kind!($($more $others),*; $($test),*);
    };
}

macro_rules! on_every_store {
    ($($test:ident),* $(,)?) => {
        on_every_kind!(leases Kind::Lease, config_maps Kind::ConfigMap, endpoints Kind::Endpoints; $($test),*);
        mod memory {
            $(#[test] fn $test() { super::duties::$test(&super::Table::in_memory()); })*
        }
    };
}

on_every_store!(
    what_was_written_is_read,
    what_exists_is_not_created,
    what_has_moved_is_not_updated,
    what_is_gone_is_not_updated,
    versions_grow_over_deletion,
    keys_are_apart,
    a_watch_tells_what_is_there_and_what_comes,
    a_watch_goes_on_behind_its_cursor,
    a_watch_of_all_tells_of_all,
);

on_both_servers!(an_update_keeps_what_others_have_put_there, one_client_serves_many_leases);

mod duties {
    use super::*;

    pub fn what_was_written_is_read(table: &Table) {
        assert!(table.get(&table.key).is_none());
        let created = table.create(&table.key, &held_by("a")).expect("a record");
        assert!(created.record.uid.is_some());
        assert_eq!(LeaderElectionRecord { uid: None, ..created.record.clone() }, held_by("a"));
        let read = table.get(&table.key).expect("a record");
        assert_eq!((&read.record, read.version), (&created.record, created.version));
        let written = table.update(&read, &held_by("b")).expect("an update");
        assert!(written.version > created.version);
        assert_eq!(written.record, LeaderElectionRecord { uid: created.record.uid, ..held_by("b") });
        assert_eq!(table.get(&table.key).expect("a record").record, written.record);
    }

    pub fn what_exists_is_not_created(table: &Table) {
        table.create(&table.key, &held_by("a")).expect("a record");
        assert_beaten(table.create(&table.key, &held_by("b")), StoreErrorKind::AlreadyExists, "it exists");
        assert_eq!(table.get(&table.key).expect("a record").record.holder(), Some("a"));
    }

    pub fn what_has_moved_is_not_updated(table: &Table) {
        let base = table.create(&table.key, &held_by("a")).expect("a record");
        table.update(&base, &held_by("b")).expect("an update");
        assert_beaten(table.update(&base, &held_by("c")), StoreErrorKind::Conflict, "it has moved");
        assert_eq!(table.get(&table.key).expect("a record").record.holder(), Some("b"));
    }

    pub fn what_is_gone_is_not_updated(table: &Table) {
        let base = table.create(&table.key, &held_by("a")).expect("a record");
        table.delete();
        assert_beaten(table.update(&base, &held_by("b")), StoreErrorKind::Conflict, "it is gone");
        assert!(table.get(&table.key).is_none());
        table.create(&table.key, &held_by("a")).expect("another record");
        assert_beaten(table.update(&base, &held_by("b")), StoreErrorKind::Conflict, "it has another uid");
    }

    pub fn versions_grow_over_deletion(table: &Table) {
        let before = table.create(&table.key, &held_by("a")).expect("a record");
        table.delete();
        let after = table.create(&table.key, &held_by("a")).expect("another record");
        assert!(after.version > before.version + 1, "the deletion is a write, too");
        assert_ne!(after.record.uid, before.record.uid);
    }

    pub fn keys_are_apart(table: &Table) {
        let other = format!("{}-other", table.key);
        let base = table.create(&table.key, &held_by("a")).expect("a record");
        table.create(&other, &held_by("b")).expect("a record of another key");
        assert_eq!(table.get(&table.key).expect("a record").version, base.version);
        table.update(&base, &held_by("c")).expect("an update");
        assert_eq!(table.get(&other).expect("a record").record.holder(), Some("b"));
    }

    pub fn a_watch_tells_what_is_there_and_what_comes(table: &Table) {
        let other = format!("{}-other", table.key);
        let first = table.create(&table.key, &held_by("a")).expect("a record");
        table.watching(WatchScope::Key(&table.key), None, |tells| {
            let (key, told, version) = next(tells);
            assert_eq!((key, version), (table.key.clone(), first.version));
            assert_eq!(told.expect("a record").record, first.record);
            table.create(&other, &held_by("b")).expect("a record that is not asked for");
            let second = table.update(&first, &held_by("c")).expect("an update");
            let (key, told, version) = next(tells);
            assert_eq!((key, version), (table.key.clone(), second.version));
            // What is told is a base like what is read.
            let third = table.update(&told.expect("a record"), &held_by("d")).expect("an update");
            assert_eq!(next(tells).2, third.version);
            table.delete();
            let (key, told, version) = next(tells);
            assert!(key == table.key && told.is_none() && version > third.version, "{key} {told:?} {version}");
        });
    }

    pub fn a_watch_goes_on_behind_its_cursor(table: &Table) {
        let first = table.create(&table.key, &held_by("a")).expect("a record");
        let scope = WatchScope::Key(&table.key);
        let from = table.watching(scope, None, |tells| {
            next(tells);
            cursor(tells)
        });
        let second = table.update(&first, &held_by("b")).expect("an update");
        let third = table.update(&second, &held_by("c")).expect("an update");
        let again = table.watching(scope, Some(&from), |tells| {
            assert_eq!([next(tells).2, next(tells).2], [second.version, third.version]);
            cursor(tells)
        });
        table.delete();
        table.watching(scope, Some(&again), |tells| assert!(next(tells).1.is_none(), "the deletion"));
    }

    pub fn a_watch_of_all_tells_of_all(table: &Table) {
        let other = format!("{}-other", table.key);
        table.create(&table.key, &held_by("a")).expect("a record");
        table.watching(WatchScope::All, None, |tells| {
            table.create(&other, &held_by("b")).expect("another record");
            // A server that others use tells of theirs, too.
            let mut wanted = vec![other.clone(), table.key.clone()];
            while !wanted.is_empty() {
                let (key, _, _) = next(tells);
                wanted.retain(|it| *it != key);
            }
        });
    }
}

/// Labels, and who manages what: our updates carry no `managedFields`.
fn an_update_keeps_what_others_have_put_there(cluster: &Cluster) {
    cluster.create(json!({ "holderIdentity": "a" }));
    let admin = cluster.client("admin");
    let mut lease = cluster.lease().expect("a lease");
    lease["metadata"]["labels"] = json!({ "team": "blue" });
    let somebody = Request {
        method: Method::Put,
        path: &cluster.path(true),
        query: &[("fieldManager", "somebody")],
        body: Some(&lease),
        timeout: SOON,
    };
    admin.request(somebody).expect("an update");
    let managers = || {
        let lease = cluster.lease().expect("a lease");
        let managers = lease["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        managers.iter().map(|entry| entry["manager"].to_string()).collect::<Vec<_>>()
    };
    let before = managers();
    assert!(cluster.in_memory_server().is_some() || before.iter().any(|it| it.contains("somebody")), "{before:?}");
    let table = Table::of(cluster, Kind::Lease);
    let base = table.get(&table.key).expect("a record");
    table.update(&base, &held_by("b")).expect("an update");
    let lease = cluster.lease().expect("a lease");
    assert_eq!(lease["metadata"]["labels"]["team"], "blue");
    assert_eq!(lease["spec"]["holderIdentity"], "b");
    let after = managers();
    assert!(before.iter().all(|it| after.contains(it)), "{before:?} {after:?}");
}

/// Several electors on one store of one client, and each its own term.
fn one_client_serves_many_leases(cluster: &Cluster) {
    let store = Arc::new(LeaseStore::new(cluster.client("admin"), NAMESPACE).expect("a store"));
    let electors: Vec<_> = (0..4)
        .map(|number| {
            let builder = LeaderElector::builder(format!("{}-{number}", cluster.lease));
            builder.lease_duration(Duration::from_secs(60)).renew_interval(Duration::from_millis(50))
        })
        .map(|builder| builder.start_on(Arc::clone(&store)).expect("an elector"))
        .collect();
    let lead = |elector: &LeaderElector| elector.block_until_leader().expect("a term");
    let mut guards: VecDeque<_> = electors.iter().map(lead).collect();
    for elector in electors.iter().cycle().take(20) {
        let guard = guards.pop_front().expect("a guard");
        let token = guard.fencing_token();
        guard.release().expect("a release");
        let guard = lead(elector);
        assert!(guard.fencing_token() > token);
        guards.push_back(guard);
        assert!(guards.iter().all(LeaderGuard::is_leader));
    }
}
