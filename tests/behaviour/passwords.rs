//! Passwords that change in a real server while a candidate leads.

use std::sync::Arc;

use leasehold::{CallContext, EtcdStore, LeaderElector, MySqlConfig, MySqlStore, PostgresConfig, PostgresStore, Store};
use parking_lot::Mutex;

use crate::support::etcd::{self, Etcd};
use crate::support::mariadb::MariaDb;
use crate::support::postgres::Postgres;
use crate::support::sql::{self, SqlServer};
use crate::support::stores::{at_last, builder, call};
use crate::support::{SOON, wait_until};

/// A source of the current password. After each change it returns the old password once.
#[derive(Clone)]
struct Source(Arc<Mutex<Vec<String>>>);

impl Source {
    fn new(password: &str) -> Self {
        Self(Arc::new(Mutex::new(vec![password.to_owned()])))
    }

    fn ask(&self, _: &CallContext) -> Result<String, String> {
        let mut passwords = self.0.lock();
        let first = passwords[0].clone();
        if passwords.len() > 1 {
            passwords.remove(0);
        }
        Ok(first)
    }
}

/// Changes the password twice with `change`, which also ends all sessions.
fn term_survives_a_change<S: Store>(source: &Source, store: impl Fn() -> S, change: impl Fn(&str)) {
    let start = |identity: &str| -> LeaderElector { builder(identity).start_on(store()).expect("an elector") };
    let (leader, standby, reader) = (start("a"), start("b"), store());
    let guard = leader.block_until_leader().expect("a term");
    let campaign = standby.campaign().expect("a campaign");
    // The session of the reader ends with the others.
    let record = || at_last("a record", || reader.get("jobs", &call())).expect("a record");
    for password in ["password-of-later-2", "password-of-later-3"] {
        change(password);
        source.0.lock().push(password.to_owned());
        let before = record().version;
        wait_until("the leader renews", || record().version > before + 5);
        assert!(guard.is_leader(), "{:?}", guard.check());
    }
    assert_eq!(record().record.lease_transitions, Some(0));
    drop(guard);
    assert!(campaign.receiver().recv_timeout(SOON).expect("an answer").expect("a term").is_leader());
}

#[test]
fn password_changed_in_postgresql_costs_no_term() {
    let Some(postgres) = Postgres::shared() else { return };
    let database = postgres.database("rotated");
    postgres.execute("CREATE ROLE rotates LOGIN PASSWORD 'password-of-later-1'");
    postgres.execute_in(&database, "GRANT CREATE ON SCHEMA public TO rotates");
    let source = Source::new("password-of-later-1");
    let url = postgres.url("rotates", &database).replace(&format!(":{}", sql::PASSWORD), "");
    let store = || {
        let from = source.clone();
        let config = PostgresConfig::new(&url).expect("a URL").with_password_from(move |call| from.ask(call));
        PostgresStore::new(config).expect("a store")
    };
    store().create_table().expect("a table");
    term_survives_a_change(&source, store, |password| {
        postgres.execute(&format!("ALTER ROLE rotates PASSWORD '{password}'"));
        assert!(postgres.end_connections(&database) > 0);
    });
}

#[test]
fn password_changed_in_mariadb_costs_no_term() {
    let Some(mariadb) = MariaDb::shared() else { return };
    let database = mariadb.database("rotated");
    mariadb.add_user("rotates", &database);
    let source = Source::new(sql::PASSWORD);
    let url = mariadb.url("rotates", &database).replace(&format!(":{}", sql::PASSWORD), "");
    let store = || {
        let from = source.clone();
        let config = MySqlConfig::new(&url).expect("a URL").with_password_from(move |call| from.ask(call));
        MySqlStore::new(config).expect("a store")
    };
    store().create_table().expect("a table");
    term_survives_a_change(&source, store, |password| {
        mariadb.execute(&format!("ALTER USER rotates@'%' IDENTIFIED BY '{password}'"));
        assert!(mariadb.end_connections(&database) > 0);
    });
}

/// With its password etcd revokes the tokens of a user.
#[test]
fn password_changed_in_etcd_costs_no_term() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    etcd.enable_users("rotated/");
    let source = Source::new(etcd::PASSWORD);
    let store = || {
        let from = source.clone();
        let config = etcd.config("rotated/").with_user_from("jobs", move |call| from.ask(call));
        EtcdStore::new(config).expect("a store")
    };
    term_survives_a_change(&source, store, |password| etcd.set_password_of_jobs(password));
}
