//! URLs with the parameters of libpq, on a real PostgreSQL with TLS.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use leasehold::{PostgresConfig, PostgresStore, Store, StoreError, StoreErrorKind};
use rcgen::{KeyPair, PKCS_ECDSA_P384_SHA384};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use crate::support::authority::{Authority, Pair};
use crate::support::postgres::Postgres;
use crate::support::sql::{PASSWORD, SqlServer};
use crate::support::stores::call;

/// The request for TLS: a message of eight bytes with the number 80877103.
const TLS_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

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

fn at(url: &str) -> PostgresStore {
    PostgresStore::new(PostgresConfig::new(url).expect(url)).expect("a store")
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

/// The proxy has another certificate, which an unverified client accepts.
#[test]
fn proxy_inside_tls_cannot_pass_on_a_bound_login() {
    let Some(place) = Place::new(|ours| ours.issue("db.test")) else { return };
    let proxy = terminate_tls(&place.ours, &Authority::new().issue("db.test"), place.postgres.port());
    let through = |query: &str| {
        let url = place.url(&format!("sslmode=require&{query}"));
        get(&url.replace(&format!(":{}/", place.postgres.port()), &format!(":{proxy}/")))
    };
    through("channel_binding=disable").expect("nothing notices the proxy");
    for query in ["channel_binding=require", "channel_binding=prefer", "application_name=a"] {
        refused(through(query), StoreErrorKind::Unauthorized, "channel binding");
    }
}

/// Starts a proxy that ends the TLS of its clients and opens its own to the server. Returns the port.
fn terminate_tls(authority: &Authority, pair: &Pair, server: u16) -> u16 {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).expect("PEM")).expect("an authority");
    let client = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let client = Arc::new(client.expect("versions").with_root_certificates(roots).with_no_client_auth());
    let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).expect("PEM")];
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).expect("PEM");
    let tls = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let tls = Arc::new(tls.expect("versions").with_no_client_auth().with_single_cert(chain, key).expect("a pair"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for inner in listener.incoming().flatten() {
            let (tls, client) = (Arc::clone(&tls), Arc::clone(&client));
            thread::spawn(move || relay(inner, tls, client, server));
        }
    });
    port
}

fn relay(mut inner: TcpStream, tls: Arc<ServerConfig>, client: Arc<ClientConfig>, server: u16) -> io::Result<()> {
    inner.read_exact(&mut [0; TLS_REQUEST.len()])?;
    inner.write_all(b"S")?;
    let mut outer = TcpStream::connect(("127.0.0.1", server))?;
    outer.write_all(&TLS_REQUEST)?;
    outer.read_exact(&mut [0])?;
    let mut inner = StreamOwned::new(ServerConnection::new(tls).expect("a session"), inner);
    let name = ServerName::try_from("db.test").expect("a name");
    let mut outer = StreamOwned::new(ClientConnection::new(client, name).expect("a session"), outer);
    inner.conn.complete_io(&mut inner.sock)?;
    outer.conn.complete_io(&mut outer.sock)?;
    for stream in [&inner.sock, &outer.sock] {
        stream.set_read_timeout(Some(Duration::from_millis(10)))?;
    }
    loop {
        pass(&mut inner, &mut outer)?;
        pass(&mut outer, &mut inner)?;
    }
}

/// Passes on the bytes that have arrived.
fn pass(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut bytes = [0; 4096];
    match from.read(&mut bytes) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(length) => to.write_all(&bytes[..length]),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => Ok(()),
        Err(error) => Err(error),
    }
}
