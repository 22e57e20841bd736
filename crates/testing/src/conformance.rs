//! Checks that a [`Store`] does all that an election needs.
//!
//! [`check`] runs all checks. To make each check a test of its own, pass the names in [`CHECKS`] to [`check_one`].
//!
//! # Examples
//!
//! A complete store and its check:
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::sync::{Arc, Mutex};
//! use leasehold_testing::conformance::{Table, check};
//! use leasehold::store::{
//!     CallContext, LeaderElectionRecord, RecordWrite, Store, StoreData, StoreError, StoreErrorKind, VersionedRecord,
//! };
//! use leasehold::ConfigError;
//!
//! #[derive(Default)]
//! struct InMemory(Mutex<(u64, BTreeMap<String, VersionedRecord>)>);
//!
//! impl InMemory {
//!     fn write(&self, key: &str, base: Option<&VersionedRecord>, record: &LeaderElectionRecord) -> Result<VersionedRecord, StoreError> {
//!         let (version, records) = &mut *self.0.lock().unwrap();
//!         // Compare-and-swap on the observed version and record, or on an absent record.
//!         let current = records.get(key).map(|it| (it.version, &it.record));
//!         if current != base.map(|it| (it.version, &it.record)) {
//!             return Err(StoreError::new(StoreErrorKind::NotApplied, format!("{key} has moved")));
//!         }
//!         // One counter for all keys, which never falls, not even after a deletion.
//!         *version += 1;
//!         let uid = base.map_or_else(|| Some(version.to_string()), |base| base.record.uid.clone());
//!         let observed = VersionedRecord::new(LeaderElectionRecord { uid, ..record.clone() }, *version, StoreData::none());
//!         records.insert(key.to_owned(), observed.clone());
//!         Ok(observed)
//!     }
//!
//!     fn delete(&self, key: &str) {
//!         let (version, records) = &mut *self.0.lock().unwrap();
//!         *version += 1;
//!         records.remove(key);
//!     }
//! }
//!
//! impl Store for InMemory {
//!     fn get(&self, key: &str, _: &CallContext) -> Result<Option<VersionedRecord>, StoreError> {
//!         Ok(self.0.lock().unwrap().1.get(key).cloned())
//!     }
//!     fn create(&self, key: &str, write: RecordWrite<'_>, _: &CallContext) -> Result<VersionedRecord, StoreError> {
//!         self.write(key, None, write.record)
//!     }
//!     fn update(&self, key: &str, base: &VersionedRecord, write: RecordWrite<'_>, _: &CallContext) -> Result<VersionedRecord, StoreError> {
//!         self.write(key, Some(base), write.record)
//!     }
//!     fn check_key(&self, _: &str) -> Result<(), ConfigError> {
//!         Ok(())
//!     }
//!     fn describe(&self, key: &str) -> String {
//!         format!("{key} in a map")
//!     }
//! }
//!
//! check(|key| {
//!     let store = Arc::new(InMemory::default());
//!     let same = Arc::clone(&store);
//!     Table::new(store, key, move |key| same.delete(key))
//! });
//! ```

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use std::sync::Arc;

use crossbeam_channel::{Receiver, unbounded};
use leasehold::LeaderElector;
use leasehold::store::{
    CallContext, CancelToken, Cursor, LeaderElectionRecord, MicroTime, RecordNotes, Store, StoreError, StoreErrorKind,
    TermNotes, VersionedRecord, WatchEvent, WatchScope,
};

use serde_json::json;

use crate::util::OnDrop;

/// A time within which every expected event happens, even on a slow and busy machine.
const SOON: Duration = Duration::from_secs(30);

/// A store under test, and the keys that a check may use.
pub struct Table {
    store: Arc<dyn Store>,
    key: String,
    delete: Box<dyn Fn(&str) + Send + Sync>,
    delivers_every_change: bool,
}

/// The names of all checks.
pub const CHECKS: [&str; 18] = {
    let mut names = [""; 18];
    let mut index = 0;
    while index < names.len() {
        names[index] = ALL[index].0;
        index += 1;
    }
    names
};

type Check = (&'static str, fn(&Table));

const ALL: [Check; 18] = [
    ("written_record_is_read", written_record_is_read),
    ("any_record_round_trips", any_record_round_trips),
    ("existing_record_is_not_created", existing_record_is_not_created),
    ("changed_record_is_not_updated", changed_record_is_not_updated),
    ("deleted_record_is_not_updated", deleted_record_is_not_updated),
    ("versions_grow_over_deletion", versions_grow_over_deletion),
    ("notes_are_beside_the_record", notes_are_beside_the_record),
    ("keys_are_apart", keys_are_apart),
    ("concurrent_writes_are_serialized", concurrent_writes_are_serialized),
    ("call_without_time_ends", call_without_time_ends),
    ("cancelled_call_ends_and_disturbs_no_other", cancelled_call_ends_and_disturbs_no_other),
    ("watch_delivers_existing_and_later_changes", watch_delivers_existing_and_later_changes),
    ("watch_resumes_after_its_cursor", watch_resumes_after_its_cursor),
    ("watch_of_all_delivers_all_keys", watch_of_all_delivers_all_keys),
    ("watch_of_prefix_delivers_only_its_keys", watch_of_prefix_delivers_only_its_keys),
    ("watch_cancelled_before_its_start_ends", watch_cancelled_before_its_start_ends),
    ("electors_take_turns", electors_take_turns),
    ("deletion_ends_a_term", deletion_ends_a_term),
];

/// Runs all checks on a store.
///
/// `table` is called once per check, with a key. The store must contain no key that starts with the given key.
///
/// # Panics
///
/// Panics with the names and causes of the failed checks.
pub fn check(table: impl Fn(&str) -> Table) {
    let failed = |(name, run): &Check| {
        let key = name.replace('_', "-");
        let panic = catch_unwind(AssertUnwindSafe(|| run(&table(&key)))).err()?;
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref().copied()).unwrap_or("panicked");
        Some(format!("{name}: {text}"))
    };
    let failed: Vec<_> = ALL.iter().filter_map(failed).collect();
    assert!(failed.is_empty(), "{} of {} checks failed:\n{}", failed.len(), ALL.len(), failed.join("\n"));
}

/// Runs the check `name`.
///
/// # Panics
///
/// Panics if the check fails, or if no check has this name.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use leasehold::store::MemoryStore;
/// use leasehold_testing::conformance::{Table, check_one};
///
/// let store = Arc::new(MemoryStore::new());
/// let same = Arc::clone(&store);
/// check_one("versions_grow_over_deletion", &Table::new(store, "jobs", move |key| assert!(same.delete(key))));
/// ```
pub fn check_one(name: &str, table: &Table) {
    let found = ALL.iter().find(|(known, _)| *known == name);
    let (_, run) = found.unwrap_or_else(|| panic!("unknown check {name:?}"));
    run(table);
}

impl Table {
    /// Creates a table of the records of `store` whose keys start with `key`.
    ///
    /// `delete` deletes a record as an operator would, without the knowledge of an elector.
    pub fn new(store: impl Store, key: impl Into<String>, delete: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { store: Arc::new(store), key: key.into(), delete: Box::new(delete), delivers_every_change: false }
    }

    /// Makes the checks require that watches deliver every change.
    ///
    /// A watch that compares snapshots may skip a change between two snapshots.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::store::MemoryStore;
    /// use leasehold_testing::conformance::{Table, check_one};
    ///
    /// let table = Table::new(MemoryStore::new(), "jobs", |_| {}).delivers_every_change();
    /// check_one("written_record_is_read", &table);
    /// ```
    #[must_use]
    pub fn delivers_every_change(self) -> Self {
        Self { delivers_every_change: true, ..self }
    }

    fn get(&self, key: &str) -> Option<VersionedRecord> {
        self.store.get(key, &call()).expect("an answer")
    }

    fn create(&self, key: &str, record: &LeaderElectionRecord) -> Result<VersionedRecord, StoreError> {
        self.store.create(key, record.as_write(), &call())
    }

    fn update(&self, base: &VersionedRecord, record: &LeaderElectionRecord) -> Result<VersionedRecord, StoreError> {
        self.store.update(&self.key, base, record.as_write(), &call())
    }

    fn delete(&self) {
        (self.delete)(&self.key);
    }

    /// Passes the events of a watch to `see` until `see` returns.
    ///
    /// Returns `None` if the store cannot watch, or if a watch that compares snapshots cannot resume.
    fn watching<T>(
        &self,
        scope: WatchScope<'_>,
        from: Option<&Cursor>,
        see: impl FnOnce(&Receiver<WatchEvent>) -> T,
    ) -> Option<T> {
        let cancel = CancelToken::new();
        let (sender, events) = unbounded();
        thread::scope(|threads| {
            let watch = threads.spawn(|| {
                let sender = sender;
                self.store.watch(scope, from, &cancel, &mut |event| drop(sender.send(event)))
            });
            let Ok(first) = events.recv_timeout(SOON) else {
                cancel.cancel();
                let ended = watch.join().expect("no panic").expect_err("the watch delivered nothing");
                let cannot_resume =
                    from.is_some() && !self.delivers_every_change && ended.kind() == StoreErrorKind::Expired;
                assert!(cannot_resume || ended.kind() == StoreErrorKind::Unsupported, "{ended}");
                return None;
            };
            // The scope waits for the watch even if a check below panics.
            let cancelled = OnDrop(|| cancel.cancel());
            assert!(matches!(first, WatchEvent::Opened), "{first:?} before `Opened`");
            let seen = see(&events);
            drop(cancelled);
            let ended = watch.join().expect("no panic").expect_err("it was cancelled");
            assert_eq!(ended.kind(), StoreErrorKind::Interrupted, "{ended}");
            Some(seen)
        })
    }

    fn elector(&self, identity: &str) -> LeaderElector {
        LeaderElector::builder(self.key.clone())
            .identity(identity)
            .lease_duration(Duration::from_secs(60))
            .retry_period(Duration::from_millis(100))
            .renew_interval(Duration::from_millis(50))
            .release_timeout(Duration::from_secs(20))
            .start_on(Arc::clone(&self.store))
            .expect("an elector")
    }
}

fn call() -> CallContext {
    CallContext::new(Duration::from_secs(20), CancelToken::new())
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

/// Returns the key, record and version of the next event about a record. A deletion has no record.
fn next(events: &Receiver<WatchEvent>) -> (String, Option<VersionedRecord>, u64) {
    loop {
        match events.recv_timeout(SOON).expect("an event") {
            WatchEvent::Changed { key, observed } => {
                let version = observed.version;
                return (key.into(), Some(observed), version);
            }
            WatchEvent::Deleted { key, version } => return (key.into(), None, version),
            _ => {}
        }
    }
}

/// Returns the keys and versions of the records that a watch delivers before `Synced`.
fn existing(events: &Receiver<WatchEvent>) -> BTreeMap<String, u64> {
    let mut existing = BTreeMap::new();
    loop {
        match events.recv_timeout(SOON).expect("an event") {
            WatchEvent::Changed { key, observed } => _ = existing.insert(key.into(), observed.version),
            WatchEvent::Synced => return existing,
            // Other users of a shared server may have records that the store cannot read.
            WatchEvent::Unreadable { .. } => {}
            event => panic!("{event:?} before `Synced`"),
        }
    }
}

/// Returns the key of the next change after `Synced`, and `true` if the record was deleted.
fn later(events: &Receiver<WatchEvent>) -> (String, bool) {
    loop {
        match events.recv_timeout(SOON).expect("an event") {
            WatchEvent::Changed { key, .. } => return (key.into(), false),
            WatchEvent::Deleted { key, .. } => return (key.into(), true),
            WatchEvent::Bookmark(_) | WatchEvent::Unreadable { .. } => {}
            event => panic!("{event:?} after `Synced`"),
        }
    }
}

fn cursor(events: &Receiver<WatchEvent>) -> Cursor {
    loop {
        if let WatchEvent::Bookmark(cursor) = events.recv_timeout(SOON).expect("a cursor") {
            return cursor;
        }
    }
}

/// Asserts that `result` is an error of the kind `or` or `NotApplied`. Both kinds mean that nothing was written.
fn assert_beaten(result: Result<VersionedRecord, StoreError>, or: StoreErrorKind, why: &str) {
    let Err(error) = result else { panic!("write succeeded although {why}") };
    let kind = error.kind();
    assert!(kind == or || kind == StoreErrorKind::NotApplied, "{why}: {kind:?}");
}

fn written_record_is_read(table: &Table) {
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

/// Checks unusual records, because users choose identities and clocks may be wrong.
fn any_record_round_trips(table: &Table) {
    let long = "é".repeat(500);
    let times = [0, 1, 253_402_300_799_999_999].map(|micros| Some(MicroTime::from_unix_micros(micros)));
    let mut records = vec![LeaderElectionRecord {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        ..held_by("")
    }];
    for identity in ["\"quoted\" 'and' \\escaped\\", "a b\tc\nd", "$1; DROP TABLE leasehold; --", "日本 🙂", &long]
    {
        records.push(held_by(identity));
    }
    for time in times {
        records.push(LeaderElectionRecord { acquire_time: time.clone(), renew_time: time, ..held_by("a") });
    }
    records.push(LeaderElectionRecord {
        lease_duration_seconds: Some(i32::MAX),
        lease_transitions: Some(i32::MAX),
        ..held_by("a")
    });
    let mut base = table.create(&table.key, &held_by("first")).expect("a record");
    for record in records {
        base = table.update(&base, &record).expect("an update");
        let expected = LeaderElectionRecord { uid: base.record.uid.clone(), ..record };
        assert_eq!(base.record, expected, "the read record is not the record that the write returned");
        assert_eq!(table.get(&table.key).expect("a record").record, expected);
    }
}

fn existing_record_is_not_created(table: &Table) {
    table.create(&table.key, &held_by("a")).expect("a record");
    assert_beaten(table.create(&table.key, &held_by("b")), StoreErrorKind::AlreadyExists, "the key exists");
    assert_eq!(table.get(&table.key).expect("a record").record.holder(), Some("a"));
}

fn changed_record_is_not_updated(table: &Table) {
    let base = table.create(&table.key, &held_by("a")).expect("a record");
    table.update(&base, &held_by("b")).expect("an update");
    assert_beaten(table.update(&base, &held_by("c")), StoreErrorKind::Conflict, "the record has changed");
    assert_eq!(table.get(&table.key).expect("a record").record.holder(), Some("b"));
}

fn deleted_record_is_not_updated(table: &Table) {
    let base = table.create(&table.key, &held_by("a")).expect("a record");
    table.delete();
    assert_beaten(table.update(&base, &held_by("b")), StoreErrorKind::Conflict, "the record was deleted");
    assert!(table.get(&table.key).is_none());
    table.create(&table.key, &held_by("a")).expect("another record");
    assert_beaten(table.update(&base, &held_by("b")), StoreErrorKind::Conflict, "the record has another uid");
}

fn versions_grow_over_deletion(table: &Table) {
    let before = table.create(&table.key, &held_by("a")).expect("a record");
    table.delete();
    let after = table.create(&table.key, &held_by("a")).expect("another record");
    assert!(after.version > before.version + 1, "the deletion has a version, too");
    assert_ne!(after.record.uid, before.record.uid);
}

/// Passes for a store that does not keep notes, if the store then returns none.
fn notes_are_beside_the_record(table: &Table) {
    let (store, key) = (&table.store, &table.key);
    let record = held_by("a");
    let notes = |address: Option<&str>, step_down: Option<&str>| {
        let mut notes = RecordNotes::default();
        notes.term.address = address.map(str::to_owned);
        notes.step_down = step_down.map(str::to_owned);
        notes
    };
    let mut written = all_notes();
    let mut base = store.create(key, record.with_notes(&written), &call()).expect("a record");
    for next in [
        notes(Some("host:2"), Some("b")),
        notes(None, Some("b")),
        notes(Some("host:1"), None),
        notes(None, None),
        without_term(all_notes()),
        all_notes(),
    ] {
        let read = table.get(key).expect("the record");
        let expected = if store.keeps_notes() { written } else { RecordNotes::default() };
        assert_eq!((&*base.notes, &*read.notes), (&expected, &expected), "answer and read");
        assert!(
            read.record == base.record && LeaderElectionRecord { uid: None, ..read.record } == record,
            "notes are not part of the record"
        );
        let before = base.version;
        base = store.update(key, &base, record.with_notes(&next), &call()).expect("an update");
        assert!(base.version > before, "a change of notes raises the version");
        written = next;
    }
    let later = LeaderElectionRecord { acquire_time: Some(MicroTime::from_unix_micros(7)), ..record };
    base = store.update(key, &base, later.with_notes(&all_notes()), &call()).expect("an update");
    assert_eq!(base.notes.term.address.is_some(), store.keeps_notes(), "an address of the new term");
    let released = LeaderElectionRecord { holder_identity: Some(String::new()), ..later };
    base = store.update(key, &base, released.with_notes(&all_notes()), &call()).expect("an update");
    let expected = if store.keeps_notes() { without_term(all_notes()) } else { RecordNotes::default() };
    assert_eq!(*base.notes, expected, "a record without a holder has no term");
}

/// Returns every note of a record of `a`, and notes of a later version.
fn all_notes() -> RecordNotes {
    let note = |time: u64| json!(MicroTime::from_unix_micros(time).as_str());
    let record = held_by("a");
    let json = json!({
        "job": {
            "periodSeconds": 86_400, "attempts": 2, "firstAttemptStart": note(1),
            "lastAttemptHost": "host-1", "lastAttemptStart": note(3), "lastAttemptExitCode": -1,
            "lastSuccessHost": "host-2", "lastSuccessStart": note(4), "lastSuccessEnd": note(5), "later": [1, "ä"],
        },
        "note": {
            "acquireTime": record.acquire_time.as_ref().map(MicroTime::as_str), "holder": "a",
            "acceptsRequests": true, "acceptsRequestsAfterSeconds": 15, "address": "host:1 \"ä\"",
            "maxShards": 0, "shards": 64, "later": [1, "ä"],
        },
        "stepDown": "a",
    });
    RecordNotes::from_json(&json.to_string(), &record)
}

fn without_term(mut notes: RecordNotes) -> RecordNotes {
    notes.term = TermNotes::default();
    notes
}

fn keys_are_apart(table: &Table) {
    let other = format!("{}-other", table.key);
    let base = table.create(&table.key, &held_by("a")).expect("a record");
    table.create(&other, &held_by("b")).expect("a record of another key");
    assert_eq!(table.get(&table.key).expect("a record").version, base.version);
    table.update(&base, &held_by("c")).expect("an update");
    assert_eq!(table.get(&other).expect("a record").record.holder(), Some("b"));
}

fn concurrent_writes_are_serialized(table: &Table) {
    let first = LeaderElectionRecord { lease_transitions: Some(0), ..held_by("a") };
    table.create(&table.key, &first).expect("a record");
    let count_up = |identity: &str| {
        for _ in 0..10 {
            loop {
                let base = table.get(&table.key).expect("a record");
                let count = base.record.lease_transitions.expect("a count");
                let record = LeaderElectionRecord { lease_transitions: Some(count + 1), ..held_by(identity) };
                match table.update(&base, &record) {
                    Ok(_) => break,
                    Err(error) => assert!(
                        matches!(
                            error.kind(),
                            StoreErrorKind::Conflict | StoreErrorKind::AlreadyExists | StoreErrorKind::NotApplied
                        ),
                        "{error}"
                    ),
                }
            }
        }
    };
    thread::scope(|threads| {
        for identity in ["a", "b", "c", "d"] {
            threads.spawn(move || count_up(identity));
        }
    });
    assert_eq!(table.get(&table.key).expect("a record").record.lease_transitions, Some(40), "a write was lost");
}

fn call_without_time_ends(table: &Table) {
    let base = table.create(&table.key, &held_by("a")).expect("a record");
    let began = Instant::now();
    for _ in 0..3 {
        let call = CallContext::new(Duration::ZERO, CancelToken::new());
        let _ = table.store.get(&table.key, &call);
        let _ = table.store.update(&table.key, &base, held_by("b").as_write(), &call);
    }
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert!(table.get(&table.key).is_some(), "a call with time left returns");
}

fn cancelled_call_ends_and_disturbs_no_other(table: &Table) {
    table.create(&table.key, &held_by("a")).expect("a record");
    for _ in 0..20 {
        let cancel = CancelToken::new();
        let call = CallContext::new(SOON, cancel.clone());
        thread::scope(|threads| {
            let cancelled = threads.spawn(|| table.store.get(&table.key, &call));
            let other = threads.spawn(|| table.get(&table.key));
            cancel.cancel();
            let began = Instant::now();
            match cancelled.join().expect("no panic") {
                Ok(found) => assert!(found.is_some()),
                Err(error) => assert_eq!(error.kind(), StoreErrorKind::Interrupted, "{error}"),
            }
            assert!(began.elapsed() < SOON / 2, "{:?}", began.elapsed());
            assert!(other.join().expect("no panic").is_some());
        });
    }
}

fn watch_delivers_existing_and_later_changes(table: &Table) {
    let other = format!("{}-other", table.key);
    let first = table.create(&table.key, &held_by("a")).expect("a record");
    table.watching(WatchScope::Key(&table.key), None, |events| {
        let (key, record, version) = next(events);
        assert_eq!((key, version), (table.key.clone(), first.version));
        assert_eq!(record.expect("a record").record, first.record);
        table.create(&other, &held_by("b")).expect("a record that is not asked for");
        let second = table.update(&first, &held_by("c")).expect("an update");
        let (key, record, version) = next(events);
        assert_eq!((key, version), (table.key.clone(), second.version));
        // A record from a watch is a valid base of an update, like a record from a read.
        let third = table.update(&record.expect("a record"), &held_by("d")).expect("an update");
        assert_eq!(next(events).2, third.version);
        table.delete();
        let (key, record, version) = next(events);
        assert!(key == table.key && record.is_none() && version > third.version, "{key} {record:?} {version}");
    });
}

fn watch_resumes_after_its_cursor(table: &Table) {
    let first = table.create(&table.key, &held_by("a")).expect("a record");
    let scope = WatchScope::Key(&table.key);
    let from = table.watching(scope, None, |events| {
        next(events);
        cursor(events)
    });
    let Some(from) = from else { return };
    let second = table.update(&first, &held_by("b")).expect("an update");
    let third = table.update(&second, &held_by("c")).expect("an update");
    let again = table.watching(scope, Some(&from), |events| {
        match table.delivers_every_change {
            true => assert_eq!([next(events).2, next(events).2], [second.version, third.version]),
            // A watch that compares snapshots may skip the second record.
            false => while next(events).2 < third.version {},
        }
        cursor(events)
    });
    let Some(again) = again else { return };
    table.delete();
    table.watching(scope, Some(&again), |events| {
        assert!(next(events).1.is_none(), "the watch did not deliver the deletion")
    });
}

fn watch_of_all_delivers_all_keys(table: &Table) {
    let other = format!("{}-other", table.key);
    table.create(&table.key, &held_by("a")).expect("a record");
    table.watching(WatchScope::All, None, |events| {
        // A shared server also delivers records of other users.
        assert!(existing(events).contains_key(&table.key), "`Synced` precedes an existing record");
        table.create(&other, &held_by("b")).expect("another record");
        while later(events).0 != other {}
    });
}

/// Writes many records, because a store may read the records in pages.
fn watch_of_prefix_delivers_only_its_keys(table: &Table) {
    let (prefix, sibling) = (format!("{}-1", table.key), format!("{}-2", table.key));
    let create = |key: &str| table.create(key, &held_by("a")).expect("a record");
    let beyond_ascii = Some(format!("{prefix}é")).filter(|key| table.store.check_key(key).is_ok());
    let keys = (0..150).map(|number| format!("{prefix}-{number}")).chain(beyond_ascii);
    let expected: BTreeMap<_, _> = keys.map(|key| (key.clone(), create(&key).version)).collect();
    let base = create(&sibling);
    table.watching(WatchScope::Prefix(&prefix), None, |events| {
        assert_eq!(existing(events), expected);
        table.store.update(&sibling, &base, held_by("b").as_write(), &call()).expect("an update");
        create(&table.key);
        create(&prefix);
        assert_eq!(later(events), (prefix.clone(), false));
        (table.delete)(&sibling);
        (table.delete)(&prefix);
        assert_eq!(later(events), (prefix.clone(), true));
    });
}

fn watch_cancelled_before_its_start_ends(table: &Table) {
    let cancel = CancelToken::new();
    cancel.cancel();
    let ended = table.store.watch(WatchScope::Key(&table.key), None, &cancel, &mut |_| {});
    let kind = ended.expect_err("the watch was cancelled").kind();
    assert!(matches!(kind, StoreErrorKind::Interrupted | StoreErrorKind::Unsupported), "{kind:?}");
}

fn electors_take_turns(table: &Table) {
    let electors = ["a", "b", "c"].map(|identity| table.elector(identity));
    let (mut guard, mut token) = (None, 0);
    for elector in electors.iter().cycle().take(12) {
        let campaign = elector.campaign().expect("a campaign");
        drop(guard.take());
        let won = campaign.receiver().recv_timeout(SOON).expect("an answer").expect("a term");
        assert!(won.is_leader() && won.fencing_token() > token, "{} after {token}", won.fencing_token());
        token = won.fencing_token();
        let others = electors.iter().filter(|other| other.identity() != elector.identity());
        others.for_each(|other| assert!(other.try_acquire().expect("an answer").is_none(), "two led at a time"));
        guard = Some(won);
    }
}

fn deletion_ends_a_term(table: &Table) {
    let elector = table.elector("a");
    let guard = elector.block_until_leader().expect("a term");
    table.delete();
    assert!(guard.ended().recv_timeout(SOON).is_err_and(|error| error.is_disconnected()), "the term ends");
    drop(guard);
    assert!(elector.block_until_leader().expect("another term").is_leader());
}
