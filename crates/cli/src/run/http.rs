//! The HTTP endpoints for a cluster: leader, health, readiness and metrics.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use leasehold::{LeaderElector, Leadership, Status};
use parking_lot::Mutex;
use serde_json::json;

use super::messages::CommandEnd;

/// The state and the counters of the command.
#[derive(Debug, Default)]
pub struct CommandWork {
    /// The start time and the term of the running command, or `None` if no command runs.
    running: Option<(SystemTime, Leadership)>,
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

/// The limit of concurrent connections. Further connections are closed.
const MOST_CONNECTIONS: usize = 32;

/// The longest request in bytes: a request line and some headers.
const LONGEST_REQUEST: usize = 8 * 1024;

/// The time limit of a request.
const PATIENCE: Duration = Duration::from_secs(5);

pub struct StatusServer {
    /// A weak reference, because the server must not delay the end of the elector.
    pub elector: Weak<LeaderElector>,
    pub work: Arc<Mutex<CommandWork>>,
    /// The time without a leader after which `/readyz` fails.
    pub unready_after: Option<Duration>,
}

struct HttpAnswer {
    status: &'static str,
    content_type: &'static str,
    body: String,
}

const OK: &str = "200 OK";
const UNAVAILABLE: &str = "503 Service Unavailable";
const TEXT: &str = "text/plain; charset=utf-8";

impl StatusServer {
    /// Serves the endpoints on the first usable address until the process ends.
    ///
    /// # Errors
    ///
    /// Returns an error if no address can be used.
    pub fn serve(self, addresses: &[SocketAddr]) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind(addresses)?;
        let address = listener.local_addr()?;
        let server = Arc::new(self);
        thread::Builder::new().name("http".into()).spawn(move || {
            for connection in listener.incoming() {
                let Ok(connection) = connection else {
                    // After an error such as too many open files, an immediate retry would fail again.
                    thread::sleep(Duration::from_millis(100));
                    continue;
                };
                // Each answering thread holds a clone of `server`, so the strong count limits the connections.
                if Arc::strong_count(&server) <= MOST_CONNECTIONS {
                    let answering = Arc::clone(&server);
                    let _ = thread::Builder::new().name("http".into()).spawn(move || answering.answer(connection));
                }
            }
        })?;
        Ok(address)
    }

    fn answer(&self, mut connection: TcpStream) -> io::Result<()> {
        let until = Instant::now() + PATIENCE;
        let (mut request, mut length) = ([0; LONGEST_REQUEST], 0);
        let answer = loop {
            match asked(&request[..length]) {
                Ok(Some((is_get, path))) => {
                    break if is_get { self.about(&path) } else { text("405 Method Not Allowed", "use GET or HEAD\n") };
                }
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
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        if !request.starts_with(b"HEAD ") {
            head.push_str(&body);
        }
        connection.write_all(head.as_bytes())
    }

    fn about(&self, path: &str) -> HttpAnswer {
        let Some(elector) = self.elector.upgrade() else { return text(UNAVAILABLE, "the election has ended\n") };
        match path.split('?').next().unwrap_or_default() {
            "/leader" => self.leader(&elector),
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
                self.work.lock().write_prometheus(&mut body);
                HttpAnswer { status: OK, content_type: "text/plain; version=0.0.4; charset=utf-8", body }
            }
            _ => text("404 Not Found", "not found; use /leader, /healthz, /readyz or /metrics\n"),
        }
    }

    fn leader(&self, elector: &LeaderElector) -> HttpAnswer {
        let status = elector.status();
        // A leader whose command has not started or has ended does no work, so it is not reported as leader. After a
        // request to step down, the command still works while it ends.
        let running = self.work.lock().running.clone().filter(|(_, term)| !term.lease_remaining().is_zero());
        let is_leader = running.is_some();
        let leader = status.leader.as_deref().filter(|_| !status.leader_lease_expired);
        let mut body = json!({ "record": status.record, "identity": elector.identity(), "leader": leader, "is_leader": is_leader });
        if let Some((since, term)) = running {
            body["since"] = humantime::format_rfc3339_millis(since).to_string().into();
            body["fencing_token"] = term.fencing_token().into();
            body["seconds_left"] = term.lease_remaining().as_secs_f64().into();
        }
        let status = if is_leader { OK } else { UNAVAILABLE };
        HttpAnswer { status, content_type: "application/json", body: format!("{body}\n") }
    }
}

fn text(status: &'static str, body: &str) -> HttpAnswer {
    HttpAnswer { status, content_type: TEXT, body: body.to_owned() }
}

/// Returns the path of a complete request, and `true` for GET and HEAD.
///
/// Returns `None` while the request is incomplete.
fn asked(request: &[u8]) -> Result<Option<(bool, String)>, httparse::Error> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Request::new(&mut headers);
    if parsed.parse(request)?.is_partial() {
        return Ok(None);
    }
    let is_get = matches!(parsed.method, Some("GET" | "HEAD"));
    Ok(Some((is_get, parsed.path.unwrap_or_default().to_owned())))
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
        let server = StatusServer { elector: Arc::downgrade(&elector), work: Arc::default(), unready_after: None };
        server.work.lock().begins(guard.leadership());
        let leader = || {
            let answer = server.about("/leader");
            (answer.status, serde_json::from_str::<serde_json::Value>(&answer.body).expect("JSON"))
        };
        let (status, body) = leader();
        assert_eq!((status, &body["is_leader"]), (OK, &true.into()));
        // The command still runs when the term ends.
        store.delete("jobs");
        guard.ended().recv_timeout(Duration::from_secs(60)).expect_err("disconnected");
        let (status, body) = leader();
        assert_eq!((status, &body["is_leader"]), (UNAVAILABLE, &false.into()));
        assert!(body.get("fencing_token").is_none() && body.get("seconds_left").is_none(), "{body}");
    }

    #[test]
    fn slow_request_ends_at_its_time_limit() {
        let server = StatusServer { elector: Weak::new(), work: Arc::default(), unready_after: None };
        let address = server.serve(&[([127, 0, 0, 1], 0).into()]).expect("a port");
        let (began, mut connection) = (Instant::now(), TcpStream::connect(address).expect("a connection"));
        while connection.write_all(b"G").is_ok() {
            assert!(began.elapsed() < PATIENCE * 6, "the connection stays open");
            thread::sleep(PATIENCE / 10);
        }
        assert!(began.elapsed() >= PATIENCE);
    }
}
