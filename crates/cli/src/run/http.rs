//! The HTTP endpoints: leader, health, readiness, metrics, and `POST /done` of a sidecar.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Sender, bounded};
use leasehold::{LeaderElector, Leadership, Status};
use parking_lot::Mutex;
use serde_json::json;

use super::messages::CommandEnd;
use super::times::boot_time;
use crate::log::COMMAND;
use crate::password::read_secret;

/// The term in which the command or a sidecar's applications may work, and counters.
#[derive(Debug, Default)]
pub struct CommandWork {
    /// The start time of the work and its term, or `None` if nothing works.
    running: Option<(SystemTime, Leadership)>,
    /// The number of the latest connection whose answer has allowed work.
    allowed: u64,
    starts: u64,
    failures: u64,
    last: Option<u8>,
}

impl CommandWork {
    pub fn begins(&mut self, term: Leadership) {
        self.running = Some((SystemTime::now(), term));
        self.starts += 1;
    }

    /// Records the end of the command. `end` is `None` if the command did not end by itself.
    pub fn ended(&mut self, end: Option<CommandEnd>) {
        self.running = None;
        if let Some(code) = end.map(CommandEnd::exit_code) {
            self.failures += u64::from(code != 0);
            self.last = Some(code);
        }
    }

    /// Ends the work of a sidecar's applications, and returns `true`.
    ///
    /// Returns `false` if an answer on a later connection than `connection` has allowed work. The applications that have
    /// stopped are then not all.
    pub fn end_before(&mut self, connection: u64) -> bool {
        let is_latest = self.allowed <= connection;
        if is_latest {
            self.running = None;
        }
        is_latest
    }

    /// Writes the metrics of the command in the text format of Prometheus.
    fn write_prometheus(&self, out: &mut String) {
        let mut metric = |name: &str, kind: &str, help: &str, value: u64| {
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
        };
        let is_running = u64::from(self.running.is_some());
        metric("leasehold_command_running", "gauge", "1 while the command runs, else 0.", is_running);
        metric("leasehold_command_starts_total", "counter", "Starts of the command.", self.starts);
        let help = "Exits with a code other than 0 of commands that were not stopped.";
        metric("leasehold_command_failures_total", "counter", help, self.failures);
        if let Some(code) = self.last {
            let help = "Exit code of the last command that ended without being stopped.";
            metric("leasehold_command_last_exit_code", "gauge", help, code.into());
        }
    }
}

/// The resolved addresses of `--http`. The server listens on the first usable address.
pub type HttpAddresses = Vec<SocketAddr>;

/// Parses an address and a port, or a port of all addresses.
pub fn addresses(text: &str) -> Result<HttpAddresses, String> {
    let rule = "give an address and a port, such as 127.0.0.1:8080, or :8080 for all addresses";
    match text.strip_prefix(':').map(str::parse::<u16>) {
        // If the system supports both, a socket for IPv6 also accepts IPv4.
        Some(Ok(port)) => Ok(vec![(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()]),
        Some(Err(_)) => Err(rule.to_owned()),
        None => text.to_socket_addrs().map(Iterator::collect).map_err(|error| format!("{error}: {rule}")),
    }
}

/// Listens on the first usable address.
///
/// # Errors
///
/// Returns an error if no address can be used.
pub fn listen(addresses: &[SocketAddr]) -> Result<TcpListener, String> {
    let refused = |error| format!("--http: cannot listen on {addresses:?}: {error}");
    // If another program uses the first address, its clients could reach this server by the second address.
    let is_final =
        |bound: &io::Result<_>| bound.as_ref().err().is_none_or(|error| error.kind() == ErrorKind::AddrInUse);
    let bound = addresses.iter().map(TcpListener::bind).find(is_final);
    let listener = bound.unwrap_or_else(|| TcpListener::bind(addresses)).map_err(refused)?;
    log::info!(target: COMMAND, "listening on http://{}", listener.local_addr().map_err(refused)?);
    Ok(listener)
}

/// The limit of concurrent connections. Further connections are closed.
const MOST_CONNECTIONS: usize = 32;

/// The longest request in bytes: a request line and some headers.
const LONGEST_REQUEST: usize = 8 * 1024;

/// The time limit of a request.
const PATIENCE: Duration = Duration::from_secs(5);

/// The scheme of the token.
const BEARER: &[u8] = b"Bearer ";

/// The time to read the rest of a request after its answer.
const LINGER: Duration = Duration::from_millis(100);

/// A `POST /done`, which the main thread answers.
pub struct DoneReport {
    /// The number of its connection, in the order in which the clients have connected.
    pub connection: u64,
    pub result: Sender<DoneResult>,
}

/// The result of a `POST /done`.
pub enum DoneResult {
    /// This replica does not hold the lease.
    Released,
    /// An application has asked on a later connection, and may work.
    AskedSince,
    NotConfirmed(leasehold::Error),
}

/// The applications of a sidecar, which work while the sidecar leads.
pub struct Applications {
    /// The file with the token of `POST /done`.
    pub token_file: Option<PathBuf>,
    pub done: Sender<DoneReport>,
}

pub struct StatusServer {
    /// A weak reference, because the server must not delay the end of the elector.
    pub elector: Weak<LeaderElector>,
    pub work: Arc<Mutex<CommandWork>>,
    /// The time without a leader after which `/readyz` fails.
    pub unready_after: Option<Duration>,
    /// `None` if this process runs a command.
    pub applications: Option<Applications>,
}

/// A complete request.
struct HttpRequest {
    method: String,
    path: String,
    /// The token in the header `Authorization: Bearer`.
    token: Option<Vec<u8>>,
}

struct HttpAnswer {
    status: &'static str,
    content_type: &'static str,
    body: String,
}

const OK: &str = "200 OK";
const UNAVAILABLE: &str = "503 Service Unavailable";
const FORBIDDEN: &str = "403 Forbidden";
const TEXT: &str = "text/plain; charset=utf-8";

impl StatusServer {
    /// Serves the endpoints until the process ends.
    ///
    /// # Errors
    ///
    /// Returns an error if the system cannot start a thread.
    pub fn serve(self, listener: TcpListener) -> io::Result<Weak<Self>> {
        let server = Arc::new(self);
        let serving = Arc::downgrade(&server);
        thread::Builder::new().name("http".into()).spawn(move || {
            for (number, connection) in (1..).zip(listener.incoming()) {
                let Ok(connection) = connection else {
                    // After an error such as too many open files, an immediate retry would fail again.
                    thread::sleep(Duration::from_millis(100));
                    continue;
                };
                // Each answering thread holds a clone of `server`, so the strong count limits the connections.
                if Arc::strong_count(&server) <= MOST_CONNECTIONS {
                    let answering = Arc::clone(&server);
                    let _ =
                        thread::Builder::new().name("http".into()).spawn(move || answering.answer(number, connection));
                }
            }
        })?;
        Ok(serving)
    }

    fn answer(&self, number: u64, mut connection: TcpStream) -> io::Result<()> {
        let until = Instant::now() + PATIENCE;
        let (mut request, mut length) = ([0; LONGEST_REQUEST], 0);
        let answer = loop {
            match HttpRequest::parse(&request[..length]) {
                Ok(Some(request)) => break self.reply(number, &request),
                Ok(None) if length < request.len() => {}
                _ => break text("400 Bad Request", "invalid HTTP request\n"),
            }
            let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            connection.set_read_timeout(Some(left))?;
            match connection.read(&mut request[length..])? {
                0 => return Ok(()),
                read => length += read,
            }
        };
        connection.set_write_timeout(Some(PATIENCE))?;
        let HttpAnswer { status, content_type, body } = answer;
        let mut head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n",
            body.len()
        );
        if !request.starts_with(b"HEAD ") {
            head.push_str(&body);
        }
        connection.write_all(head.as_bytes())?;
        // If unread bytes of a request body were left, a close would reset the connection, and the answer could be lost.
        connection.shutdown(Shutdown::Write)?;
        let until = Instant::now() + LINGER;
        connection.set_read_timeout(Some(LINGER))?;
        while connection.read(&mut request)? > 0 && Instant::now() < until {}
        Ok(())
    }

    fn reply(&self, connection: u64, request: &HttpRequest) -> HttpAnswer {
        match (&*request.method, &*request.path, &self.applications) {
            ("POST", "/done", Some(applications)) => applications.done(connection, request.token.as_deref()),
            ("GET" | "HEAD", path, _) => self.about(connection, path),
            _ => text("405 Method Not Allowed", "use GET or HEAD, or POST /done for a sidecar\n"),
        }
    }

    fn about(&self, connection: u64, path: &str) -> HttpAnswer {
        let Some(elector) = self.elector.upgrade() else { return text(UNAVAILABLE, "the election has ended\n") };
        match path {
            "/" => HttpAnswer { status: OK, ..self.leader(connection, &elector) },
            "/leader" => self.leader(connection, &elector),
            // An unreachable API server does not fail the check, because a restart does not repair the API server.
            "/healthz" | "/livez" => match elector.health_check().check() {
                Ok(()) => text(OK, "ok\n"),
                Err(unhealthy) => text("500 Internal Server Error", &format!("{unhealthy}\n")),
            },
            "/readyz" => {
                let status = elector.status();
                let leaderless = self.unready_after.and_then(|limit| elector.health_check().check_leader(limit).err());
                match (status.last_contact, leaderless, status.failed_write) {
                    _ if !status.is_running => text(UNAVAILABLE, "the election has ended\n"),
                    (None, ..) => text(UNAVAILABLE, "no response from the store yet\n"),
                    (_, Some(leaderless), _) => text(UNAVAILABLE, &format!("{leaderless}\n")),
                    (_, _, Some(error)) => text(OK, &format!("ok, but the last write failed: {error}\n")),
                    // A standby is ready because it can take over. A leader still leads for a while without its store.
                    _ => text(OK, "ok\n"),
                }
            }
            "/metrics" => {
                let mut body = String::new();
                let _ = Status::write_prometheus([&elector.status()], &mut body);
                if self.applications.is_none() {
                    self.work.lock().write_prometheus(&mut body);
                }
                HttpAnswer { status: OK, content_type: "text/plain; version=0.0.4; charset=utf-8", body }
            }
            _ => text("404 Not Found", "not found; use /, /leader, /healthz, /readyz or /metrics\n"),
        }
    }

    fn leader(&self, connection: u64, elector: &LeaderElector) -> HttpAnswer {
        let (status, identity) = (elector.status(), elector.identity());
        // This clock is read first, so that no answer is valid for longer than the term.
        let now = boot_time();
        let left = |term: &Leadership| match self.applications {
            Some(_) => term.remaining(),
            // After a request to step down, the command still works while it ends.
            None => term.lease_remaining(),
        };
        // A leader whose command has not started or has ended does no work, so it is not reported as leader.
        let mut work = self.work.lock();
        let running = work.running.clone().map(|(since, term)| (since, left(&term), term));
        let running = running.filter(|(_, left, _)| !left.is_zero());
        let is_leader = running.is_some();
        if is_leader {
            work.allowed = work.allowed.max(connection);
        }
        drop(work);
        let other = status.leader.as_deref().filter(|leader| !status.leader_lease_expired && *leader != identity);
        let leader = if is_leader { Some(identity) } else { other };
        let address = status.leader_address.filter(|_| leader.is_some());
        let mut body = json!({
            "record": status.record, "identity": identity, "name": leader.unwrap_or_default(), "leader": leader,
            "address": address, "is_leader": is_leader, "fencing_token": null, "remaining_ms": 0, "until_boottime_ns": 0,
        });
        if let Some((since, left, term)) = running {
            body["since"] = humantime::format_rfc3339_millis(since).to_string().into();
            body["fencing_token"] = term.fencing_token().into();
            body["remaining_ms"] = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).into();
            body["until_boottime_ns"] = u64::try_from((now + left).as_nanos()).unwrap_or(u64::MAX).into();
        }
        let status = if is_leader { OK } else { UNAVAILABLE };
        HttpAnswer { status, content_type: "application/json", body: format!("{body}\n") }
    }
}

/// Waits until the received requests are answered, at most for one second.
pub fn finish(server: &Weak<StatusServer>) {
    let until = Instant::now() + Duration::from_secs(1);
    // The listening thread holds one reference, and each answering thread another one.
    while server.strong_count() > 1 && Instant::now() < until {
        thread::sleep(Duration::from_millis(2));
    }
}

fn text(status: &'static str, body: &str) -> HttpAnswer {
    HttpAnswer { status, content_type: TEXT, body: body.to_owned() }
}

impl Applications {
    /// Asks the main thread for the release, because all applications have stopped.
    fn done(&self, connection: u64, token: Option<&[u8]>) -> HttpAnswer {
        let Some(path) = &self.token_file else { return text(FORBIDDEN, "start leasehold with --done-token-file\n") };
        match is_token(path, token.unwrap_or_default()) {
            Err(error) => {
                return text("500 Internal Server Error", &format!("--done-token-file {}: {error}\n", path.display()));
            }
            Ok(false) => return text(FORBIDDEN, "send the token as `Authorization: Bearer TOKEN`\n"),
            Ok(true) => {}
        }
        let (result, results) = bounded(1);
        match self.done.send(DoneReport { connection, result }).ok().and_then(|()| results.recv().ok()) {
            Some(DoneResult::Released) => text(OK, "ok\n"),
            Some(DoneResult::AskedSince) => {
                text("409 Conflict", "an application has asked since, so repeat this request\n")
            }
            Some(DoneResult::NotConfirmed(error)) => text(UNAVAILABLE, &format!("{error}\n")),
            None => text(UNAVAILABLE, "the election has ended\n"),
        }
    }
}

/// Returns `true` if `token` is the secret in the file. The time of the comparison shows only the length.
fn is_token(path: &Path, token: &[u8]) -> io::Result<bool> {
    let secret = read_secret(path)?;
    let secret = secret.trim_end();
    let differences = secret.bytes().zip(token).fold(0, |differences, (a, b)| differences | (a ^ b));
    Ok(secret.len() == token.len() && differences == 0)
}

impl HttpRequest {
    /// Parses a request. Returns `None` while the request is incomplete.
    fn parse(request: &[u8]) -> Result<Option<Self>, httparse::Error> {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut parsed = httparse::Request::new(&mut headers);
        if parsed.parse(request)?.is_partial() {
            return Ok(None);
        }
        let credentials = parsed.headers.iter().find(|header| header.name.eq_ignore_ascii_case("authorization"));
        let token = credentials.and_then(|header| header.value.split_at_checked(BEARER.len()));
        let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case(BEARER)).map(|(_, token)| token);
        let path = parsed.path.unwrap_or_default().split('?').next().unwrap_or_default();
        let method = parsed.method.unwrap_or_default().to_owned();
        Ok(Some(Self { method, path: path.to_owned(), token: token.map(<[u8]>::to_vec) }))
    }
}

#[cfg(test)]
mod tests {
    use leasehold::store::MemoryStore;

    use super::*;

    #[test]
    fn leader_without_a_kept_lease_is_unavailable() {
        let store = Arc::new(MemoryStore::new());
        let elector = Arc::new(LeaderElector::builder("jobs").start_on(Arc::clone(&store)).expect("an elector"));
        let guard = elector.block_until_leader().expect("a term");
        let server = StatusServer {
            elector: Arc::downgrade(&elector),
            work: Arc::default(),
            unready_after: None,
            applications: None,
        };
        server.work.lock().begins(guard.leadership());
        let leader = || {
            let answer = server.about(1, "/leader");
            (answer.status, serde_json::from_str::<serde_json::Value>(&answer.body).expect("JSON"))
        };
        let (status, body) = leader();
        assert_eq!((status, &body["is_leader"]), (OK, &true.into()));
        // The command still runs when the term ends.
        store.delete("jobs");
        guard.ended().recv_timeout(Duration::from_secs(60)).expect_err("disconnected");
        let (status, body) = leader();
        assert_eq!((status, &body["is_leader"]), (UNAVAILABLE, &false.into()));
        assert!(body["fencing_token"].is_null() && body["remaining_ms"] == 0, "{body}");
    }

    #[test]
    fn slow_request_ends_at_its_time_limit() {
        let server =
            StatusServer { elector: Weak::new(), work: Arc::default(), unready_after: None, applications: None };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        server.serve(listener).expect("a thread");
        let (began, mut connection) = (Instant::now(), TcpStream::connect(address).expect("a connection"));
        while connection.write_all(b"G").is_ok() {
            assert!(began.elapsed() < PATIENCE * 6, "the connection stays open");
            thread::sleep(PATIENCE / 10);
        }
        assert!(began.elapsed() >= PATIENCE);
    }
}
