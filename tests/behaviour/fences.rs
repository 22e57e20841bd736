//! Fenced transactions beside renewals, releases and acquisitions, on PostgreSQL and MariaDB.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use leasehold::store::{
    CallContext, CancelToken, LeaderElectionRecord, MicroTime, Store, StoreErrorKind, VersionedRecord,
};

use crate::support::mariadb::MariaDb;
use crate::support::postgres::Postgres;
use crate::support::real_store::{Elects, InSql, InTable, RealStore};
use crate::support::stores::{brief, call, held_by};
use crate::support::{AT_ONCE, wait_until};

/// The statements of a server.
trait Dialect: Elects {
    /// A statement that changes the row of the fence as an acquisition does, without the lock of the candidates.
    const ACQUIRE: &'static str;
    /// A query for the number of sessions of this database that wait for a lock.
    const WAITS: &'static str;
    /// A statement that takes a tenth of a second.
    const SLEEP: &'static str;
    /// A query for the number of the session in the server.
    const PROCESS: &'static str;
    /// The clause that locks rows as a fence does.
    const SHARED: &'static str;
    /// The text in an error before the number of a session, and the statement that ends the session.
    const BLOCKED_BY: [&'static str; 2];

    fn begin(level: &str) -> String;
}

impl Dialect for Postgres {
    const ACQUIRE: &'static str = "UPDATE leasehold SET acquisition = acquisition + 100;";
    const WAITS: &'static str =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    const SLEEP: &'static str = "SELECT pg_sleep(0.1)";
    const PROCESS: &'static str = "SELECT pg_backend_pid();";
    const SHARED: &'static str = "FOR SHARE";
    const BLOCKED_BY: [&'static str; 2] = ["blocked by process ", "SELECT pg_terminate_backend(PROCESS)"];

    fn begin(level: &str) -> String {
        // The client continues after an error, such as a serialization failure.
        format!("\\set ON_ERROR_STOP off\nSTART TRANSACTION ISOLATION LEVEL {level};")
    }
}

impl Dialect for MariaDb {
    const ACQUIRE: &'static str = "UPDATE leasehold_fence SET acquired = acquired + 100;";
    const WAITS: &'static str = "SELECT COUNT(*) FROM information_schema.INNODB_TRX AS t JOIN \
        information_schema.PROCESSLIST AS p ON p.ID = t.trx_mysql_thread_id \
        WHERE p.DB = DATABASE() AND t.trx_state = 'LOCK WAIT'";
    const SLEEP: &'static str = "SELECT SLEEP(0.1)";
    const PROCESS: &'static str = "SELECT CONNECTION_ID();";
    const SHARED: &'static str = "LOCK IN SHARE MODE";
    const BLOCKED_BY: [&'static str; 2] = ["blocked by one of thread ", "KILL THREAD"];

    fn begin(level: &str) -> String {
        format!("SET TRANSACTION ISOLATION LEVEL {level}; START TRANSACTION;")
    }
}

macro_rules! on_every_server {
    ($($test:ident),* $(,)?) => {
        on_every_server!(postgres InSql<Postgres>; $($test),*);
        on_every_server!(mysql InSql<MariaDb>; $($test),*);
    };
    ($module:ident $database:ty; $($test:ident),*) => {
        mod $module {
            use super::*;
            $(#[test] fn $test() {
                let Some(database) = <$database>::shared(concat!("fences_", stringify!($test))) else { return };
                super::$test(&database);
            })*
        }
    };
}

on_every_server! {
    renewals_and_releases_pass_an_open_fence,
    renewal_passes_a_waiting_acquisition,
    acquisition_waits_for_open_fences_and_not_for_later_ones,
    fences_that_never_stop_delay_no_renewal,
    stale_fence_fails_at_every_isolation_level,
    fence_beside_an_uncommitted_acquisition_fails,
    released_term_keeps_its_fence_until_the_next_one,
    first_acquisition_has_one_winner_beside_a_fence,
    timed_out_acquisition_names_the_blocker,
}

/// Waits until this number of sessions wait for a lock.
///
/// InnoDB refreshes its list of transactions only if the last query was more than 100 ms ago.
fn wait_for_waiters<S: Dialect>(database: &InSql<S>, number: usize) {
    wait_until("sessions wait for a lock", || {
        thread::sleep(Duration::from_millis(150));
        database.query(S::WAITS) == number.to_string()
    });
}

/// Returns a record of the same term with another `renewTime`.
fn renewed(base: &VersionedRecord) -> LeaderElectionRecord {
    let micros = 1_700_000_001_000_000 + base.version % 1_000_000;
    LeaderElectionRecord { renew_time: Some(MicroTime::from_unix_micros(micros)), ..base.record.clone() }
}

fn released(base: &VersionedRecord) -> LeaderElectionRecord {
    LeaderElectionRecord { holder_identity: Some(String::new()), ..renewed(base) }
}

fn at_once() -> CallContext {
    CallContext::new(AT_ONCE, CancelToken::new())
}

fn renew(store: &dyn Store, base: &VersionedRecord) -> VersionedRecord {
    store.update("jobs", base, renewed(base).as_write(), &at_once()).expect("a renewal")
}

/// Creates the record `jobs`, held by `a`, and another table.
fn create(database: &impl InTable, store: &dyn Store) -> VersionedRecord {
    database.execute("CREATE TABLE others (number INT)");
    store.create("jobs", held_by("a").as_write(), &call()).expect("a record")
}

fn renewals_and_releases_pass_an_open_fence(database: &InSql<impl Dialect>) {
    let store = database.store();
    let created = create(database, &*store);
    let mut session = database.session();
    assert_eq!(session.query(&format!("BEGIN; {};", database.fence(created.version))), "1");
    let base = renew(&*store, &renew(&*store, &created));
    let base = store.update("jobs", &base, released(&base).as_write(), &at_once()).expect("a release");
    // The same identity starts another term.
    let next = LeaderElectionRecord { acquire_time: Some(MicroTime::from_unix_micros(7)), ..created.record.clone() };
    for next in [held_by("b"), next] {
        let error = store.update("jobs", &base, next.as_write(), &brief()).expect_err("an acquisition waits");
        assert_eq!(error.kind(), StoreErrorKind::Timeout, "{error}");
    }
    session.execute("COMMIT;");
}

fn renewal_passes_a_waiting_acquisition(database: &InSql<impl Dialect>) {
    let store = database.store();
    let base = create(database, &*store);
    let mut session = database.session();
    assert_eq!(session.query(&format!("BEGIN; {};", database.fence(base.version))), "1");
    thread::scope(|scope| {
        let acquisition = scope.spawn(|| store.update("jobs", &base, held_by("b").as_write(), &call()));
        wait_for_waiters(database, 1);
        renew(&*store, &base);
        session.execute("COMMIT;");
        let error = acquisition.join().expect("no panic").expect_err("its base is renewed");
        assert_eq!(error.kind(), StoreErrorKind::NotApplied, "{error}");
    });
}

fn acquisition_waits_for_open_fences_and_not_for_later_ones(database: &InSql<impl Dialect>) {
    let store = database.store();
    let base = create(database, &*store);
    let fence = database.fence(base.version);
    let [mut earlier, mut later] = [database.session(), database.session()];
    assert_eq!(earlier.query(&format!("BEGIN; {fence};")), "1");
    thread::scope(|scope| {
        let acquisition = scope.spawn(|| store.update("jobs", &base, held_by("b").as_write(), &call()));
        wait_for_waiters(database, 1);
        let later = scope.spawn(move || later.query(&format!("BEGIN; {fence};")));
        wait_for_waiters(database, 2);
        assert!(!acquisition.is_finished());
        earlier.execute("COMMIT;");
        acquisition.join().expect("no panic").expect("an acquisition");
        assert_eq!(later.join().expect("no panic"), "", "its term has ended");
    });
}

/// Workers open a fence in each of their transactions, which overlap and follow each other without a pause.
fn fences_that_never_stop_delay_no_renewal<S: Dialect>(database: &InSql<S>) {
    let store = database.store();
    let mut base = create(database, &*store);
    let fence = database.fence(base.version);
    let stops = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut workers = Vec::new();
        for _ in 0..4 {
            let (mut session, fence, stops) = (database.session(), &fence, &stops);
            workers.push(scope.spawn(move || {
                let mut passed = 0;
                while !stops.load(Ordering::Relaxed) {
                    let rows = session.query(&format!("BEGIN; {fence}; {}; COMMIT;", S::SLEEP));
                    passed += usize::from(rows.starts_with('1'));
                }
                passed
            }));
        }
        wait_until("fences are open", || workers.iter().all(|worker| !worker.is_finished()));
        for _ in 0..20 {
            thread::sleep(Duration::from_millis(20));
            base = renew(&*store, &base);
        }
        let taken = store.update("jobs", &base, held_by("b").as_write(), &call());
        stops.store(true, Ordering::Relaxed);
        let passed: Vec<_> = workers.into_iter().map(|worker| worker.join().expect("no panic")).collect();
        assert!(passed.iter().all(|passed| *passed > 0), "{passed:?}");
        taken.expect("a take-over beside fences");
    });
}

/// A read that gives a transaction its snapshot.
///
/// At the level `SERIALIZABLE`, MariaDB locks what a transaction reads, so the statement reads another table.
const SNAPSHOT: &str = "SELECT 1 FROM others;";
const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

/// Returns the fence alone, and in a condition.
fn forms(fence: &str) -> [String; 2] {
    [fence.to_owned(), format!("SELECT 1 FROM (SELECT 1) AS one WHERE EXISTS ({fence})")]
}

/// A transaction may read before the take-over, so that its snapshot shows the former term.
fn stale_fence_fails_at_every_isolation_level<S: Dialect>(database: &InSql<S>) {
    let store = database.store();
    let mut base = create(database, &*store);
    for level in LEVELS {
        for form in 0..2 {
            let holder = base.record.holder().expect("a holder").to_owned();
            let fence = &forms(&database.fence(base.version))[form];
            let (mut old, mut new) = (database.session(), database.session());
            for session in [&mut old, &mut new] {
                session.execute(&S::begin(level));
            }
            old.execute(SNAPSHOT);
            assert_eq!(new.query(&format!("{fence}; COMMIT;")), "1", "{level}: the term is valid");
            base = renew(&*store, &renew(&*store, &base));
            let next = if holder == "a" { "b" } else { "a" };
            base = store.update("jobs", &base, held_by(next).as_write(), &call()).expect("a take-over");
            new.execute(&S::begin(level));
            for session in [&mut old, &mut new] {
                assert_eq!(session.query(&format!("{fence};")), "", "{level}: {fence}");
            }
        }
    }
}

/// Neither the advisory lock nor the turn of the acquisition protects the fence here, only the lock of its row.
fn fence_beside_an_uncommitted_acquisition_fails<S: Dialect>(database: &InSql<S>) {
    let store = database.store();
    let base = create(database, &*store);
    let mut token = base.version;
    for level in LEVELS {
        for form in 0..2 {
            let fence = forms(&database.fence(token))[form].clone();
            let [mut old, mut acquirer] = [database.session(), database.session()];
            old.execute(&S::begin(level));
            old.execute(SNAPSHOT);
            acquirer.execute(&format!("BEGIN; {}", S::ACQUIRE));
            thread::scope(|scope| {
                let late = scope.spawn(|| old.query(&format!("{fence};")));
                wait_for_waiters(database, 1);
                assert!(!late.is_finished(), "{level}: the acquisition may be rolled back");
                acquirer.execute("COMMIT;");
                assert_eq!(late.join().expect("no panic"), "", "{level}: {fence}");
            });
            token += 100;
        }
    }
}

fn released_term_keeps_its_fence_until_the_next_one<S: Dialect>(database: &InSql<S>) {
    let store = database.store();
    let base = create(database, &*store);
    let fence = database.fence(base.version);
    let mut old = database.session();
    old.execute(&S::begin("REPEATABLE READ"));
    old.execute(SNAPSHOT);
    let base = store.update("jobs", &base, released(&base).as_write(), &call()).expect("a release");
    assert_eq!(old.query(&format!("{fence};")), "1", "no later term has started");
    thread::scope(|scope| {
        let acquisition = scope.spawn(|| store.update("jobs", &base, held_by("b").as_write(), &call()));
        wait_for_waiters(database, 1);
        assert!(!acquisition.is_finished());
        old.execute("COMMIT;");
        acquisition.join().expect("no panic").expect("an acquisition");
    });
    assert_eq!(old.query(&format!("BEGIN; {fence};")), "");
}

fn first_acquisition_has_one_winner_beside_a_fence(database: &InSql<impl Dialect>) {
    let mut session = database.session();
    assert_eq!(session.query(&format!("BEGIN; {};", database.fence(u64::MAX))), "", "no term has started");
    thread::scope(|scope| {
        let create = |_| scope.spawn(|| database.store().create("jobs", held_by("a").as_write(), &call()).ok());
        let creations: Vec<_> = (0..6).map(create).collect();
        thread::sleep(Duration::from_millis(100));
        session.execute("COMMIT;");
        let won: Vec<_> = creations.into_iter().filter_map(|create| create.join().expect("no panic")).collect();
        assert_eq!(won.len(), 1, "{won:?}");
        assert_eq!(session.query(&format!("BEGIN; {};", database.fence(won[0].version))), "1");
        assert_eq!(session.query(&format!("{};", database.fence(won[0].version - 1))), "");
    });
}

/// The error names the session, its user, and the statement that ends it.
///
/// Another transaction holds a lock that blocks nothing. MariaDB does not distinguish the two transactions.
fn timed_out_acquisition_names_the_blocker<S: Dialect>(database: &InSql<S>) {
    let store = database.store();
    let base = create(database, &*store);
    let mut session = database.session();
    let process = session.query(S::PROCESS);
    assert_eq!(session.query(&format!("BEGIN; {};", database.fence(base.version))), "1");
    let mut innocent = database.session();
    innocent.query(&format!("CREATE TABLE o (i INT); INSERT INTO o VALUES (1); BEGIN; SELECT i FROM o {};", S::SHARED));
    let call = CallContext::new(Duration::from_secs(6), CancelToken::new());
    let error = store.update("jobs", &base, held_by("b").as_write(), &call).expect_err("the fence stays open");
    let [blocked_by, ends] = S::BLOCKED_BY;
    let names = [&format!("{blocked_by}{process} (user {}", S::ADMINISTRATOR), ends];
    assert!(names.iter().all(|text| error.to_string().contains(*text)), "{error}");
    session.execute("COMMIT;");
}
