//! URLs with the parameters of libpq, on a real PostgreSQL with TLS.

use std::path::{Path, PathBuf};

use leasehold::store::{Store, StoreError, StoreErrorKind};
use rcgen::{KeyPair, PKCS_ECDSA_P384_SHA384};

use super::at;
use crate::support::authority::{Authority, Pair};
use crate::support::postgres::Postgres;
use crate::support::sql::{PASSWORD, SqlServer};
use crate::support::stores::call;

/// A PostgreSQL whose certificate names `db.test`, with files of certificates.
struct Place {
    postgres: Postgres,
    ours: Authority,
    scratch: tempfile::TempDir,
}

impl Place {
    fn new(certificate: impl FnOnce(&Authority) -> Pair) -> Option<Self> {
        let ours = Authority::new();
        let pair = certificate(&ours);
        let postgres = Postgres::start_with_tls(&pair.certificate, &pair.key, &["password_encryption=md5"])?;
        let place = Self { postgres, ours, scratch: tempfile::tempdir().expect("a scratch directory") };
        place.postgres.set_hba("hostssl all all 127.0.0.1/32 scram-sha-256");
        at(&place.url("sslmode=require")).create_table().expect("a table");
        Some(place)
    }

    fn url(&self, query: &str) -> String {
        format!("{}?{query}", self.postgres.url("postgres", "postgres"))
    }

    fn get(&self, query: &str) -> Result<(), StoreError> {
        get(&self.url(query))
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.scratch.path().join(name);
        std::fs::write(&path, content).expect("a file");
        path
    }
}

fn get(url: &str) -> Result<(), StoreError> {
    at(url).get("jobs", &call()).map(drop)
}

#[track_caller]
fn refused(result: Result<(), StoreError>, kind: StoreErrorKind, text: &str) {
    let error = result.expect_err("a refusal");
    assert!(error.kind() == kind && error.to_string().contains(text), "{error}");
    assert!(!error.to_string().contains(PASSWORD), "{error}");
}

#[test]
fn parameters_choose_host_name_and_authority() {
    let Some(place) = Place::new(|ours| ours.issue("db.test")) else { return };
    let ours = place.file("ours.pem", &place.ours.pem);
    let other = place.file("other.pem", &Authority::new().pem);
    let with = |ca: &Path, query: &str| place.get(&format!("sslrootcert={}&{query}", ca.display()));
    // The host in the URL is an address, which the certificate does not name.
    refused(with(&ours, "sslmode=verify-full"), StoreErrorKind::Untrusted, "name");
    with(&ours, "sslmode=verify-full&hostaddr=127.0.0.1&host=db.test").expect("the name of the certificate");
    refused(
        with(&ours, "sslmode=verify-full&hostaddr=127.0.0.1&host=other.test"),
        StoreErrorKind::Untrusted,
        "other.test",
    );
    for mode in ["verify-ca", "require", "prefer", "allow"] {
        with(&ours, &format!("sslmode={mode}")).expect("the authority is enough");
        refused(with(&other, &format!("sslmode={mode}")), StoreErrorKind::Untrusted, "");
    }
    place.get("sslmode=prefer").expect("no authority is configured");
    refused(place.get("sslrootcert=system"), StoreErrorKind::Untrusted, "");
    place.get("sslmode=require&channel_binding=require&keepalives=1&target_session_attrs=read-write").expect("a login");
}

#[test]
fn search_path_in_the_options_selects_the_table() {
    let Some(place) = Place::new(|ours| ours.issue("db.test")) else { return };
    place.postgres.execute("CREATE SCHEMA other");
    for options in ["-c%20search_path%3Dother", "-csearch_path=other", "--search_path=other"] {
        at(&place.url(&format!("sslmode=require&options={options}"))).create_table().expect(options);
        assert_eq!(place.postgres.query("SELECT to_regclass('other.leasehold') IS NOT NULL").trim(), "t");
        place.postgres.execute("DROP TABLE other.leasehold");
    }
}

#[test]
fn server_without_tls_is_refused_and_the_error_names_the_mode() {
    let Some(postgres) = Postgres::shared() else { return };
    for mode in ["allow", "prefer", "require"] {
        let url = format!("{}?sslmode={mode}", postgres.url("postgres", "postgres"));
        refused(get(&url), StoreErrorKind::Unavailable, "sslmode=disable");
    }
}

#[test]
fn required_channel_binding_refuses_every_other_login() {
    let Some(place) = Place::new(|ours| ours.issue("db.test")) else { return };
    let required = "sslmode=require&channel_binding=require";
    place.get(required).expect("SCRAM-SHA-256-PLUS");
    for (method, name) in [("trust", "no password"), ("password", "a cleartext password")] {
        place.postgres.set_hba(&format!("hostssl all all 127.0.0.1/32 {method}"));
        place.get("sslmode=require&channel_binding=prefer").expect(method);
        refused(place.get(required), StoreErrorKind::Unauthorized, name);
    }
    place.postgres.set_hba("hostssl all all 127.0.0.1/32 md5");
    place.postgres.execute("CREATE USER of_old PASSWORD 'password-of-database-1'; GRANT SELECT ON leasehold TO of_old");
    let old = |query: &str| get(&format!("{}?{query}", place.postgres.url("of_old", "postgres")));
    old("sslmode=require").expect("MD5");
    refused(old(required), StoreErrorKind::Unauthorized, "MD5");
}

/// Channel binding hashes the certificate with the hash function of its signature.
#[test]
fn channel_binding_works_with_each_kind_of_certificate() {
    let sha_384 = Authority::with_key(KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).expect("a key"));
    let places = [Place::new(|ours| ours.issue_version_1("db.test")), Place::new(|_| sha_384.issue("db.test"))];
    for place in places.into_iter().flatten() {
        place.get("sslmode=require&channel_binding=require").expect("a login");
    }
}
