//! Transactions that etcd applies only while the record belongs to the guard's term.

use std::sync::Arc;
use std::time::Duration;

use leasehold::LeaderElector;
use leasehold::etcd::{EtcdOperation, EtcdStore};
use leasehold::store::{MemoryStore, Store, StoreErrorKind};

use crate::support::etcd::Etcd;
use crate::support::stores::{Wrapped, builder, call, elector, held_by, next_change, watching};

fn put(key: &str, value: &str) -> EtcdOperation {
    EtcdOperation::Put { key: key.into(), value: value.into() }
}

fn stores(prefix: &str) -> Option<(&'static Etcd, [Arc<EtcdStore>; 2])> {
    let etcd = Etcd::shared()?;
    Some((etcd, [(); 2].map(|()| Arc::new(etcd.store(prefix)))))
}

#[test]
fn a_leader_writes_between_its_renewals_as_long_as_it_leads() {
    let Some((etcd, [store, _])) = stores("guarded-renewals/") else { return };
    let elector = elector(&store, "a");
    let guard = elector.block_until_leader().expect("a term");
    for round in 0..100 {
        let key = format!("guarded-renewals-data/{}", round % 3);
        let delete = EtcdOperation::Delete { key: b"guarded-renewals-data/other".to_vec() };
        store.guarded_txn(&guard, &[put(&key, &round.to_string()), delete], &call()).expect("a write");
        assert_eq!(etcd.value(&key), Some(round.to_string()));
        std::thread::sleep(Duration::from_millis(3));
    }
    drop(guard);
    let again = elector.block_until_leader().expect("another term");
    store.guarded_txn(&again, &[put("guarded-renewals-data/0", "again")], &call()).expect("a write");
    assert_eq!(etcd.value("guarded-renewals-data/0").as_deref(), Some("again"));
}

/// The elector does not notice the takeover.
///
/// The elector renews only every twenty seconds, and has no watch.
#[test]
fn superseded_leader_writes_nothing_with_a_valid_guard() {
    let Some((etcd, [store, other])) = stores("guarded-takeover/") else { return };
    let slow = builder("a").renew_interval(Duration::from_secs(20)).retry_period(Duration::from_secs(10));
    let elector = slow.start_on(Wrapped::without_watch(Arc::clone(&store))).expect("an elector");
    let guard = elector.block_until_leader().expect("a term");
    store.guarded_txn(&guard, &[put("guarded-takeover-data", "a")], &call()).expect("a write");
    let base = other.get("jobs", &call()).expect("an answer").expect("a record");
    other.update("jobs", &base, held_by("b").as_write(), &call()).expect("a takeover");
    assert!(guard.is_leader(), "it does not know");
    let refused = store.guarded_txn(&guard, &[put("guarded-takeover-data", "late")], &call()).expect_err("it is over");
    assert_eq!(refused.kind(), StoreErrorKind::NotApplied, "{refused}");
    assert!(refused.to_string().contains("another term"), "{refused}");
    etcd.delete("guarded-takeover/jobs");
    let refused = store.guarded_txn(&guard, &[put("guarded-takeover-data", "late")], &call()).expect_err("it is gone");
    assert_eq!(refused.kind(), StoreErrorKind::NotApplied, "{refused}");
    // The new object has the same holder and the same times, but another uid.
    other.create("jobs", base.record.as_write(), &call()).expect("a record");
    let refused = store.guarded_txn(&guard, &[put("guarded-takeover-data", "late")], &call()).expect_err("another uid");
    assert_eq!(refused.kind(), StoreErrorKind::NotApplied, "{refused}");
    assert_eq!(etcd.value("guarded-takeover-data").as_deref(), Some("a"));
}

#[test]
fn unguardable_transaction_is_refused() {
    let Some((etcd, [store, other])) = stores("guarded-refusals/") else { return };
    let elector = elector(&store, "a");
    let guard = elector.block_until_leader().expect("a term");
    let refusals = [
        (&other, &guard, put("guarded-refusals-data", "x"), StoreErrorKind::Rejected),
        (&store, &guard, put("guarded-refusals/jobs", "x"), StoreErrorKind::Rejected),
        (&store, &guard, put("", "x"), StoreErrorKind::Rejected),
    ];
    for (store, guard, operation, expected) in refusals {
        let refused = store.guarded_txn(guard, std::slice::from_ref(&operation), &call()).expect_err("a refusal");
        assert_eq!(refused.kind(), expected, "{operation:?}: {refused}");
    }
    let memory = LeaderElector::builder("jobs").start_on(MemoryStore::new()).expect("an elector");
    let of_another = memory.block_until_leader().expect("a term");
    let refused = store.guarded_txn(&of_another, &[put("guarded-refusals-data", "x")], &call()).expect_err("a refusal");
    assert_eq!(refused.kind(), StoreErrorKind::Rejected, "{refused}");
    guard.step_down();
    let refused = store.guarded_txn(&guard, &[put("guarded-refusals-data", "x")], &call()).expect_err("it is over");
    assert_eq!(refused.kind(), StoreErrorKind::NotApplied, "{refused}");
    assert_eq!(etcd.value("guarded-refusals-data"), None);
}

/// A watch of all keys is the only observer of a term if the answer of the winning write is lost.
#[test]
fn term_that_only_a_watch_of_all_keys_reports_guards() {
    let Some((_, [store, other])) = stores("guarded-watch/") else { return };
    assert!(store.get("jobs", &call()).expect("an answer").is_none());
    watching(&store, |events| {
        let guard = elector(&other, "a").block_until_leader().expect("a term");
        assert_eq!(next_change(events), ("jobs".to_owned(), Some("a".to_owned())));
        store.guarded_txn(&guard, &[put("guarded-watch-data", "a")], &call()).expect("a write");
    });
}
