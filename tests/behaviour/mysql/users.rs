//! Users, rights, sockets and certificates.

use std::time::Duration;

use leasehold::{Error, MySqlConfig, MySqlStore, Store, StoreErrorKind, TlsConfig};

use super::Place;
use crate::support::authority::Authority;
use crate::support::mariadb::MariaDb;
use crate::support::sql::{PASSWORD, SqlServer};
use crate::support::stores::{builder, call, held_by};

#[test]
fn rights_on_the_table_alone_are_enough() {
    let Some(place) = Place::shared("rights") else { return };
    let grant = "GRANT SELECT, INSERT, UPDATE ON rights.leasehold TO rights_alone@'%'";
    place.execute(&format!("CREATE USER rights_alone@'%' IDENTIFIED BY '{PASSWORD}'; {grant};"));
    let store = || MySqlStore::new(place.config().with_user("rights_alone")).expect("a store");
    let (one, other) = (builder("a").start_on(store()), builder("b").start_on(store()));
    let (one, other) = (one.expect("an elector"), other.expect("an elector"));
    for elector in [&one, &other] {
        let guard = elector.block_until_leader().expect("a term");
        guard.release().expect("a release");
    }
    let refused = store().create_table().expect_err("a right to CREATE is none of these");
    assert_eq!(refused.kind(), StoreErrorKind::Forbidden, "{refused}");
    place.execute("REVOKE UPDATE ON rights.leasehold FROM rights_alone@'%'");
    let base = store().get("jobs", &call()).expect("an answer").expect("a record");
    let refused = store().update("jobs", &base, &held_by("c"), &call()).expect_err("no right");
    assert!(refused.kind() == StoreErrorKind::Forbidden && refused.to_string().contains("grant"), "{refused}");
}

#[test]
fn who_is_not_let_in_is_told_so() {
    let Some(place) = Place::shared("let_in") else { return };
    let kind = |config: MySqlConfig| {
        let store = MySqlStore::new(config).expect("a store");
        let error = store.get("jobs", &call()).expect_err("a refusal");
        assert!(!error.is_transient() && !format!("{error} {error:?}").contains("password-"), "{error}");
        error.kind()
    };
    assert_eq!(kind(place.config().with_password("password-of-nobody")), StoreErrorKind::Unauthorized);
    assert_eq!(kind(place.config().with_password("")), StoreErrorKind::Unauthorized);
    assert_eq!(kind(place.config().with_user("nobody")), StoreErrorKind::Unauthorized);
    let elsewhere = place.mariadb.url("let_in", "mysql");
    assert_eq!(kind(MySqlConfig::new(&elsewhere).expect("a URL")), StoreErrorKind::Forbidden);
    let nowhere = place.mariadb.url("root", "nowhere");
    assert_eq!(kind(MySqlConfig::new(&nowhere).expect("a URL")), StoreErrorKind::NotFound);
    let brief = builder("a").lease_duration(Duration::from_secs(3)).renew_deadline(Duration::from_secs(1));
    let store = MySqlStore::new(place.config().with_password("password-of-nobody")).expect("a store");
    match brief.start_on(store).expect("an elector").block_until_leader() {
        Err(Error::Store(error)) => assert_eq!(error.kind(), StoreErrorKind::Unauthorized, "{error}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn where_there_are_too_many_connections_it_is_said() {
    let Some(mariadb) = MariaDb::start(&["max_connections=10"]) else { return };
    let place = Place::new(&mariadb, "many");
    let stores: Vec<_> = (0..20).map(|_| place.store()).collect();
    let refused = stores.iter().find_map(|store| store.get("jobs", &call()).err()).expect("a refusal");
    assert!(
        refused.kind() == StoreErrorKind::Unavailable && refused.to_string().contains("max_connections"),
        "{refused}"
    );
    drop(stores);
}

#[test]
fn a_socket_of_this_machine_is_as_good() {
    let Some(place) = Place::shared("by_socket") else { return };
    let url = format!("mysql://by_socket@localhost/by_socket?socket={}", place.mariadb.socket());
    let config = MySqlConfig::new(&url).expect("a URL").with_password(PASSWORD);
    let store = MySqlStore::new(config).expect("a store");
    let elector = builder("a").start_on(store).expect("an elector");
    let guard = elector.block_until_leader().expect("a term");
    assert!(guard.is_leader());
    let nowhere = MySqlConfig::new("mysql://a@localhost/b?socket=/nowhere/socket").expect("a URL");
    let error = MySqlStore::new(nowhere).expect("a store").get("jobs", &call()).expect_err("no socket");
    assert!(error.kind() == StoreErrorKind::Unavailable && error.to_string().contains("/nowhere/socket"), "{error}");
}

#[test]
fn in_tls_the_server_is_who_it_should_be_unless_nobody_asks() {
    let authority = Authority::new();
    let server = authority.issue("db.test");
    let Some(mariadb) = MariaDb::start_with_tls(&server.certificate, &server.key, &[]) else { return };
    let place = Place::new(&mariadb, "in_tls");
    // From now on this user is let in by TLS alone.
    place.execute("ALTER USER in_tls@'%' REQUIRE SSL");
    let refused = place.store().get("jobs", &call()).expect_err("no TLS");
    assert_eq!(refused.kind(), StoreErrorKind::Unauthorized, "{refused}");
    let tls = || TlsConfig::new().with_ca_pem(authority.pem.clone()).expect("an authority");
    let store = |config: MySqlConfig| MySqlStore::new(config).expect("a store");
    let of_that_name = store(place.config().with_tls(tls().with_server_name("db.test")));
    let base = of_that_name.create("jobs", &held_by("a"), &call()).expect("a record");
    for config in [place.config().with_tls(tls()), place.config().with_tls(TlsConfig::new())] {
        let refused = store(config).get("jobs", &call()).expect_err("another name, or an unknown authority");
        assert_eq!(refused.kind(), StoreErrorKind::Untrusted, "{refused}");
    }
    let url = format!("{}?ssl-mode=REQUIRED", mariadb.url("in_tls", "in_tls"));
    let unverified = store(MySqlConfig::new(&url).expect("a URL"));
    assert_eq!(unverified.get("jobs", &call()).expect("an answer").expect("a record").version, base.version);
    let url = format!("{}?ssl-mode=VERIFY_IDENTITY", mariadb.url("in_tls", "in_tls"));
    let refused = store(MySqlConfig::new(&url).expect("a URL")).get("jobs", &call()).expect_err("an unknown authority");
    assert_eq!(refused.kind(), StoreErrorKind::Untrusted, "{refused}");
}

/// A certificate of our own, which the server wants, and a connection in TLS that carries many statements.
#[test]
fn a_term_in_tls_is_renewed_and_given_up() {
    let authority = Authority::new();
    let server = authority.issue("127.0.0.1");
    let Some(mariadb) = MariaDb::start_with_tls(&server.certificate, &server.key, &[]) else { return };
    let place = Place::new(&mariadb, "tls_terms");
    place.execute("ALTER USER tls_terms@'%' REQUIRE SSL");
    let tls = || TlsConfig::new().with_ca_pem(authority.pem.clone()).expect("an authority");
    let config = || place.config().with_tls(tls());
    let electors = ["a", "b"].map(|identity| {
        let store = MySqlStore::new(config()).expect("a store");
        builder(identity).start_on(store).expect("an elector")
    });
    for elector in electors.iter().cycle().take(6) {
        let guard = elector.block_until_leader().expect("a term");
        place.is_renewed("it is renewed");
        guard.release().expect("a release");
    }
}
