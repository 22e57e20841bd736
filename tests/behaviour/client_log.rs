//! Tests of the client's log: one line per request, server warnings, and no secrets.

#![cfg(unix)]

#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::panic::resume_unwind;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base64::prelude::{BASE64_STANDARD, Engine};
use crossbeam_channel::{Receiver, Sender, bounded};
use leasehold::TlsConfig;
use leasehold::etcd::{EtcdConfig, EtcdStore};
use leasehold::kubernetes::{Client, ClientConfig, LeaseStore};
use leasehold::store::{CallContext, CancelToken, Store, StoreError, StoreErrorKind, VersionedRecord, WatchScope};
use leasehold_testing::ApiServer;
use log::{Level, LevelFilter};
use parking_lot::Mutex;
use support::cluster::client_of;
use support::kubeconfig::{self, exec_credential};
use support::logged::{self, Logged};
use support::stores::held_by;
use support::{AT_ONCE, SOON};

// ---- the log of a test ----

/// Returns the lines that `run` logs on this thread, and the result of `run`.
///
/// The client logs each request on the thread that sends the request.
fn heard<T>(run: impl FnOnce() -> T) -> (Vec<Logged>, T) {
    listen();
    logged::of_this_thread(run)
}

/// The lines at which the logger hangs once, until the test ends the hang.
static HANGS: Mutex<BTreeMap<&str, Hang>> = Mutex::new(BTreeMap::new());

type Hang = (Sender<()>, Receiver<()>);

fn listen() {
    logged::collect(LevelFilter::Trace, |logged| {
        let hang = HANGS.lock().remove(&*logged.text);
        if let Some((reached, hangs)) = hang {
            let _ = (reached.send(()), hangs.recv_timeout(SOON));
        }
        if logged.target.starts_with("leasehold") && !logged.target.contains("testing") {
            resume_unwind(Box::new("a logger that panics must not end a request"));
        }
    });
}

/// Returns the result of `call` while the logger hangs at `line` in another `call`.
fn beside_a_hang<T: Send>(line: &'static str, call: impl Fn() -> T + Sync) -> T {
    listen();
    let ((reached, is_reached), (hang, hangs)) = (bounded(1), bounded::<()>(0));
    HANGS.lock().insert(line, (reached, hangs));
    std::thread::scope(|scope| {
        scope.spawn(&call);
        is_reached.recv_timeout(SOON).expect("the logger hangs");
        let began = Instant::now();
        let result = call();
        assert!(began.elapsed() < AT_ONCE, "{line}: {:?}", began.elapsed());
        drop(hang);
        result
    })
}

fn ours(log: &[Logged], level: Level) -> Vec<&str> {
    let ours = log.iter().filter(|said| said.level == level && said.target.starts_with("leasehold::client"));
    ours.map(|said| said.text.as_str()).collect()
}

// ---- a server that records ----

/// Accepts one connection, sends one of `answers` to each request, and closes the connection.
///
/// The thread returns the heads of the requests.
fn serve(answers: Vec<String>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let server = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().expect("a connection");
        connection.set_read_timeout(Some(SOON)).expect("a time-out");
        let heads = answers.iter().map(|answer| {
            let head = read_head(&mut connection);
            connection.write_all(answer.as_bytes()).expect("it is read");
            head
        });
        heads.collect()
    });
    (url, server)
}

fn read_head(connection: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut chunk = [0; 65536];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let length = connection.read(&mut chunk).expect("a request");
        assert!(length > 0, "it ends inside a head: {}", String::from_utf8_lossy(&head));
        head.extend_from_slice(&chunk[..length]);
    }
    String::from_utf8(head).expect("text")
}

fn answer(code: &str, headers: &str) -> String {
    format!("HTTP/1.1 {code}\r\ncontent-length: {}\r\n{headers}\r\n{LEASE}", LEASE.len())
}

const COLLECTION: &str = "/apis/coordination.k8s.io/v1/namespaces/team/leases";

const LEASE: &str = r#"{"kind":"Lease","metadata":{"name":"jobs","uid":"u","resourceVersion":"7"},"spec":{}}"#;

fn leases(client: &Client) -> LeaseStore {
    LeaseStore::new(client.clone(), "team").expect("a store")
}

fn get(client: &Client) -> Result<Option<VersionedRecord>, StoreError> {
    get_until(client, &CancelToken::new())
}

fn get_until(client: &Client, cancel: &CancelToken) -> Result<Option<VersionedRecord>, StoreError> {
    leases(client).get("jobs", &CallContext::new(SOON, cancel.clone()))
}

fn client(url: &str) -> Client {
    Client::new(ClientConfig::new(url).expect("a URL").with_token("sesame-in-an-echo")).expect("a client")
}

/// Returns the line with `_` in place of its number of milliseconds.
fn untimed(line: &str) -> String {
    let (before, after) = line.split_once(" in ").expect("a time");
    let (number, after) = after.split_once(" ms").expect("milliseconds");
    let took: u64 = number.parse().expect("a number");
    assert!(took < 30_000, "{line}");
    format!("{before} in _ ms{after}")
}

// ---- credentials ----

#[test]
fn lasting_credential_rejection_is_logged_at_warn_once() {
    let (url, server) = serve(vec![answer("401 Unauthorized", ""); 4]);
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "sesame-in-a-file").expect("written");
    let client = Client::new(ClientConfig::new(&url).expect("a URL").with_token_file(file.path())).expect("a client");
    let (log, _) = heard(|| {
        assert!(get(&client).is_err());
        std::fs::write(file.path(), "").expect("written");
        for _ in 0..3 {
            assert!(get(&client).is_err());
        }
    });
    let warnings = |level| ours(&log, level).iter().filter(|line| line.contains("credentials rejected")).count();
    assert_eq!((warnings(Level::Warn), warnings(Level::Debug)), (1, 2), "{:?}", ours(&log, Level::Warn));
    assert_eq!(server.join().expect("a server").len(), 4);
}

/// The program ends while the plugin runs again after a 401.
///
/// The end of the program is not a failure of the credentials.
#[test]
fn credential_run_ended_by_the_program_is_no_failure() {
    let (url, server) = serve(vec![answer("401 Unauthorized", "")]);
    let directory = tempfile::tempdir().expect("a directory");
    let (path, again) = (directory.path().display(), directory.path().join("again"));
    let script = format!(
        "[ ! -e {path}/first ] || {{ touch {path}/again; sleep 90; }}\ntouch {path}/first\necho '{}'",
        exec_credential(r#"{"token":"sesame-in-an-echo"}"#)
    );
    std::fs::write(directory.path().join("plugin.sh"), script).expect("written");
    let plugin = format!("command: /bin/sh, args: ['{path}/plugin.sh']");
    let user = format!("exec: {{ apiVersion: client.authentication.k8s.io/v1, {plugin} }}");
    let client = client_of(&kubeconfig::with(&format!("server: '{url}'"), &user));
    let cancel = CancelToken::new();
    let (log, result) = heard(|| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !again.exists() {
                    std::thread::sleep(Duration::from_millis(10));
                }
                cancel.cancel();
            });
            get_until(&client, &cancel)
        })
    });
    assert_eq!(result.expect_err("rejected").kind(), StoreErrorKind::Unauthorized);
    assert!(ours(&log, Level::Warn).is_empty(), "{:?}", ours(&log, Level::Warn));
    assert_eq!(server.join().expect("a server").len(), 1);
}

// ---- one line a request ----

#[test]
fn request_is_one_line_with_status_duration_and_audit_id() {
    let (url, server) = serve(vec![
        answer("200 OK", "audit-id: 4f6e\r\n"),
        answer("409 Conflict", "Audit-Id: sesame-in-an-echo\x1b[31m\t\u{e9}\r\n".replace('\x1b', "").as_str()),
        answer("200 OK", ""),
    ]);
    let client = client(&url);
    let (log, _) = heard(|| {
        get(&client).expect("an answer");
        get(&client).expect_err("a conflict");
        get(&client).expect("an answer");
    });
    server.join().expect("a server");
    let lines: Vec<_> = ours(&log, Level::Debug).into_iter().map(untimed).collect();
    assert_eq!(
        lines,
        ["200 in _ ms, audit id 4f6e", "409 in _ ms, audit id *****************[31m é", "200 in _ ms"]
            .map(|rest| format!("kubernetes: GET {COLLECTION}/jobs: {rest}"))
    );
    assert!(ours(&log, Level::Info).is_empty() && ours(&log, Level::Warn).is_empty());
}

#[test]
fn a_request_without_an_answer_is_a_line_as_well() {
    let (url, server) = serve(vec![String::new()]);
    let client = client(&url);
    let call = CallContext::new(SOON, CancelToken::new());
    let (log, result) = heard(|| leases(&client).create("jobs", held_by("a").as_write(), &call));
    result.expect_err("no answer");
    server.join().expect("a server");
    let lines: Vec<_> = ours(&log, Level::Debug).into_iter().map(untimed).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    // A server that closes a connection with unread bytes resets the connection, so the error text varies.
    let beginning = format!("kubernetes: POST {COLLECTION}: no answer in _ ms: the ");
    assert!(lines[0].starts_with(&beginning), "{lines:?}");
}

#[test]
fn a_stream_is_one_line_when_it_opens() {
    let (url, server) = serve(vec![answer("200 OK", "audit-id: 4f6e\r\nwarning: 299 - \"soon gone\"\r\n")]);
    let client = client(&url);
    let cancel = CancelToken::new();
    let end = &mut |_| cancel.cancel();
    let (log, result) = heard(|| leases(&client).watch(WatchScope::Key("jobs"), None, &cancel, end));
    assert_eq!(result.expect_err("it is cancelled").kind(), StoreErrorKind::Interrupted);
    server.join().expect("a server");
    let lines: Vec<_> = ours(&log, Level::Debug).into_iter().map(untimed).collect();
    assert_eq!(lines, [format!("kubernetes: GET {COLLECTION}: 200 in _ ms, audit id 4f6e")]);
    assert_eq!(ours(&log, Level::Warn), ["kubernetes: warning from the server: soon gone"]);
}

// ---- warnings of the server ----

#[test]
fn a_warning_is_logged_once_for_a_client_and_holds_no_secret() {
    let headers = "warning: 299 - \"v1beta1 is \\\"old\\\"\"\r\nwarning: 299 - \"sesame-in-an-echo\tseen\"\r\n\
                   warning: 199 - \"not ours\"\r\nwarning: nonsense\r\n";
    for _ in 0..2 {
        let (url, server) = serve(vec![
            answer("200 OK", headers),
            answer("409 Conflict", headers),
            answer("200 OK", "warning: 299 - \"another\"\r\n"),
        ]);
        let client = client(&url);
        let (log, _) = heard(|| (0..3).for_each(|_| drop(get(&client))));
        server.join().expect("a server");
        assert_eq!(
            ours(&log, Level::Warn),
            [
                "kubernetes: warning from the server: v1beta1 is \"old\"",
                "kubernetes: warning from the server: ***************** seen",
                "kubernetes: warning from the server: another",
            ]
        );
    }
}

#[test]
fn warnings_without_end_are_cut() {
    let answers = (0..100)
        .map(|number| {
            let long = "x".repeat(2000);
            let headers = (0..10).map(|text| format!("warning: 299 - \"{number} {text} {long}\"\r\n"));
            answer("200 OK", &headers.collect::<String>())
        })
        .collect();
    let (url, server) = serve(answers);
    let client = client(&url);
    let (log, _) = heard(|| (0..100).for_each(|_| drop(get(&client).expect("an answer"))));
    server.join().expect("a server");
    let warnings = ours(&log, Level::Warn);
    assert_eq!(warnings.len(), 65);
    assert!(warnings.iter().all(|warning| warning.len() < 350));
    assert!(warnings[64].contains("further ones are not logged"), "{}", warnings[64]);
}

// ---- a logger that hangs ----

#[test]
fn hanging_logger_blocks_no_other_call_of_a_client() {
    // This gateway of etcd answers logins only.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for mut connection in listener.incoming().map_while(Result::ok) {
            let mut request = [0; 4096];
            let Ok(length) = connection.read(&mut request) else { continue };
            if String::from_utf8_lossy(&request[..length]).contains("/v3/auth/authenticate") {
                let _ = connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n{\"token\":\"t\"}");
            }
        }
    });
    let etcd = EtcdStore::new(EtcdConfig::new([&url]).expect("a URL").with_user("jobs").with_password("sesame"))
        .expect("a store");
    let read = || etcd.get("jobs", &CallContext::new(Duration::from_secs(2), CancelToken::new()));
    beside_a_hang("etcd: connection closed without an answer, logging in again", read).expect_err("no answer");

    let [server, other] = [(); 2].map(|()| ApiServer::builder().tls(true).start().expect("a server"));
    let ca = tempfile::NamedTempFile::new().expect("a file");
    let trust = |server: &ApiServer| std::fs::write(ca.path(), server.ca_pem().expect("TLS")).expect("written");
    trust(&other);
    let tls = TlsConfig::new().with_ca_file(ca.path()).expect("an authority");
    let config = ClientConfig::new(&server.url()).expect("a URL").with_tls(tls);
    let client = Client::new(config).expect("a client");
    trust(&server);
    beside_a_hang("tls: reloaded the CA bundle", || get(&client)).expect("the new authority");
}

// ---- secrets ----

#[test]
fn no_record_holds_a_part_of_a_token_however_long_the_head_is() {
    let heads = [
        (20, 0),
        (15_000, 0),
        (16_191, 0),
        (16_200, 0),
        (16_384, 0),
        (20, 170),
        (40_000, 1),
        (70_000, 0),
        (70_000, 1000),
    ];
    for (is_password, (length, groups)) in [false, true].into_iter().flat_map(|it| heads.map(|head| (it, head))) {
        let (url, server) = serve(vec![answer("200 OK", "")]);
        let mut secret = "sesame-".repeat(length / 7 + 1);
        secret.truncate(length);
        let groups: Vec<_> = (0..groups).map(|number| format!("{number:0>60}")).collect();
        let (user, sent) = match is_password {
            true => {
                let pair = BASE64_STANDARD.encode(format!("jim:{secret}"));
                (format!("username: jim, password: {secret}"), format!("Basic {pair}"))
            }
            false => (format!("token: {secret}"), format!("Bearer {secret}")),
        };
        let user = match groups.is_empty() {
            true => user,
            false => format!("{user}, as: jane, as-groups: [{}]", groups.join(", ")),
        };
        let kubeconfig = kubeconfig::with(&format!("server: '{url}'"), &user);
        let (log, result) = heard(|| get(&client_of(&kubeconfig)));
        let what = format!("{:.6} of {length} bytes and {} groups", sent, groups.len());
        result.unwrap_or_else(|error| panic!("{what}: {error}"));
        let heads = server.join().expect("a server");
        assert!(heads[0].contains(&format!("\r\nauthorization: {sent}\r\n")), "{what}");
        assert_eq!(heads[0].matches("\r\nimpersonate-group: ").count(), groups.len(), "{what}");
        let dumped = logged::undumped(&log);
        assert!(dumped.contains("accept-encoding:.identity"), "{what}: the dumps are read: {dumped}");
        for text in log.iter().map(|said| &said.text).chain([&dumped]) {
            assert!(!text.contains("sesame") && !text.contains(&sent[7..20]), "{what}: {text}");
        }
    }
}
