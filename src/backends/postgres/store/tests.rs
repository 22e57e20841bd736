//! Tests of the store against a scripted server.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustls::ServerConfig;

use super::*;
use crate::backends::password::LONGEST_MESSAGE;
use crate::backends::tests;
use crate::backends::tests::{Act, Login, REFUSAL, Scripted, Step, call, cancel_at, test_client};
use crate::net::error as net;
use crate::net::interrupt::Interrupter;
use crate::net::tests::certificates::{Duplex, accept};
use crate::store::record::LeaderElectionRecord;
use crate::store::record::StoreData;

/// A function that returns the server's response to a message, or `None` for no response.
type Script = dyn Fn(&Said) -> Option<Vec<u8>> + Send + Sync;

/// A message from a client.
struct Said {
    /// Number of the connection since the start of the server.
    connection: usize,
    /// Number of the message on this connection.
    ///
    /// Message 0 is the start-up message or the request for TLS.
    number: usize,
    bytes: Vec<u8>,
    /// `true` if the server closes the connection after its response.
    is_last: Cell<bool>,
}

impl Said {
    fn step(&self) -> Step {
        if self.number == 0 { Step::Login } else { Step::Request }
    }

    fn is(&self, sql: &str) -> bool {
        self.bytes.windows(sql.len()).any(|window| window == sql.as_bytes())
    }
}

struct Server {
    url: String,
    connections: Arc<AtomicUsize>,
    /// The messages for which the script has run.
    said: Arc<Mutex<Vec<Said>>>,
}

impl Server {
    fn new(script: impl Fn(&Said) -> Option<Vec<u8>> + Send + Sync + 'static) -> Self {
        Self::with_tls(None, script)
    }

    fn with_tls(
        tls: Option<Arc<ServerConfig>>,
        script: impl Fn(&Said) -> Option<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        let said = Arc::<Mutex<Vec<Said>>>::default();
        let log = Arc::clone(&said);
        let serve = move |connection, stream| _ = serve(connection, Box::new(stream), tls.clone(), &script, &log);
        let (port, connections) = tests::listen(serve);
        let url = format!("postgres://me:hunter2@127.0.0.1:{port}/db");
        Self { url, connections, said }
    }

    fn store(&self) -> PostgresStore {
        checked(PostgresConfig::new(&self.url).unwrap())
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Creates a store that skips the check of the table.
fn checked(config: PostgresConfig) -> PostgresStore {
    let store = PostgresStore::new(config).unwrap();
    store.0.table.is_checked.store(true, Ordering::Release);
    store
}

test_client! { Server:
    error_reports_if_the_request_may_have_been_sent,
    stale_connections_are_not_reused,
    eight_connections_open_at_a_time,
    refused_login_asks_the_password_source_again,
    read_on_a_closed_connection_is_resent_and_a_write_is_not,
    idle_connection_that_is_not_quiet_is_not_used,
}

impl Scripted for Server {
    fn scripted(tls: Option<Arc<ServerConfig>>, script: Box<tests::Script>) -> Self {
        Self::with_tls(tls, move |said| match script(said.connection, said.step(), said.number.saturating_sub(1)) {
            Act::Answer => well(said),
            Act::Silence => None,
            Act::Close => Some(Vec::new()),
            Act::AnswerAndClose => {
                said.is_last.set(true);
                well(said)
            }
            Act::Surplus => Some([well(said)?, message(b'N', b"SNOTICE\0VNOTICE\0C00000\0Mx\0\0")].concat()),
            Act::Refuse => Some(message(b'E', format!("SFATAL\0C28P01\0M{REFUSAL}\0\0").as_bytes())),
        })
    }

    fn steps(&self) -> Vec<(usize, Step)> {
        self.said.lock().iter().map(|said| (said.connection, said.step())).collect()
    }

    fn open(&self, login: Login) -> Result<Box<dyn Store>, ConfigError> {
        let config = PostgresConfig::new(&self.url)?;
        Ok(Box::new(checked(match login {
            Login::Plain => config,
            Login::Tls(tls) => PostgresConfig::new(&format!("{}?sslmode=verify-full", self.url))?.with_tls(tls),
            Login::From(password) => PostgresConfig::new(&self.url.replace(":hunter2", ""))?.with_password(password),
        })))
    }

    fn write(&self, call: &CallContext) -> net::Error {
        let update = Statement { sql: "UPDATE", parameters: &[] };
        match self.store().0.table.client.run(&[update], false, None, call, Ok) {
            Err(Error::Net(error)) => error,
            other => panic!("{other:?}"),
        }
    }
}

/// Serves one connection, and treats the bytes of each read as one message.
///
/// If the script returns an empty response, the server closes the connection.
fn serve(
    connection: usize,
    mut stream: Box<dyn Duplex>,
    tls: Option<Arc<ServerConfig>>,
    script: &Script,
    log: &Mutex<Vec<Said>>,
) -> Option<()> {
    if let Some(config) = tls {
        stream.read_exact(&mut [0; 8]).ok()?;
        stream.write_all(b"S").ok()?;
        stream = accept(&config, stream);
    }
    for number in 0.. {
        let mut bytes = vec![0; 65536];
        let length = stream.read(&mut bytes).ok().filter(|length| *length > 0)?;
        bytes.truncate(length);
        let said = Said { connection, number, bytes, is_last: Cell::new(false) };
        let (answer, is_last) = (script(&said), said.is_last.get());
        log.lock().push(said);
        let Some(answer) = answer else {
            // Blocks until the client closes the connection.
            while stream.read(&mut [0; 1024]).is_ok_and(|length| length > 0) {}
            return None;
        };
        if answer.is_empty() {
            return None;
        }
        stream.write_all(&answer).ok()?;
        if is_last {
            return None;
        }
    }
    None
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    [&[tag], &length[..], body].concat()
}

fn ready() -> Vec<u8> {
    message(b'Z', b"I")
}

fn logged_in() -> Option<Vec<u8>> {
    Some([message(b'R', &0_u32.to_be_bytes()), ready()].concat())
}

fn row(columns: &[Option<&str>]) -> Vec<u8> {
    let mut body = u16::try_from(columns.len()).unwrap().to_be_bytes().to_vec();
    for column in columns {
        let length = column.map_or(-1, |text| i32::try_from(text.len()).unwrap());
        body.extend(length.to_be_bytes());
        body.extend(column.unwrap_or_default().as_bytes());
    }
    message(b'D', &body)
}

fn statement(rows: &[Vec<u8>]) -> Vec<u8> {
    [message(b'1', b""), message(b'2', b""), rows.concat(), message(b'C', b"SELECT 1\0")].concat()
}

/// Returns the response to two statements: the settings, and a statement with these rows.
fn answer(rows: &[Vec<u8>]) -> Option<Vec<u8>> {
    Some([statement(&[row(&[None])]), statement(rows), ready()].concat())
}

/// Returns the response to a message, which may also take the turn of an acquisition.
fn answer_to(said: &Said, rows: &[Vec<u8>]) -> Option<Vec<u8>> {
    let turn = if said.is("pg_advisory_xact_lock(") { statement(&[row(&[None])]) } else { Vec::new() };
    Some([turn, answer(rows)?].concat())
}

const RECORD: [Option<&str>; 13] = [
    Some("f"),
    Some("1"),
    Some("jobs"),
    Some("0"),
    Some("u"),
    Some("a"),
    Some("15"),
    None,
    None,
    Some("0"),
    None,
    Some("1700000000000000"),
    PROVED,
];

/// The last column of a row whose transaction had the required settings.
const PROVED: Option<&str> = Some("t");

fn error(severity: &str, sqlstate: &str) -> Vec<u8> {
    message(b'E', format!("S{severity}\0V{severity}\0C{sqlstate}\0Mno\0\0").as_bytes())
}

/// Returns success for each login, read and write.
fn well(said: &Said) -> Option<Vec<u8>> {
    match said.number {
        0 => logged_in(),
        _ if said.is("INSERT") || said.is("UPDATE") => answer_to(said, &[row(&[Some("1"), PROVED])]),
        _ => answer(&[row(&RECORD)]),
    }
}

fn brief() -> CallContext {
    CallContext::new(Duration::from_millis(200), CancelToken::new())
}

fn kind<T>(result: Result<T, StoreError>) -> StoreErrorKind {
    match result {
        Ok(_) => panic!("it must fail"),
        Err(error) => {
            assert!(!error.to_string().contains("hunter2"), "{error}");
            error.kind()
        }
    }
}

#[test]
fn no_row_is_a_definite_no_and_every_error_leaves_a_write_open() {
    let server = Server::new(|said| match said.number {
        0 => logged_in(),
        _ if said.is("INSERT") || said.is("UPDATE") => answer_to(said, &[]),
        _ => well(said),
    });
    let store = server.store();
    let record = LeaderElectionRecord::default();
    assert_eq!(kind(store.create("jobs", record.as_write(), &call())), StoreErrorKind::NotApplied);
    let base = VersionedRecord::new(record.clone(), 1 << 31, StoreData::none());
    assert_eq!(kind(store.update("jobs", &base, record.as_write(), &call())), StoreErrorKind::NotApplied);
    for (sqlstate, expected) in [
        ("28000", StoreErrorKind::Unauthorized),
        ("28P01", StoreErrorKind::Unauthorized),
        ("3D000", StoreErrorKind::NotFound),
        ("3F000", StoreErrorKind::NotFound),
        ("42P01", StoreErrorKind::NotFound),
        ("42501", StoreErrorKind::Forbidden),
        ("25006", StoreErrorKind::Unavailable),
        ("40001", StoreErrorKind::Conflict),
        ("40P01", StoreErrorKind::Conflict),
        ("57014", StoreErrorKind::Timeout),
        ("55P03", StoreErrorKind::Timeout),
        ("22021", StoreErrorKind::Rejected),
        ("22P05", StoreErrorKind::Rejected),
        ("22001", StoreErrorKind::Rejected),
        ("23514", StoreErrorKind::Rejected),
        ("42703", StoreErrorKind::Rejected),
        ("57P01", StoreErrorKind::Unavailable),
        ("53300", StoreErrorKind::Unavailable),
    ] {
        let server = Server::new(move |said| match said.number {
            0 => logged_in(),
            _ => Some([error("ERROR", sqlstate), ready()].concat()),
        });
        let store = server.store();
        assert_eq!(kind(store.update("jobs", &base, record.as_write(), &call())), expected, "{sqlstate}");
        assert_eq!(kind(store.get("jobs", &call())), expected, "{sqlstate}");
        // A session that started read-only stays read-only, so the client opens another connection.
        assert_eq!(server.connections(), if sqlstate == "25006" { 2 } else { 1 }, "{sqlstate}");
    }
}

/// A rule or a trigger can drop a write without an error.
#[test]
fn ignored_update_is_rejected() {
    let server = Server::new(|said| if said.is("UPDATE") { answer_to(said, &[]) } else { well(said) });
    let store = server.store();
    let base = store.get("jobs", &call()).unwrap().unwrap();
    let error = store.update("jobs", &base, base.record.as_write(), &call()).unwrap_err();
    assert!(error.kind() == StoreErrorKind::Rejected && error.to_string().contains("DROP TRIGGER"), "{error}");
}

/// An acquisition waits for the fenced transactions of the key, so that they cannot keep it out forever.
#[test]
fn acquisition_waits_its_turn_and_a_renewal_does_not() {
    let server = Server::new(well);
    let store = server.store();
    let base = store.get("jobs", &call()).unwrap().unwrap();
    let of = |holder: &str| LeaderElectionRecord { holder_identity: Some(holder.to_owned()), ..base.record.clone() };
    for (holder, waits) in [("a", false), ("", false), ("b", true)] {
        store.update("jobs", &base, of(holder).as_write(), &call()).unwrap();
        assert_eq!(server.said.lock().last().unwrap().is("pg_advisory_xact_lock("), waits, "{holder:?}");
    }
    store.create("jobs", base.record.as_write(), &call()).unwrap();
    assert!(server.said.lock().last().unwrap().is("pg_advisory_xact_lock("));
}

/// The server reports that it no longer waits for its standbys, so the commit may be lost.
#[test]
fn a_warning_on_a_commit_is_no_answer() {
    let server = Server::new(|said| {
        let warning = message(b'N', b"SWARNING\0VWARNING\0C01000\0Mcanceling wait for synchronous replication\0\0");
        let mut answer = well(said)?;
        if said.is("UPDATE") {
            let end = answer.len() - ready().len();
            answer.splice(end..end, warning);
        }
        Some(answer)
    });
    let store = server.store();
    let base = store.get("jobs", &call()).unwrap().unwrap();
    let error = store.update("jobs", &base, base.record.as_write(), &call()).expect_err("a warning");
    assert!(error.kind() == StoreErrorKind::Unavailable && error.to_string().contains("VACUUM"), "{error}");
}

#[test]
fn response_of_a_standby_is_an_error_and_closes_the_connection() {
    let standby = [&[Some("t")], &RECORD[1..]].concat();
    let server = Server::new(move |said| match said.number {
        0 => logged_in(),
        _ if said.connection == 0 => answer(&[row(&standby)]),
        _ => well(said),
    });
    let store = server.store();
    let error = store.get("jobs", &call()).unwrap_err();
    assert!(error.kind() == StoreErrorKind::Unavailable && error.to_string().contains("primary"), "{error}");
    store.get("jobs", &call()).expect("another connection");
    assert_eq!(server.connections(), 2);
}

#[test]
fn foreign_response_is_an_error_in_time() {
    let hostile: [fn() -> Vec<u8>; 13] = [
        || [row(&RECORD), ready()].concat(),
        || b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        || message(b'?', b""),
        || [b'D', 0, 0, 0, 3].to_vec(),
        || [b'D', 0x7f, 0xff, 0xff, 0xff].to_vec(),
        || [b'D', 0xff, 0xff, 0xff, 0xff].to_vec(),
        || message(b'D', &[0, 1, 0, 0, 0, 9, b'x']),
        || message(b'D', &[0xff, 0xff]),
        || [row(&[Some("f")]), ready()].concat(),
        || [row(&[Some("f"), Some("99999999999999999999")]), ready()].concat(),
        || message(b'Z', b"T"),
        || message(b'G', &[0, 0, 0]),
        || message(b'E', b"C"),
    ];
    for hostile in hostile {
        for at in [0, 1] {
            let server = Server::new(move |said| if said.number == at { Some(hostile()) } else { logged_in() });
            let result = server.store().get("jobs", &brief());
            let kind = kind(result);
            let is_an_end =
                matches!(kind, StoreErrorKind::Malformed | StoreErrorKind::Timeout | StoreErrorKind::Unavailable);
            assert!(is_an_end, "{kind:?}");
        }
    }
}

/// The client must not wait for the rest of the message.
#[test]
fn message_longer_than_1_mib_is_refused_at_its_header() {
    for (length, at) in [(0x10_0001_u32, 0), (0x10_0001, 1), (0x7fff_ffff, 0), (0x7fff_ffff, 1)] {
        let header = [&b"D"[..], &length.to_be_bytes()].concat();
        let server = Server::new(move |said| if said.number == at { Some(header.clone()) } else { logged_in() });
        let seconds = CallContext::new(Duration::from_secs(5), CancelToken::new());
        assert_eq!(kind(server.store().get("jobs", &seconds)), StoreErrorKind::Malformed, "{length} {at}");
    }
}

/// A statement that waits for a lock must not outlast its call.
#[test]
fn statement_ends_on_the_server_with_its_call() {
    let server = Server::new(well);
    server.store().get("jobs", &CallContext::new(Duration::from_secs(5), CancelToken::new())).unwrap();
    let said = server.said.lock();
    let bytes = &said.iter().find(|said| said.is("statement_timeout")).unwrap().bytes;
    // The parameter of the settings follows their SQL text.
    let parameters = String::from_utf8_lossy(bytes).split_once("END, true)").unwrap().1.to_owned();
    let limit = parameters.split(|c: char| !c.is_ascii_digit()).find_map(|digits| digits.parse().ok());
    assert!(limit.is_some_and(|milliseconds: u64| (1..=5000).contains(&milliseconds)), "{limit:?}");
}

#[test]
fn endless_answers_end() {
    let server = Server::new(|said| match said.number {
        0 => logged_in(),
        _ => Some(row(&[Some(&"x".repeat(500_000))]).repeat(40)),
    });
    assert_eq!(kind(server.store().get("jobs", &call())), StoreErrorKind::Malformed);
    let server = Server::new(|_| Some(message(b'N', b"SNOTICE\0VNOTICE\0C00000\0Mx\0\0").repeat(1000)));
    assert_eq!(kind(server.store().get("jobs", &brief())), StoreErrorKind::Timeout);
}

#[test]
fn password_is_sent_only_to_a_verified_server() {
    for (wanted, expected) in [(7, StoreErrorKind::Unauthorized), (9, StoreErrorKind::Unauthorized)] {
        let server = Server::new(move |_| Some(message(b'R', &u32::to_be_bytes(wanted))));
        assert_eq!(kind(server.store().get("jobs", &call())), expected);
    }
    let scram = |mechanism: &str| message(b'R', &[&10_u32.to_be_bytes()[..], mechanism.as_bytes(), b"\0\0"].concat());
    let unknown = scram("SCRAM-SHA-256-PLUS");
    let server = Server::new(move |_| Some(unknown.clone()));
    assert_eq!(kind(server.store().get("jobs", &call())), StoreErrorKind::Unauthorized);
    // The server requests more SCRAM rounds than the client accepts.
    let known = scram("SCRAM-SHA-256");
    let server = Server::new(move |said| match said.number {
        0 => Some(known.clone()),
        _ => {
            let text = String::from_utf8_lossy(&said.bytes).into_owned();
            let nonce = text.split("r=").nth(1).unwrap_or_default();
            let first = format!("r={nonce}x,s=c2FsdA==,i=2000000000");
            Some(message(b'R', &[&11_u32.to_be_bytes()[..], first.as_bytes()].concat()))
        }
    });
    assert_eq!(kind(server.store().get("jobs", &call())), StoreErrorKind::Unauthorized);
    let nobody = PostgresConfig::new(&server.url.replace(":hunter2", "")).unwrap();
    let error = PostgresStore::new(nobody).unwrap().get("jobs", &call()).unwrap_err();
    assert!(error.to_string().contains("with_password"), "{error}");
}

/// Plain text after the answer `S` must not count as received through TLS (CVE-2021-23222).
#[test]
fn clear_text_is_not_accepted_as_part_of_tls() {
    let server = Server::new(|_| Some([&b"S"[..], &logged_in().unwrap(), &answer(&[]).unwrap()].concat()));
    for (answer, expected) in [
        (None, StoreErrorKind::Malformed),
        (Some(&b"N"[..]), StoreErrorKind::Unavailable),
        (Some(&b"E"[..]), StoreErrorKind::Malformed),
        (Some(&b""[..]), StoreErrorKind::Unavailable),
    ] {
        let other = answer.map(|answer| Server::new(move |_| Some(answer.to_vec())));
        let url = format!("{}?sslmode=require", other.as_ref().unwrap_or(&server).url);
        let store = PostgresStore::new(PostgresConfig::new(&url).unwrap()).unwrap();
        assert_eq!(kind(store.get("jobs", &call())), expected, "{answer:?}");
    }
}

/// A trigger on the table may turn `synchronous_commit` off, so that a crash could revert the commit.
#[test]
fn row_without_the_settings_is_no_answer() {
    type Call = fn(&PostgresStore) -> Result<(), StoreError>;
    let calls: [Call; 3] = [
        |store| store.get("jobs", &call()).map(drop),
        |store| store.create("jobs", LeaderElectionRecord::default().as_write(), &call()).map(drop),
        |store| {
            let base = VersionedRecord::new(LeaderElectionRecord::default(), 1 << 31, StoreData::none());
            store.update("jobs", &base, base.record.as_write(), &call()).map(drop)
        },
    ];
    for run in calls {
        let server = Server::new(|said| match said.number {
            0 => logged_in(),
            _ if said.connection > 0 => well(said),
            _ if said.is("INSERT") || said.is("UPDATE") => answer_to(said, &[row(&[Some("1"), Some("f")])]),
            // Each row must prove the settings.
            _ => answer(&[row(&RECORD), row(&[&RECORD[..10], &[Some("f")]].concat())]),
        });
        let store = server.store();
        assert_eq!((kind(run(&store)), server.connections()), (StoreErrorKind::Unavailable, 1));
        run(&store).expect("another connection");
        assert_eq!(server.connections(), 2);
    }
}

/// A restarted pooler, or an operator, may remove the prepared statements of a session.
#[test]
fn sessions_without_prepared_statements_work_as_shared_ones() {
    let server = Server::new(|said| match (said.connection, said.number) {
        (_, 0) => logged_in(),
        (0, 1) => answer(&[row(&RECORD)]),
        (0, _) => {
            assert!(said.is("leasehold_") && !said.is("set_config"), "the server parses each statement once");
            Some([error("ERROR", "26000"), ready()].concat())
        }
        _ => {
            assert!(!said.is("leasehold_"));
            well(said)
        }
    });
    let store = server.store();
    store.0.table.client.set_has_sessions(true);
    let base = store.get("jobs", &call()).unwrap().unwrap();
    store.update("jobs", &base, base.record.as_write(), &call()).unwrap();
    assert_eq!(server.connections(), 2);
}

/// The server reports a lost prepared statement together with a commit, or as a fatal error.
///
/// If the client repeated the write, the second copy would find the record changed by the first copy, and would report
/// failure.
#[test]
fn possibly_committed_write_is_not_resent_for_a_lost_statement() {
    for (tag, severity) in [(b'N', "WARNING"), (b'E', "FATAL")] {
        for sqlstate in ["26000", "42P05", "0A000"] {
            let server = Server::new(move |said| match said.number {
                0 => logged_in(),
                _ if said.is("UPDATE") && said.connection == 0 => {
                    let body = format!("S{severity}\0V{severity}\0C{sqlstate}\0Mno\0\0");
                    let row = statement(&[row(&[Some("1"), PROVED])]);
                    Some([statement(&[]), message(tag, body.as_bytes()), row, ready()].concat())
                }
                _ => answer(&[]),
            });
            let store = server.store();
            store.0.table.client.set_has_sessions(true);
            let base = VersionedRecord::new(LeaderElectionRecord::default(), 1 << 31, StoreData::none());
            assert_ne!(kind(store.update("jobs", &base, base.record.as_write(), &call())), StoreErrorKind::NotApplied);
            assert_eq!(server.connections(), 1, "{severity} {sqlstate}");
        }
    }
}

#[test]
fn silent_watch_polls() {
    let reads = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&reads);
    let server = Server::new(move |said| {
        if said.number == 0 {
            return logged_in();
        }
        if said.is("LISTEN leasehold") {
            return Some([message(b'1', b""), message(b'2', b""), message(b'C', b"LISTEN\0"), ready()].concat());
        }
        if said.is("pg_notify") {
            return answer(&[row(&[None])]);
        }
        // Each read returns another version of the record.
        let version = count.fetch_add(1, Ordering::SeqCst).to_string();
        let mut record = RECORD;
        record[3] = Some(&version);
        answer(&[row(&record)])
    });
    let config = PostgresConfig::new(&format!("{}?poll_interval=1ms", server.url)).unwrap();
    let (store, cancel, mut changes) = (checked(config), CancelToken::new(), 0);
    let end = store.watch(WatchScope::Key("jobs"), None, &cancel, &mut |event| {
        changes += usize::from(matches!(event, WatchEvent::Changed { .. }));
        if changes == 5 {
            cancel.cancel();
        }
    });
    assert_eq!((kind(end), changes), (StoreErrorKind::Interrupted, 5));
}

#[test]
fn connection_keeps_at_most_1024_notifications() {
    let server = Server::new(|said| match said.number {
        0 => logged_in(),
        _ => {
            let mut answer = [message(b'1', b""), message(b'2', b""), message(b'C', b"LISTEN\0")].concat();
            (0..3000)
                .for_each(|number| answer.extend(message(b'A', format!("pid\0leasehold\0p{number}\0").as_bytes())));
            Some([answer, ready()].concat())
        }
    });
    let (store, deadline) = (server.store(), Instant::now() + Duration::from_secs(30));
    let (cancel, interrupter) = (CancelToken::new(), Interrupter::default());
    let mut connection = store.0.table.client.connect(deadline, &cancel, &interrupter).unwrap();
    connection.listen(Statement { sql: "LISTEN", parameters: &[] }, deadline).unwrap();
    let kept = connection.notified(deadline).unwrap();
    // The empty payload makes a watch read all records.
    assert!(kept.len() == 1025 && kept.contains(""), "{}", kept.len());
}

#[test]
fn password_echoed_by_the_server_is_hidden() {
    let server = Server::new(|said| match said.number {
        0 => logged_in(),
        _ => {
            // The store shortens the message within the last password, and must not show the start of this password.
            let padding = "x".repeat(LONGEST_MESSAGE - 120);
            let said = format!("SERROR\0C42601\0Mno: hunter2, hunter2 {padding} hunter2\0\0");
            Some([message(b'E', said.as_bytes()), ready()].concat())
        }
    });
    let error = server.store().get("jobs", &call()).unwrap_err();
    let shown = format!("{error} {error:?}");
    assert!(shown.contains("no: *") && !shown.contains("hunter"), "{shown}");
}

/// A session that waits for a lock or a standby does not notice that its client has given up.
#[test]
fn server_is_asked_to_cancel_an_abandoned_query() {
    let (report, received) = crossbeam_channel::unbounded();
    let server = Server::new(move |said| {
        if said.bytes.len() == 16 && said.bytes[4..8] == 80_877_102_u32.to_be_bytes() {
            report.send(said.bytes[8..].to_vec()).unwrap();
            return Some(Vec::new());
        }
        match said.number {
            0 => {
                let key = message(b'K', &[0, 0, 0, 7, 0, 0, 0, 9]);
                Some([message(b'R', &0_u32.to_be_bytes()), key, ready()].concat())
            }
            _ if said.is("INSERT") => None,
            _ => well(said),
        }
    });
    let store = server.store();
    let key = [0, 0, 0, 7, 0, 0, 0, 9];
    let second = CallContext::new(Duration::from_secs(1), CancelToken::new());
    assert_eq!(
        kind(store.create("jobs", LeaderElectionRecord::default().as_write(), &second)),
        StoreErrorKind::Timeout
    );
    assert_eq!(received.recv_timeout(Duration::from_secs(30)).unwrap(), key);
    let create = |call: &CallContext| kind(store.create("jobs", LeaderElectionRecord::default().as_write(), call));
    let inserts = || server.said.lock().iter().filter(|said| said.is("INSERT")).count();
    assert_eq!(cancel_at(inserts, create), StoreErrorKind::Interrupted);
    assert_eq!(received.recv_timeout(Duration::from_secs(30)).unwrap(), key);
    store.get("jobs", &call()).unwrap();
    drop(store);
    assert!(received.recv_timeout(Duration::from_millis(100)).is_err(), "an idle session gets no cancel request");
}
