//! Who may do what, and how that is proved.

use std::path::Path;

use leasehold::{
    CancelToken, LeaderElector, PostgresConfig, PostgresStore, Store, StoreError, StoreErrorKind, TlsConfig,
    WatchEvent, WatchScope,
};

use super::{config, with_table};
use crate::support::SOON;
use crate::support::authority::Authority;
use crate::support::postgres::Postgres;
use crate::support::sql::{PASSWORD, SqlServer};
use crate::support::stores::{call, held_by};

fn at(url: &str) -> PostgresStore {
    PostgresStore::new(PostgresConfig::new(url).expect("a URL")).expect("a store")
}

fn get(store: &PostgresStore) -> Result<(), StoreError> {
    store.get("jobs", &call()).map(drop)
}

/// The kind of an error that tells no password.
fn kind(result: Result<(), StoreError>) -> StoreErrorKind {
    let error = result.expect_err("a refusal");
    assert!(!error.to_string().contains("password-of"), "{error}");
    error.kind()
}

#[test]
fn rights_on_the_table_alone_are_enough() {
    let Some(postgres) = Postgres::shared() else { return };
    let owner = with_table(postgres, "rights");
    owner.create_table().expect("again");
    postgres.add_user("rights_of_few");
    let store = at(&postgres.url("rights_of_few", "rights"));
    let error = store.get("jobs", &call()).expect_err("no right yet");
    assert!(error.kind() == StoreErrorKind::Forbidden && error.to_string().contains("grant SELECT"), "{error}");
    postgres.execute_in("rights", "GRANT SELECT, INSERT, UPDATE ON leasehold TO rights_of_few");
    store.create_table().expect("it is there");
    let elector = LeaderElector::builder("jobs").start_on(store).expect("an elector");
    let guard = elector.block_until_leader().expect("a term");
    assert!(guard.is_leader());
    guard.release().expect("a release");
    let store = at(&postgres.url("rights_of_few", "rights"));
    let (cancel, mut told) = (CancelToken::new(), false);
    let ended = store.watch(WatchScope::Key("jobs"), None, &cancel, &mut |event| {
        told |= matches!(event, WatchEvent::Changed { .. });
        if matches!(event, WatchEvent::Bookmark(_)) {
            cancel.cancel();
        }
    });
    assert!(told && ended.is_err_and(|error| error.kind() == StoreErrorKind::Interrupted));
    postgres.execute_in("rights", "DROP TABLE leasehold");
    let error = store.create_table().expect_err("only its owner may");
    assert_eq!(error.kind(), StoreErrorKind::Forbidden, "{error}");
    let error = store.get("jobs", &call()).expect_err("no table");
    assert!(error.kind() == StoreErrorKind::NotFound && error.to_string().contains("create_table"), "{error}");
}

#[test]
fn a_table_is_made_once_by_many_at_a_time() {
    let Some(postgres) = Postgres::shared() else { return };
    let database = postgres.database("made_once");
    let url = postgres.url("postgres", &database);
    std::thread::scope(|scope| {
        let makers: Vec<_> = (0..8).map(|_| scope.spawn(|| at(&url).create_table())).collect();
        makers.into_iter().for_each(|maker| maker.join().expect("no panic").expect("a table"));
    });
    at(&url).create("jobs", &held_by("a"), &call()).expect("a record");
    // What it lacks is made, and what it must not be is said.
    postgres.execute_in(&database, "DROP TRIGGER leasehold_notify ON leasehold");
    at(&url).create_table().expect("its trigger");
    let triggers = "SELECT count(*) FROM pg_trigger WHERE tgrelid = to_regclass('leasehold')";
    assert_eq!(postgres.query_in(&database, triggers).trim(), "2");
    postgres.execute_in(&database, "ALTER TABLE leasehold SET UNLOGGED");
    assert_eq!(kind(get(&at(&url))), StoreErrorKind::Rejected);
    let error = at(&url).create_table().expect_err("a crash empties it");
    assert!(error.kind() == StoreErrorKind::Rejected && error.to_string().contains("SET LOGGED"), "{error}");
}

#[test]
fn what_is_not_there_or_not_accepted_is_said_and_no_password_is() {
    let Some(postgres) = Postgres::shared() else { return };
    let url = postgres.url("postgres", "postgres");
    assert_eq!(kind(get(&at(&url.replace(PASSWORD, "password-of-nobody")))), StoreErrorKind::Unauthorized);
    assert_eq!(kind(get(&at(&url.replace(&format!(":{PASSWORD}"), "")))), StoreErrorKind::Unauthorized);
    assert_eq!(kind(get(&at(&postgres.url("postgres", "nowhere")))), StoreErrorKind::NotFound);
    let nobody_listens = url.replace(&postgres.port().to_string(), "1");
    assert_eq!(kind(get(&at(&nobody_listens))), StoreErrorKind::Unavailable);
    let other = with_table(postgres, "another_table");
    postgres.execute_in("another_table", "ALTER TABLE leasehold RENAME COLUMN writes TO reads");
    assert_eq!(kind(other.get("jobs", &call()).map(drop)), StoreErrorKind::Rejected);
    assert!(!format!("{other:?} {:?}", config(postgres, "x")).contains("password-of"));
}

#[test]
fn a_socket_and_each_way_to_prove_a_password_will_do() {
    let Some(postgres) = Postgres::start(&["password_encryption=md5"]) else { return };
    let directory = postgres.socket_dir().display().to_string();
    let by_socket = format!("postgres://postgres@:{}/postgres?host={directory}", postgres.port());
    at(&by_socket).create_table().expect("a table, by the socket");
    let elsewhere = Path::new(&directory).join("nowhere").display().to_string();
    assert_eq!(kind(get(&at(&by_socket.replace(&directory, &elsewhere)))), StoreErrorKind::Unavailable);
    // Made with `password_encryption=md5`, so it is one that MD5 can prove.
    postgres.add_user("of_old");
    postgres.execute("GRANT SELECT ON leasehold TO of_old");
    for method in ["md5", "password"] {
        postgres.set_hba(&format!("host all all 127.0.0.1/32 {method}"));
        get(&at(&postgres.url("of_old", "postgres"))).expect(method);
        let wrong = postgres.url("of_old", "postgres").replace(PASSWORD, "password-of-nobody");
        assert_eq!(kind(get(&at(&wrong))), StoreErrorKind::Unauthorized, "{method}");
    }
}

#[test]
fn another_machine_has_to_prove_who_it_is() {
    let (ours, others) = (Authority::new(), Authority::new());
    let server = ours.issue("127.0.0.1");
    let Some(postgres) = Postgres::start_with_tls(&server.certificate, &server.key, &[]) else { return };
    let url = |mode: &str| format!("{}?sslmode={mode}", postgres.url("postgres", "postgres"));
    let with = |mode: &str, tls: TlsConfig| {
        let config = PostgresConfig::new(&url(mode)).expect("a URL").with_tls(tls);
        PostgresStore::new(config).expect("a store")
    };
    let trusting = |authority: &Authority| TlsConfig::new().with_ca_pem(authority.pem.clone()).expect("an authority");
    postgres.set_hba("hostssl all all 127.0.0.1/32 scram-sha-256");
    let store = with("verify-full", trusting(&ours));
    store.create_table().expect("a table");
    let elector = LeaderElector::builder("jobs").start_on(store).expect("an elector");
    drop(elector.block_until_leader().expect("a term"));
    get(&with("require", TlsConfig::new())).expect("anybody is believed");
    assert_eq!(kind(get(&with("verify-full", trusting(&others)))), StoreErrorKind::Untrusted);
    assert_eq!(kind(get(&with("verify-full", TlsConfig::new()))), StoreErrorKind::Untrusted);
    let another_name = trusting(&ours).with_server_name("db.example");
    assert_eq!(kind(get(&with("verify-full", another_name))), StoreErrorKind::Untrusted);
    assert_eq!(kind(get(&at(&url("disable")))), StoreErrorKind::Unauthorized, "the server wants TLS");
    let Some(plain) = Postgres::shared() else { return };
    let refused = at(&format!("{}?sslmode=require", plain.url("postgres", "postgres")));
    assert_eq!(kind(get(&refused)), StoreErrorKind::Unavailable, "the server has none");
}

#[test]
fn a_certificate_proves_who_we_are() {
    let authority = Authority::new();
    let (server, client) = (authority.issue("127.0.0.1"), authority.issue("postgres"));
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let ca = scratch.path().join("ca.crt");
    std::fs::write(&ca, &authority.pem).expect("a file");
    // Readable for the server's user.
    std::fs::set_permissions(scratch.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("rights");
    let setting = format!("ssl_ca_file={}", ca.display());
    let Some(postgres) = Postgres::start_with_tls(&server.certificate, &server.key, &[&setting]) else { return };
    postgres.set_hba("hostssl all all 127.0.0.1/32 cert");
    let url = postgres.url("postgres", "postgres").replace(&format!(":{PASSWORD}"), "") + "?sslmode=verify-full";
    let tls = TlsConfig::new().with_ca_file(&ca).expect("an authority");
    let ours = tls.clone().with_client_certificate_pem(client.certificate, client.key).expect("a pair");
    let with = |tls| PostgresStore::new(PostgresConfig::new(&url).expect("a URL").with_tls(tls)).expect("a store");
    with(ours).create_table().expect("a table");
    let began = std::time::Instant::now();
    assert_eq!(kind(get(&with(tls))), StoreErrorKind::Unauthorized);
    assert!(began.elapsed() < SOON);
}

#[test]
fn a_table_of_somebody_else_is_left_alone() {
    let Some(postgres) = Postgres::shared() else { return };
    let database = postgres.database("somebody_elses");
    postgres.execute_in(&database, "CREATE TABLE leasehold (a int)");
    let error = at(&postgres.url("postgres", &database)).create_table().expect_err("it is another");
    assert_eq!(error.kind(), StoreErrorKind::Rejected, "{error}");
    postgres.execute_in(&database, "INSERT INTO leasehold VALUES (1)");
    postgres.add_user("may_make_nothing");
    let database = postgres.database("of_others");
    let error = at(&postgres.url("may_make_nothing", &database)).create_table().expect_err("he may not");
    assert!(error.kind() == StoreErrorKind::Forbidden && error.to_string().contains("CREATE on the schema"), "{error}");
}
