//! Records in a real MariaDB that is read-only or full, or whose rows are locked.

use std::time::Duration;

use leasehold::store::{CallContext, CancelToken, Store, StoreErrorKind, WatchEvent, WatchScope};

use crate::access::user;
use crate::support::SOON;
use crate::support::authority::Authority;
use crate::support::mariadb::MariaDb;
use crate::support::real_store::{Elects, InSql, InTable, RealStore};
use crate::support::sql::SqlServer;
use crate::support::stores::{brief, builder, call, errors_of, held_by};

type Place = InSql<MariaDb>;

/// The server is read-only, as before a failover.
///
/// Root may write even then, so a store of root must query the mode.
#[test]
fn read_only_server_has_no_leader_until_it_is_writable() {
    let Some(place) = Place::alone("replica") else { return };
    let url = user(&place, "is_bound");
    let (store, as_root) = (MariaDb::store(&url), place.store());
    let base = as_root.create("other", held_by("a").as_write(), &call()).expect("a record");
    let elector = builder("a").lease_duration(Duration::from_secs(3)).renew_deadline(Duration::from_secs(1));
    let elector = elector.start_on(MariaDb::store(&url)).expect("an elector");
    let guard = elector.block_until_leader().expect("a term");
    place.server().set_read_only(true);
    for store in [&store, &as_root] {
        for error in errors_of(store, &base) {
            assert!(error.kind() == StoreErrorKind::Unavailable && error.to_string().contains("primary"), "{error}");
        }
    }
    assert!(guard.ended().recv_timeout(SOON).is_err_and(|error| error.is_disconnected()), "the term runs out");
    place.server().set_read_only(false);
    drop(guard);
    assert!(elector.block_until_leader().expect("another term").is_leader());
    as_root.update("other", &base, held_by("b").as_write(), &call()).expect("an update");
}

/// A deletion that is not committed yet locks the record.
///
/// The server stops waiting within the timeout of a call.
#[test]
fn record_lock_delays_writes_and_not_reads() {
    let Some(place) = Place::shared("held") else { return };
    let store = place.store();
    let base = store.create("jobs", held_by("a").as_write(), &call()).expect("a record");
    let mut operator = place.server().session(&place.database);
    operator.execute("START TRANSACTION; DELETE FROM leasehold;");
    assert!(store.get("jobs", &call()).expect("an answer").is_some());
    let seconds = || CallContext::new(Duration::from_secs(5), CancelToken::new());
    let update = || store.update("jobs", &base, held_by("b").as_write(), &seconds());
    let create = || store.create("jobs", held_by("d").as_write(), &seconds());
    for error in [update().expect_err("it waits"), create().expect_err("it waits")] {
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    }
    operator.execute("ROLLBACK;");
    assert_eq!(create().expect_err("it exists").kind(), StoreErrorKind::NotApplied);
    update().expect("the first update was not applied");
}

/// After an unanswered write, a read forces the record to disk by writing a row of its own.
///
/// The rights of an elector are enough, and no watch reports this row.
#[test]
fn record_read_after_an_unanswered_write_is_on_disk() {
    let Some(place) = Place::shared("flushed") else { return };
    let store = MariaDb::store(&user(&place, "flushes"));
    let mut base = store.create("jobs", held_by("a").as_write(), &call()).expect("a record");
    let flushes = || place.query("SELECT writes FROM leasehold WHERE name = ''");
    // The first round creates the row.
    for expected in ["0", "1"] {
        let before = flushes();
        let mut operator = place.server().session(&place.database);
        operator.execute("START TRANSACTION; UPDATE leasehold SET writes = writes + 1 WHERE name = 'jobs';");
        let unanswered = store.update("jobs", &base, held_by("b").as_write(), &brief()).expect_err("it waits");
        assert_eq!(unanswered.kind(), StoreErrorKind::Timeout);
        assert_eq!(store.get("jobs", &call()).expect("an answer").expect("a record").version, base.version);
        assert_eq!(flushes(), before, "no write of ours stands there");
        operator.execute("COMMIT;");
        base = store.get("jobs", &call()).expect("an answer").expect("a record");
        assert_eq!(flushes(), expected);
        store.get("jobs", &call()).expect("an answer");
        assert_eq!(flushes(), expected, "once is enough");
    }
    assert!(store.get("", &call()).expect("an answer").is_none());
    let (cancel, mut told) = (CancelToken::new(), Vec::new());
    let ended = store.watch(WatchScope::All, None, &cancel, &mut |event| match event {
        WatchEvent::Changed { key, .. } => told.push(key),
        WatchEvent::Bookmark(_) => cancel.cancel(),
        _ => {}
    });
    assert_eq!(ended.expect_err("cancelled").kind(), StoreErrorKind::Interrupted);
    assert_eq!(told, ["jobs".into()]);
}

#[test]
fn a_table_of_another_engine_is_no_store() {
    let Some(place) = Place::shared("engines") else { return };
    place.execute("DROP TABLE leasehold; CREATE TABLE leasehold (generation INT) ENGINE=MyISAM");
    let error = place.create_table().expect_err("another engine");
    assert!(error.kind() == StoreErrorKind::Rejected && error.to_string().contains("InnoDB"), "{error}");
}

#[test]
fn too_many_connections_is_a_named_error() {
    let Some(mariadb) = MariaDb::start(&["max_connections=10"]) else { return };
    let url = mariadb.url("root", &mariadb.database("many"));
    MariaDb::create_table(&url).expect("a table");
    let stores: Vec<_> = (0..20).map(|_| MariaDb::store(&url)).collect();
    let refused = stores.iter().find_map(|store| store.get("jobs", &call()).err()).expect("a refusal");
    assert!(
        refused.kind() == StoreErrorKind::Unavailable && refused.to_string().contains("max_connections"),
        "{refused}"
    );
}

/// The names are those of the clients of MySQL and MariaDB, of Connector/J, and of Python's drivers.
#[test]
fn url_names_certificates_as_other_clients_do() {
    let authority = Authority::new();
    let (server, client) = (authority.issue("127.0.0.1"), authority.issue_version_1("jobs"));
    let scratch = tempfile::tempdir().expect("a scratch directory");
    // The user of the server must be able to read the file.
    std::fs::set_permissions(scratch.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("rights");
    let file = |name: &str, content: &str| {
        let path = scratch.path().join(name);
        std::fs::write(&path, content).expect("a file");
        path.display().to_string()
    };
    let (ca, other) = (file("ca.pem", &authority.pem), file("other.pem", &Authority::new().pem));
    let (certificate, key) = (file("client.pem", &client.certificate), file("client.key", &client.key));
    let setting = format!("ssl_ca={ca}");
    let Some(mariadb) = MariaDb::start_with_tls(&server.certificate, &server.key, &[&setting]) else { return };
    mariadb.add_user("identified");
    mariadb.execute("ALTER USER identified REQUIRE X509; CREATE DATABASE app; GRANT ALL ON app.* TO identified");
    let get = |query: &str| {
        MariaDb::create_table(&format!("{}?{query}", mariadb.url("identified", "app"))).map_err(|error| error.kind())
    };
    let files = format!("ssl-ca={ca}&ssl-cert={certificate}&ssl-key={key}");
    for query in [
        format!("{files}&ssl-mode=VERIFY_IDENTITY"),
        format!("{files}&ssl-mode=VERIFY_CA"),
        format!("{files}&ssl-verify-server-cert=1"),
        format!("sslMode=REQUIRED&sslCa={ca}&sslCert={certificate}&sslKey={key}"),
        format!("ssl_ca={ca}&ssl_cert={certificate}&ssl_key={key}"),
        format!("serverSslCert={ca}&ssl-cert={certificate}&ssl-key={key}&charset=utf8mb4"),
        format!("ssl-mode=PREFERRED&ssl-cert={certificate}&ssl-key={key}"),
    ] {
        get(&query).expect(&query);
    }
    let wrong = files.replace(&ca, &other);
    for mode in ["VERIFY_IDENTITY", "VERIFY_CA", "REQUIRED", "PREFERRED"] {
        assert_eq!(get(&format!("{wrong}&ssl-mode={mode}")), Err(StoreErrorKind::Untrusted), "{mode}");
    }
    assert_eq!(get("ssl-mode=REQUIRED"), Err(StoreErrorKind::Unauthorized), "no certificate");
}
