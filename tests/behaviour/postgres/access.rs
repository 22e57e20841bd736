//! Rights in PostgreSQL, and the ways in which a client proves its identity.

use leasehold::TlsConfig;
use leasehold::postgres::{PostgresConfig, PostgresStore};
use leasehold::store::{Store, StoreError, StoreErrorKind};

use super::{at, with_table};
use crate::support::SOON;
use crate::support::authority::Authority;
use crate::support::postgres::Postgres;
use crate::support::real_store::Elects;
use crate::support::sql::{PASSWORD, SqlServer};
use crate::support::stores::{call, held_by};

fn get(store: &PostgresStore) -> Result<(), StoreError> {
    store.get("jobs", &call()).map(drop)
}

/// Returns the kind of an error, and panics if the error contains a password.
fn kind(result: Result<(), StoreError>) -> StoreErrorKind {
    let error = result.expect_err("a refusal");
    assert!(!error.to_string().contains("password-of"), "{error}");
    error.kind()
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
    at(&url).create("jobs", held_by("a").as_write(), &call()).expect("a record");
    // `create_table` creates a missing trigger, and reports a wrong property of the table.
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
fn password_may_be_proved_by_md5_or_in_clear() {
    let Some(postgres) = Postgres::start(&["password_encryption=md5"]) else { return };
    at(&postgres.url("postgres", "postgres")).create_table().expect("a table");
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
fn certificate_proves_the_identity() {
    let authority = Authority::new();
    let (server, clients) =
        (authority.issue("127.0.0.1"), [authority.issue("postgres"), authority.issue_version_1("postgres")]);
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let ca = scratch.path().join("ca.crt");
    std::fs::write(&ca, &authority.pem).expect("a file");
    // The user of the server must be able to read the file.
    std::fs::set_permissions(scratch.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("rights");
    let setting = format!("ssl_ca_file={}", ca.display());
    let Some(postgres) = Postgres::start_with_tls(&server.certificate, &server.key, &[&setting]) else { return };
    postgres.set_hba("hostssl all all 127.0.0.1/32 cert");
    let url = postgres.url("postgres", "postgres").replace(&format!(":{PASSWORD}"), "") + "?sslmode=verify-full";
    let tls = TlsConfig::new().with_ca_file(&ca).expect("an authority");
    let with = |tls| PostgresStore::new(PostgresConfig::new(&url).expect("a URL").with_tls(tls)).expect("a store");
    for client in clients {
        let ours = tls.clone().with_client_certificate_pem(client.certificate, client.key).expect("a pair");
        with(ours).create_table().expect("a table");
    }
    let began = std::time::Instant::now();
    assert_eq!(kind(get(&with(tls))), StoreErrorKind::Unauthorized);
    assert!(began.elapsed() < SOON);
}

/// Row level security, rules and triggers can drop writes without an error.
#[test]
fn table_that_can_drop_writes_is_refused_until_repaired() {
    let Some(postgres) = Postgres::shared() else { return };
    let own = with_table(postgres, "drops");
    postgres.add_user("is_limited");
    postgres.execute_in("drops", "GRANT SELECT, INSERT, UPDATE ON leasehold TO is_limited");
    let url = postgres.url("is_limited", "drops");
    own.create("jobs", held_by("a").as_write(), &call()).expect("a record");
    let function = "CREATE FUNCTION mute() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$";
    postgres.execute_in("drops", function);
    let trigger = "BEFORE INSERT OR UPDATE ON leasehold FOR EACH ROW EXECUTE FUNCTION mute()";
    for (create, repair) in [
        ("ALTER TABLE leasehold ENABLE ROW LEVEL SECURITY", "ALTER TABLE leasehold DISABLE ROW LEVEL SECURITY"),
        ("CREATE RULE \"Mute\" AS ON UPDATE TO leasehold DO INSTEAD NOTHING", "DROP RULE \"Mute\" ON leasehold"),
        (&*format!("CREATE TRIGGER \"Mute\" {trigger}"), "DROP TRIGGER \"Mute\" ON leasehold"),
    ] {
        let before = at(&url);
        let base = before.get("jobs", &call()).expect("an answer").expect("a record");
        postgres.execute_in("drops", create);
        let ignored = before.update("jobs", &base, held_by("b").as_write(), &call()).expect_err(create);
        let refused = at(&url).get("jobs", &call()).expect_err(create);
        for error in [ignored, refused] {
            assert!(error.to_string().ends_with(&format!("run: {repair}")), "{error}");
        }
        postgres.execute_in("drops", repair);
        before.update("jobs", &base, held_by("b").as_write(), &call()).expect(repair);
    }
    // A trigger that does not run drops nothing.
    let disabled = format!("CREATE TRIGGER mute {trigger}; ALTER TABLE leasehold DISABLE TRIGGER mute");
    postgres.execute_in("drops", &disabled);
    get(&at(&url)).expect("a disabled trigger");
}

#[test]
fn user_without_create_uses_a_table_that_is_there() {
    let Some(postgres) = Postgres::shared() else { return };
    with_table(postgres, "of_its_owner");
    postgres.add_user("makes_nothing");
    postgres.execute_in("of_its_owner", "GRANT SELECT ON leasehold TO makes_nothing");
    let store = at(&postgres.url("makes_nothing", "of_its_owner"));
    store.create_table().expect("it is there");
    let may_campaign = |store: &PostgresStore| store.may_campaign("jobs", false, &call());
    assert_eq!(may_campaign(&store), Some(false));
    assert_eq!(may_campaign(&at(&postgres.url("postgres", "of_its_owner"))), Some(true));
    postgres.execute_in("of_its_owner", "GRANT UPDATE (key), INSERT (key) ON leasehold TO makes_nothing");
    assert_eq!(may_campaign(&store), None, "rights on some columns may be enough");
    let elsewhere = postgres.database("of_nobody");
    let error = at(&postgres.url("makes_nothing", &elsewhere)).create_table().expect_err("he may not");
    assert!(error.kind() == StoreErrorKind::Forbidden && error.to_string().contains("CREATE on the schema"), "{error}");
}
