//! Tests that every real server, or a file, has to pass, each in a place of its own.

use std::ops::Deref;
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Call, Cancel, LeaderElector, SqliteStore, Store, StoreError, StoreErrorKind};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::support::etcd::Etcd;
use crate::support::mariadb::MariaDb;
use crate::support::postgres::Postgres;
use crate::support::server::Server;
use crate::support::sql::SqlServer;
use crate::support::stores::{at_last, builder, call, held_by};
use crate::support::{AT_ONCE, SOON, scratch, wait_until};

/// Records of one test.
pub trait RealStore: Sized {
    /// On a server that tests share. `None` if it is not installed.
    fn shared(name: &str) -> Option<Self>;

    /// On a server of the test's own.
    fn alone(name: &str) -> Option<Self>;

    fn open(&self) -> Result<Box<dyn Store>, StoreError>;

    fn delete_all(&self);

    /// Kills the server and starts it again on its data.
    fn restart(&mut self);

    fn store(&self) -> Box<dyn Store> {
        self.open().expect("a store")
    }
}

/// Records on a server that a test disturbs.
pub trait OnServer: RealStore {
    fn server(&mut self) -> &mut Server;

    /// Ends the connections of all candidates.
    fn end_connections(&self) {}
}

enum Held<S: 'static> {
    Shared(&'static S),
    Own(S),
}

impl<S> Held<S> {
    fn own(&mut self) -> &mut S {
        match self {
            Held::Shared(_) => panic!("others use this server"),
            Held::Own(server) => server,
        }
    }
}

impl<S> Deref for Held<S> {
    type Target = S;

    fn deref(&self) -> &S {
        match self {
            Held::Shared(server) => server,
            Held::Own(server) => server,
        }
    }
}

/// The table in a file.
pub struct File {
    pub scratch: TempDir,
    pub operator: Connection,
}

impl RealStore for File {
    fn shared(_: &str) -> Option<Self> {
        let scratch = scratch();
        let path = scratch.path().join("election.db");
        drop(SqliteStore::open(&path).expect("a store"));
        Some(Self { scratch, operator: Connection::open(path).expect("a connection") })
    }

    fn alone(name: &str) -> Option<Self> {
        Self::shared(name)
    }

    fn open(&self) -> Result<Box<dyn Store>, StoreError> {
        Ok(Box::new(SqliteStore::open(self.scratch.path().join("election.db"))?))
    }

    fn delete_all(&self) {
        self.operator.execute("DELETE FROM leasehold", []).expect("a deletion");
    }

    /// The file is closed, except by an operator in memory.
    fn restart(&mut self) {
        self.operator = Connection::open_in_memory().expect("a connection");
        self.operator = Connection::open(self.scratch.path().join("election.db")).expect("a connection");
    }
}

/// The table in a database of the test's own.
pub struct InSql<S: SqlServer> {
    server: Held<S>,
    pub database: String,
}

pub trait Elects: SqlServer {
    fn table(&self, database: &str) -> Box<dyn Store>;

    fn create_table(&self, database: &str);
}

impl Elects for Postgres {
    fn table(&self, database: &str) -> Box<dyn Store> {
        Box::new(super::postgres::store(self, database))
    }

    fn create_table(&self, database: &str) {
        super::postgres::store(self, database).create_table().expect("a table");
    }
}

impl Elects for MariaDb {
    fn table(&self, database: &str) -> Box<dyn Store> {
        Box::new(super::mysql::store(self, "root", database))
    }

    fn create_table(&self, database: &str) {
        super::mysql::store(self, "root", database).create_table().expect("a table");
    }
}

impl<S: Elects> InSql<S> {
    fn on(server: Held<S>, name: &str) -> Self {
        let database = server.database(name);
        server.create_table(&database);
        Self { server, database }
    }

    pub fn server(&self) -> &S {
        &self.server
    }
}

impl<S: Elects> RealStore for InSql<S> {
    fn shared(name: &str) -> Option<Self> {
        S::shared().map(|server| Self::on(Held::Shared(server), name))
    }

    fn alone(name: &str) -> Option<Self> {
        S::start(&[]).map(|server| Self::on(Held::Own(server), name))
    }

    fn open(&self) -> Result<Box<dyn Store>, StoreError> {
        Ok(self.server.table(&self.database))
    }

    fn delete_all(&self) {
        self.server.execute_in(&self.database, "DELETE FROM leasehold");
    }

    fn restart(&mut self) {
        self.server.own().kill();
        self.server.own().start_again();
    }
}

impl<S: Elects> OnServer for InSql<S> {
    fn server(&mut self) -> &mut Server {
        self.server.own()
    }

    fn end_connections(&self) {
        assert!(self.server.end_connections(&self.database) > 0);
    }
}

/// Records in an etcd of one member, below a prefix.
struct InEtcd {
    etcd: Held<Etcd>,
    prefix: String,
}

impl RealStore for InEtcd {
    fn shared(name: &str) -> Option<Self> {
        Etcd::shared().map(|etcd| Self { etcd: Held::Shared(etcd), prefix: format!("{name}/") })
    }

    fn alone(name: &str) -> Option<Self> {
        Etcd::start(1, &[]).map(|etcd| Self { etcd: Held::Own(etcd), prefix: format!("{name}/") })
    }

    fn open(&self) -> Result<Box<dyn Store>, StoreError> {
        Ok(Box::new(self.etcd.store(&self.prefix)))
    }

    fn delete_all(&self) {
        self.etcd.delete(&format!("{}jobs", self.prefix));
    }

    fn restart(&mut self) {
        self.server().kill();
        self.server().start_again();
    }
}

impl OnServer for InEtcd {
    fn server(&mut self) -> &mut Server {
        &mut self.etcd.own().members[0]
    }
}

macro_rules! on {
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

on! {
    sqlite File: versions_never_repeat_over_deletion_and_a_restart;
    postgres InSql<Postgres>: versions_never_repeat_over_deletion_and_a_restart, term_outlasts_connections_and_server,
        paused_server_ends_calls_in_time_and_the_term;
    mysql InSql<MariaDb>: versions_never_repeat_over_deletion_and_a_restart, term_outlasts_connections_and_server,
        paused_server_ends_calls_in_time_and_the_term;
    etcd InEtcd: versions_never_repeat_over_deletion_and_a_restart, term_outlasts_connections_and_server;
}

/// The rows are gone, and then the server that has counted them.
fn versions_never_repeat_over_deletion_and_a_restart(mut place: impl RealStore) {
    let mut last = 0;
    for _ in 0..3 {
        let store = place.store();
        let mut observed = store.create("jobs", &held_by("a"), &call()).expect("a record");
        assert!(observed.version > last, "{} after {last}", observed.version);
        for _ in 0..3 {
            observed = store.update("jobs", &observed, &held_by("b"), &call()).expect("an update");
        }
        assert_eq!(store.get("jobs", &call()).expect("an answer").expect("a record").version, observed.version);
        last = observed.version;
        drop(store);
        place.delete_all();
        place.restart();
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
    // The second store has no connection yet: the server does not answer its first one.
    let (warm, cold) = (place.store(), place.store());
    let base = warm.create("jobs", &held_by("a"), &call()).expect("a record");
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
    let briefly = || Call::new(Duration::from_millis(300), Cancel::new());
    for store in [&warm, &cold] {
        assert_eq!(store.get("jobs", &briefly()).expect_err("silence").kind(), StoreErrorKind::Timeout);
        let written = store.update("jobs", &base, &held_by("b"), &briefly());
        assert_eq!(written.expect_err("silence").kind(), StoreErrorKind::Timeout);
        let cancel = Cancel::new();
        thread::scope(|scope| {
            let hanging = scope.spawn(|| store.get("jobs", &Call::new(SOON * 2, cancel.clone())));
            thread::sleep(Duration::from_millis(100));
            cancel.cancel();
            let ended = hanging.join().expect("no panic").expect_err("cancelled");
            assert_eq!(ended.kind(), StoreErrorKind::Interrupted);
        });
    }
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    assert!(guard.lost().recv_timeout(SOON).is_err_and(|error| error.is_disconnected()), "the term runs out");
    place.server().resume();
    let now = at_last("an answer", || warm.get("jobs", &call())).expect("a record");
    // The update was in doubt: the server may have applied it when it went on.
    assert!([Some("a"), Some("b")].contains(&now.record.holder()));
    drop(guard);
    assert!(elector.block_until_leader().expect("another term").is_leader());
}
