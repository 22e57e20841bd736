//! Records in a real MariaDB, and what befalls it: restarts, cut connections, a server that stands still or is read-only, others'
//! locks, users, TLS.

mod users;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{
    CallContext, CancelToken, MySqlConfig, MySqlStore, StopReason, Store, StoreErrorKind, WatchEvent, WatchScope,
};

use crate::support::mariadb::MariaDb;
use crate::support::sql::{PASSWORD, SqlServer};
use crate::support::stores::{builder, call, held_by};
use crate::support::{SOON, wait_until};

fn config(mariadb: &MariaDb, user: &str, database: &str) -> MySqlConfig {
    MySqlConfig::new(&mariadb.url(user, database)).expect("a URL")
}

fn store(mariadb: &MariaDb, user: &str, database: &str) -> MySqlStore {
    MySqlStore::new(config(mariadb, user, database)).expect("a store")
}

/// A database of a test's own, with a user of the same name.
struct Place<'a> {
    mariadb: &'a MariaDb,
    database: String,
}

impl<'a> Place<'a> {
    fn new(mariadb: &'a MariaDb, name: &str) -> Self {
        let database = mariadb.database(name);
        mariadb.add_user(name, &database);
        let place = Self { mariadb, database };
        place.store().create_table().expect("a table");
        place
    }

    fn shared(name: &str) -> Option<Place<'static>> {
        MariaDb::shared().map(|mariadb| Place::new(mariadb, name))
    }

    fn config(&self) -> MySqlConfig {
        config(self.mariadb, &self.database, &self.database)
    }

    fn store(&self) -> MySqlStore {
        store(self.mariadb, &self.database, &self.database)
    }

    fn execute(&self, sql: &str) {
        self.mariadb.execute_in(&self.database, sql);
    }

    fn query(&self, sql: &str) -> String {
        self.mariadb.query_in(&self.database, sql)
    }

    /// Of the record `jobs`.
    fn writes(&self) -> u64 {
        self.query("SELECT writes FROM leasehold WHERE name = 'jobs'").parse().expect("a number")
    }

    fn is_renewed(&self, what: &str) {
        let before = self.writes();
        wait_until(what, || self.writes() > before + 1);
    }
}

/// As before a fail-over. Root is not bound by it, so he has to ask.
#[test]
fn a_server_that_becomes_read_only_has_no_leader_until_it_is_none_any_more() {
    let Some(mariadb) = MariaDb::start(&[]) else { return };
    let place = Place::new(&mariadb, "replica");
    let store = place.store();
    let as_root = place.config().with_user("root");
    let as_root = MySqlStore::new(as_root).expect("a store");
    let base = as_root.create("other", &held_by("a"), &call()).expect("a record");
    let elector = builder("a").lease_duration(Duration::from_secs(3)).renew_deadline(Duration::from_secs(1));
    let elector = elector.start_on(place.store()).expect("an elector");
    let guard = elector.block_until_leader().expect("a term");
    mariadb.set_read_only(true);
    for store in [&store, &as_root] {
        for error in [
            store.get("jobs", &call()).expect_err("a replica"),
            store.update("other", &base, &held_by("b"), &call()).expect_err("a replica"),
            store.create("new", &held_by("b"), &call()).expect_err("a replica"),
            store.watch(WatchScope::All, None, &CancelToken::new(), &mut |_| {}).expect_err("a replica"),
        ] {
            assert!(error.kind() == StoreErrorKind::Unavailable && error.to_string().contains("primary"), "{error}");
        }
    }
    assert!(guard.ended().recv_timeout(SOON).is_err_and(|error| error.is_disconnected()), "the term runs out");
    mariadb.set_read_only(false);
    drop(guard);
    assert!(elector.block_until_leader().expect("another term").is_leader());
    as_root.update("other", &base, &held_by("b"), &call()).expect("an update");
}

/// Names that a collation would take for one.
#[test]
fn keys_that_look_alike_are_apart() {
    let Some(place) = Place::shared("alike") else { return };
    let store = place.store();
    let keys = ["jobs", "Jobs", "jobs ", "jöbs", "jo\u{308}bs", "it's", "a\\b", "%"];
    for key in keys {
        store.create(key, &held_by(key), &call()).expect("a record");
    }
    for key in keys {
        let found = store.get(key, &call()).expect("an answer").expect("a record");
        assert_eq!(found.record.holder(), Some(key));
    }
}

/// Who creates waits for who deletes, and others come between.
#[test]
fn a_later_row_has_a_greater_version_however_creations_and_deletions_meet() {
    let Some(place) = Place::shared("meet") else { return };
    let (began, count) = (Instant::now(), AtomicUsize::new(0));
    let goes_on = || {
        let is_enough = count.load(Ordering::Relaxed) > 20 && began.elapsed() > Duration::from_secs(3);
        !is_enough && began.elapsed() < SOON
    };
    let mut all: Vec<_> = thread::scope(|scope| {
        let create = |_| {
            scope.spawn(|| {
                let (store, mut created) = (place.store(), Vec::new());
                while goes_on() {
                    let sent = Instant::now();
                    match store.create("jobs", &held_by("a"), &call()) {
                        Ok(observed) => {
                            created.push((sent, Instant::now(), observed.version));
                            count.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) if error.kind() == StoreErrorKind::NotApplied => {}
                        // Too many deadlocks in a row, and waits for locks.
                        Err(error) => assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}"),
                    }
                }
                created
            })
        };
        let threads: Vec<_> = (0..4).map(create).collect();
        // One that ended in a deadlock is followed by the next.
        let deletions = "DELETE FROM leasehold;".repeat(100);
        while goes_on() {
            let mut operator = place.mariadb.client_as(&place.database, PASSWORD, &place.database);
            operator.args(["--force", "-e", &deletions]).output().expect("a client");
        }
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(all.len() > 20, "{}", all.len());
    all.sort_by_key(|(_, _, version)| *version);
    for pair in all.windows(2) {
        assert!(pair[0].2 < pair[1].2, "a version was given twice");
        assert!(pair[0].0 < pair[1].1, "a lower version came after a greater one");
    }
}

/// A transaction of an operator's, which is longer than a call, and shorter.
#[test]
fn who_holds_the_lock_on_a_record_keeps_writes_waiting_and_reads_not() {
    let Some(place) = Place::shared("held") else { return };
    let store = place.store();
    let base = store.create("jobs", &held_by("a"), &call()).expect("a record");
    let mut operator = place.mariadb.session(&place.database);
    operator.execute("START TRANSACTION; SELECT * FROM leasehold FOR UPDATE;");
    assert!(store.get("jobs", &call()).expect("an answer").is_some());
    let briefly = CallContext::new(Duration::from_millis(200), CancelToken::new());
    assert_eq!(
        store.update("jobs", &base, &held_by("b"), &briefly).expect_err("it waits").kind(),
        StoreErrorKind::Timeout
    );
    let error = store.update("jobs", &base, &held_by("b"), &call()).expect_err("it waits");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    operator.execute("COMMIT;");
    let (kind, stands) = match store.update("jobs", &base, &held_by("c"), &call()) {
        Ok(observed) => (None, observed),
        // The first one was carried out after all: nobody was told that it was not.
        Err(error) => (Some(error.kind()), store.get("jobs", &call()).expect("an answer").expect("a record")),
    };
    assert!(
        kind.is_none() || (kind == Some(StoreErrorKind::NotApplied) && stands.record.holder() == Some("b")),
        "{kind:?}"
    );
    // A deletion that is not committed yet.
    operator.execute("START TRANSACTION; DELETE FROM leasehold;");
    let error = store.create("jobs", &held_by("d"), &call()).expect_err("it waits");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    operator.execute("ROLLBACK;");
    let error = store.create("jobs", &held_by("d"), &call()).expect_err("it exists");
    assert_eq!(error.kind(), StoreErrorKind::NotApplied, "{error}");
}

/// A user of the elections has the right to do what it takes, and nobody is told of the row that it takes.
#[test]
fn after_a_write_without_an_answer_what_is_read_is_on_disk() {
    let Some(place) = Place::shared("flushed") else { return };
    let grant = "GRANT SELECT, INSERT, UPDATE ON flushed.leasehold TO flushed_alone@'%'";
    place.execute(&format!("CREATE USER flushed_alone@'%' IDENTIFIED BY '{PASSWORD}'; {grant};"));
    let store = MySqlStore::new(place.config().with_user("flushed_alone")).expect("a store");
    let mut base = store.create("jobs", &held_by("a"), &call()).expect("a record");
    let flushes = || place.query("SELECT acquired FROM leasehold WHERE name = ''");
    // The first makes the row.
    for expected in ["0", "1"] {
        let before = flushes();
        let mut operator = place.mariadb.session(&place.database);
        operator.execute("START TRANSACTION; UPDATE leasehold SET writes = writes + 1 WHERE name = 'jobs';");
        let briefly = CallContext::new(Duration::from_millis(200), CancelToken::new());
        let unanswered = store.update("jobs", &base, &held_by("b"), &briefly).expect_err("it waits");
        assert_eq!(unanswered.kind(), StoreErrorKind::Timeout);
        assert_eq!(store.get("jobs", &call()).expect("an answer").expect("a record").version, base.version);
        assert_eq!(flushes(), before, "no write of ours stands there");
        operator.execute("COMMIT;");
        base = store.get("jobs", &call()).expect("an answer").expect("a record");
        assert_eq!(flushes(), expected);
        store.get("jobs", &call()).expect("an answer");
        assert_eq!(flushes(), expected, "once is enough");
    }
    assert!(store.get("", &call()).expect("an answer").is_none());
    let (cancel, mut told) = (CancelToken::new(), Vec::new());
    let ended = store.watch(WatchScope::All, None, &cancel, &mut |event| match event {
        WatchEvent::Changed { key, .. } => told.push(key),
        WatchEvent::Bookmark(_) => cancel.cancel(),
        _ => {}
    });
    assert_eq!(ended.expect_err("cancelled").kind(), StoreErrorKind::Interrupted);
    assert_eq!(told, ["jobs".into()]);
}

#[test]
fn a_table_that_is_dropped_is_the_end_of_a_term_and_can_be_made_again() {
    let Some(place) = Place::shared("dropped") else { return };
    let store = Arc::new(place.store());
    // With numbers that begin anew, a whole lease is waited for.
    let brief = builder("a").lease_duration(Duration::from_secs(10)).renew_deadline(Duration::from_secs(8));
    let elector = brief.start_on(Arc::clone(&store)).expect("an elector");
    let guard = elector.block_until_leader().expect("a term");
    place.is_renewed("it is renewed");
    place.execute("DROP TABLE leasehold");
    assert!(guard.ended().recv_timeout(SOON).is_err_and(|error| error.is_disconnected()));
    assert_eq!(guard.check().expect_err("the term has ended").reason, StopReason::Deleted, "it has not run out");
    let error = store.get("jobs", &call()).expect_err("no table");
    assert!(error.kind() == StoreErrorKind::NotFound && error.to_string().contains("create_table"), "{error}");
    drop(guard);
    store.create_table().expect("a table");
    store.create_table().expect("it is there");
    assert!(elector.block_until_leader().expect("another term").is_leader());
}

#[test]
fn a_table_of_another_engine_or_of_others_is_no_store() {
    let Some(place) = Place::shared("engines") else { return };
    place.execute("DROP TABLE leasehold; CREATE TABLE leasehold (generation INT) ENGINE=MyISAM");
    let error = place.store().create_table().expect_err("another engine");
    assert!(error.kind() == StoreErrorKind::Rejected && error.to_string().contains("InnoDB"), "{error}");
    place.execute("DROP TABLE leasehold; CREATE TABLE leasehold (generation INT) ENGINE=InnoDB");
    let error = place.store().create_table().expect_err("other columns");
    assert!(error.kind() == StoreErrorKind::Rejected && error.to_string().contains("documentation"), "{error}");
    place.execute("DROP TABLE leasehold");
    place.store().create_table().expect("a table");
    let create = place.query("SHOW CREATE TABLE leasehold");
    assert!(create.contains("ENGINE=InnoDB"), "{create}");
}
