//! A real etcd, of one member or of three, by itself: the one that is built into the tests' API server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use base64::prelude::{BASE64_STANDARD, Engine};
use leasehold::{EtcdConfig, EtcdStore};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{SOON, is_built, wait_until};

/// The members of a cluster, which end with this, and with the test process, however that ends.
pub struct Etcd {
    pub members: Vec<Member>,
    pub dir: TempDir,
}

/// A member, on ports of its own that it keeps.
pub struct Member {
    arguments: Vec<String>,
    pub data: PathBuf,
    port: u16,
    log: PathBuf,
    running: Option<Running>,
}

/// The shell that waits for the end of its input, and the server that it ends then.
struct Running {
    shell: Child,
    server: Pid,
}

/// A shell, for it can do what this crate's tests cannot without unsafe code: end a process with the one that began it.
const UNTIL_THE_END_OF_INPUT: &str = r#"log=$1; shift; "$@" >>"$log" 2>&1 & echo $!; read -r _; kill -9 $!; wait"#;

impl Etcd {
    /// The cluster of one that a test binary's tests share, each below a prefix of its own. `None`, said aloud, where it is not
    /// built.
    pub fn shared() -> Option<&'static Etcd> {
        static SHARED: OnceLock<Option<Etcd>> = OnceLock::new();
        SHARED.get_or_init(|| Etcd::start(1, &[])).as_ref()
    }

    /// A cluster of a test's own.
    pub fn start(members: usize, flags: &[&str]) -> Option<Etcd> {
        let program = program();
        is_built(&program, "every test on a real etcd", "tests/apiserver/build").then(|| {
            let dir = tempfile::Builder::new().prefix("leasehold-etcd-").tempdir().expect("a scratch directory");
            let ports: Vec<_> = (0..members).map(|_| (free_port(), free_port())).collect();
            let scheme = if flags.iter().any(|flag| flag.starts_with("--cert-file")) { "https" } else { "http" };
            let peers = ports.iter().enumerate().map(|(n, (_, peer))| format!("m{n}=http://127.0.0.1:{peer}"));
            let cluster = format!("--initial-cluster={}", peers.collect::<Vec<_>>().join(","));
            let member = |number: usize, (client, peer): (u16, u16)| {
                let data = dir.path().join(format!("m{number}"));
                let (client_url, peer_url) =
                    (format!("{scheme}://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
                let mut arguments = vec![program.display().to_string()];
                // One that is built in is a command of the program that it is built into.
                arguments.extend(program.ends_with("apiserver").then(|| "etcd".to_owned()));
                arguments.extend([
                    format!("--name=m{number}"),
                    format!("--data-dir={}", data.display()),
                    format!("--listen-client-urls={client_url}"),
                    format!("--advertise-client-urls={client_url}"),
                    format!("--listen-peer-urls={peer_url}"),
                    format!("--initial-advertise-peer-urls={peer_url}"),
                    cluster.clone(),
                    // Tests outlive no power cut, and a slow disk must not make them flaky.
                    "--unsafe-no-fsync=true".to_owned(),
                    "--log-level=error".to_owned(),
                    // Logins cost next to nothing then.
                    "--bcrypt-cost=4".to_owned(),
                ]);
                arguments.extend(flags.iter().map(|&flag| flag.to_owned()));
                let log = dir.path().join(format!("m{number}.log"));
                let mut member = Member { arguments, data, port: client, log, running: None };
                member.launch();
                member
            };
            let members = ports.into_iter().enumerate().map(|(number, ports)| member(number, ports)).collect();
            let etcd = Etcd { members, dir };
            etcd.members.iter().for_each(Member::wait_until_ready);
            etcd
        })
    }

    /// The client URLs.
    pub fn urls(&self) -> Vec<String> {
        self.members.iter().map(Member::url).collect()
    }

    pub fn config(&self, prefix: &str) -> EtcdConfig {
        EtcdConfig::new(self.urls()).expect("URLs").with_prefix(prefix)
    }

    pub fn store(&self, prefix: &str) -> EtcdStore {
        EtcdStore::new(self.config(prefix)).expect("a store")
    }

    /// A request of an operator, and what was answered.
    pub fn post(&self, path: &str, body: &Value) -> Value {
        self.members[0].post(path, body).expect("an answer")
    }

    pub fn delete(&self, key: &str) {
        self.post("/v3/kv/deleterange", &json!({ "key": base64(key) }));
    }

    pub fn put(&self, key: &str, value: &str) {
        self.post("/v3/kv/put", &json!({ "key": base64(key), "value": base64(value) }));
    }

    /// What stands under a key.
    pub fn value(&self, key: &str) -> Option<String> {
        let answer = self.post("/v3/kv/range", &json!({ "key": base64(key) }));
        let value = answer["kvs"][0]["value"].as_str()?;
        Some(String::from_utf8(BASE64_STANDARD.decode(value).expect("base64")).expect("text"))
    }

    /// The revision of the cluster.
    pub fn revision(&self) -> u64 {
        let answer = self.post("/v3/kv/range", &json!({ "key": base64("nothing") }));
        answer["header"]["revision"].as_str().and_then(|text| text.parse().ok()).expect("a revision")
    }

    /// The number of the member that leads the others.
    pub fn leader(&self) -> usize {
        let leads = |member: &Member| {
            let status = member.post("/v3/maintenance/status", &json!({})).expect("an answer");
            status["leader"] == status["header"]["member_id"]
        };
        self.members.iter().position(leads).expect("a leader")
    }

    /// Two users: root, and jobs, who may do all below `prefix`.
    pub fn enable_users(&self, prefix: &str) {
        let mut end = prefix.to_owned().into_bytes();
        *end.last_mut().expect("a prefix") += 1;
        let end = String::from_utf8(end).expect("text");
        let permission = json!({ "permType": "READWRITE", "key": base64(prefix), "range_end": base64(&end) });
        for (path, body) in [
            ("user/add", json!({ "name": "root", "password": "password-of-root" })),
            ("role/add", json!({ "name": "root" })),
            ("user/grant", json!({ "user": "root", "role": "root" })),
            ("user/add", json!({ "name": "jobs", "password": PASSWORD })),
            ("role/add", json!({ "name": "jobs" })),
            ("role/grant", json!({ "name": "jobs", "perm": permission })),
            ("user/grant", json!({ "user": "jobs", "role": "jobs" })),
            ("enable", json!({})),
        ] {
            let answer = self.post(&format!("/v3/auth/{path}"), &body);
            assert!(answer["code"].is_null(), "{path}: {answer}");
        }
    }

    /// As root: changing a password revokes the tokens that it was good for.
    pub fn revoke_tokens_of_jobs(&self) {
        let root = json!({ "name": "root", "password": "password-of-root" });
        let token = self.post("/v3/auth/authenticate", &root)["token"].as_str().expect("a token").to_owned();
        let change = json!({ "name": "jobs", "password": PASSWORD });
        let answer = self.members[0].post_as(&token, "/v3/auth/user/changepw", &change).expect("an answer");
        assert!(answer["code"].is_null(), "{answer}");
    }
}

/// That of the user jobs.
pub const PASSWORD: &str = "password-of-jobs-1";

impl Member {
    pub fn url(&self) -> String {
        let scheme = if self.arguments.iter().any(|it| it.starts_with("--cert-file")) { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    fn launch(&mut self) {
        let mut shell = Command::new("sh")
            .args(["-c", UNTIL_THE_END_OF_INPUT, "sh"])
            .arg(&self.log)
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let mut line = String::new();
        BufReader::new(shell.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a number");
        let server = line.trim().parse().ok().and_then(Pid::from_raw).expect("a process");
        self.running = Some(Running { shell, server });
    }

    fn wait_until_ready(&self) {
        let is_ready = || match self.url().starts_with("https") {
            // It listens when it is ready.
            true => TcpStream::connect(("127.0.0.1", self.port)).is_ok(),
            // With users it says that it wants one.
            false => self
                .post("/v3/kv/range", &json!({ "key": base64("nothing") }))
                .is_some_and(|answer| !answer["header"].is_null() || answer["code"] == 3),
        };
        let until = Instant::now() + SOON;
        while !is_ready() {
            let log = || std::fs::read_to_string(&self.log).unwrap_or_default();
            assert!(Instant::now() < until, "etcd does not start: {}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it without a chance to do anything about it.
    pub fn kill(&mut self) {
        if let Some(Running { mut shell, .. }) = self.running.take() {
            drop(shell.stdin.take());
            let _ = shell.wait();
        }
    }

    /// Starts one that was killed, on its data.
    pub fn start(&mut self) {
        self.launch();
        self.wait_until_ready();
    }

    /// Starts one that was killed, of a cluster that has no quorum yet.
    pub fn start_without_waiting(&mut self) {
        self.launch();
    }

    /// Connections stay open, and nothing answers.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
        wait_until("it stops", || {
            let status = std::fs::read_to_string(format!("/proc/{}/stat", self.pid().as_raw_nonzero()));
            status.map_or(true, |status| status.contains(") T "))
        });
    }

    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn pid(&self) -> Pid {
        self.running.as_ref().expect("it runs").server
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("a process of ours");
    }

    fn post(&self, path: &str, body: &Value) -> Option<Value> {
        self.post_as("", path, body)
    }

    fn post_as(&self, token: &str, path: &str, body: &Value) -> Option<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(SOON)).ok()?;
        let body = body.to_string();
        let authorization = if token.is_empty() { String::new() } else { format!("Authorization: {token}\r\n") };
        let length = body.len();
        write!(stream, "POST {path} HTTP/1.0\r\n{authorization}Content-Length: {length}\r\n\r\n{body}").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

fn program() -> PathBuf {
    // The API server is built without one then.
    if let Some(assets) = std::env::var_os("KUBEBUILDER_ASSETS").filter(|assets| !assets.is_empty()) {
        return Path::new(&assets).join("etcd");
    }
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    scratch.parent().expect("a target directory").join("apiserver/apiserver")
}

/// Below those that a system gives to whoever connects: one that is killed must find its port again.
fn free_port() -> u16 {
    let mut some = std::iter::repeat_with(|| fastrand::u16(10_000..32_000));
    some.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a port")
}

fn base64(text: &str) -> String {
    BASE64_STANDARD.encode(text)
}
