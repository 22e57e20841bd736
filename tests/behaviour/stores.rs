//! What every store owes an election: the public conformance suite on every kind of object on both servers, on etcd, in MariaDB, in
//! memory and in a file.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use leasehold::kube::{Method, Request};
use leasehold::testing::conformance::{self, CHECKS, Table};
use leasehold::{
    Call, Cancel, LeaderElector, LeaderGuard, LeaseStore, MemoryStore, MySqlConfig, MySqlStore, PostgresConfig,
    PostgresStore, SqliteStore, Store,
};
use parking_lot::Mutex;
use serde_json::json;

use crate::on_both_servers;
use crate::support::cluster::{Cluster, NAMESPACE, request};
use crate::support::etcd::Etcd;
use crate::support::kind::Kind;
use crate::support::mariadb::MariaDb;
use crate::support::postgres::Postgres;
use crate::support::sql::SqlServer;
use crate::support::{SOON, scratch};

fn of(cluster: &Cluster, kind: Kind) -> Table {
    let admin = cluster.client("admin");
    let delete = move |key: &str| {
        let path = format!("{}/{key}", kind.collection());
        request(&admin, Method::Delete, &path, None).expect("an object to delete");
    };
    Table::new(kind.store(cluster.client("admin")), &cluster.lease, delete).tells_every_change()
}

/// A file of its own, which goes with the table.
fn in_sqlite() -> Table {
    let scratch = scratch();
    let path = scratch.path().join("election.db");
    let store = SqliteStore::open(&path).expect("a store");
    let operator = Mutex::new(rusqlite::Connection::open(&path).expect("a connection"));
    Table::new(store, "jobs", move |key| {
        let _ = &scratch;
        let deleted = operator.lock().execute("DELETE FROM leasehold WHERE key = ?1", [key]).expect("a deletion");
        assert_eq!(deleted, 1, "a row to delete");
    })
}

fn in_memory() -> Table {
    let store = Arc::new(MemoryStore::new());
    let same = Arc::clone(&store);
    Table::new(Box::new(store), "jobs", move |key| assert!(same.delete(key), "a record to delete")).tells_every_change()
}

/// `None` where no MariaDB is installed.
fn in_mysql(name: &str) -> Option<Table> {
    let mariadb = MariaDb::shared()?;
    // Names of databases have 64 characters at most.
    let database = mariadb.database(&format!("conformance_{}", &name[..name.len().min(50)]));
    let user = format!("u{}", CHECKS.iter().position(|it| *it == name).expect("a check"));
    mariadb.add_user(&user, &database);
    let config = MySqlConfig::new(&mariadb.url(&user, &database)).expect("a URL");
    let store = MySqlStore::new(config.with_poll_interval(Duration::from_millis(10))).expect("a store");
    store.create_table().expect("a table");
    Some(Table::new(store, "jobs", move |key| {
        let delete = format!("DELETE FROM leasehold WHERE name = '{key}'; SELECT ROW_COUNT()");
        assert_eq!(mariadb.query_in(&database, &delete).trim(), "1", "a row to delete");
    }))
}

/// `None` where no etcd is built.
fn in_etcd(key: &str) -> Option<Table> {
    let etcd = Etcd::shared()?;
    let prefix = format!("{key}/");
    let below = prefix.clone();
    let delete = move |key: &str| etcd.delete(&format!("{below}{key}"));
    Some(Table::new(etcd.store(&prefix), "jobs", delete).tells_every_change())
}

/// A database of a test's own; `None` where no PostgreSQL is installed.
fn in_postgres(database: &str) -> Option<Table> {
    let postgres = Postgres::shared()?;
    let database = postgres.database(database);
    let config = PostgresConfig::new(&postgres.url("postgres", &database)).expect("a URL");
    let store = PostgresStore::new(config).expect("a store");
    store.create_table().expect("a table");
    let delete = move |key: &str| postgres.execute_in(&database, &format!("DELETE FROM leasehold WHERE key = '{key}'"));
    Some(Table::new(store, "jobs", delete))
}

macro_rules! on_every_kind {
    ($kind:ident $value:expr; $($test:ident),*) => {
        mod $kind {
            use super::*;
            $(fn $test(cluster: &Cluster) { conformance::check_one(stringify!($test), &of(cluster, $value)) })*
            on_both_servers!($($test),*);
        }
    };
    ($kind:ident $value:expr, $($more:ident $others:expr),*; $($test:ident),*) => {
        on_every_kind!($kind $value; $($test),*);
        on_every_kind!($($more $others),*; $($test),*);
    };
}

macro_rules! on_every_store {
    ($($test:ident),* $(,)?) => {
        on_every_kind!(leases Kind::Lease, config_maps Kind::ConfigMap, endpoints Kind::Endpoints; $($test),*);
        mod memory {
            use super::*;
            $(#[test] fn $test() { conformance::check_one(stringify!($test), &in_memory()); })*
        }
        mod sqlite {
            use super::*;
            $(#[test] fn $test() { conformance::check_one(stringify!($test), &in_sqlite()); })*
        }
        mod mysql {
            use super::*;
            $(#[test] fn $test() {
                let Some(table) = in_mysql(stringify!($test)) else { return };
                conformance::check_one(stringify!($test), &table);
            })*
        }
        mod etcd {
            use super::*;
            $(#[test] fn $test() {
                let Some(table) = in_etcd(stringify!($test)) else { return };
                conformance::check_one(stringify!($test), &table);
            })*
        }
        mod postgres {
            use super::*;
            $(#[test] fn $test() {
                let Some(table) = in_postgres(stringify!($test)) else { return };
                conformance::check_one(stringify!($test), &table);
            })*
        }
        #[test]
        fn every_check_is_a_test() {
            assert_eq!(CHECKS, [$(stringify!($test)),*]);
        }
    };
}

on_every_store!(
    what_was_written_is_read,
    any_record_is_read_as_it_was_written,
    what_exists_is_not_created,
    what_has_moved_is_not_updated,
    what_is_gone_is_not_updated,
    versions_grow_over_deletion,
    keys_are_apart,
    writes_of_many_are_one_after_another,
    a_call_without_time_ends,
    a_cancelled_call_ends_and_disturbs_no_other,
    a_watch_tells_what_is_there_and_what_comes,
    a_watch_goes_on_behind_its_cursor,
    a_watch_of_all_tells_of_all,
    a_watch_that_was_cancelled_before_it_began_ends,
    electors_take_turns,
    a_deletion_is_the_end_of_a_term,
);

on_both_servers!(an_update_keeps_what_others_have_put_there, one_client_serves_many_leases);

/// Labels, and who manages what: our updates carry no `managedFields`.
fn an_update_keeps_what_others_have_put_there(cluster: &Cluster) {
    cluster.create(json!({ "holderIdentity": "a" }));
    let admin = cluster.client("admin");
    let mut lease = cluster.lease().expect("a lease");
    lease["metadata"]["labels"] = json!({ "team": "blue" });
    let somebody = Request {
        method: Method::Put,
        path: &cluster.path(true),
        query: &[("fieldManager", "somebody")],
        body: Some(&lease),
        timeout: SOON,
    };
    admin.request(somebody).expect("an update");
    let managers = || {
        let lease = cluster.lease().expect("a lease");
        let managers = lease["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        managers.iter().map(|entry| entry["manager"].to_string()).collect::<Vec<_>>()
    };
    let before = managers();
    assert!(cluster.in_memory_server().is_some() || before.iter().any(|it| it.contains("somebody")), "{before:?}");
    let store = Kind::Lease.store(cluster.client("admin"));
    let call = Call::new(SOON, Cancel::new());
    let base = store.get(&cluster.lease, &call).expect("an answer").expect("a record");
    let mut record = base.record.clone();
    record.holder_identity = Some("b".to_owned());
    store.update(&cluster.lease, &base, &record, &call).expect("an update");
    let lease = cluster.lease().expect("a lease");
    assert_eq!(lease["metadata"]["labels"]["team"], "blue");
    assert_eq!(lease["spec"]["holderIdentity"], "b");
    let after = managers();
    assert!(before.iter().all(|it| after.contains(it)), "{before:?} {after:?}");
}

/// Several electors on one store of one client, and each its own term.
fn one_client_serves_many_leases(cluster: &Cluster) {
    let store = Arc::new(LeaseStore::new(cluster.client("admin"), NAMESPACE).expect("a store"));
    let electors: Vec<_> = (0..4)
        .map(|number| {
            let builder = LeaderElector::builder(format!("{}-{number}", cluster.lease));
            builder.lease_duration(Duration::from_secs(60)).renew_interval(Duration::from_millis(50))
        })
        .map(|builder| builder.start_on(Arc::clone(&store)).expect("an elector"))
        .collect();
    let lead = |elector: &LeaderElector| elector.block_until_leader().expect("a term");
    let mut guards: VecDeque<_> = electors.iter().map(lead).collect();
    for elector in electors.iter().cycle().take(20) {
        let guard = guards.pop_front().expect("a guard");
        let token = guard.fencing_token();
        guard.release().expect("a release");
        let guard = lead(elector);
        assert!(guard.fencing_token() > token);
        guards.push_back(guard);
        assert!(guards.iter().all(LeaderGuard::is_leader));
    }
}
