//! A store in a file, with other writers, an operator, a restored row and a full disk.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, thread};

use leasehold::sqlite::SqliteStore;
use leasehold::store::{CallContext, CancelToken, Store, StoreErrorKind};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::support::stores::{builder, call, errors_of, held_by, next_change, watching};
use crate::support::{AT_ONCE, SOON, scratch, skip, wait_until};

/// A directory for the file of one test.
struct Place {
    _scratch: TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Self {
        let scratch = scratch();
        let path = scratch.path().join("election.db");
        Self { _scratch: scratch, path }
    }

    fn store(&self) -> SqliteStore {
        SqliteStore::open(&self.path).expect("a store")
    }

    fn foreigner(&self) -> Connection {
        Connection::open(&self.path).expect("a connection")
    }
}

#[test]
fn long_writer_makes_a_call_time_out() {
    let place = Place::new();
    let store = place.store();
    let base = store.create("jobs", held_by("a").as_write(), &call()).expect("a record");
    let foreigner = place.foreigner();
    foreigner.execute_batch("BEGIN EXCLUSIVE").expect("a transaction");
    let short = Duration::from_millis(200);
    let began = Instant::now();
    let error =
        store.update("jobs", &base, held_by("b").as_write(), &CallContext::new(short, CancelToken::new())).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Timeout, "{error}");
    assert!(began.elapsed() >= short && began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    let error =
        store.create("other", held_by("b").as_write(), &CallContext::new(short, CancelToken::new())).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Timeout, "{error}");
    // The lock of a writer does not block readers.
    assert_eq!(store.get("jobs", &call()).expect("an answer").expect("a record").version, base.version);

    let cancel = CancelToken::new();
    let long = CallContext::new(SOON, cancel.clone());
    let ended = thread::scope(|threads| {
        let update = threads.spawn(|| store.update("jobs", &base, held_by("b").as_write(), &long));
        thread::sleep(short);
        let began = Instant::now();
        cancel.cancel();
        let ended = update.join().expect("no panic");
        assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
        ended
    });
    assert_eq!(ended.unwrap_err().kind(), StoreErrorKind::Interrupted);

    thread::scope(|threads| {
        let update = threads.spawn(|| store.update("jobs", &base, held_by("c").as_write(), &call()));
        thread::sleep(short);
        foreigner.execute_batch("COMMIT").expect("a commit");
        assert_eq!(update.join().expect("no panic").expect("an update").version, base.version + 1);
    });
}

fn delete(path: &Path) {
    fs::remove_file(path).expect("a file to delete");
}

fn replace(path: &Path) {
    let other = path.with_extension("other");
    drop(SqliteStore::open(&other).expect("another store"));
    fs::rename(&other, path).expect("a file to replace");
}

fn delete_the_log(path: &Path) {
    delete(&path.with_extension("db-wal"));
}

#[test]
fn deleted_or_replaced_file_is_a_named_error() {
    for (befall, word) in
        [(delete as fn(&Path), "was deleted"), (replace, "was replaced"), (delete_the_log, "was deleted")]
    {
        let place = Place::new();
        let store = place.store();
        let base = store.create("jobs", held_by("a").as_write(), &call()).expect("a record");
        befall(&place.path);
        for error in errors_of(&store, &base) {
            assert_eq!(error.kind(), StoreErrorKind::NotFound, "{error}");
            assert!(error.to_string().contains(word) && error.to_string().contains("restart"), "{error}");
        }
    }
}

/// Other candidates may already lead in a new file at the same path.
#[test]
fn a_file_that_is_deleted_or_replaced_is_the_end_of_a_term() {
    for befall in [delete as fn(&Path), replace] {
        let place = Place::new();
        let elector = builder("a").start_on(place.store()).expect("an elector");
        let guard = elector.block_until_leader().expect("a term");
        wait_until("a watch", || elector.status().is_watching);
        let began = Instant::now();
        befall(&place.path);
        assert!(guard.ended().recv_timeout(SOON).is_err_and(|error| error.is_disconnected()), "it ends");
        assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
        drop(guard);
        assert!(elector.try_acquire().map_or(true, |guard| guard.is_none()), "it does not lead there again");
    }
}

#[test]
fn writer_without_notification_is_noticed_within_a_second() {
    let place = Place::new();
    let (store, foreigner) = (place.store(), place.foreigner());
    store.create("jobs", held_by("a").as_write(), &call()).expect("a record");
    let fastest = watching(&store, |told| {
        let notice = |number: i32| {
            thread::sleep(Duration::from_millis(37));
            let began = Instant::now();
            let write = "UPDATE leasehold SET writes = writes + 1, holder_identity = ?1";
            assert_eq!(foreigner.execute(write, [number.to_string()]).expect("an update"), 1);
            assert_eq!(next_change(told).1, Some(number.to_string()));
            began.elapsed()
        };
        // A busy machine delays some notices, so only the fastest one counts.
        (0..5).map(notice).min().expect("some")
    });
    assert!(fastest < Duration::from_secs(1), "{fastest:?}");
}

/// The first store creates the file, sets its mode and creates the table.
///
/// The other stores wait only by retrying.
#[test]
fn many_that_open_a_new_file_at_once_share_it() {
    for _ in 0..10 {
        let place = Place::new();
        let created = thread::scope(|threads| {
            let open = |_| {
                threads.spawn(|| {
                    let store = place.store();
                    let created = store.create("jobs", held_by("a").as_write(), &call());
                    (store, created.is_ok())
                })
            };
            let opened: Vec<_> = (0..8).map(open).collect();
            let stores: Vec<_> = opened.into_iter().map(|it| it.join().expect("no panic")).collect();
            let versions = stores.iter().map(|(store, _)| store.get("jobs", &call()).expect("an answer"));
            let versions: BTreeSet<_> = versions.map(|found| found.expect("a record").version).collect();
            assert_eq!(versions.len(), 1, "{versions:?}");
            stores.iter().filter(|(_, created)| *created).count()
        });
        assert_eq!(created, 1);
    }
}

#[test]
fn unshareable_file_is_refused() {
    let place = Place::new();
    fs::write(&place.path, "this is no database, and was never meant to be one").expect("a file");
    let error = SqliteStore::open(&place.path).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Malformed, "{error}");
}

/// The disk of this test has a quarter of a megabyte.
#[test]
fn full_disk_is_a_named_error_until_there_is_room() {
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let mount = |arguments: &[&str]| Command::new("mount").args(arguments).arg(scratch.path()).output();
    if !mount(&["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).is_ok_and(|done| done.status.success()) {
        return skip("this user may not mount", "the test of a full disk", "run it as root");
    }
    struct Unmount<'a>(&'a Path);
    impl Drop for Unmount<'_> {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg("-l").arg(self.0).status();
        }
    }
    let _unmount = Unmount(scratch.path());
    let store = SqliteStore::open(scratch.path().join("election.db")).expect("a store");
    let mut base = store.create("jobs", held_by("a").as_write(), &call()).expect("a record");
    let ballast = scratch.path().join("ballast");
    let _ = fs::write(&ballast, vec![0; 1 << 20]);
    let error = loop {
        match store.update("jobs", &base, held_by("b").as_write(), &call()) {
            Ok(observed) => base = observed,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("make room"), "{error}");
    assert_eq!(store.get("jobs", &call()).expect("reads go on").expect("a record").version, base.version);
    // A process that starts now may hold a copy of the descriptor. Truncating the file frees its space, but removing
    // the file would not.
    fs::write(ballast, "").expect("room");
    store.update("jobs", &base, held_by("c").as_write(), &call()).expect("an update, where there is room");
}
