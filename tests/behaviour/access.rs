//! Tests of users, passwords, rights, sockets and certificates on real servers.

use std::sync::Arc;
use std::time::Duration;

use leasehold::etcd::EtcdStore;
use leasehold::store::{CancelToken, Store, StoreErrorKind, WatchEvent, WatchScope};
use leasehold::{Error, LeaderElector, Password, TlsConfig};
use parking_lot::Mutex;

use crate::support::authority::Authority;
use crate::support::etcd::{self, Etcd};
use crate::support::real_store::{Elects, InSql, InTable, RealStore};
use crate::support::sql::PASSWORD;
use crate::support::stores::{at_last, builder, call, held_by};
use crate::support::{SOON, wait_until};

macro_rules! on_every_database {
    ($($test:ident),* $(,)?) => {
        mod postgres { $(#[test] fn $test() { super::$test::<crate::support::postgres::Postgres>(); })* }
        mod mysql { $(#[test] fn $test() { super::$test::<crate::support::mariadb::MariaDb>(); })* }
    };
}

on_every_database! {
    rights_on_the_table_alone_are_enough,
    refused_login_is_reported_without_the_password,
    changed_password_costs_no_term,
    socket_of_this_machine_is_as_good,
    server_in_tls_is_verified_unless_the_url_forbids_it,
    server_certificate_of_version_1_is_accepted_unverified,
}

/// Creates a user with rights on the table alone, and returns the user's URL.
pub fn user<S: Elects>(place: &InSql<S>, name: &str) -> String {
    place.server().add_user(name);
    for table in S::TABLES {
        place.execute(&format!("GRANT SELECT, INSERT, UPDATE ON {table} TO {name}"));
    }
    place.server().url(name, &place.database)
}

fn rights_on_the_table_alone_are_enough<S: Elects>() {
    let Some(place) = InSql::<S>::shared("rights") else { return };
    place.server().add_user("rights_of_none");
    let without = S::store(&place.server().url("rights_of_none", &place.database));
    assert_eq!(without.get("jobs", &call()).expect_err("no right").kind(), StoreErrorKind::Forbidden);
    let url = user(&place, "rights_alone");
    for identity in ["a", "b"] {
        let elector = builder(identity).start_on(S::store(&url)).expect("an elector");
        elector.block_until_leader().expect("a term").release().expect("a release");
    }
    let (store, cancel, mut told) = (S::store(&url), CancelToken::new(), false);
    let ended = store.watch(WatchScope::Key("jobs"), None, &cancel, &mut |event| {
        told |= matches!(event, WatchEvent::Changed { .. });
        if let WatchEvent::Bookmark(_) = event {
            cancel.cancel();
        }
    });
    assert!(told && ended.is_err_and(|error| error.kind() == StoreErrorKind::Interrupted));
    place.execute("REVOKE UPDATE ON leasehold FROM rights_alone");
    let base = store.get("jobs", &call()).expect("an answer").expect("a record");
    let refused = store.update("jobs", &base, held_by("c").as_write(), &call()).expect_err("no right");
    assert!(refused.kind() == StoreErrorKind::Forbidden && refused.to_string().contains("grant"), "{refused}");
    place.execute("DROP TABLE leasehold");
    assert_eq!(S::create_table(&url).expect_err("no right to CREATE").kind(), StoreErrorKind::Forbidden);
    let refused = store.get("jobs", &call()).expect_err("no table");
    assert!(refused.kind() == StoreErrorKind::NotFound && refused.to_string().contains("create_table"), "{refused}");
}

fn refused_login_is_reported_without_the_password<S: Elects>() {
    let Some(place) = InSql::<S>::shared("logins") else { return };
    let (server, url) = (place.server(), user(&place, "logs_in"));
    let wrong_password = url.replace(PASSWORD, "password-of-nobody");
    logins_are_refused([
        (S::store(&wrong_password), StoreErrorKind::Unauthorized),
        (S::store(&url.replace(&format!(":{PASSWORD}"), "")), StoreErrorKind::Unauthorized),
        (S::store(&server.url("nobody", &place.database)), StoreErrorKind::Unauthorized),
        (S::store(&server.url(S::ADMINISTRATOR, "nowhere")), StoreErrorKind::NotFound),
        (S::store(&url.replace(&format!(":{}/", server.port()), ":1/")), StoreErrorKind::Unavailable),
    ]);
}

#[test]
fn login_that_etcd_refuses_is_reported_without_the_password() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    etcd.enable_users("users/");
    let store = |prefix: &str, password: &str| -> Box<dyn Store> {
        Box::new(EtcdStore::new(etcd.config(prefix).with_user("jobs").with_password(password)).expect("a store"))
    };
    logins_are_refused([
        (store("users/", "password-of-nobody"), StoreErrorKind::Unauthorized),
        (Box::new(etcd.store("users/")), StoreErrorKind::Unauthorized),
        (store("elsewhere/", etcd::PASSWORD), StoreErrorKind::Forbidden),
    ]);
}

/// Asserts that each store refuses the login with the expected error.
///
/// The first store has a wrong password.
fn logins_are_refused<const N: usize>(stores: [(Box<dyn Store>, StoreErrorKind); N]) {
    for (store, expected) in &stores {
        let error = store.get("jobs", &call()).expect_err("a refusal");
        let watch =
            store.watch(WatchScope::Key("jobs"), None, &CancelToken::new(), &mut |_| {}).expect_err("a refusal");
        assert_eq!([error.kind(), watch.kind()], [*expected; 2], "{error} {watch}");
        assert!(!format!("{error} {error:?} {watch}").contains("password-of"), "{error} {watch}");
    }
    let brief = builder("a").lease_duration(Duration::from_secs(3)).renew_deadline(Duration::from_secs(1));
    let (store, _) = stores.into_iter().next().expect("a store");
    match brief.start_on(store).expect("an elector").block_until_leader() {
        Err(Error::Store(error)) => assert_eq!(error.kind(), StoreErrorKind::Unauthorized, "{error}"),
        other => panic!("{other:?}"),
    }
}

/// A source of the current password.
///
/// After a change, the source returns the old password once more.
#[derive(Clone)]
struct Source(Arc<Mutex<Vec<String>>>);

impl Source {
    fn new(password: &str) -> Self {
        Self(Arc::new(Mutex::new(vec![password.to_owned()])))
    }

    fn ask(&self) -> Result<String, String> {
        let mut passwords = self.0.lock();
        let first = passwords[0].clone();
        if passwords.len() > 1 {
            passwords.remove(0);
        }
        Ok(first)
    }
}

/// Asserts that a term survives two changes of the password.
///
/// `change` also ends all sessions.
fn term_survives_a_change<T: Store>(source: &Source, store: impl Fn() -> T, change: impl Fn(&str)) {
    let start = |identity: &str| -> LeaderElector { builder(identity).start_on(store()).expect("an elector") };
    let (leader, standby, reader) = (start("a"), start("b"), store());
    let guard = leader.block_until_leader().expect("a term");
    let campaign = standby.campaign().expect("a campaign");
    // The change also ends the reader's session, so a read may fail at first.
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

fn changed_password_costs_no_term<S: Elects>() {
    let Some(place) = InSql::<S>::shared("rotated") else { return };
    let url = user(&place, "rotates").replace(&format!(":{PASSWORD}"), "");
    let source = Source::new(PASSWORD);
    let store = || {
        let from = source.clone();
        S::store_with(&url, None, Some(Password::from_source(move |_| from.ask())))
    };
    term_survives_a_change(&source, store, |password| {
        place.server().execute(&format!("ALTER USER rotates {} '{password}'", S::BY_PASSWORD));
        assert!(place.server().end_connections(&place.database) > 0);
    });
}

/// etcd revokes the tokens of a user when the user's password changes.
#[test]
fn password_changed_in_etcd_costs_no_term() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    etcd.enable_users("rotated/");
    let source = Source::new(etcd::PASSWORD);
    let store = || {
        let from = source.clone();
        let config =
            etcd.config("rotated/").with_user("jobs").with_password(Password::from_source(move |_| from.ask()));
        EtcdStore::new(config).expect("a store")
    };
    term_survives_a_change(&source, store, |password| etcd.set_password_of_jobs(password));
}

fn socket_of_this_machine_is_as_good<S: Elects>() {
    let Some(place) = InSql::<S>::shared("by_socket") else { return };
    let directory = place.server().scratch().path().display().to_string();
    let store = S::store(&place.server().socket_url(&directory, &place.database));
    let elector = builder("a").start_on(store).expect("an elector");
    assert!(elector.block_until_leader().expect("a term").is_leader());
    let nowhere = S::store(&place.server().socket_url("/nowhere", &place.database));
    let error = nowhere.get("jobs", &call()).expect_err("no socket");
    assert!(error.kind() == StoreErrorKind::Unavailable && error.to_string().contains("/nowhere/"), "{error}");
}

fn server_in_tls_is_verified_unless_the_url_forbids_it<S: Elects>() {
    let (ours, others) = (Authority::new(), Authority::new());
    let Some(place) = InSql::<S>::with_tls(&ours.issue("db.test"), "in_tls") else { return };
    let url = user(&place, "encrypts");
    place.server().require_tls("encrypts");
    let [plain, unverified, verified] = S::TLS_MODES.map(|mode| format!("{url}?{mode}"));
    let trusting = |authority: &Authority| TlsConfig::new().with_ca_pem(authority.pem.clone()).expect("an authority");
    let named = |authority: &Authority| trusting(authority).with_server_name("db.test");
    let read = |url: &str, tls: Option<TlsConfig>| {
        S::store_with(url, tls, None).get("jobs", &call()).map(drop).map_err(|error| error.kind())
    };
    assert_eq!(read(&plain, None), Err(StoreErrorKind::Unauthorized), "the server wants TLS");
    assert_eq!(read(&unverified, None), Ok(()), "any server will do");
    for tls in [named(&others), trusting(&ours), TlsConfig::new()] {
        assert_eq!(read(&verified, Some(tls)), Err(StoreErrorKind::Untrusted));
    }
    // The electors send many statements on each connection.
    let store = || S::store_with(&verified, Some(named(&ours)), None);
    let version = || store().get("jobs", &call()).expect("an answer").expect("a record").version;
    let electors = ["a", "b"].map(|identity| builder(identity).start_on(store()).expect("an elector"));
    for elector in electors.iter().cycle().take(4) {
        let guard = elector.block_until_leader().expect("a term");
        let before = version();
        wait_until("the term is renewed", || version() > before + 1);
        guard.release().expect("a release");
    }
}

fn server_certificate_of_version_1_is_accepted_unverified<S: Elects>() {
    let ours = Authority::new();
    let Some(place) = InSql::<S>::with_tls(&ours.issue_version_1("127.0.0.1"), "of_version_1") else { return };
    let url = user(&place, "encrypts_1");
    place.server().require_tls("encrypts_1");
    let [_, unverified, verified] = S::TLS_MODES.map(|mode| format!("{url}?{mode}"));
    S::store(&unverified).get("jobs", &call()).expect("an answer");
    let tls = TlsConfig::new().with_ca_pem(ours.pem).expect("an authority");
    let error = S::store_with(&verified, Some(tls), None).get("jobs", &call()).expect_err("a refusal");
    assert!(error.kind() == StoreErrorKind::Untrusted && error.to_string().contains("X.509 version 1"), "{error}");
}
