//! History of etcd that is compacted, interrupted or lost.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leasehold::store::{CancelToken, Cursor, Store, StoreErrorKind, WatchEvent, WatchScope};
use leasehold::{Error, Transition};
use serde_json::json;

use crate::support::etcd::Etcd;
use crate::support::stores::{at_last, builder, call, elector, held_by};
use crate::support::{SOON, wait_until};

const JOBS: WatchScope<'_> = WatchScope::Key("jobs");

/// Watches until `is_enough` returns `true`.
///
/// Returns the kind of the error that ended the watch.
fn watch(store: &impl Store, from: Option<&Cursor>, is_enough: impl Fn(&WatchEvent) -> bool) -> StoreErrorKind {
    let cancel = CancelToken::new();
    let ended = store.watch(JOBS, from, &cancel, &mut |event| {
        if is_enough(&event) {
            cancel.cancel();
        }
    });
    ended.expect_err("it was cancelled, or has failed").kind()
}

#[test]
fn watch_behind_compaction_expires_and_restarts() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let store = etcd.store("compacted/");
    let mut base = store.create("jobs", held_by("a").as_write(), &call()).expect("a record");
    let first = base.version;
    for _ in 0..5 {
        base = store.update("jobs", &base, held_by("a").as_write(), &call()).expect("an update");
    }
    etcd.post("/v3/kv/compaction", &json!({ "revision": etcd.revision().to_string(), "physical": true }));
    // etcd first confirms the watch, and then reports that the watch is compacted.
    assert_eq!(watch(&store, Some(&Cursor::new(first)), |_| false), StoreErrorKind::Expired);
    let is_newest =
        |event: &WatchEvent| matches!(event, WatchEvent::Changed { observed, .. } if observed.version == base.version);
    assert_eq!(watch(&store, None, is_newest), StoreErrorKind::Interrupted, "what is there is told");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).expect("a copy")),
        }
    }
}

/// Copies the data of the only member.
fn back_up(etcd: &mut Etcd) {
    etcd.members[0].kill();
    copy(&etcd.members[0].data, &etcd.dir.path().join("backup"));
    etcd.members[0].start_again();
}

/// Replaces the data of the only member with the copy.
fn restore(etcd: &mut Etcd) {
    let data = etcd.members[0].data.clone();
    etcd.members[0].kill();
    fs::remove_dir_all(&data).expect("it is gone");
    copy(&etcd.dir.path().join("backup"), &data);
    etcd.members[0].start_again();
}

/// After a restore, etcd assigns the same revisions again.
///
/// The last write of `a` and the next write of `b` have the same revision.
#[test]
fn restored_store_no_foreign_record_is_overwritten() {
    let Some(mut etcd) = Etcd::start(1, &[]) else { return };
    let (a, b) = (etcd.store("restored/"), etcd.store("restored/"));
    let first = a.create("jobs", held_by("a").as_write(), &call()).expect("a record");
    back_up(&mut etcd);
    let second = at_last("a renewal", || a.update("jobs", &first, held_by("a").as_write(), &call()));
    restore(&mut etcd);
    let restored = at_last("a read", || b.get("jobs", &call())).expect("a record");
    assert_eq!(restored.version, first.version, "it was restored");
    let taken = b.update("jobs", &restored, held_by("b").as_write(), &call()).expect("a takeover");
    assert_eq!((taken.version, &taken.record.uid), (second.version, &second.record.uid), "the same revisions");
    let refused = at_last("a definite answer", || match a.update("jobs", &second, held_by("a").as_write(), &call()) {
        Ok(observed) => panic!("it has overwritten the record: {observed:?}"),
        Err(error) if error.kind() == StoreErrorKind::NotApplied => Ok(error),
        Err(error) => Err(error),
    });
    assert!(refused.to_string().contains("now at"), "{refused}");
    assert_eq!(a.get("jobs", &call()).expect("an answer").expect("a record").record.holder(), Some("b"));
}

#[test]
fn restored_store_future_watch_expires_and_the_term_ends() {
    let Some(mut etcd) = Etcd::start(1, &[]) else { return };
    let store = Arc::new(etcd.store("future/"));
    let before = store.create("jobs", held_by("x").as_write(), &call()).expect("a record");
    etcd.delete("future/jobs");
    back_up(&mut etcd);
    let brief = builder("a").lease_duration(Duration::from_secs(3)).renew_deadline(Duration::from_secs(2));
    let leader = brief.start_on(Arc::clone(&store)).expect("an elector");
    let guard = leader.block_until_leader().expect("a term");
    let transitions = leader.transitions();
    let token = guard.fencing_token();
    wait_until("it goes on", || etcd.revision() > token + 10);
    let future = etcd.revision();
    restore(&mut etcd);
    assert!(etcd.revision() <= before.version + 1);
    assert!(guard.ended().recv_timeout(SOON).is_err_and(|error| error.is_disconnected()), "it ends");
    let reason = guard.check().expect_err("it is over").reason;
    drop(guard);
    let ends = || matches!(transitions.recv_timeout(SOON), Ok(Transition::StoppedLeading { .. }));
    wait_until("it is told", ends);
    assert_eq!(watch(&*store, Some(&Cursor::new(future + 1000)), |_| false), StoreErrorKind::Expired, "{reason}");
    let again = leader.block_until_leader().expect("another term");
    assert!(again.is_leader());
}

/// Another program has put a value under the key of the record.
#[test]
fn invalid_record_is_never_overwritten() {
    let Some(etcd) = Etcd::shared() else { return };
    let store = Arc::new(etcd.store("strange/"));
    for value in ["", "text", "{}", r#"{"holderIdentity":7}"#] {
        etcd.put("strange/jobs", value);
        let error = store.get("jobs", &call()).expect_err("no record");
        assert_eq!(error.kind(), StoreErrorKind::Malformed, "{error}");
        let elector = builder("a").start_on(Arc::clone(&store)).expect("an elector");
        let waited = elector.block_until_leader_timeout(Duration::from_secs(3)).expect_err("what it waits for");
        assert!(matches!(&waited, Error::Store(error) if error.kind() == StoreErrorKind::Malformed), "{waited}");
        drop(elector);
        assert_eq!(etcd.value("strange/jobs").unwrap_or_default(), value);
    }
    etcd.put("strange/jobs", r#"{"holderIdentity":"","strategy":"x"}"#);
    let elector = elector(&store, "a");
    let guard = elector.block_until_leader().expect("a term");
    let value = etcd.value("strange/jobs").expect("a record");
    assert!(value.contains(r#""strategy":"x""#) && value.contains(r#""holderIdentity":"a""#), "{value}");
    assert!(guard.is_leader());
}
