//! Rules that hold on every real server and in a file.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::LeaderElector;
use leasehold::store::{CallContext, CancelToken, Store, StoreErrorKind};

use crate::support::mariadb::MariaDb;
use crate::support::postgres::Postgres;
use crate::support::real_store::{Elects, File, InEtcd, InSql, OnServer, RealStore};
use crate::support::stores::{at_last, brief, builder, call, held_by, next_change, watching};
use crate::support::{SOON, wait_until};

macro_rules! on_real_stores {
    ($($module:ident $place:ty: $($test:ident),*;)*) => {
        $(mod $module {
            use super::*;
            $(#[test] fn $test() {
                if let Some(place) = <$place as RealStore>::alone(stringify!($test)) {
                    super::$test(place);
                }
            })*
        })*
    };
}

on_real_stores! {
    sqlite File: versions_never_repeat_over_deletion_and_a_restart, watch_outlasts_the_limits_of_its_reads;
    postgres InSql<Postgres>: versions_never_repeat_over_deletion_and_a_restart, term_outlasts_connections_and_server,
        watch_outlasts_the_limits_of_its_reads, restart_between_two_calls_fails_neither,
        paused_server_ends_calls_in_time_and_the_term, rows_of_one_key_are_numbered_in_the_order_of_their_commits;
    mysql InSql<MariaDb>: versions_never_repeat_over_deletion_and_a_restart, term_outlasts_connections_and_server,
        watch_outlasts_the_limits_of_its_reads, restart_between_two_calls_fails_neither,
        paused_server_ends_calls_in_time_and_the_term, rows_of_one_key_are_numbered_in_the_order_of_their_commits;
    etcd InEtcd: versions_never_repeat_over_deletion_and_a_restart, term_outlasts_connections_and_server,
        watch_outlasts_the_limits_of_its_reads, restart_between_two_calls_fails_neither;
}

/// The rows are deleted, and then the server that has counted the rows restarts.
fn versions_never_repeat_over_deletion_and_a_restart(mut place: impl RealStore) {
    let mut last = 0;
    for _ in 0..3 {
        let store = place.store();
        let mut observed = store.create("jobs", held_by("a").as_write(), &call()).expect("a record");
        assert!(observed.version > last, "{} after {last}", observed.version);
        for _ in 0..3 {
            observed = store.update("jobs", &observed, held_by("b").as_write(), &call()).expect("an update");
        }
        assert_eq!(store.get("jobs", &call()).expect("an answer").expect("a record").version, observed.version);
        last = observed.version;
        drop(store);
        place.delete("jobs");
        place.restart();
    }
}

/// A read, or the opening, of a watch may last at most ten seconds.
fn watch_outlasts_the_limits_of_its_reads(place: impl RealStore) {
    let store = place.store();
    watching(&store, |told| {
        thread::sleep(Duration::from_millis(10_500));
        place.store().create("jobs", held_by("a").as_write(), &call()).expect("a record");
        assert_eq!(next_change(told), ("jobs".to_owned(), Some("a".to_owned())));
    });
}

/// The idle connections end with the server, which a call must notice before it sends a write.
fn restart_between_two_calls_fails_neither(mut place: impl OnServer) {
    let store = place.store();
    let mut observed = store.create("jobs", held_by("a").as_write(), &call()).expect("a record");
    for is_paused in [false, true] {
        if is_paused {
            place.server().pause();
            assert_eq!(store.get("jobs", &brief()).expect_err("silence").kind(), StoreErrorKind::Timeout);
        }
        place.restart();
        observed = store.update("jobs", &observed, held_by("b").as_write(), &call()).expect("an update");
    }
}

fn term_outlasts_connections_and_server(mut place: impl OnServer) {
    let (store, standby) = (place.store(), builder("b").start_on(place.store()).expect("an elector"));
    let leader = builder("a").start_on(place.store()).expect("an elector");
    let guard = leader.block_until_leader().expect("a term");
    let campaign = standby.campaign().expect("a campaign");
    let version = || store.get("jobs", &call()).ok().flatten().map_or(0, |it| it.version);
    let is_renewed = |what: &str| {
        let before = version();
        wait_until(what, || version() > before + 2);
    };
    for _ in 0..3 {
        place.end_connections();
        is_renewed("it is renewed on another connection");
        place.server().kill();
        let refused = place.store().get("jobs", &call()).expect_err("nobody listens");
        assert_eq!(refused.kind(), StoreErrorKind::Unavailable, "{refused}");
        place.server().start_again();
        at_last("an answer", || store.get("jobs", &call()));
        is_renewed("it is renewed again");
    }
    assert!(guard.is_leader(), "the same term: {:?}", guard.check());
    let token = guard.fencing_token();
    drop(guard);
    let next = campaign.receiver().recv_timeout(SOON).expect("an answer").expect("a term");
    assert!(next.fencing_token() > token);
}

fn paused_server_ends_calls_in_time_and_the_term(mut place: impl OnServer) {
    // The second store has no connection yet, so the paused server does not answer its first connection.
    let (warm, cold) = (place.store(), place.store());
    let base = warm.create("jobs", held_by("a").as_write(), &call()).expect("a record");
    let elector = LeaderElector::builder("mine")
        .identity("a")
        .lease_duration(Duration::from_secs(3))
        .renew_deadline(Duration::from_secs(1))
        .retry_period(Duration::from_millis(100))
        .start_on(place.store())
        .expect("an elector");
    let guard = elector.block_until_leader().expect("a term");
    place.server().pause();
    let began = Instant::now();
    for store in [&warm, &cold] {
        assert_eq!(store.get("jobs", &brief()).expect_err("silence").kind(), StoreErrorKind::Timeout);
        let written = store.update("jobs", &base, held_by("b").as_write(), &brief());
        assert_eq!(written.expect_err("silence").kind(), StoreErrorKind::Timeout);
        let cancel = CancelToken::new();
        thread::scope(|scope| {
            let hanging = scope.spawn(|| store.get("jobs", &CallContext::new(SOON * 2, cancel.clone())));
            thread::sleep(Duration::from_millis(100));
            cancel.cancel();
            let ended = hanging.join().expect("no panic").expect_err("cancelled");
            assert_eq!(ended.kind(), StoreErrorKind::Interrupted);
        });
    }
    // A call that misses its limit lasts ten seconds or longer.
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert!(guard.ended().recv_timeout(SOON).is_err_and(|error| error.is_disconnected()), "the term runs out");
    place.server().resume();
    let now = at_last("an answer", || warm.get("jobs", &call())).expect("a record");
    // The server may have applied the in-doubt update after the pause.
    assert!([Some("a"), Some("b")].contains(&now.record.holder()));
    drop(guard);
    // On a busy machine, a term may end during the server's first response.
    wait_until("another term", || elector.block_until_leader().expect("a term").is_leader());
}

/// A new row takes its number before it waits for another row of its key.
///
/// Without a lock, the rows could be committed in another order.
fn rows_of_one_key_are_numbered_in_the_order_of_their_commits<S: Elects>(place: InSql<S>) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let create = |_| {
            scope.spawn(|| {
                let (store, mut created) = (place.store(), 0);
                while !is_over.load(Ordering::Relaxed) {
                    match store.create("jobs", held_by("a").as_write(), &call()) {
                        Ok(_) => created += 1,
                        Err(error) if error.kind() == StoreErrorKind::NotApplied => {}
                        // MariaDB may report repeated deadlocks and lock waits.
                        Err(error) => assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}"),
                    }
                }
                created
            })
        };
        let creators: Vec<_> = (0..4).map(create).collect();
        // The operator reads and deletes each row. After a deletion that ended in a deadlock, the next deletion
        // follows.
        let mut seen = Vec::new();
        while seen.len() < 100 {
            let mut operator = place.server().client(&place.database);
            let deleted = operator.args([S::STATEMENT, "DELETE FROM leasehold RETURNING generation"]).output();
            seen.extend(String::from_utf8_lossy(&deleted.expect("a client").stdout).trim().parse::<u64>());
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
        let created: usize = creators.into_iter().map(|it| it.join().expect("no panic")).sum();
        assert!(created >= seen.len());
    });
}
