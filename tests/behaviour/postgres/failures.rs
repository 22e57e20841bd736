//! A server that stands still, ends, is started again, or is a standby; and locks of others.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Call, Cancel, Store, StoreErrorKind};

use super::{store, with_table};
use crate::support::postgres::Postgres;
use crate::support::stores::{at_last, builder, call, elector, held_by};
use crate::support::{SOON, wait_until};

fn brief() -> Call {
    Call::new(Duration::from_millis(300), Cancel::new())
}

#[test]
fn calls_to_a_server_that_stands_still_end_in_their_time_and_when_they_are_cancelled() {
    let Some(postgres) = Postgres::start(&[]) else { return };
    let store = with_table(&postgres, "still");
    let base = store.create("jobs", &held_by("a"), &call()).expect("a record");
    for connects in [false, true] {
        if connects {
            // What is idle is gone then: the server has to be asked for another one, and says nothing to that.
            postgres.terminate_backends("still");
        }
        postgres.pause();
        let began = Instant::now();
        let error = store.update("jobs", &base, &held_by("b"), &brief()).expect_err("no answer");
        assert_eq!(error.kind(), StoreErrorKind::Timeout, "{error}");
        let cancel = Cancel::new();
        thread::scope(|scope| {
            let call = Call::new(Duration::from_secs(600), cancel.clone());
            let store = &store;
            let reads = scope.spawn(move || store.get("jobs", &call).expect_err("no answer").kind());
            thread::sleep(Duration::from_millis(50));
            cancel.cancel();
            assert_eq!(reads.join().expect("no panic"), StoreErrorKind::Interrupted);
        });
        assert!(began.elapsed() < SOON);
        postgres.resume();
        let now = at_last("an answer", || store.get("jobs", &call())).expect("a record");
        // It was open: it may have been applied when the server went on.
        assert!([Some("a"), Some("b")].contains(&now.record.holder()));
        postgres.execute_in("still", "UPDATE leasehold SET writes = 0, holder_identity = 'a'");
    }
}

#[test]
fn a_term_outlasts_its_connections_and_the_server() {
    let Some(mut postgres) = Postgres::start(&[]) else { return };
    let store = with_table(&postgres, "restarts");
    let leader = elector(&store, "a");
    let guard = leader.block_until_leader().expect("a term");
    let standby = builder("b").start_on(super::store(&postgres, "restarts")).expect("an elector");
    let campaign = standby.campaign().expect("a campaign");
    let version = || store.get("jobs", &call()).ok().flatten().map_or(0, |it| it.version);
    for _ in 0..3 {
        assert!(postgres.terminate_backends("restarts") > 0);
        let before = version();
        wait_until("it is renewed on another connection", || version() > before + 2);
    }
    let before = version();
    postgres.kill();
    postgres.start_again();
    wait_until("it is renewed after a restart", || version() > before + 2);
    assert!(guard.is_leader(), "{:?}", guard.check());
    drop(guard);
    let next = campaign.receiver().recv_timeout(SOON).expect("an answer").expect("a term");
    assert!(next.is_leader());
}

/// A session that waits for a lock is one that the server keeps for somebody who has gone.
#[test]
fn a_call_that_waits_for_a_lock_leaves_nobody_waiting_on_the_server() {
    let Some(postgres) = Postgres::shared() else { return };
    let store = with_table(postgres, "locks");
    let base = store.create("jobs", &held_by("a"), &call()).expect("a record");
    let mut session = postgres.session("locks");
    session.execute("BEGIN;");
    session.execute("SELECT 1 FROM leasehold FOR UPDATE;");
    for _ in 0..5 {
        let error = store.update("jobs", &base, &held_by("b"), &brief()).expect_err("it is locked");
        assert_eq!(error.kind(), StoreErrorKind::Timeout, "{error}");
    }
    assert!(store.get("jobs", &call()).expect("reads wait for nobody").is_some());
    wait_until("nobody waits for a lock", || {
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'locks' AND wait_event_type = 'Lock'";
        postgres.query(waits).trim() == "0"
    });
    session.execute("ROLLBACK;");
    let next = store.update("jobs", &base, &held_by("b"), &call()).expect("none of them was applied");
    assert_eq!(next.version, base.version + 1);
}

#[test]
fn a_standby_neither_answers_nor_takes_part() {
    let Some(primary) = Postgres::start(&[]) else { return };
    let on_primary = with_table(&primary, "standbys");
    on_primary.create("jobs", &held_by("a"), &call()).expect("a record");
    let standby = primary.standby(&[]);
    standby.catch_up(&primary);
    let on_standby = store(&standby, "standbys");
    let base = on_primary.get("jobs", &call()).expect("an answer").expect("a record");
    let errors = [
        on_standby.get("jobs", &call()).expect_err("stale"),
        on_standby.update("jobs", &base, &held_by("b"), &call()).expect_err("read-only"),
        on_standby.create("other", &held_by("b"), &call()).expect_err("read-only"),
        on_standby
            .watch(leasehold::WatchScope::Key("jobs"), None, &Cancel::new(), &mut |_| {})
            .expect_err("no notifications"),
    ];
    for error in errors {
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("primary"), "{error}");
    }
    // It is the primary by and by, and the store finds that out by itself.
    drop(primary);
    standby.promote();
    let guard = elector(&on_standby, "b");
    let campaign = guard.campaign().expect("a campaign");
    // The record of `a` has to run out first.
    let won = campaign.receiver().recv_timeout(2 * SOON).expect("an answer").expect("a term");
    assert!(won.is_leader());
}

/// The server answers `UPDATE 1` when it is told not to wait any longer, with a warning; a fail-over may take that back.
#[test]
fn a_commit_that_has_not_reached_its_synchronous_standby_is_no_answer() {
    let Some(postgres) = Postgres::start(&[]) else { return };
    let store = with_table(&postgres, "waits");
    let base = store.create("jobs", &held_by("a"), &call()).expect("a record");
    // Which is not there.
    postgres.set("synchronous_standby_names", "elsewhere");
    let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    thread::scope(|scope| {
        let (store, base) = (Arc::clone(&store), &base);
        let writes = scope.spawn(move || store.update("jobs", base, &held_by("b"), &call()));
        wait_until("the operator ends its waiting", || postgres.query(cancel).trim() == "t");
        let error = writes.join().expect("no panic").expect_err("it is not replicated");
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    });
    let error = store.update("jobs", &base, &held_by("c"), &brief()).expect_err("nobody ends this one's waiting");
    assert!(matches!(error.kind(), StoreErrorKind::Timeout | StoreErrorKind::NotApplied), "{error}");
}
