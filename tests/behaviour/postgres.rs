//! Records in a real PostgreSQL, and what befalls it: connections that end, a server that stands still, a fail-over that loses
//! commits, locks of others, users who may do little, poolers.

mod access;
mod failures;
mod history;
mod watching;

use std::sync::Arc;

use leasehold::{PostgresConfig, PostgresStore};

use crate::support::postgres::Postgres;
use crate::support::sql::SqlServer;

fn store(postgres: &Postgres, database: &str) -> Arc<PostgresStore> {
    let config = PostgresConfig::new(&postgres.url("postgres", database)).expect("a URL");
    Arc::new(PostgresStore::new(config).expect("a store"))
}

/// A database of a test's own, with a table.
fn with_table(postgres: &Postgres, database: &str) -> Arc<PostgresStore> {
    let store = store(postgres, &postgres.database(database));
    store.create_table().expect("a table");
    store
}
