//! A real etcd cluster with one or three members.
//!
//! The program is the etcd that is built into the tests' API server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use base64::prelude::{BASE64_STANDARD, Engine};
use leasehold::etcd::{EtcdConfig, EtcdStore};
use serde_json::{Value, json};

use super::authority::{Authority, Pair};
use super::real::LAUNCHER;
use super::server::{Scratch, Server, free_port};
use super::{SOON, in_target, is_built};
use crate::is_a_server;

/// The members of a cluster.
///
/// All members end when this value is dropped, and when the test process ends or is killed.
pub struct Etcd {
    pub members: Vec<Member>,
    pub dir: Arc<Scratch>,
}

/// A member of a cluster. The member keeps its ports after a restart.
pub struct Member {
    server: Server,
    pub data: PathBuf,
    scheme: &'static str,
}

is_a_server!(Member);

impl Etcd {
    /// Returns a cluster of one member that the tests of a binary share.
    ///
    /// Each test uses its own prefix. If etcd is not built, the test is skipped.
    pub fn shared() -> Option<&'static Etcd> {
        static SHARED: OnceLock<Option<Etcd>> = OnceLock::new();
        program()?;
        SHARED.get_or_init(|| Etcd::start(1, &[])).as_ref()
    }

    /// Starts a cluster that only one test uses.
    pub fn start(members: usize, flags: &[&str]) -> Option<Etcd> {
        program().map(|program| {
            let dir = Arc::new(Scratch::new("etcd"));
            let ports: Vec<_> = (0..members).map(|_| (free_port(), free_port())).collect();
            let scheme = if flags.iter().any(|flag| flag.starts_with("--cert-file")) { "https" } else { "http" };
            let peers = ports.iter().enumerate().map(|(n, (_, peer))| format!("m{n}=http://127.0.0.1:{peer}"));
            let cluster = format!("--initial-cluster={}", peers.collect::<Vec<_>>().join(","));
            let member = |number: usize, (client, peer): (u16, u16)| {
                let data = dir.path().join(format!("m{number}"));
                let (client_url, peer_url) =
                    (format!("{scheme}://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
                let mut arguments = vec![program.display().to_string()];
                // A built-in etcd is a subcommand of the program `apiserver`.
                arguments.extend(program.ends_with("apiserver").then(|| "etcd".to_owned()));
                arguments.extend([
                    format!("--name=m{number}"),
                    format!("--data-dir={}", data.display()),
                    format!("--listen-client-urls={client_url}"),
                    format!("--advertise-client-urls={client_url}"),
                    format!("--listen-peer-urls={peer_url}"),
                    format!("--initial-advertise-peer-urls={peer_url}"),
                    cluster.clone(),
                    // Tests need not survive a power cut, and a slow disk must not make tests flaky.
                    "--unsafe-no-fsync=true".to_owned(),
                    "--log-level=error".to_owned(),
                    // The minimum cost keeps logins fast.
                    "--bcrypt-cost=4".to_owned(),
                ]);
                arguments.extend(flags.iter().map(|&flag| flag.to_owned()));
                let log = format!("m{number}.log");
                let mut server = Server::new(&dir, &log, client, arguments, move |server| match scheme {
                    // etcd accepts connections only when it is ready.
                    "https" => TcpStream::connect(("127.0.0.1", server.port())).is_ok(),
                    // If users are enabled, a ready etcd responds with code 3: a user name is required.
                    _ => post(server.port(), "", "/v3/kv/range", &json!({ "key": base64("nothing") }))
                        .is_some_and(|answer| !answer["header"].is_null() || answer["code"] == 3),
                });
                server.launch();
                Member { server, data, scheme }
            };
            let members = ports.into_iter().enumerate().map(|(number, ports)| member(number, ports)).collect();
            let etcd = Etcd { members, dir };
            etcd.members.iter().for_each(|member| member.wait_until_ready());
            etcd
        })
    }

    /// Starts a cluster of one member that requires client certificates of `authority`.
    ///
    /// Writes the authority's certificate, and the member's pair `server`, into `directory`.
    pub fn start_with_certificates(authority: &Authority, server: &Pair, directory: &Path) -> Option<Etcd> {
        let file = |name: &str, text: &str| {
            let path = directory.join(name);
            std::fs::write(&path, text).expect("a file");
            path.display().to_string()
        };
        let flags = [
            format!("--cert-file={}", file("server.crt", &server.certificate)),
            format!("--key-file={}", file("server.key", &server.key)),
            format!("--trusted-ca-file={}", file("ca.crt", &authority.pem)),
            "--client-cert-auth=true".to_owned(),
        ];
        Etcd::start(1, &flags.each_ref().map(String::as_str))
    }

    /// Returns the URLs of all members for clients.
    pub fn urls(&self) -> Vec<String> {
        self.members.iter().map(Member::url).collect()
    }

    pub fn config(&self, prefix: &str) -> EtcdConfig {
        EtcdConfig::new(self.urls()).expect("URLs").with_prefix(prefix)
    }

    pub fn store(&self, prefix: &str) -> EtcdStore {
        EtcdStore::new(self.config(prefix)).expect("a store")
    }

    /// Sends a request of an operator, and returns the response.
    pub fn post(&self, path: &str, body: &Value) -> Value {
        post(self.members[0].port(), "", path, body).expect("an answer")
    }

    pub fn delete(&self, key: &str) {
        self.post("/v3/kv/deleterange", &json!({ "key": base64(key) }));
    }

    pub fn put(&self, key: &str, value: &str) {
        self.post("/v3/kv/put", &json!({ "key": base64(key), "value": base64(value) }));
    }

    /// Replaces the value of a key, without losing a write of another client.
    pub fn edit(&self, key: &str, change: impl Fn(String) -> String) {
        let body = |old: &str, new: &str| {
            let put = json!({ "requestPut": { "key": base64(key), "value": base64(new) } });
            let compare = json!({ "key": base64(key), "target": "VALUE", "value": base64(old) });
            json!({ "compare": [compare], "success": [put] })
        };
        let edit = |old: String| self.post("/v3/kv/txn", &body(&old, &change(old.clone())));
        while edit(self.value(key).expect("a value"))["succeeded"] != true {}
    }

    /// Returns the value of a key.
    pub fn value(&self, key: &str) -> Option<String> {
        let answer = self.post("/v3/kv/range", &json!({ "key": base64(key) }));
        let value = answer["kvs"][0]["value"].as_str()?;
        Some(String::from_utf8(BASE64_STANDARD.decode(value).expect("base64")).expect("text"))
    }

    /// Returns the revision of the cluster.
    pub fn revision(&self) -> u64 {
        let answer = self.post("/v3/kv/range", &json!({ "key": base64("nothing") }));
        answer["header"]["revision"].as_str().and_then(|text| text.parse().ok()).expect("a revision")
    }

    /// Returns the index of the member that the members have elected as their leader.
    pub fn leader(&self) -> usize {
        let leads = |member: &Member| {
            let status = post(member.port(), "", "/v3/maintenance/status", &json!({})).expect("an answer");
            status["leader"] == status["header"]["member_id"]
        };
        self.members.iter().position(leads).expect("a leader")
    }

    /// Enables logins of two users: `root`, and `jobs` with read and write access below `prefix`.
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

    /// Sets the password of the user `jobs`. The change revokes the login tokens of the user.
    pub fn set_password_of_jobs(&self, password: &str) {
        let root = json!({ "name": "root", "password": "password-of-root" });
        let token = self.post("/v3/auth/authenticate", &root)["token"].as_str().expect("a token").to_owned();
        let change = json!({ "name": "jobs", "password": password });
        let answer = post(self.members[0].port(), &token, "/v3/auth/user/changepw", &change).expect("an answer");
        assert!(answer["code"].is_null(), "{answer}");
    }
}

/// The password of the user `jobs`.
pub const PASSWORD: &str = "password-of-jobs-1";

impl Member {
    pub fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.port())
    }
}

fn post(port: u16, token: &str, path: &str, body: &Value) -> Option<Value> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(SOON)).ok()?;
    let body = body.to_string();
    let authorization = if token.is_empty() { String::new() } else { format!("Authorization: {token}\r\n") };
    let length = body.len();
    write!(stream, "POST {path} HTTP/1.0\r\n{authorization}Content-Length: {length}\r\n\r\n{body}").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
}

fn program() -> Option<PathBuf> {
    let program = match std::env::var_os("KUBEBUILDER_ASSETS").filter(|assets| !assets.is_empty()) {
        // With this variable, the API server is built without etcd, and the directory contains etcd.
        Some(assets) => Path::new(&assets).join("etcd"),
        None => in_target(LAUNCHER),
    };
    is_built(&program, "every test on a real etcd", "tests/apiserver/build").then_some(program)
}

fn base64(text: &str) -> String {
    BASE64_STANDARD.encode(text)
}
