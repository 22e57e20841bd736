//! Tests of credential plugins: slow plugins, expiring credentials, hangs and stderr.

#![cfg(target_os = "linux")]

#[path = "../support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};
use std::{fs, thread};

use leasehold::kubernetes::{Client, ClientConfig, ExecStderr, LeaseStore};
use leasehold::store::{CallContext, CancelToken, Store, StoreError, StoreErrorKind, VersionedRecord};
use leasehold_testing::{ApiServer, Resource, User, Verb};
use serde_json::json;
use support::kubeconfig::{self, exec_credential};
use support::{A_WHILE, SOON, wait_until};
use tempfile::TempDir;

/// A plugin that is a shell script in its own directory.
struct Plugin {
    directory: TempDir,
}

impl Plugin {
    /// Creates a plugin from a script.
    ///
    /// The script finds its directory in `$D`, and the number of its start in `$N`.
    fn new(script: &str) -> Plugin {
        let plugin = Plugin { directory: tempfile::tempdir().expect("a directory") };
        let directory = plugin.directory.path().display();
        let text = format!("D={directory}\necho $$ >> $D/starts\nN=$(wc -l < $D/starts | tr -d ' ')\n{script}\n");
        fs::write(plugin.path("plugin.sh"), text).expect("a file");
        plugin
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn lines(&self, name: &str) -> Vec<String> {
        fs::read_to_string(self.path(name)).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    fn starts(&self) -> usize {
        self.lines("starts").len()
    }

    fn config(&self, server: &ApiServer) -> ClientConfig {
        let ca = server.ca_pem().map(|pem| {
            fs::write(self.path("ca.pem"), pem).expect("a file");
            "certificate-authority: ca.pem"
        });
        config(self.directory.path(), &server.url(), ca.unwrap_or_default())
    }

    fn client(&self, server: &ApiServer) -> Client {
        Client::new(self.config(server)).expect("a client")
    }
}

fn config(directory: &Path, server: &str, ca: &str) -> ClientConfig {
    let plugin = format!("command: /bin/sh, args: ['{}']", directory.join("plugin.sh").display());
    let user = format!("exec: {{ apiVersion: client.authentication.k8s.io/v1, {plugin} }}");
    let text = kubeconfig::with(&format!("server: '{server}', {ca}"), &user);
    support::client_config::config_in(&text, directory).expect("a configuration")
}

/// Returns a shell command that prints an `ExecCredential`.
fn print(status: &str) -> String {
    format!("cat <<END\n{}\nEND", exec_credential(status))
}

/// Returns a command that prints the token `t$N`, which expires in `seconds`.
///
/// The command also appends the number and the time of expiry to the file `printed`.
fn print_expiring(seconds: u32) -> String {
    format!(
        "E=$(( $(date +%s) + {seconds} ))\nT=$(date -u -d @$E +%Y-%m-%dT%H:%M:%SZ)\necho $N $E >> $D/printed\n{}",
        print("{\"token\":\"t$N\",\"expirationTimestamp\":\"$T\"}")
    )
}

fn candidate(name: &str, token: &str) -> User {
    let rights = [Verb::Get, Verb::Create, Verb::Update, Verb::Watch];
    rights.into_iter().fold(User::new(name, token), |user, verb| user.grant(verb, Resource::Leases))
}

/// Starts a server whose users `u1` to `u30` have the tokens `t1` to `t30`.
fn server() -> ApiServer {
    let users = (1..=30).map(|n| candidate(&format!("u{n}"), &format!("t{n}")));
    users.fold(ApiServer::builder(), |server, user| server.user(user)).start().expect("an in-memory server")
}

/// Reads a lease that does not exist.
fn ask(client: &Client, timeout: Duration) -> Result<Option<VersionedRecord>, StoreError> {
    ask_until(client, timeout, &CancelToken::new())
}

fn ask_until(client: &Client, timeout: Duration, cancel: &CancelToken) -> Result<Option<VersionedRecord>, StoreError> {
    let leases = LeaseStore::new(client.clone(), "default").expect("a store");
    leases.get("none", &CallContext::new(timeout, cancel.clone()))
}

/// Replaces the tokens of all users whose printed credentials have expired.
///
/// Returns the number of these users.
fn expire(plugin: &Plugin, server: &ApiServer) -> usize {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock").as_secs();
    let lines = plugin.lines("printed");
    let expired =
        lines.iter().filter_map(|line| line.split_once(' ')).filter(|(_, end)| end.parse::<u64>().unwrap() <= now);
    expired.map(|(number, _)| server.set_token(&format!("u{number}"), format!("expired-{number}"))).count()
}

/// Returns `true` if the process has ended, even if the process has not been reaped.
fn is_gone(pid: &str) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
}

// ---- slow plugins ----

#[test]
fn a_credential_that_expires_every_few_seconds_fails_no_request() {
    let server = server();
    // Two runs at a time leave a line in the file `overlaps`.
    let (alone, print) = ("mkdir $D/runs || echo $N >> $D/overlaps", print_expiring(5));
    let plugin = Plugin::new(&format!("{alone}\nsleep 3\n{print}\nrmdir $D/runs"));
    let client = plugin.client(&server);
    let began = Instant::now();
    let mut served_meanwhile = 0;
    while plugin.lines("printed").len() < 4 {
        expire(&plugin, &server);
        let runs = || plugin.path("runs").exists().then(|| plugin.starts());
        let before = runs();
        ask(&client, SOON).unwrap_or_else(|e| panic!("{e}"));
        served_meanwhile += usize::from(before.is_some() && before == runs());
        assert!(began.elapsed() < 3 * SOON, "{:?}", plugin.lines("printed"));
        thread::sleep(Duration::from_millis(20));
    }
    assert!(served_meanwhile > 3, "the old one serves while the plugin runs: {served_meanwhile}");
    assert!(plugin.lines("overlaps").is_empty());
}

// ---- client certificates ----

#[test]
fn a_new_certificate_of_a_plugin_is_shown_on_a_new_connection() {
    let users = ["u1", "u2", "u3"].map(|name| candidate(name, &format!("token-of-{name}")));
    let server = users.into_iter().fold(ApiServer::builder().tls(true), |server, user| server.user(user));
    let server = server.start().expect("an in-memory server");
    // Each credential has expired when it arrives, so each request runs the plugin. The third certificate equals the
    // second one.
    let plugin = Plugin::new("cat $D/$N");
    for (run, user) in [(1, "u1"), (2, "u2"), (4, "u3")] {
        let (chain, key) = server.client_certificate(user);
        let status = json!({
            "clientCertificateData": chain, "clientKeyData": key, "expirationTimestamp": "2001-01-01T00:00:00Z",
        });
        fs::write(plugin.path(&run.to_string()), exec_credential(status)).expect("a file");
    }
    fs::copy(plugin.path("2"), plugin.path("3")).expect("a file");
    let client = plugin.client(&server);
    for _ in 0..4 {
        ask(&client, SOON).expect("an answer");
    }
    let requests = server.requests();
    let users: Vec<_> = requests.iter().map(|request| request.user.as_deref().unwrap_or_default()).collect();
    assert_eq!(users, ["u1", "u2", "u2", "u3"]);
    let connections: Vec<_> = requests.iter().map(|request| request.connection).collect();
    assert!(connections[0] != connections[1] && connections[2] != connections[3], "{connections:?}");
    assert_eq!(connections[1], connections[2], "the same certificate keeps its connection");
}

// ---- plugins that hang ----

/// Starts a child, writes both process numbers to a file, and hangs.
///
/// The hang is longer than any test waits, but not endless.
const HANGS: &str = "sleep 90 &\necho $! $$ > $D/unfinished\nmv $D/unfinished $D/pids\nsleep 90";

fn pids(plugin: &Plugin) -> Vec<String> {
    wait_until("the plugin starts", || plugin.path("pids").exists());
    let pids: Vec<_> = plugin.lines("pids")[0].split(' ').map(str::to_owned).collect();
    assert_eq!(pids.len(), 2);
    pids
}

fn wait_until_gone(pids: &[String]) {
    for pid in pids {
        wait_until("the plugin and its child are gone", || is_gone(pid));
    }
}

#[test]
fn a_plugin_is_ended_at_its_limit_with_all_that_it_started() {
    let server = server();
    let plugin = Plugin::new(HANGS);
    let config = plugin.config(&server).with_exec_timeout(Duration::from_secs(1));
    let client = Client::new(config).expect("a client");
    let error = ask(&client, SOON).expect_err("no credentials");
    assert_eq!(error.kind(), StoreErrorKind::Timeout, "{error}");
    assert!(error.to_string().contains("limit of 1s"), "{error}");
    wait_until_gone(&pids(&plugin));
    assert!(server.requests().is_empty(), "nothing is sent without credentials");
}

#[test]
fn cancel_ends_requests_and_dropping_the_client_ends_the_plugin() {
    let server = server();
    let plugin = Plugin::new(HANGS);
    let client = plugin.client(&server);
    thread::scope(|scope| {
        let cancel = CancelToken::new();
        let requests = [cancel.clone(), cancel.clone()].map(|cancel| {
            let client = &client;
            scope.spawn(move || ask_until(client, 3 * SOON, &cancel))
        });
        let pids = pids(&plugin);
        thread::sleep(A_WHILE);
        cancel.cancel();
        for request in requests {
            assert_eq!(request.join().expect("no panic").expect_err("interrupted").kind(), StoreErrorKind::Interrupted);
        }
        assert!(!pids.iter().any(|pid| is_gone(pid)), "the run goes on, for the requests to come");
    });
    let pids = pids(&plugin);
    drop(client);
    wait_until_gone(&pids);
    assert_eq!(plugin.starts(), 1);
}

// ---- stderr ----

const MODE: &str = "LEASEHOLD_TEST_STDERR";
const DIRECTORY: &str = "LEASEHOLD_TEST_DIRECTORY";
const SERVER: &str = "LEASEHOLD_TEST_SERVER";

/// Sends one request with the plugin of the parent test.
///
/// The tests below start this test as a process and read its stderr.
#[test]
#[ignore = "other tests run it in a process of its own"]
fn one_request_in_a_process_of_its_own() {
    let (Ok(mode), Ok(directory), Ok(server)) = (std::env::var(MODE), std::env::var(DIRECTORY), std::env::var(SERVER))
    else {
        return;
    };
    let config = config(Path::new(&directory), &server, "");
    let config = match mode.as_str() {
        "inherit" => config.with_exec_stderr(ExecStderr::Inherit),
        "discard" => config.with_exec_stderr(ExecStderr::Discard),
        "default" => config,
        other => panic!("{other}"),
    };
    let client = Client::new(config).expect("a client");
    let _ = ask(&client, SOON);
}

/// Returns the stderr of a process whose plugin fails.
///
/// The plugin writes a complaint to stderr and exits with `code`.
fn stderr_with(mode: &str, code: u8) -> String {
    let server = server();
    let plugin = Plugin::new(&format!("echo 'the complaint' >&2\n{}\nexit {code}", print("{\"token\":\"t1\"}")));
    let output = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "one_request_in_a_process_of_its_own", "--ignored", "--nocapture"])
        .env(MODE, mode)
        .env(DIRECTORY, plugin.directory.path())
        .env(SERVER, server.url())
        .stdin(Stdio::null())
        .output()
        .expect("a process");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(plugin.starts(), 1);
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn stderr_of_a_plugin_is_inherited_or_discarded() {
    for (mode, complaints) in [("inherit", 1), ("discard", 0), ("default", 0)] {
        for code in [0, 3] {
            let stderr = stderr_with(mode, code);
            assert_eq!(stderr.matches("the complaint").count(), complaints, "{mode}: {stderr}");
        }
    }
}
