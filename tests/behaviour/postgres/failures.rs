//! A server that is paused, stopped, restarted or a standby, and locks of other sessions.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use leasehold::postgres::PostgresStore;
use leasehold::store::{CallContext, CancelToken, Store, StoreErrorKind, WatchScope};

use super::{store, with_table};
use crate::support::postgres::Postgres;
use crate::support::sql::SqlServer;
use crate::support::stores::{at_last, brief, call, elector, errors_of, held_by, watching};
use crate::support::{A_WHILE, SOON, wait_until};

/// A session that still waits for a lock occupies the server for a caller that has gone.
#[test]
fn call_waiting_for_a_lock_leaves_no_query_behind() {
    let Some(postgres) = Postgres::shared() else { return };
    let store = with_table(postgres, "locks");
    waits_for_no_lock(postgres, &store);
    postgres.execute_in("locks", "DELETE FROM leasehold");
    watching(&store, |_| waits_for_no_lock(postgres, &store));
}

fn waits_for_no_lock(postgres: &Postgres, store: &PostgresStore) {
    let base = store.create("jobs", held_by("a").as_write(), &call()).expect("a record");
    let mut session = postgres.session("locks");
    session.execute("BEGIN;");
    session.execute("SELECT 1 FROM leasehold FOR UPDATE;");
    for _ in 0..5 {
        let error = store.update("jobs", &base, held_by("b").as_write(), &brief()).expect_err("it is locked");
        assert_eq!(error.kind(), StoreErrorKind::Timeout, "{error}");
    }
    assert!(store.get("jobs", &call()).expect("reads wait for nobody").is_some());
    wait_until("nobody waits for a lock", || {
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'locks' AND wait_event_type = 'Lock'";
        postgres.query(waits).trim() == "0"
    });
    session.execute("ROLLBACK;");
    let next = store.update("jobs", &base, held_by("b").as_write(), &call()).expect("none of them was applied");
    assert_eq!(next.version, base.version + 1);
}

#[test]
fn a_read_only_database_is_refused_by_reads() {
    let Some(postgres) = Postgres::shared() else { return };
    with_table(postgres, "read_only");
    let set = |setting: &str| postgres.execute(&format!("ALTER DATABASE read_only {setting}"));
    set("SET default_transaction_read_only = on");
    let store = store(postgres, "read_only");
    let error = store.get("jobs", &call()).expect_err("nobody can write");
    assert!(error.kind() == StoreErrorKind::Unavailable && error.to_string().contains("read-only"), "{error}");
    set("RESET default_transaction_read_only");
    store.create("jobs", held_by("a").as_write(), &call()).expect("the read-only session is not used again");
}

#[test]
fn a_standby_neither_answers_nor_takes_part() {
    let Some(primary) = Postgres::start(&[]) else { return };
    let on_primary = with_table(&primary, "standbys");
    on_primary.create("jobs", held_by("a").as_write(), &call()).expect("a record");
    let standby = primary.standby(&[]);
    standby.catch_up(&primary);
    let on_standby = store(&standby, "standbys");
    let base = on_primary.get("jobs", &call()).expect("an answer").expect("a record");
    for error in errors_of(&on_standby, &base) {
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("primary"), "{error}");
    }
    // The standby becomes the primary after a while, and the store detects the change by itself.
    drop(primary);
    standby.promote();
    let guard = elector(&on_standby, "b");
    let campaign = guard.campaign().expect("a campaign");
    // The record of `a` must expire first.
    let won = campaign.receiver().recv_timeout(2 * SOON).expect("an answer").expect("a term");
    assert!(won.is_leader());
}

/// If an operator ends the wait for a standby, the server responds `UPDATE 1` and a warning.
///
/// A failover may revert such an update.
#[test]
fn unsynchronized_commit_is_no_success() {
    for hides_warnings in [false, true] {
        let Some(postgres) = Postgres::start(&[]) else { return };
        let store = with_table(&postgres, "waits");
        let base = store.create("jobs", held_by("a").as_write(), &call()).expect("a record");
        if hides_warnings {
            postgres.execute("ALTER DATABASE waits SET client_min_messages = error");
            postgres.end_connections("waits");
        }
        // No standby of this name exists.
        postgres.set("synchronous_standby_names", "elsewhere");
        let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        thread::scope(|scope| {
            let writes = scope.spawn(|| store.update("jobs", &base, held_by("b").as_write(), &call()));
            wait_until("the operator ends its waiting", || postgres.query(cancel).trim() == "t");
            let error = writes.join().expect("no panic").expect_err("it is not replicated");
            assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        });
        let error =
            store.update("jobs", &base, held_by("c").as_write(), &brief()).expect_err("nobody ends this one's waiting");
        assert!(matches!(error.kind(), StoreErrorKind::Timeout | StoreErrorKind::NotApplied), "{error}");
    }
}

/// PostgreSQL shows a commit that waited for a standby in vain.
///
/// The commit is visible after an operator has ended the wait, or after a crash. A promoted standby does not have the
/// commit.
#[test]
fn record_without_a_standby_is_not_read() {
    for crashes in [false, true] {
        let Some(mut postgres) = Postgres::start(&[]) else { return };
        let store = with_table(&postgres, "shown");
        postgres.set("synchronous_standby_names", "elsewhere");
        let waits = "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        let store_of_a = Arc::clone(&store);
        let writes = thread::spawn(move || store_of_a.create("jobs", held_by("a").as_write(), &call()).map(drop));
        wait_until("its commit waits", || postgres.query(waits).trim() == "t");
        if crashes {
            postgres.kill();
            postgres.start_again();
        } else {
            let cancel = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
            postgres.query(cancel);
        }
        assert!(writes.join().expect("no panic").is_err());
        assert_eq!(postgres.query_in("shown", "SELECT count(*) FROM leasehold").trim(), "1", "it is shown");
        let error = store.get("jobs", &brief()).expect_err("it waits for the standby");
        assert_eq!(error.kind(), StoreErrorKind::Timeout, "{error}");
        let cancel = CancelToken::new();
        thread::scope(|scope| {
            let (store, cancel) = (&store, &cancel);
            let watches = scope.spawn(move || {
                let mut told = 0;
                let _ = store.watch(WatchScope::Key("jobs"), None, cancel, &mut |_| told += 1);
                told
            });
            thread::sleep(A_WHILE);
            cancel.cancel();
            assert_eq!(watches.join().expect("no panic"), 0, "nor is it told");
        });
        postgres.set("synchronous_standby_names", "");
        let found = at_last("it is there", || store.get("jobs", &call())).expect("a record");
        assert_eq!(found.record.holder(), Some("a"));
    }
}

/// By default, a PostgreSQL server has a hundred connections for all clients.
#[test]
fn abandoned_calls_leave_no_query_behind() {
    let Some(postgres) = Postgres::start(&["max_connections=20"]) else { return };
    let store = with_table(&postgres, "behind");
    store.create("jobs", held_by("a").as_write(), &call()).expect("a record");
    let mut session = postgres.session("behind");
    session.execute("BEGIN;");
    session.execute("LOCK TABLE leasehold IN ACCESS EXCLUSIVE MODE;");
    let soon = || CallContext::new(Duration::from_millis(100), CancelToken::new());
    for _ in 0..30 {
        assert_eq!(store.get("jobs", &soon()).expect_err("it is locked").kind(), StoreErrorKind::Timeout);
    }
    session.execute("ROLLBACK;");
    // `statement_timeout` does not end a commit that waits for a standby.
    postgres.set("synchronous_standby_names", "elsewhere");
    for number in 0..30 {
        let error =
            store.create(&number.to_string(), held_by("b").as_write(), &soon()).expect_err("there is no standby");
        assert_eq!(error.kind(), StoreErrorKind::Timeout, "{error}");
    }
    wait_until("nobody waits", || {
        postgres.query("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'").trim() == "0"
    });
}
