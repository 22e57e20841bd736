//! Records in a real PostgreSQL.
//!
//! Connections end, the server is paused, and a failover loses commits. Other sessions hold locks, users have few
//! rights, and poolers share sessions.

mod access;
mod failures;
mod history;
mod urls;
mod watching;

use std::sync::Arc;

use leasehold::postgres::{PostgresConfig, PostgresStore};

use crate::support::postgres::Postgres;
use crate::support::sql::SqlServer;

fn store(postgres: &Postgres, database: &str) -> Arc<PostgresStore> {
    Arc::new(at(&postgres.url("postgres", database)))
}

fn at(url: &str) -> PostgresStore {
    PostgresStore::new(PostgresConfig::new(url).expect(url)).expect("a store")
}

/// Creates a database for one test, and returns a store on its table.
fn with_table(postgres: &Postgres, database: &str) -> Arc<PostgresStore> {
    let store = store(postgres, &postgres.database(database));
    store.create_table().expect("a table");
    store
}
