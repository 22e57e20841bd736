//! Records on a real server or in a file, in a place of one test's own.

use std::ops::Deref;
use std::time::Duration;

use leasehold::{MySqlConfig, MySqlStore, PostgresConfig, PostgresStore, SqliteStore, Store, StoreError};
use rusqlite::Connection;
use tempfile::TempDir;

use super::etcd::Etcd;
use super::mariadb::MariaDb;
use super::postgres::Postgres;
use super::scratch;
use super::server::Server;
use super::sql::SqlServer;
use super::stores::call;

/// Records of one test.
pub trait RealStore: Sized {
    /// On a server that tests share. `None` if it is not installed.
    fn shared(name: &str) -> Option<Self>;

    /// On a server of the test's own.
    fn alone(name: &str) -> Option<Self>;

    fn open(&self) -> Result<Box<dyn Store>, StoreError>;

    /// Deletes a record past the store.
    fn delete(&self, key: &str);

    /// Returns the URL for the command.
    fn url(&self) -> String;

    /// Kills the server and starts it again on its data.
    fn restart(&mut self);

    fn store(&self) -> Box<dyn Store> {
        self.open().expect("a store")
    }

    /// Returns the holder of the record `jobs`.
    fn holder(&self) -> Option<String> {
        let found = self.store().get("jobs", &call()).expect("an answer").expect("a record");
        found.record.holder().map(str::to_owned)
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

    fn delete(&self, key: &str) {
        let deleted = self.operator.execute("DELETE FROM leasehold WHERE key = ?1", [key]).expect("a deletion");
        assert_eq!(deleted, 1, "a row to delete");
    }

    fn url(&self) -> String {
        format!("sqlite://{}", self.scratch.path().join("election.db").display())
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
    const ADMINISTRATOR: &'static str;
    /// The column of the keys.
    const KEY: &'static str;

    fn store(url: &str) -> Box<dyn Store>;

    fn create_table(url: &str);
}

impl Elects for Postgres {
    const ADMINISTRATOR: &'static str = "postgres";
    const KEY: &'static str = "key";

    fn store(url: &str) -> Box<dyn Store> {
        Box::new(PostgresStore::new(PostgresConfig::new(url).expect("a URL")).expect("a store"))
    }

    fn create_table(url: &str) {
        let store = PostgresStore::new(PostgresConfig::new(url).expect("a URL")).expect("a store");
        store.create_table().expect("a table");
    }
}

impl Elects for MariaDb {
    const ADMINISTRATOR: &'static str = "root";
    const KEY: &'static str = "name";

    fn store(url: &str) -> Box<dyn Store> {
        let config = MySqlConfig::new(url).expect("a URL").with_poll_interval(Duration::from_millis(10));
        Box::new(MySqlStore::new(config).expect("a store"))
    }

    fn create_table(url: &str) {
        let store = MySqlStore::new(MySqlConfig::new(url).expect("a URL")).expect("a store");
        store.create_table().expect("a table");
    }
}

impl<S: Elects> InSql<S> {
    fn on(server: Held<S>, name: &str) -> Self {
        let place = Self { database: server.database(name), server };
        S::create_table(&place.url());
        place
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
        Ok(S::store(&self.url()))
    }

    fn delete(&self, key: &str) {
        self.server.execute_in(&self.database, &format!("DELETE FROM leasehold WHERE {} = '{key}'", S::KEY));
    }

    fn url(&self) -> String {
        self.server.url(S::ADMINISTRATOR, &self.database)
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
pub struct InEtcd {
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

    fn delete(&self, key: &str) {
        self.etcd.delete(&format!("{}{key}", self.prefix));
    }

    fn url(&self) -> String {
        format!("{}/{}", self.etcd.members[0].url().replace("http", "etcd"), self.prefix)
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
