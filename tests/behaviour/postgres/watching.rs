//! Events of a PostgreSQL watch, from notifications and behind a pooler.

use std::sync::Arc;
use std::thread;

use leasehold::crossbeam_channel::unbounded;
use leasehold::postgres::{PostgresConfig, PostgresStore};
use leasehold::store::{CancelToken, Store, StoreErrorKind, WatchEvent, WatchScope};

use super::with_table;
use crate::support::pgbouncer::PgBouncer;
use crate::support::postgres::Postgres;
use crate::support::sql::SqlServer;
use crate::support::stores::{call, elector, held_by, next_change, watching};
use crate::support::{A_WHILE, SOON};

#[test]
fn foreign_writes_and_deletions_are_delivered_at_once() {
    let Some(postgres) = Postgres::shared() else { return };
    let store = with_table(postgres, "told");
    let of = |key: &str, holder: Option<&str>| (key.to_owned(), holder.map(str::to_owned));
    watching(&store, |told| {
        store.create("jobs", held_by("a").as_write(), &call()).expect("a record");
        assert_eq!(next_change(told), of("jobs", Some("a")));
        store.create("it's \\ \"other\"", held_by("b").as_write(), &call()).expect("a record");
        assert_eq!(next_change(told), of("it's \\ \"other\"", Some("b")));
        let foreign = "UPDATE leasehold SET writes = writes + 1, holder_identity = 'c' WHERE key = 'jobs'";
        postgres.execute_in("told", foreign);
        assert_eq!(next_change(told), of("jobs", Some("c")));
        postgres.execute_in("told", "DELETE FROM leasehold WHERE key = 'jobs'");
        assert_eq!(next_change(told), of("jobs", None));
        postgres.execute_in("told", "TRUNCATE leasehold");
        assert_eq!(next_change(told), of("it's \\ \"other\"", None));
        // One transaction sends a notification for each row, and no notification is lost.
        let many = "INSERT INTO leasehold (key, uid, holder_identity, acquisition) SELECT 'key-' || n, 'u', 'm', 0 FROM generate_series(1, 3000) n";
        postgres.execute_in("told", many);
        let mut keys: Vec<_> = (0..3000).map(|_| next_change(told).0).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 3000);
        // Another program uses the channel for its own notification.
        postgres.execute_in("told", "NOTIFY leasehold, 'something else'");
        while let Ok(event) = told.recv_timeout(A_WHILE) {
            assert!(matches!(event, WatchEvent::Bookmark(_)), "nothing has changed: {event:?}");
        }
    });
}

#[test]
fn watch_ends_with_its_connection_and_reports_why() {
    let Some(postgres) = Postgres::shared() else { return };
    let store = with_table(postgres, "ends");
    let (tell, told) = unbounded();
    thread::scope(|scope| {
        let watch = scope.spawn(|| {
            store.watch(WatchScope::Key("jobs"), None, &CancelToken::new(), &mut |event| {
                let _ = tell.send(matches!(event, WatchEvent::Bookmark(_)));
            })
        });
        while !told.recv_timeout(SOON).expect("it begins") {}
        postgres.end_connections("ends");
        let error = watch.join().expect("no panic").expect_err("its connection is gone");
        assert!(error.kind() == StoreErrorKind::Unavailable && error.to_string().contains("57P01"), "{error}");
    });
}

#[test]
fn pooler_without_notifications_is_polled() {
    let Some(postgres) = Postgres::shared() else { return };
    let Some(pooler) = PgBouncer::start(postgres, &["pool_mode=transaction", "default_pool_size=3"]) else { return };
    with_table(postgres, "pooled");
    let store = || {
        let config = PostgresConfig::new(&pooler.url("postgres", "pooled")).expect("a URL");
        Arc::new(PostgresStore::new(config).expect("a store"))
    };
    let direct = super::store(postgres, "pooled");
    watching(&store(), |told| {
        direct.create("other", held_by("a").as_write(), &call()).expect("a record");
        assert_eq!(next_change(told), ("other".to_owned(), Some("a".to_owned())));
    });
    let (leader, standby) = (elector(&store(), "a"), elector(&store(), "b"));
    let mut guard = leader.block_until_leader().expect("a term");
    for number in 0..10 {
        let campaign = if number % 2 == 0 { &standby } else { &leader }.campaign().expect("a campaign");
        let token = guard.fencing_token();
        guard.release().expect("a release");
        guard = campaign.receiver().recv_timeout(SOON).expect("an answer").expect("a term");
        assert!(guard.fencing_token() > token);
    }
}

#[test]
fn pooler_with_sessions_delivers_notifications() {
    let Some(postgres) = Postgres::shared() else { return };
    let Some(pooler) = PgBouncer::start(postgres, &["pool_mode=session"]) else { return };
    with_table(postgres, "sessions");
    // A watch without notifications would poll only after this whole interval.
    let url = format!("{}?poll_interval=1h", pooler.url("postgres", "sessions"));
    let config = PostgresConfig::new(&url).expect("a URL");
    let store = Arc::new(PostgresStore::new(config).expect("a store"));
    watching(&store, |told| {
        super::store(postgres, "sessions").create("other", held_by("a").as_write(), &call()).expect("a record");
        assert_eq!(next_change(told), ("other".to_owned(), Some("a".to_owned())));
    });
}

/// The change makes earlier prepared statements invalid, but no call may fail.
#[test]
fn table_may_be_altered_while_in_use() {
    let Some(postgres) = Postgres::shared() else { return };
    let store = with_table(postgres, "altered");
    watching(&store, |_| {
        let base = store.create("jobs", held_by("a").as_write(), &call()).expect("a record");
        let base = store.update("jobs", &base, held_by("b").as_write(), &call()).expect("an update");
        store.get("jobs", &call()).expect("a read");
        // The statement rewrites the row with another type, but is not a write to the row.
        postgres.execute_in("altered", "ALTER TABLE leasehold ALTER COLUMN lease_duration_seconds TYPE smallint");
        let found = store.get("jobs", &call()).expect("a read").expect("a record");
        assert_eq!((found.version, &found.record), (base.version, &base.record));
        postgres.execute_in("altered", "ALTER TABLE leasehold ALTER COLUMN writes TYPE integer");
        let base = store.update("jobs", &base, held_by("c").as_write(), &call()).expect("an update");
        assert_eq!(store.get("jobs", &call()).expect("a read").expect("a record").version, base.version);
    });
}
