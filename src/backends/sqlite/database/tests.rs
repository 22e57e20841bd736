use std::path::PathBuf;

use super::*;
use crate::store::Store;
use crate::store::record::LeaderElectionRecord;
use crate::util::cancel::CancelToken;
use crate::util::sync::channel;

/// Returns a new database, its path, and its directory.
fn database() -> (Database, PathBuf, tempfile::TempDir) {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("election.db");
    (Database::open(&path, false, true, &call()).unwrap(), path, scratch)
}

fn call() -> CallContext {
    CallContext::new(Duration::from_secs(30), CancelToken::new())
}

#[test]
fn a_journal_that_stays_in_another_mode_is_refused() {
    let mode = write_ahead_log(&Connection::open_in_memory().unwrap()).unwrap();
    let error = require_write_ahead_log(Path::new("x.db"), &mode).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Rejected);
    assert!(error.to_string().contains("\"memory\""), "{error}");
}

#[test]
fn each_write_is_on_the_disk_before_it_is_answered() {
    let (database, _, _scratch) = database();
    for connection in [&database.requests, &database.watches] {
        let connection = connection.lock();
        let setting = |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0));
        assert_eq!(["synchronous", "fullfsync", "busy_timeout"].map(|name| setting(name).unwrap()), [2, 1, 0]);
    }
}

#[test]
fn file_size_limit_is_a_named_error() {
    let (database, _, _scratch) = database();
    database.requests.lock().query_row("PRAGMA max_page_count = 1", [], |row| row.get::<_, i64>(0)).unwrap();
    let record = LeaderElectionRecord {
        uid: Some("uid".into()),
        holder_identity: Some("x".repeat(100_000)),
        ..Default::default()
    };
    let error = database.insert("jobs", record.as_write(), &call()).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("make room"), "{error}");
    assert!(database.select("jobs", &call()).unwrap().is_none(), "reads still work");
}

#[test]
fn each_code_of_sqlite_is_a_kind_of_failure() {
    use StoreErrorKind::{Forbidden, Malformed, NotFound, Rejected, Unavailable};
    let (database, _, _scratch) = database();
    // Each row contains SQLite's code, its message, the expected kind, and whether the store repeats the statement.
    for (code, message, kind, is_repeated) in [
        (13, "full", Unavailable, false),
        (8, "readonly", Forbidden, false),
        (3, "perm", Forbidden, false),
        (19, "constraint", Rejected, false),
        (18, "too big", Rejected, false),
        (11, "corrupt", Malformed, false),
        (26, "not a database", Malformed, false),
        (1, "no such table: leasehold", NotFound, false),
        (1, "no such column: writes", Rejected, false),
        (5, "busy", Unavailable, true),
        (6, "locked", Unavailable, true),
        (15, "protocol", Unavailable, true),
        (10, "i/o", Unavailable, false),
        (14, "cannot open", Unavailable, false),
    ] {
        let error = || rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), Some(message.to_owned()));
        assert_eq!(is_busy(&error()), is_repeated, "{message}");
        assert_eq!(failed(&database.file, error()).kind(), kind, "{message}");
    }
    assert_eq!(failed(&database.file, rusqlite::Error::QueryReturnedNoRows).kind(), Malformed);
}

#[test]
fn call_near_its_deadline_retries_more_often() {
    let millis = Duration::from_millis;
    for (remaining, pause) in [(20_000, 5_000), (10_000, 5_000), (4_000, 2_000), (1_000, 500), (500, 250), (0, 250)] {
        assert_eq!(longest_pause(millis(remaining)), Duration::from_micros(pause), "{remaining} ms left");
    }
}

#[test]
fn late_result_is_discarded() {
    let (database, _, _scratch) = database();
    let cancel = CancelToken::new();
    let cancelled = CallContext::new(Duration::from_secs(30), cancel.clone());
    let done = database.attempt(&database.requests, &cancelled, |_| {
        cancel.cancel();
        Ok(())
    });
    assert_eq!(done.unwrap_err().kind(), StoreErrorKind::Interrupted);
    let short = CallContext::new(Duration::from_millis(20), CancelToken::new());
    let done = database.attempt(&database.requests, &short, |_| {
        std::thread::sleep(Duration::from_millis(30));
        Ok(())
    });
    assert_eq!(done.unwrap_err().kind(), StoreErrorKind::Timeout);
}

/// The test runs only on Unix, because other systems forbid the deletion of open files.
#[cfg(unix)]
#[test]
fn a_file_that_is_replaced_under_a_statement_makes_it_no_answer() {
    let (database, path, _scratch) = database();
    let done = database.attempt(&database.requests, &call(), |_| {
        std::fs::remove_file(&path).unwrap();
        Ok(())
    });
    assert_eq!(done.unwrap_err().kind(), StoreErrorKind::NotFound);
}

#[test]
fn a_thread_that_waits_for_another_ends_with_its_call() {
    let (database, _, _scratch) = database();
    let held = database.requests.lock();
    let short = CallContext::new(Duration::from_millis(50), CancelToken::new());
    assert_eq!(database.select("jobs", &short).unwrap_err().kind(), StoreErrorKind::Timeout);
    drop(held);
    assert!(database.select("jobs", &call()).unwrap().is_none());
}

/// Simulates a system without inotify, or without free inotify instances.
#[test]
fn without_inotify_changes_of_all_processes_are_reported() {
    let (mut database, path, _scratch) = database();
    // inotify fails on a missing file.
    database.file.wal = "/no/such/file".into();
    let signal = CommitSignal::new(&path, &database.file.wal, &CancelToken::new());
    assert!(matches!(signal, CommitSignal::Polling(_)));
    let other = crate::backends::sqlite::store::SqliteStore::open(&path).unwrap();
    let record = LeaderElectionRecord { uid: Some("uid".into()), ..Default::default() };
    let (cancel, (told, tells)) = (CancelToken::new(), channel::unbounded());
    std::thread::scope(|threads| {
        let watching = threads.spawn(|| {
            database.watch(WatchRequest { scope: WatchScope::All, from: None, cancel: &cancel }, &mut |event| {
                drop(told.send(event))
            })
        });
        let next = || loop {
            match tells.recv_timeout(Duration::from_secs(30)).unwrap() {
                WatchEvent::Changed { key, .. } => return key,
                _ => continue,
            }
        };
        other.create("theirs", record.as_write(), &call()).unwrap();
        assert_eq!(&*next(), "theirs");
        database.insert("ours", record.as_write(), &call()).unwrap();
        assert_eq!(&*next(), "ours");
        cancel.cancel();
        assert_eq!(watching.join().unwrap().unwrap_err().kind(), StoreErrorKind::Interrupted);
    });
}

/// A watch must report the deletion of a record that the watch has never delivered.
///
/// Otherwise a leader could keep its term for up to a renew deadline after its file was deleted.
#[cfg(unix)]
#[test]
fn unreported_record_is_deleted_when_its_file_is() {
    let (mut database, path, _scratch) = database();
    let other = crate::backends::sqlite::store::SqliteStore::open(&path).unwrap();
    // inotify fails on a missing file.
    database.file.wal = "/no/such/file".into();
    let (cancel, mut told) = (CancelToken::new(), Vec::new());
    let ended =
        database.watch(WatchRequest { scope: WatchScope::Key("jobs"), from: None, cancel: &cancel }, &mut |event| {
            if let WatchEvent::Bookmark(_) = event {
                other.create("jobs", LeaderElectionRecord::default().as_write(), &call()).unwrap();
                std::fs::remove_file(&path).unwrap();
            }
            told.push(event);
        });
    assert_eq!(ended.unwrap_err().kind(), StoreErrorKind::NotFound);
    let is_of_first_row = |version: u64| sql::parts(version).0 == 1;
    assert!(
        matches!(&told[..], [WatchEvent::Opened, WatchEvent::Synced, WatchEvent::Bookmark(_), WatchEvent::Deleted { key, version }]
            if **key == *"jobs" && is_of_first_row(*version)),
        "{told:?}"
    );
}

#[test]
fn unreadable_record_hides_no_other_record_of_a_prefix() {
    let (database, _, _scratch) = database();
    let record = LeaderElectionRecord { uid: Some("uid".into()), ..Default::default() };
    ["jobs-1", "jobs-2"]
        .into_iter()
        .for_each(|key| assert!(database.insert(key, record.as_write(), &call()).unwrap().is_some()));
    let connection = database.requests.lock();
    let damage = "UPDATE leasehold SET holder_identity = CAST(x'ff' AS TEXT) WHERE key = 'jobs-1'";
    connection.execute_batch(damage).unwrap();
    let found = select(&connection, WatchScope::Prefix("jobs-")).unwrap();
    assert_eq!(found.keys().map(|key| &**key).collect::<Vec<_>>(), ["jobs-2"]);
    assert!(select(&connection, WatchScope::Key("jobs-1")).is_err());
}
