//! Secrets never appear in a log, an error or a `Debug` text.
//!
//! Secrets are tokens, passwords, keys and the output of plugins. Every crate logs at the finest level.

#![cfg(unix)]

#[path = "../support/mod.rs"]
mod support;

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine};
use leasehold::etcd::{EtcdConfig, EtcdStore};
use leasehold::kubernetes::Client;
use leasehold::kubernetes::LeaseStore;
use leasehold::mysql::{MySqlConfig, MySqlStore};
use leasehold::store::{CallContext, CancelToken, Store};
use leasehold::{LeaderElector, TlsConfig};
use leasehold_testing::{ApiServer, Fault, User};
use log::LevelFilter;
use support::kubeconfig::{self, exec_credential};
use support::mariadb::MariaDb;
use support::sql::{self, SqlServer};
use support::{SOON, logged};

/// The time for a candidate that cannot be elected, which is enough for a few requests.
const REFUSED: Duration = Duration::from_secs(2);

// ---- the log of the process ----

/// Returns all lines that this process has logged.
fn log() -> String {
    let all = logged::those(|_| true);
    all.iter().map(|it| format!("{} {}: {}\n", it.level, it.target, it.text)).collect()
}

fn listen() {
    logged::collect(LevelFilter::Trace, |_| {});
}

/// Runs an election, and returns all text that a program could print about the election.
fn everything_shown(kubeconfig: &str, directory: &Path, timeout: Duration) -> String {
    // All tests share one log, which must contain no secret of any test.
    listen();
    let mut shown = String::new();
    let config = match support::client_config::config_in(kubeconfig, directory) {
        Ok(config) => config,
        Err(error) => return format!("{error} {error:?} {}", log()),
    };
    let _ = write!(shown, "{config:?} ");
    let client = match Client::new(config) {
        Ok(client) => client,
        Err(error) => return format!("{shown} {error} {error:?} {}", log()),
    };
    let _ = write!(shown, "{client:?} {:?} ", LeaseStore::new(client.clone(), "default"));
    let builder = LeaderElector::builder("secrets")
        .lease_duration(Duration::from_secs(3))
        .renew_deadline(Duration::from_secs(1))
        .retry_period(Duration::from_millis(100));
    let _ = write!(shown, "{builder:?} ");
    let elector = builder.start_with_client(client).expect("an elector");
    match elector.block_until_leader_timeout(timeout) {
        Ok(Some(guard)) => {
            let _ = write!(shown, "elected {guard:?} ");
            let _ = write!(shown, "{:?}", guard.release());
        }
        Ok(None) => shown.push_str("not elected"),
        Err(error) => {
            let mut cause: Option<&dyn std::error::Error> = Some(&error);
            while let Some(error) = cause {
                let _ = write!(shown, "{error} {error:?} ");
                cause = error.source();
            }
        }
    }
    let _ = write!(shown, "{elector:?} {:?}", elector.health_check());
    drop(elector);
    format!("{shown}\n{}", log())
}

/// Asserts that `shown` contains none of `secrets`, neither as text nor in base64.
fn assert_hidden(what: &str, shown: &str, secrets: &[&str]) {
    assert!(shown.contains("secrets"), "{what}: something is shown, the lease's name at least");
    for secret in secrets {
        for form in [(*secret).to_owned(), BASE64_STANDARD.encode(secret)] {
            // The base64 padding depends on the text after the secret.
            let form = form.trim_end_matches('=');
            if let Some(at) = shown.find(form) {
                let line = shown[..at].rfind('\n').map_or(0, |start| start + 1);
                let end = shown[at..].find('\n').map_or(shown.len(), |end| at + end);
                panic!("{what}: {form:?} shows in {:?}", &shown[line..end]);
            }
        }
    }
}

// ---- hidden secrets ----

fn kubeconfig(server: &ApiServer, more_of_cluster: &str, user: &str) -> String {
    let authority = server.ca_pem().map(|pem| BASE64_STANDARD.encode(pem));
    let authority = authority.map_or_else(String::new, |data| format!("certificate-authority-data: {data}"));
    kubeconfig::with(&format!("server: '{}', {authority}{more_of_cluster}", server.url()), user)
}

fn server(token: &str) -> ApiServer {
    let server = ApiServer::builder().tls(true).user(User::candidate()).start().expect("an in-memory server");
    server.set_token("candidate", token);
    server
}

/// Returns a plugin that prints `printed` on stdout and stderr.
///
/// The plugin prints its argument and its environment variable on stderr.
fn plugin(directory: &Path, printed: &str, code: u8) -> String {
    let body = directory.join("plugin.sh");
    let script = format!("echo \"$1\" \"$PASSWORD\" >&2\ntee /dev/stderr <<'END'\n{printed}\nEND\nexit {code}\n");
    std::fs::write(&body, script).expect("a file");
    format!(
        "exec: {{ apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, \
         args: ['{}', argument-of-a-plugin], env: [{{ name: PASSWORD, value: environment-of-a-plugin }}] }}",
        body.display()
    )
}

const OF_A_PLUGIN: [&str; 2] = ["argument-of-a-plugin", "environment-of-a-plugin"];

#[test]
fn tokens_in_files_passwords_and_refused_tokens_are_hidden() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("token"), "token-of-a-file-2").expect("a file");
    let server = server("token-of-a-file-2");
    for (user, outcome, secret) in [
        ("tokenFile: token", "elected", "token-of-a-file-2"),
        ("token: token-of-a-file-2", "elected", "token-of-a-file-2"),
        ("token: token-of-nobody-1", "401", "token-of-nobody-1"),
        ("username: somebody, password: password-of-somebody-3", "401", "somebody:password-of-somebody-3"),
    ] {
        let shown = everything_shown(&kubeconfig(&server, "", user), directory.path(), SOON);
        assert!(shown.contains(outcome) && shown.contains("ureq"), "{user}: {shown}");
        assert_hidden(user, &shown, &[secret, secret.rsplit(':').next().unwrap_or_default()]);
    }
}

#[test]
fn a_private_key_is_hidden() {
    let server = server("another");
    let (certificate, key) = server.client_certificate("candidate");
    let user = format!(
        "client-certificate-data: {}, client-key-data: {}",
        BASE64_STANDARD.encode(&certificate),
        BASE64_STANDARD.encode(&key)
    );
    let shown = everything_shown(&kubeconfig(&server, "", &user), support::scratch().path(), SOON);
    assert!(shown.contains("elected"), "{shown}");
    let lines: Vec<&str> = key.lines().filter(|line| !line.starts_with("-----")).collect();
    assert!(lines.len() > 1);
    assert_hidden("key", &shown, &lines);
    // The error about a key that does not match its certificate does not quote the key.
    let (_, other) = server.client_certificate("candidate");
    let misfit = user.replace(&BASE64_STANDARD.encode(&key), &BASE64_STANDARD.encode(other.replace('A', "B")));
    let shown = everything_shown(&kubeconfig(&server, "", &misfit), support::scratch().path(), SOON) + "secrets";
    let broken = other.replace('A', "B");
    let lines: Vec<&str> = broken.lines().filter(|line| !line.starts_with("-----")).collect();
    assert_hidden("a misfit of a key", &shown, &lines);
}

#[test]
fn plugin_input_and_output_are_hidden() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server("token-of-a-plugin-4");
    let user = plugin(directory.path(), &exec_credential(r#"{"token":"token-of-a-plugin-4"}"#), 0);
    let shown = everything_shown(&kubeconfig(&server, "", &user), directory.path(), SOON);
    assert!(shown.contains("elected"), "{shown}");
    assert_hidden("plugin", &shown, &["token-of-a-plugin-4"]);
    assert_hidden("plugin", &shown, &OF_A_PLUGIN);

    let (certificate, key) = server.client_certificate("candidate");
    let status = serde_json::json!({ "clientCertificateData": certificate, "clientKeyData": key }).to_string();
    let user = plugin(directory.path(), &exec_credential(&status), 0);
    let shown = everything_shown(&kubeconfig(&server, "", &user), directory.path(), SOON);
    assert!(shown.contains("elected"), "{shown}");
    let lines: Vec<&str> = key.lines().filter(|line| !line.starts_with("-----")).collect();
    assert_hidden("key of a plugin", &shown, &lines);
}

#[test]
fn output_of_a_failed_plugin_is_hidden() {
    let server = server("another");
    for (what, printed, code) in [
        ("no JSON", "token: token-of-a-plugin-5".to_owned(), 0),
        ("broken JSON", r#"{"status":{"token":"token-of-a-plugin-5""#.to_owned(), 0),
        ("another type", exec_credential(r#"{"token":{"token-of-a-plugin-5":1}}"#), 0),
        ("a wrong kind", r#"{"kind":"token-of-a-plugin-5"}"#.to_owned(), 0),
        ("a wrong time", exec_credential(r#"{"token":"token-of-a-plugin-5","expirationTimestamp":"soon"}"#), 0),
        ("no header", exec_credential(r#"{"token":"token-of-a-plugin-5\u0001"}"#), 0),
        ("a failure", exec_credential(r#"{"token":"token-of-a-plugin-5"}"#), 3),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let user = plugin(directory.path(), &printed, code);
        let shown = everything_shown(&kubeconfig(&server, "", &user), directory.path(), REFUSED);
        assert!(shown.contains("WARN leasehold::client: kubernetes: credential plugin /bin/sh"), "{what}: {shown}");
        assert_hidden(what, &shown, &["token-of-a-plugin-5"]);
        assert_hidden(what, &shown, &OF_A_PLUGIN);
    }
}

#[test]
fn the_password_for_a_proxy_is_hidden() {
    let server = server("token-through-a-proxy-6");
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = nobody.local_addr().expect("an address").port();
    let proxy = std::thread::spawn(move || {
        // The proxy refuses the first client.
        let (mut visitor, _) = nobody.accept().expect("a visitor");
        let mut request = [0; 4096];
        let length = visitor.read(&mut request).expect("a request");
        let answer = "HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n";
        std::io::Write::write_all(&mut visitor, answer.as_bytes()).expect("an answer");
        String::from_utf8_lossy(&request[..length]).into_owned()
    });
    let cluster = format!(", proxy-url: 'http://me:password-of-a-proxy-6@127.0.0.1:{port}'");
    let shown = everything_shown(
        &kubeconfig(&server, &cluster, "token: token-through-a-proxy-6"),
        support::scratch().path(),
        REFUSED,
    );
    let request = proxy.join().expect("a proxy");
    let pair = "me:password-of-a-proxy-6";
    assert!(request.contains(&BASE64_STANDARD.encode(pair)), "the proxy is given it: {request}");
    assert!(!request.contains("token-through-a-proxy-6"), "and nothing else: {request}");
    assert_hidden("proxy", &shown, &["password-of-a-proxy-6", pair, "token-through-a-proxy-6"]);
}

#[test]
fn the_password_for_a_socks_proxy_is_hidden() {
    let server = server("token-through-a-proxy-7");
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = nobody.local_addr().expect("an address").port();
    let proxy = std::thread::spawn(move || {
        let mut login = [0; 1 + 1 + 2 + 1 + 19];
        // The proxy refuses one login. On a busy machine, a candidate may close earlier connections before the login.
        loop {
            let (mut visitor, _) = nobody.accept().expect("a visitor");
            let chosen = visitor.read_exact(&mut [0; 4]).and_then(|()| visitor.write_all(&[5, 2]));
            if chosen.and_then(|()| visitor.read_exact(&mut login)).is_ok() {
                visitor.write_all(&[1, 1]).expect("a refusal");
                return String::from_utf8_lossy(&login).into_owned();
            }
        }
    });
    let cluster = format!(", proxy-url: 'socks5://me:password-of-proxy-7@127.0.0.1:{port}'");
    let shown = everything_shown(
        &kubeconfig(&server, &cluster, "token: token-through-a-proxy-7"),
        support::scratch().path(),
        REFUSED,
    );
    let login = proxy.join().expect("a proxy");
    assert!(login.contains("password-of-proxy-7"), "the proxy is given it: {login:?}");
    assert_hidden("proxy", &shown, &["password-of-proxy-7", "token-through-a-proxy-7"]);
}

#[test]
fn content_of_a_broken_kubeconfig_is_hidden() {
    let server = server("another");
    for user in [
        "token: { token-of-a-broken-file-7: 1 }",
        "token: [token-of-a-broken-file-7]",
        "token: 'token-of-a-broken-file-7",
        "token: token-of-a-broken-file-7, token: token-of-a-broken-file-7",
        "token: *token-of-a-broken-file-7",
        "token: !!binary token-of-a-broken-file-7",
        "password: { token-of-a-broken-file-7: 1 }",
        "client-key-data: token-of-a-broken-file-7, client-certificate-data: x",
        "exec: { args: token-of-a-broken-file-7 }",
        "exec: { env: [{ name: A, value: [token-of-a-broken-file-7] }] }",
        "token: \"token-of-a-broken-file-7\\x01\"",
    ] {
        let shown = everything_shown(&kubeconfig(&server, "", user), support::scratch().path(), REFUSED) + "secrets";
        assert_hidden(user, &shown, &["token-of-a-broken-file-7"]);
    }
}

#[test]
fn credentials_that_a_server_sends_back_are_hidden() {
    let server = server("token-that-is-echoed-8");
    let echo = "token-that-is-echoed-8";
    for fault in [
        Fault::replace_bytes(200, "application/json", format!("{{\"{echo}\"")),
        Fault::replace_bytes(200, "text/plain", echo),
        Fault::replace_bytes(500, "text/html", format!("<p>authorization: Bearer {echo}</p>")),
        Fault::status(403, "Forbidden", echo),
    ] {
        let fault = server.fault(fault.first(20));
        let shown =
            everything_shown(&kubeconfig(&server, "", &format!("token: {echo}")), support::scratch().path(), REFUSED);
        fault.remove();
        assert_hidden("echo", &shown, &[echo]);
    }
}

#[test]
fn verification_is_disabled_by_kubeconfig_only_with_a_warning() {
    let (server, other) = (server("token-for-whomever-10"), server("another"));
    let right = kubeconfig(&server, "", "token: token-for-whomever-10");
    // The kubeconfig has the authority of one server and the address of the other server.
    let wrong = kubeconfig(&other, "", "token: token-for-whomever-10").replace(&other.url(), &server.url());
    let shown = everything_shown(&wrong, support::scratch().path(), REFUSED);
    assert!(shown.contains("the server's certificate is not accepted"), "{shown}");
    assert_eq!(server.requests().len(), 0, "whoever cannot be verified is sent nothing");

    let authority = BASE64_STANDARD.encode(server.ca_pem().expect("it has TLS"));
    let off = right.replace(&format!("certificate-authority-data: {authority}"), "insecure-skip-tls-verify: true");
    assert_ne!(off, right);
    let shown = everything_shown(&off, support::scratch().path(), SOON);
    assert!(shown.contains("elected"), "{shown}");
    assert!(shown.contains("WARN leasehold::tls: tls: certificates are not verified"), "{shown}");
    assert_hidden("whomever", &shown, &["token-for-whomever-10"]);
}

/// Returns the text shown about an etcd gateway that issues a token and then refuses it.
fn etcd(password: &str, token: &'static str, refusal: String) -> String {
    listen();
    let gateway = tiny_http::Server::http("127.0.0.1:0").expect("a gateway");
    let url = format!("http://{}", gateway.server_addr().to_ip().expect("an address"));
    let config = EtcdConfig::new([url]).expect("a URL").with_user("secrets").with_password(password);
    let mut shown = format!("{config:?}");
    let store = EtcdStore::new(config).expect("a store");
    let given = std::thread::spawn(move || {
        let mut given = String::new();
        for mut request in gateway.incoming_requests().take(4) {
            let _ = request.as_reader().read_to_string(&mut given);
            given.extend(request.headers().iter().map(|header| format!(" {header}")));
            let (status, body) = match request.url() {
                "/v3/auth/authenticate" => (200, format!("{{\"token\":\"{token}\"}}")),
                _ => (401, format!("{{\"code\":16,\"message\":\"{refusal}\"}}")),
            };
            let _ = request.respond(tiny_http::Response::from_string(body).with_status_code(status));
        }
        given
    });
    let call = CallContext::new(SOON, CancelToken::new());
    let error = store.get("secrets", &call).expect_err("a refusal");
    let _ = write!(shown, "{store:?} {error} {error:?} {:?}", store.location());
    let given = given.join().expect("no panic");
    assert!(given.contains(password) && given.contains(token), "the gateway is given both: {given}");
    format!("{shown}\n{}", log())
}

#[test]
fn etcd_secrets_are_hidden_in_logs_and_dumps() {
    let (password, token) = ("password-for-etcd-11", "token-of-etcd-11");
    let shown = etcd(password, token, "a refusal in a dump".to_owned());
    let dumped = logged::undumped(&logged::those(|_| true));
    assert!(dumped.contains("dump") && dumped.contains("/v3/kv/range"), "the dumps are read");
    for shown in [shown, dumped + "secrets"] {
        assert_hidden("etcd", &shown, &[password, token]);
    }
}

#[test]
fn secret_echoed_by_etcd_is_hidden() {
    let (password, token) = ("password-for-etcd-12", "token-of-etcd-12");
    assert_hidden("echo", &etcd(password, token, format!("{token} of {password} is none")), &[password, token]);
}

/// Covers connections with and without TLS, and accepted and refused logins.
#[test]
fn mariadb_secrets_are_hidden() {
    listen();
    let key = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let (certificate, key) = (key.cert.pem(), key.signing_key.serialize_pem());
    let Some(mariadb) = MariaDb::start_with_tls(&certificate, &key, &[]) else { return };
    let database = mariadb.database("secrets");
    let config = || MySqlConfig::new(&mariadb.url("root", &database)).expect("a URL");
    let tls = TlsConfig::new().with_ca_pem(certificate).expect("an authority");
    let mut shown = String::new();
    for config in [config(), config().with_tls(tls), config().with_password("password-of-nobody-13")] {
        let _ = write!(shown, "{config:?}");
        let store = MySqlStore::new(config).expect("a store");
        let _ = write!(shown, "{store:?} {:?} {:?}", store.create_table(), store.location());
        let elector = LeaderElector::builder("secrets").start_on(store).expect("an elector");
        let _ = write!(shown, "{:?}", elector.block_until_leader_timeout(REFUSED));
    }
    assert!(shown.contains("LeaderGuard") && shown.contains("Access denied"), "{shown}");
    assert_hidden("mariadb", &format!("{shown}\n{}", log()), &[sql::PASSWORD, "password-of-nobody-13"]);
}
