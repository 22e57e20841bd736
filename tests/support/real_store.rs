//! Real stores for tests. Each test has its own database, prefix or file.

use std::ops::Deref;

use leasehold::mysql::{MySqlConfig, MySqlStore};
use leasehold::postgres::{PostgresConfig, PostgresStore};
use leasehold::sqlite::SqliteStore;
use leasehold::store::{Store, StoreError};
use leasehold::{Password, TlsConfig};
use rusqlite::Connection;
use tempfile::TempDir;

use super::authority::Pair;
use super::etcd::Etcd;
use super::mariadb::MariaDb;
use super::postgres::Postgres;
use super::scratch;
use super::server::Server;
use super::session::Session;
use super::sql::{PASSWORD, SqlServer};
use super::stores::call;

/// The records of one test in a real store.
pub trait RealStore: Sized {
    /// Creates a place for records on a server that tests share.
    ///
    /// Returns `None` if the server is not installed.
    fn shared(name: &str) -> Option<Self>;

    /// Creates a place for records on a server that only this test uses.
    ///
    /// Returns `None` if the server is not installed.
    fn alone(name: &str) -> Option<Self>;

    fn open(&self) -> Result<Box<dyn Store>, StoreError>;

    /// Deletes a record like an operator, without the store.
    fn delete(&self, key: &str);

    /// Returns the URL of the store for the command `leasehold`.
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

/// The records of one test on a server that the test can stop, kill or pause.
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

/// The records of one test in a table.
pub trait InTable: RealStore {
    fn execute(&self, sql: &str);

    /// Returns `true` if the statements succeed.
    fn try_execute(&self, sql: &str) -> bool;

    /// Returns the only column of the only row.
    fn query(&self, sql: &str) -> String;

    fn create_table(&self) -> Result<(), StoreError>;

    fn fence_of(&self, key: &str, token: u64) -> String;

    fn fence(&self, token: u64) -> String {
        self.fence_of("jobs", token)
    }
}

/// A table in an SQLite file.
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

    /// Closes and reopens the operator's connection, because a file has no server.
    ///
    /// The connection in memory is a placeholder while the file is closed.
    fn restart(&mut self) {
        self.operator = Connection::open_in_memory().expect("a connection");
        self.operator = Connection::open(self.scratch.path().join("election.db")).expect("a connection");
    }
}

impl InTable for File {
    fn execute(&self, sql: &str) {
        self.operator.execute_batch(sql).expect(sql);
    }

    fn try_execute(&self, sql: &str) -> bool {
        self.operator.execute_batch(sql).is_ok()
    }

    fn query(&self, sql: &str) -> String {
        self.operator.query_row(&format!("SELECT CAST(({sql}) AS TEXT)"), [], |row| row.get(0)).expect(sql)
    }

    fn create_table(&self) -> Result<(), StoreError> {
        SqliteStore::open(self.scratch.path().join("election.db")).map(drop)
    }

    fn fence_of(&self, key: &str, token: u64) -> String {
        SqliteStore::fence_sql(key, token)
    }
}

/// A table in a database that only one test uses.
pub struct InSql<S: SqlServer> {
    server: Held<S>,
    pub database: String,
}

pub trait Elects: SqlServer {
    const ADMINISTRATOR: &'static str;
    /// The name of the column that contains the keys.
    const KEY: &'static str;
    const TABLES: &'static [&'static str];
    /// The flag of the client program that precedes a statement.
    const STATEMENT: &'static str;
    /// The SQL keywords before the password in `CREATE USER`.
    const BY_PASSWORD: &'static str;
    /// The URL parameters for plain text, for unverified TLS, and for TLS with a verified server.
    const TLS_MODES: [&'static str; 3];

    fn store_with(url: &str, tls: Option<TlsConfig>, password: Option<Password>) -> Box<dyn Store>;

    fn create_table(url: &str) -> Result<(), StoreError>;

    fn fence(key: &str, token: u64) -> String;

    /// Returns the administrator's URL through the socket in `directory`.
    fn socket_url(&self, directory: &str, database: &str) -> String;

    /// Makes the server refuse connections of a user without TLS.
    fn require_tls(&self, user: &str);

    fn store(url: &str) -> Box<dyn Store> {
        Self::store_with(url, None, None)
    }

    /// Creates a user without rights.
    fn add_user(&self, name: &str) {
        self.execute(&format!("CREATE USER {name} {} '{PASSWORD}'", Self::BY_PASSWORD));
    }
}

impl Elects for Postgres {
    const ADMINISTRATOR: &'static str = "postgres";
    const KEY: &'static str = "key";
    const TABLES: &'static [&'static str] = &["leasehold"];
    const STATEMENT: &'static str = "-c";
    const BY_PASSWORD: &'static str = "PASSWORD";
    const TLS_MODES: [&'static str; 3] = ["sslmode=disable", "sslmode=require", "sslmode=verify-full"];

    fn store_with(url: &str, tls: Option<TlsConfig>, password: Option<Password>) -> Box<dyn Store> {
        let mut config = PostgresConfig::new(url).expect("a URL").with_tls(tls.unwrap_or_default());
        if let Some(password) = password {
            config = config.with_password(password);
        }
        Box::new(PostgresStore::new(config).expect("a store"))
    }

    fn create_table(url: &str) -> Result<(), StoreError> {
        PostgresStore::new(PostgresConfig::new(url).expect("a URL")).expect("a store").create_table()
    }

    fn fence(key: &str, token: u64) -> String {
        PostgresStore::fence_sql(key, token)
    }

    fn socket_url(&self, directory: &str, database: &str) -> String {
        format!("postgres://postgres@:{}/{database}?host={directory}", self.port())
    }

    fn require_tls(&self, _: &str) {
        self.set_hba("hostssl all all 127.0.0.1/32 scram-sha-256");
    }
}

impl Elects for MariaDb {
    const ADMINISTRATOR: &'static str = "root";
    const KEY: &'static str = "name";
    const TABLES: &'static [&'static str] = &["leasehold", "leasehold_fence"];
    const STATEMENT: &'static str = "-e";
    const BY_PASSWORD: &'static str = "IDENTIFIED BY";
    const TLS_MODES: [&'static str; 3] = ["ssl-mode=DISABLED", "ssl-mode=REQUIRED", "ssl-mode=VERIFY_IDENTITY"];

    fn store_with(url: &str, tls: Option<TlsConfig>, password: Option<Password>) -> Box<dyn Store> {
        let separator = if url.contains('?') { '&' } else { '?' };
        let mut config = MySqlConfig::new(&format!("{url}{separator}poll-interval=10ms")).expect("a URL");
        if let Some(tls) = tls {
            config = config.with_tls(tls);
        }
        if let Some(password) = password {
            config = config.with_password(password);
        }
        Box::new(MySqlStore::new(config).expect("a store"))
    }

    fn create_table(url: &str) -> Result<(), StoreError> {
        MySqlStore::new(MySqlConfig::new(url).expect("a URL")).expect("a store").create_table()
    }

    fn fence(key: &str, token: u64) -> String {
        MySqlStore::fence_sql(key, token)
    }

    fn socket_url(&self, directory: &str, database: &str) -> String {
        format!("mysql://root@localhost/{database}?socket={directory}/socket")
    }

    fn require_tls(&self, user: &str) {
        self.execute(&format!("ALTER USER {user} REQUIRE SSL"));
    }
}

impl<S: Elects> InSql<S> {
    fn on(server: Held<S>, name: &str) -> Self {
        let place = Self { database: server.database(name), server };
        S::create_table(&place.url()).expect("a table");
        place
    }

    /// Creates a place for records on a server that only this test uses.
    ///
    /// The server has this certificate.
    pub fn with_tls(pair: &Pair, name: &str) -> Option<Self> {
        S::start_with_tls(&pair.certificate, &pair.key, &[]).map(|server| Self::on(Held::Own(server), name))
    }

    pub fn server(&self) -> &S {
        &self.server
    }

    /// Opens a connection of an operator.
    pub fn session(&self) -> Session {
        self.server.session(&self.database)
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
        self.execute(&format!("DELETE FROM leasehold WHERE {} = '{key}'", S::KEY));
    }

    fn url(&self) -> String {
        self.server.url(S::ADMINISTRATOR, &self.database)
    }

    fn restart(&mut self) {
        self.server.own().kill();
        self.server.own().start_again();
    }
}

impl<S: Elects> InTable for InSql<S> {
    fn execute(&self, sql: &str) {
        self.server.execute_in(&self.database, sql);
    }

    fn try_execute(&self, sql: &str) -> bool {
        let client = self.server.client(&self.database).args([S::STATEMENT, sql]).output();
        client.expect("a client").status.success()
    }

    fn query(&self, sql: &str) -> String {
        self.server.query_in(&self.database, sql)
    }

    fn create_table(&self) -> Result<(), StoreError> {
        S::create_table(&self.url())
    }

    fn fence_of(&self, key: &str, token: u64) -> String {
        S::fence(key, token)
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

/// The records of one test below a prefix, in an etcd cluster of one member.
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
