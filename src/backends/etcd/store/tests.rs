//! Tests of the store against a scripted gateway.

use std::cell::Cell;
use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use parking_lot::Mutex;
use rustls::ServerConfig;

use super::*;
use crate::backends::etcd::login::DROP_INTERVAL;
use crate::backends::tests;
use crate::backends::tests::{Act, Login, REFUSAL, Scripted, Step, call, test_client};
use crate::net::calls::CallError;
use crate::net::error::{self as net, NetErrorKind};
use crate::net::tests::certificates::{Duplex, accept};

/// A request that the gateway has received.
#[derive(Clone, Debug)]
struct Asked {
    connection: usize,
    /// Number of earlier requests on the connection.
    number: usize,
    path: String,
    authorization: Option<String>,
    has_leader: bool,
    body: String,
    /// A function that serves the rest of the connection instead of the script.
    rest: Cell<Option<Rest>>,
}

type Rest = fn(&mut dyn Duplex);

/// A function that returns the status and the body of a response, or `None` for no response.
type Script = dyn Fn(&Asked) -> Option<(u16, String)> + Send + Sync;

struct Gateway {
    url: String,
    /// The requests for which the script has run.
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Gateway {
    fn new(script: impl Fn(&Asked) -> Option<(u16, String)> + Send + Sync + 'static) -> Self {
        Self::with_tls(None, script)
    }

    fn with_tls(
        tls: Option<Arc<ServerConfig>>,
        script: impl Fn(&Asked) -> Option<(u16, String)> + Send + Sync + 'static,
    ) -> Self {
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let log = Arc::clone(&asked);
        let scheme = if tls.is_some() { "https" } else { "http" };
        let (port, _) = tests::listen(move |connection, stream| {
            let stream = match &tls {
                Some(config) => accept(config, Box::new(stream)),
                None => Box::new(stream) as Box<dyn Duplex>,
            };
            serve(connection, stream, &script, &log);
        });
        let url = format!("{scheme}://127.0.0.1:{port}");
        Self { url, asked }
    }

    fn asked(&self) -> Vec<Asked> {
        self.asked.lock().clone()
    }

    fn paths(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.path).collect()
    }
}

test_client! { Gateway:
    error_reports_if_the_request_may_have_been_sent,
    stale_connections_are_not_reused,
    eight_connections_open_at_a_time,
    refused_login_asks_the_password_source_again,
    idle_connection_that_is_not_quiet_is_not_used,
}

impl Asked {
    fn step(&self) -> Step {
        if self.path.ends_with("authenticate") { Step::Login } else { Step::Request }
    }

    fn rest(&self, rest: Rest) -> Option<(u16, String)> {
        self.rest.set(Some(rest));
        None
    }
}

impl Scripted for Gateway {
    fn scripted(tls: Option<Arc<ServerConfig>>, script: Box<tests::Script>) -> Self {
        Self::with_tls(tls, move |asked| match script(asked.connection, asked.step(), asked.number) {
            Act::Answer if asked.step() == Step::Login => Some((200, r#"{"token":"t"}"#.to_owned())),
            Act::Answer => well(asked),
            Act::Silence => None,
            Act::Close => Some((0, String::new())),
            Act::AnswerAndClose => asked.rest(|stream| _ = send(stream, &http(200, &found().unwrap().1))),
            Act::Surplus => asked.rest(|stream| {
                let _ = send(stream, &(http(200, &found().unwrap().1) + &http(200, "")));
                hang(stream);
            }),
            Act::Refuse => refused(3, REFUSAL),
        })
    }

    fn steps(&self) -> Vec<(usize, Step)> {
        self.asked().iter().map(|asked| (asked.connection, asked.step())).collect()
    }

    fn open(&self, login: Login) -> Result<Box<dyn Store>, ConfigError> {
        let config = EtcdConfig::new([&self.url])?;
        Ok(Box::new(EtcdStore::new(match login {
            Login::Plain => config,
            Login::Tls(tls) => config.with_tls(tls),
            Login::From(password) => config.with_user("jobs").with_password(password),
        })?))
    }

    fn write(&self, call: &CallContext) -> net::Error {
        let request = EtcdRequest { path: "/v3/kv/txn", body: &serde_json::Value::Null, is_read: false, call };
        match with_user(self).client.request(request) {
            Err(Error::Net(error)) => error,
            _ => panic!("it must fail"),
        }
    }
}

fn serve(connection: usize, stream: Box<dyn Duplex>, script: &Script, log: &Mutex<Vec<Asked>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    for number in 0.. {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let path = line.split(' ').nth(1)?.to_owned();
        let (authorization, has_leader, body, rest) = Default::default();
        let mut asked = Asked { connection, number, path, authorization, has_leader, body, rest };
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            match line.trim_end().split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse().ok()?,
                Some((name, value)) if name.eq_ignore_ascii_case("authorization") => {
                    asked.authorization = Some(value.to_owned());
                }
                Some(("grpc-metadata-hasleader", "true")) => asked.has_leader = true,
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        asked.body = String::from_utf8(body).ok()?;
        let (answer, rest) = (script(&asked), asked.rest.get());
        log.lock().push(asked);
        if let Some(rest) = rest {
            rest(reader.get_mut());
            return None;
        }
        let Some((status, body)) = answer else {
            hang(reader.get_mut());
            return None;
        };
        // A script returns status 0 to close the connection.
        if status == 0 {
            return None;
        }
        send(reader.get_mut(), &http(status, &body))?;
    }
    None
}

fn http(status: u16, body: &str) -> String {
    format!("HTTP/1.1 {status} Said\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn send(stream: &mut dyn Duplex, text: &str) -> Option<()> {
    stream.write_all(text.as_bytes()).and_then(|()| stream.flush()).ok()
}

/// Blocks until the client closes the connection.
fn hang(stream: &mut dyn Duplex) {
    let _ = stream.read(&mut [0]);
}

/// The head of the response to a watch.
const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Sends a line of a watch.
fn line(stream: &mut dyn Duplex, result: &str) {
    let line = format!("{{\"result\":{{{HEADER}{result}}}}}\n");
    let _ = send(stream, &format!("{:x}\r\n{line}\r\n", line.len()));
}

fn begin_watch(stream: &mut dyn Duplex) {
    let _ = send(stream, CHUNKED);
    line(stream, r#","created":true"#);
}

const HEADER: &str = r#""header":{"revision":"9"}"#;

/// Returns the JSON of a key with a record, as etcd returns it in a read.
fn kv(key: &str) -> String {
    use base64::prelude::{BASE64_STANDARD, Engine};
    let (key, value) = (BASE64_STANDARD.encode(key), BASE64_STANDARD.encode(r#"{"holderIdentity":"a"}"#));
    format!(r#"{{"key":"{key}","create_revision":"2","mod_revision":"3","value":"{value}"}}"#)
}

fn found() -> Option<(u16, String)> {
    Some((200, format!(r#"{{{HEADER},"kvs":[{}]}}"#, kv("leasehold/jobs"))))
}

fn applied() -> Option<(u16, String)> {
    Some((200, format!(r#"{{{HEADER},"succeeded":true,"responses":[{{"response_put":{{}}}}]}}"#)))
}

fn beaten() -> Option<(u16, String)> {
    let kv = kv("leasehold/jobs");
    Some((200, format!(r#"{{{HEADER},"responses":[{{"response_range":{{"kvs":[{kv}]}}}}]}}"#)))
}

fn refused(code: u32, message: &str) -> Option<(u16, String)> {
    Some((400, format!(r#"{{"code":{code},"message":"etcdserver: {message}"}}"#)))
}

/// Returns a record for each read, and success for each write.
fn well(asked: &Asked) -> Option<(u16, String)> {
    match asked.path.as_str() {
        "/v3/kv/range" => found(),
        _ => applied(),
    }
}

fn store(gateways: &[&Gateway]) -> EtcdStore {
    EtcdStore::new(EtcdConfig::new(gateways.iter().map(|it| &it.url)).unwrap()).unwrap()
}

fn with_user(gateway: &Gateway) -> EtcdStore {
    EtcdStore::new(EtcdConfig::new([&gateway.url]).unwrap().with_user("jobs").with_password("sesame")).unwrap()
}

/// Returns a call of one second, in which a request arrives even on a busy machine.
fn second() -> CallContext {
    CallContext::new(Duration::from_secs(1), CancelToken::new())
}

fn base() -> VersionedRecord {
    let value = br#"{"holderIdentity":"a"}"#.to_vec();
    parse(KeyValue { key: b"leasehold/jobs".to_vec(), create_revision: 2, mod_revision: 3, value }).unwrap()
}

fn update(store: &EtcdStore, call: &CallContext) -> Result<VersionedRecord, StoreErrorKind> {
    store.update("jobs", &base(), LeaderElectionRecord::default().as_write(), call).map_err(|error| error.kind())
}

#[test]
fn written_record_has_the_revision_of_its_transaction() {
    let gateway = Gateway::new(well);
    let store = store(&[&gateway]);
    let read = store.get("jobs", &call()).unwrap().unwrap();
    assert_eq!((read.version, read.record.uid.as_deref(), read.record.holder()), (3, Some("2"), Some("a")));
    let written = update(&store, &call()).unwrap();
    assert_eq!((written.version, written.record.uid.as_deref()), (9, Some("2")));
    let created = store.create("jobs", LeaderElectionRecord::default().as_write(), &call()).unwrap();
    assert_eq!((created.version, created.record.uid.as_deref()), (9, Some("9")));
    assert!(gateway.asked().iter().all(|asked| asked.has_leader && asked.authorization.is_none()));
    assert!(gateway.asked().iter().all(|asked| !asked.body.contains("serializable")));
}

#[test]
fn a_write_that_may_have_been_received_goes_to_no_other_member() {
    for answer in [None, refused(14, "request timed out"), Some((502, "no".to_owned()))] {
        let (fails, works) = (Gateway::new(move |_| answer.clone()), Gateway::new(well));
        let store = store(&[&fails, &works]);
        update(&store, &second()).unwrap_err();
        assert_eq!(fails.paths(), ["/v3/kv/txn"]);
        assert!(works.paths().is_empty(), "the write may still be applied");
        update(&store, &call()).unwrap();
        assert_eq!((fails.paths().len(), works.paths().len()), (1, 1), "the next attempt begins elsewhere");
    }
}

#[test]
fn a_write_that_was_not_sent_goes_to_the_next_member() {
    let works = Gateway::new(well);
    let gone = Gateway { url: "http://127.0.0.1:1".to_owned(), asked: Arc::default() };
    update(&store(&[&gone, &works]), &call()).unwrap();
    // The member `fails` refuses each login, because it has no leader.
    let login = |asked: &Asked, of_a_login| if asked.path.ends_with("authenticate") { of_a_login } else { well(asked) };
    let fails = Gateway::new(move |asked| login(asked, refused(14, "no leader")));
    let works = Gateway::new(move |asked| login(asked, Some((200, r#"{"token":"t"}"#.to_owned()))));
    let config = EtcdConfig::new([&fails.url, &works.url]).unwrap().with_user("jobs").with_password("sesame");
    update(&EtcdStore::new(config).unwrap(), &call()).unwrap();
    assert!(!fails.paths().contains(&"/v3/kv/txn".to_owned()));
}

/// The silent gateway accepts connections, but never completes a TLS handshake.
///
/// The client therefore has not sent the write, and may try the second member.
#[test]
fn write_moves_on_if_connecting_takes_half_its_time() {
    let (silent, works) = (Gateway::new(|_| None), Gateway::new(well));
    let urls = [silent.url.replace("http:", "https:"), works.url.clone()];
    let store = EtcdStore::new(EtcdConfig::new(urls).unwrap()).unwrap();
    update(&store, &CallContext::new(Duration::from_secs(2), CancelToken::new())).unwrap();
    assert_eq!(works.paths(), ["/v3/kv/txn"]);
}

#[test]
fn read_moves_on_at_once_or_at_half_its_time() {
    // If the client repeated the read at the silent gateway, the second connection would return no record.
    let silent = Gateway::new(|asked| (asked.connection > 0).then(|| (200, format!("{{{HEADER}}}"))));
    let works = Gateway::new(well);
    let both = store(&[&silent, &works]);
    assert!(both.get("jobs", &CallContext::new(Duration::from_secs(4), CancelToken::new())).unwrap().is_some());
    assert!(both.get("jobs", &call()).unwrap().is_some(), "the working member is kept");
    let began = Instant::now();
    let without_leader = Gateway::new(|_| refused(14, "no leader"));
    assert!(store(&[&without_leader, &works]).get("jobs", &call()).unwrap().is_some());
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_comparison_that_fails_is_definite_but_for_a_second_copy() {
    let gateway = Gateway::new(|_| beaten());
    let beaten_at_once = store(&[&gateway]);
    assert_eq!(update(&beaten_at_once, &call()).unwrap_err(), StoreErrorKind::NotApplied);
    let created = beaten_at_once.create("jobs", LeaderElectionRecord::default().as_write(), &call()).unwrap_err();
    assert_eq!(created.kind(), StoreErrorKind::NotApplied);
    // etcd refuses the token of the first copy, so the outcome of the first copy is unknown.
    let gateway = Gateway::new(|asked| match asked.path.as_str() {
        "/v3/auth/authenticate" => Some((200, format!(r#"{{"token":"token-{}"}}"#, asked.connection))),
        _ if asked.authorization.as_deref() == Some("token-0") => refused(16, "invalid auth token"),
        _ => beaten(),
    });
    let store = with_user(&gateway);
    assert_eq!(update(&store, &call()).unwrap_err(), StoreErrorKind::Conflict);
    assert_eq!(update(&store, &call()).unwrap_err(), StoreErrorKind::NotApplied, "with the second token");
    let asked = gateway.asked();
    assert_eq!(asked[0].body, r#"{"name":"jobs","password":"sesame"}"#);
    let tokens: Vec<_> = asked.iter().filter_map(|asked| asked.authorization.as_deref()).collect();
    assert_eq!(tokens, ["token-0", "token-2", "token-2"], "without a scheme, and renewed once");
}

#[test]
fn a_token_is_dropped_after_a_time_out() {
    let gateway = Gateway::new(|asked| match asked.path.as_str() {
        "/v3/auth/authenticate" => Some((200, format!(r#"{{"token":"token-{}"}}"#, asked.connection))),
        _ if asked.authorization.as_deref() == Some("token-0") => None,
        _ => found(),
    });
    let store = with_user(&gateway);
    assert_eq!(store.get("jobs", &second()).unwrap_err().kind(), StoreErrorKind::Timeout);
    assert!(store.get("jobs", &call()).unwrap().is_some());
    let paths = gateway.paths();
    assert_eq!(paths, ["/v3/auth/authenticate", "/v3/kv/range", "/v3/auth/authenticate", "/v3/kv/range"]);
}

/// Watches hang, before or after the head of the response, while requests are answered.
///
/// A proxy may send the head early.
#[test]
fn token_over_which_only_the_watch_hangs_is_dropped() {
    let after_head: Rest = |stream| {
        let _ = send(stream, CHUNKED);
        hang(stream);
    };
    for hangs in [hang as Rest, after_head] {
        let gateway = Gateway::new(move |asked| match asked.path.as_str() {
            "/v3/auth/authenticate" => Some((200, format!(r#"{{"token":"token-{}"}}"#, asked.connection))),
            "/v3/watch" if asked.authorization.as_deref() == Some("token-0") => asked.rest(hangs),
            "/v3/watch" => asked.rest(begin_watch),
            _ => found(),
        });
        let store = with_user(&gateway);
        let watch = |call: &CallContext| store.client.watch(&serde_json::Value::Null, call, SILENCE).map(drop);
        assert_eq!(watch(&second()).unwrap_err().net_kind(), Some(NetErrorKind::Timeout));
        assert!(store.get("jobs", &call()).unwrap().is_some());
        watch(&call()).unwrap();
        assert_eq!(gateway.paths().iter().filter(|path| path.ends_with("authenticate")).count(), 2);
    }
}

/// The limits of the opening, and of the silence, do not limit a watch with events.
#[test]
fn watch_outlasts_the_time_to_open_it() {
    let gateway = Gateway::new(|asked| {
        asked.rest(|stream| {
            begin_watch(stream);
            for _ in 0..10 {
                thread::sleep(Duration::from_millis(400));
                line(stream, "");
            }
            let event = format!(r#"{{"kv":{}}}"#, kv("leasehold/jobs"));
            line(stream, &format!(r#","events":[{}]"#, vec![event; 1000].join(",")));
            hang(stream);
        })
    });
    let (store, silence) = (store(&[&gateway]), Duration::from_secs(2));
    let mut watch = store.client.watch(&serde_json::Value::Null, &second(), silence).unwrap();
    let lines: Vec<_> = (0..11).map(|_| watch.next().unwrap().expect("a line").len()).collect();
    assert_eq!(lines, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1000]);
}

/// Returns a gateway that closes the connection if a token is older than `valid_for`, and the times of the logins.
fn closing(valid_for: Duration) -> (Gateway, Arc<Mutex<Vec<Instant>>>) {
    let logins = Arc::<Mutex<Vec<Instant>>>::default();
    let issued = Arc::clone(&logins);
    let gateway = Gateway::new(move |asked| {
        let mut issued = issued.lock();
        if asked.step() == Step::Login {
            issued.push(Instant::now());
            return Some((200, format!(r#"{{"token":"token-{}"}}"#, issued.len() - 1)));
        }
        let number: usize = asked.authorization.as_deref().unwrap().strip_prefix("token-").unwrap().parse().unwrap();
        if issued[number].elapsed() < valid_for { well(asked) } else { Some((0, String::new())) }
    });
    (gateway, logins)
}

#[test]
fn token_refused_by_a_closed_connection_is_renewed() {
    let (gateway, tokens) = closing(Duration::from_secs(1));
    let store = with_user(&gateway);
    update(&store, &call()).unwrap();
    for logins in 2..=3 {
        thread::sleep(DROP_INTERVAL);
        // The first request ends on the used connection, the second one on a new connection.
        for _ in 0..2 {
            update(&store, &call()).unwrap_err();
        }
        update(&store, &call()).unwrap();
        assert_eq!(tokens.lock().len(), logins);
    }
}

#[test]
fn closed_connections_cost_at_most_one_login_per_2_s() {
    let (gateway, tokens) = closing(Duration::ZERO);
    let (store, began) = (with_user(&gateway), Instant::now());
    for _ in 0..30 {
        update(&store, &call()).unwrap_err();
    }
    let most = 2 + began.elapsed().as_millis() / DROP_INTERVAL.as_millis();
    let count = tokens.lock().len();
    assert!(count >= 2 && count as u128 <= most, "{count} logins");
}

#[test]
fn calls_at_the_same_time_share_one_login() {
    let gateway = Gateway::new(|asked| match asked.step() {
        Step::Login => {
            thread::sleep(Duration::from_millis(300));
            Some((200, r#"{"token":"t"}"#.to_owned()))
        }
        _ => well(asked),
    });
    let store = with_user(&gateway);
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| store.get("jobs", &call()).unwrap());
        }
    });
    let logins = gateway.paths().iter().filter(|path| path.ends_with("authenticate")).count();
    assert_eq!(logins, 1);
}

#[test]
fn refused_token_is_requested_twice_and_no_more() {
    let gateway = Gateway::new(|asked| match asked.path.as_str() {
        "/v3/auth/authenticate" => Some((200, r#"{"token":"secret-token"}"#.to_owned())),
        "/v3/watch" => {
            let reason = "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token";
            let result = format!(r#"{{{HEADER},"created":true,"canceled":true,"cancel_reason":"{reason}"}}"#);
            Some((200, format!("{{\"result\":{result}}}\n")))
        }
        _ => refused(16, "invalid auth token: secret-token, of sesame"),
    });
    let store = with_user(&gateway);
    let error = store.get("jobs", &call()).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unauthorized);
    assert!(!error.to_string().contains("secret-token") && !error.to_string().contains("sesame"), "{error}");
    assert!(!format!("{store:?} {error:?}").contains("sesame"));
    assert_eq!(gateway.paths().len(), 4, "{:?}", gateway.paths());
    let watch = store.watch(WatchScope::Key("jobs"), Some(&Cursor::new(3_u64)), &CancelToken::new(), &mut |event| {
        panic!("{event:?}");
    });
    assert_eq!(watch.unwrap_err().kind(), StoreErrorKind::Unauthorized);
}

#[test]
fn foreign_server_is_an_error_not_an_absent_record() {
    use StoreErrorKind::{Expired, Forbidden, Malformed, NotFound, Rejected, Unauthorized, Unavailable};
    for (status, body, expected) in [
        (200, "{}", Malformed),
        (200, "", Malformed),
        (200, r#"{"header":{}}"#, Malformed),
        (200, r#"{"header":"sesame"}"#, Malformed),
        (200, "<html>", Malformed),
        (204, "", Malformed),
        (301, "", Malformed),
        (403, r#"{"code":7,"message":"etcdserver: permission denied"}"#, Forbidden),
        (200, r#"{"code":7,"message":"etcdserver: permission denied"}"#, Malformed),
        (499, "", Malformed),
        (400, "CommonName of client sending a request", Unauthorized),
        (404, "404 page not found", NotFound),
        (429, "", Unavailable),
        (503, "<html>", Unavailable),
    ] {
        let gateway = Gateway::new(move |_| Some((status, body.to_owned())));
        let error = store(&[&gateway]).get("jobs", &call()).unwrap_err();
        assert!(error.kind() == expected && !error.to_string().contains("sesame"), "{status} {body}: {error}");
    }
    for (code, message, expected) in [
        (3, "etcdserver: user name is empty", Unauthorized),
        (3, "etcdserver: authentication failed, invalid user ID or password", Unauthorized),
        (3, "etcdserver: user name not found", Unauthorized),
        (3, "etcdserver: revision of auth store is old", Unavailable),
        (3, "etcdserver: key is not provided", Rejected),
        (4, "context deadline exceeded", Unavailable),
        (5, "Not Found", NotFound),
        (8, "etcdserver: mvcc: database space exceeded", Unavailable),
        (9, "etcdserver: authentication is not enabled", Rejected),
        (9, "etcdserver: CommonName of client sending a request against gateway will be ignored", Unauthorized),
        (9, "etcdserver: something else", Rejected),
        (11, "etcdserver: mvcc: required revision has been compacted", Expired),
        (12, "Not Implemented", NotFound),
        (14, "etcdserver: no leader", Unavailable),
        (16, "etcdserver: invalid auth token", Unauthorized),
    ] {
        let gateway = Gateway::new(move |_| refused(code, message));
        let error = store(&[&gateway]).get("jobs", &call()).unwrap_err();
        assert_eq!(error.kind(), expected, "{code} {message}: {error}");
    }
}

#[test]
fn user_without_a_password_is_refused() {
    let nothing = EtcdConfig::from_url("etcd://jobs@127.0.0.1").unwrap();
    assert_eq!(EtcdStore::new(nothing).unwrap_err().field(), "password");
}

#[test]
fn a_guarded_transaction_is_tried_again_only_within_its_term() {
    use base64::prelude::{BASE64_STANDARD, Engine};
    let (won, theirs) = (Arc::new(Mutex::new(String::new())), Arc::new(Mutex::new(false)));
    let gateway = Gateway::new({
        let (won, theirs) = (Arc::clone(&won), Arc::clone(&theirs));
        move |asked| {
            let is_guarded = asked.body.contains(&BASE64_STANDARD.encode("guarded"));
            let body: serde_json::Value = serde_json::from_str(&asked.body).unwrap();
            match asked.path.as_str() {
                "/v3/kv/range" => Some((200, format!("{{{HEADER}}}"))),
                "/v3/kv/txn" if is_guarded => {
                    // The record has been renewed to revision 20, so the first comparison fails.
                    if body["compare"][0]["mod_revision"] == "20" {
                        return applied();
                    }
                    let value = if *theirs.lock() {
                        BASE64_STANDARD.encode(r#"{"holderIdentity":"b"}"#)
                    } else {
                        won.lock().clone()
                    };
                    let key = BASE64_STANDARD.encode("leasehold/jobs");
                    let kv =
                        format!(r#"{{"key":"{key}","create_revision":"9","mod_revision":"20","value":"{value}"}}"#);
                    Some((200, format!(r#"{{{HEADER},"responses":[{{"response_range":{{"kvs":[{kv}]}}}}]}}"#)))
                }
                "/v3/kv/txn" => {
                    let value = body["success"][0]["request_put"]["value"].as_str().unwrap();
                    *won.lock() = value.to_owned();
                    applied()
                }
                _ => None,
            }
        }
    });
    let store = Arc::new(store(&[&gateway]));
    let builder = crate::LeaderElector::builder("jobs").lease_duration(Duration::from_secs(600));
    let elector = builder.release_timeout(Duration::from_millis(100)).start_on(Arc::clone(&store)).unwrap();
    let guard = elector.block_until_leader().unwrap();
    let put = EtcdOperation::Put { key: b"guarded".to_vec(), value: Vec::new() };
    assert_eq!(store.guarded_txn(&guard, std::slice::from_ref(&put), &call()).unwrap(), 9);
    *theirs.lock() = true;
    let refused = store.guarded_txn(&guard, &[put], &call()).unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::NotApplied, "{refused}");
}

fn watched(line: &str, from: u64) -> (StoreErrorKind, usize) {
    let answers = [line, r#"{"token":"secret-token"}"#].map(str::to_owned);
    let gateway = Gateway::new(move |asked| Some((200, answers[usize::from(asked.step() == Step::Login)].clone())));
    let mut told = 0;
    let ended = with_user(&gateway).watch(
        WatchScope::Key("jobs"),
        Some(&Cursor::new(from)),
        &CancelToken::new(),
        &mut |event| told += usize::from(matches!(event, WatchEvent::Opened)),
    );
    let error = ended.unwrap_err();
    assert!(!error.to_string().contains("secret-token") && !error.to_string().contains("sesame"), "{error}");
    (error.kind(), told)
}

#[test]
fn a_watch_that_etcd_does_not_begin_ends_with_the_reason() {
    let created = "{\"result\":{\"header\":{\"revision\":\"9\"},\"created\":true}}\n";
    assert_eq!(watched(created, 10), (StoreErrorKind::Expired, 0), "etcd's revision is older");
    for (reason, expected) in [
        ("code = PermissionDenied desc = etcdserver: permission denied", StoreErrorKind::Forbidden),
        ("etcdserver: user name is empty", StoreErrorKind::Unauthorized),
        ("rpc error: code = Unauthenticated desc = x", StoreErrorKind::Unauthorized),
        ("etcdserver: mvcc: secret-token of sesame", StoreErrorKind::Unavailable),
    ] {
        let result = format!(r#"{{{HEADER},"created":true,"canceled":true,"cancel_reason":"{reason}"}}"#);
        assert_eq!(watched(&format!("{{\"result\":{result}}}\n"), 9), (expected, 0), "{reason}");
    }
    let compacted = "{\"result\":{\"header\":{\"revision\":\"9\"},\"created\":true}}\n\
                     {\"result\":{\"header\":{\"revision\":\"9\"},\"canceled\":true,\"compact_revision\":\"8\",\
                     \"cancel_reason\":\"permission denied\"}}\n";
    assert_eq!(watched(compacted, 3), (StoreErrorKind::Expired, 1));
    let no_leader = "{\"result\":{\"header\":{\"revision\":\"9\"},\"created\":true}}\n\
                     {\"error\":{\"code\":14,\"message\":\"etcdserver: no leader for secret-token of sesame\"}}\n";
    assert_eq!(watched(no_leader, 9), (StoreErrorKind::Unavailable, 1));
    assert_eq!(watched(no_leader.trim_end(), 9), (StoreErrorKind::Unavailable, 1), "as etcd 3.4 writes it");
    assert_eq!(watched("{\"result\":{\"hea", 9).0, StoreErrorKind::Malformed);
    assert_eq!(watched("nonsense\n", 9).0, StoreErrorKind::Malformed);
}
