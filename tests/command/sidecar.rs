//! Tests of `leasehold elect` and of the applications in `deploy/sidecar`, each as its own process.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use tempfile::TempDir;

use crate::periods::of_cluster;
use crate::support::command::{address, ask, get, leasehold};
use crate::support::proxy::{Faults, Proxy};
use crate::support::run::Run;
use crate::support::{repository, scratch, wait_for, wait_until};

const LEASE_DURATION: Duration = Duration::from_secs(4);
const FLAGS: [&str; 4] = ["--lease-duration=4s", "--renew-deadline=3s", "--retry-period=200ms", "--no-client-go-peers"];

/// The token in the file of `--done-token-file`.
const TOKEN: &str = "a token";

/// The sidecars of one lease.
struct Sidecars {
    place: Vec<String>,
    scratch: TempDir,
}

struct Sidecar {
    run: Run,
    address: String,
}

impl Sidecars {
    fn at(place: Vec<String>) -> Self {
        let scratch = scratch();
        fs::write(scratch.path().join("token"), format!("{TOKEN}\n")).expect("a token");
        Self { place, scratch }
    }

    fn on_a_file() -> Self {
        let mut sidecars = Self::at(Vec::new());
        let url = format!("sqlite://{}", sidecars.scratch.path().join("election.db").display());
        sidecars.place = ["--lease=jobs".to_owned(), "--store".to_owned(), url].into();
        sidecars
    }

    fn start(&self, identity: &str, flags: &[&str]) -> Sidecar {
        let mut command = leasehold();
        command.arg("elect").args(&self.place).args(FLAGS).args(flags).arg("--http=127.0.0.1:0");
        let token_file = format!("--done-token-file={}", self.token_file());
        let run = Run::of(command.arg(format!("--id={identity}")).arg(token_file).stdin(Stdio::null()));
        let address = address(&run);
        Sidecar { run, address }
    }

    fn token_file(&self) -> String {
        self.scratch.path().join("token").display().to_string()
    }

    /// Starts an application of `deploy/sidecar` that asks this address.
    fn application(&self, file: &str, address: &str) -> Run {
        let program = if file.ends_with(".py") { "python3" } else { "sh" };
        let mut command = Command::new(program);
        command.arg(repository().join("deploy/sidecar").join(file)).stdin(Stdio::null());
        command.env("SIDECAR", format!("http://{address}")).env("DONE_TOKEN_FILE", self.token_file());
        Run::of(&mut command)
    }

    /// Returns the holder in the record, which may have expired.
    fn holder(&self) -> Value {
        let status = Run::of(leasehold().args(["status", "--json"]).args(&self.place)).end();
        let mut status: Value = serde_json::from_str(&status.out).unwrap_or_else(|_| panic!("{}", status.errors));
        status["holder"].take()
    }
}

impl Sidecar {
    fn answer(&self) -> Value {
        serde_json::from_str(&get(&self.address, "/").1).expect("JSON")
    }

    /// Waits until this sidecar leads, and returns its answer.
    fn wait_for_term(&self) -> Value {
        wait_for("a leader", || Some(self.answer()).filter(|answer| answer["is_leader"] == true))
    }

    fn done(&self) -> (u16, String) {
        self.post(&format!("Authorization: Bearer {TOKEN}\r\nContent-Length: 0\r\n\r\n"))
    }

    fn post(&self, headers: &str) -> (u16, String) {
        ask(&self.address, &format!("POST /done HTTP/1.1\r\nHost: test\r\n{headers}"))
    }
}

/// Returns the clock of `until_boottime_ns`.
fn boottime_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    u64::try_from(now.tv_sec * 1_000_000_000 + now.tv_nsec).expect("a time after the boot")
}

#[test]
fn answers_have_the_leader_and_the_bound() {
    let sidecars = Sidecars::on_a_file();
    let a = sidecars.start("a", &["--advertise=host:1"]);
    a.wait_for_term();
    let (earliest, answer) = (boottime_ns(), a.answer());
    let b = sidecars.start("b", &[]);
    let left = answer["remaining_ms"].as_u64().expect("a number");
    assert!(left > 0 && left <= 3_000, "{answer}");
    let until = answer["until_boottime_ns"].as_u64().expect("a number");
    assert!(until > earliest && until <= boottime_ns() + 3_000_000_000, "{answer}");
    assert!(until >= earliest + left * 1_000_000, "{earliest}: {answer}");
    assert!(answer["fencing_token"].as_u64().is_some_and(|token| token > 0), "{answer}");
    for field in ["name", "leader", "identity"] {
        assert_eq!(answer[field], "a", "{answer}");
    }
    let answer = wait_for("the leader", || Some(b.answer()).filter(|answer| answer["name"] != ""));
    for (field, value) in [("name", "a"), ("leader", "a"), ("identity", "b")] {
        assert_eq!(answer[field], value, "{answer}");
    }
    for (field, value) in [("remaining_ms", 0.into()), ("until_boottime_ns", 0.into()), ("fencing_token", Value::Null)]
    {
        assert_eq!(answer[field], value, "{answer}");
    }
    assert_eq!((&answer["address"], &answer["is_leader"]), (&"host:1".into(), &false.into()), "{answer}");
    assert_eq!((get(&a.address, "/leader").0, get(&b.address, "/leader?pretty").0), (200, 503));
    assert_eq!((get(&a.address, "/healthz").0, get(&b.address, "/readyz").0), (200, 200));
    assert!(!get(&a.address, "/metrics").1.contains("leasehold_command_"), "a sidecar has no command");
}

#[test]
fn done_needs_the_token_of_the_file() {
    let sidecars = Sidecars::on_a_file();
    let sidecar = sidecars.start("a", &[]);
    sidecar.wait_for_term();
    let long = "x".repeat(5_000);
    for headers in [
        "\r\n",
        "Authorization: Bearer \r\n\r\n",
        "Authorization: Bearer a tokem\r\n\r\n",
        "Authorization: a token\r\n\r\n",
    ]
    .into_iter()
    .map(str::to_owned)
    .chain([format!("Authorization: Bearer {long}\r\n\r\n"), format!("Authorization: Bearer {TOKEN}x\r\n\r\n")])
    {
        assert_eq!(sidecar.post(&headers).0, 403, "{headers}");
    }
    let with_token = format!("Authorization: Bearer {TOKEN}\r\n\r\n");
    assert_eq!(ask(&sidecar.address, &format!("GET /done HTTP/1.1\r\n{with_token}")).0, 404);
    assert_eq!(ask(&sidecar.address, &format!("PUT /done HTTP/1.1\r\n{with_token}")).0, 405);
    fs::write(sidecars.token_file(), "").expect("a file");
    let (status, body) = sidecar.done();
    assert_eq!(status, 500);
    assert!(body.contains("--done-token-file ") && body.contains("empty"), "{body}");
    assert_eq!(sidecar.answer()["is_leader"], true, "nothing is released");
    // The file is read again for each request, and a body is ignored.
    fs::write(sidecars.token_file(), "other").expect("a file");
    let body = "x".repeat(100_000);
    let request = format!("authorization: Bearer other\r\nContent-Length: 100000\r\n\r\n{body}");
    assert_eq!(sidecar.post(&request), (200, "ok\n".to_owned()));
    assert!(!sidecar.run.errors().contains("other"), "a secret in the log");
}

#[test]
fn done_that_is_overtaken_by_an_answer_releases_nothing() {
    let sidecars = Sidecars::on_a_file();
    let sidecar = sidecars.start("a", &[]);
    sidecar.wait_for_term();
    // The request arrives in two parts. In between, a restarted application asks.
    let mut early = TcpStream::connect(&sidecar.address).expect("it listens");
    write!(early, "POST /done HTTP/1.1\r\nAuthorization: bearer {TOKEN}\r\n").expect("sent");
    assert_eq!(sidecar.answer()["is_leader"], true);
    early.write_all(b"\r\n").expect("sent");
    let mut answer = String::new();
    early.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 409 "), "{answer}");
    assert_eq!(sidecar.answer()["is_leader"], true, "nothing is released");
    assert_eq!(sidecar.done().0, 200);
}

#[test]
fn release_that_is_not_confirmed_stays_an_error() {
    let sidecars = Sidecars::on_a_file();
    let sidecar = sidecars.start("a", &[]);
    sidecar.wait_for_term();
    let database = rusqlite::Connection::open(sidecars.scratch.path().join("election.db")).expect("a database");
    database.execute_batch("BEGIN EXCLUSIVE").expect("a lock");
    for _ in 0..2 {
        let (status, body) = sidecar.done();
        assert!(status == 503 && body.contains("not confirmed"), "{status} {body}");
    }
    drop(database);
}

#[test]
fn sidecar_without_a_token_file_exits_at_once() {
    let scratch = scratch();
    let store = format!("--store=sqlite://{}", scratch.path().join("election.db").display());
    let mut command = leasehold();
    command.args(["elect", "--lease=jobs", &store, "--lease-duration=10m", "--http=127.0.0.1:0"]);
    let run = Run::of(command.stdin(Stdio::null()));
    run.wait_for_error("started leading");
    assert_eq!(ask(&address(&run), "POST /done HTTP/1.1\r\n\r\n").0, 403);
    // It would wait for longer than this test.
    run.terminates_with(0);
}

fn done_releases_and_stands_aside(sidecars: &Sidecars) {
    let a = sidecars.start("a", &[]);
    let token = a.wait_for_term()["fencing_token"].as_u64();
    let b = sidecars.start("b", &[]);
    wait_until("a leader", || b.answer()["name"] == "a");
    assert_eq!(a.done(), (200, "ok\n".to_owned()));
    assert_eq!((&a.answer()["is_leader"], &a.answer()["remaining_ms"]), (&false.into(), &0.into()));
    assert!(b.wait_for_term()["fencing_token"].as_u64() > token);
    // A standby also stands aside, so that the replica with other applications leads.
    assert_eq!(a.done().0, 200);
    let stopped_at = Instant::now();
    assert_eq!(b.done().0, 200);
    b.run.terminates_with(0);
    a.wait_for_term();
    assert!(stopped_at.elapsed() > LEASE_DURATION - Duration::from_millis(100), "it campaigned again at once");
    assert_eq!(a.done().0, 200);
    assert_eq!((sidecars.holder(), a.run.terminates_with(0).code), (Value::Null, Some(0)));
}

fn lease_expires_without_done(sidecars: &Sidecars) {
    let a = sidecars.start("a", &[]);
    a.wait_for_term();
    let b = sidecars.start("b", &[]);
    wait_until("a leader", || b.answer()["name"] == "a");
    let until = a.answer()["until_boottime_ns"].as_u64().expect("a number");
    a.run.signal(Signal::TERM);
    wait_until("its end", || a.answer()["is_leader"] == false);
    assert_eq!((&a.answer()["name"], &a.answer()["remaining_ms"]), (&"".into(), &0.into()));
    a.run.ends_with(0);
    assert_eq!(sidecars.holder(), "a", "the lease is not released");
    b.wait_for_term();
    assert!(boottime_ns() > until, "the lease was taken before its expiry");
    assert_eq!(b.done().0, 200);
}

fn done_after_sigterm_releases_at_once(sidecars: &Sidecars) {
    let a = sidecars.start("a", &[]);
    a.wait_for_term();
    a.run.signal(Signal::TERM);
    wait_until("its end", || a.answer()["is_leader"] == false);
    assert_eq!(a.done(), (200, "ok\n".to_owned()));
    a.run.ends_with(0);
    assert_eq!(sidecars.holder(), Value::Null, "the lease is released");
}

fn restarted_sidecar_waits_for_its_own_lease(sidecars: &Sidecars) {
    let killed = sidecars.start("a", &[]);
    killed.wait_for_term();
    let until = killed.answer()["until_boottime_ns"].as_u64().expect("a number");
    killed.run.kill();
    let restarted = sidecars.start("a", &[]);
    restarted.run.wait_for_error("waiting until the lease expires");
    let answer = restarted.answer();
    if boottime_ns() < until {
        assert_eq!((&answer["name"], &answer["leader"]), (&"".into(), &Value::Null), "{answer}");
    }
    restarted.wait_for_term();
    assert!(boottime_ns() > until, "the former answers were still valid");
    assert_eq!(restarted.done().0, 200);
}

fn requested_step_down_leaves_the_lease_until_done(sidecars: &Sidecars) {
    let a = sidecars.start("a", &["--accept-requests"]);
    a.wait_for_term();
    let request = || {
        let ended = Run::of(leasehold().arg("step-down").args(&sidecars.place)).end();
        assert_eq!(ended.code, Some(0), "{}", ended.errors);
        wait_until("its end", || a.answer()["is_leader"] == false);
        assert_eq!(sidecars.holder(), "a", "the lease is not released");
    };
    request();
    assert_eq!(a.done().0, 200);
    assert_eq!(sidecars.holder(), Value::Null);
    // Without `POST /done`, the lease expires, and the sidecar campaigns again.
    a.wait_for_term();
    let b = sidecars.start("b", &[]);
    wait_until("a leader", || b.answer()["name"] == "a");
    request();
    b.wait_for_term();
    assert_eq!(b.done().0, 200);
    a.wait_for_term();
    assert_eq!(a.done().0, 200);
}

/// Two applications of `deploy/sidecar`. The first one is stopped after its question, until the other one works.
fn late_answer_gives_no_time(sidecars: &Sidecars) {
    for file in ["app.py", "app.sh"] {
        let a = sidecars.start("a", &[]);
        a.wait_for_term();
        let proxy = Proxy::to(a.address.parse().expect("an address"));
        proxy.set(Faults::AnswersHeldBack);
        let late = sidecars.application(file, &format!("127.0.0.1:{}", proxy.port));
        wait_until("a question", || proxy.connections() > 0);
        // The sidecar has answered before it is killed.
        thread::sleep(Duration::from_millis(500));
        late.suspend();
        proxy.set(Faults::Fair);
        thread::sleep(Duration::from_millis(200));
        a.run.kill();
        let b = sidecars.start("b", &[]);
        let other = sidecars.application("app.py", &b.address);
        other.wait_for_out(" works until ");
        late.signal(Signal::CONT);
        thread::sleep(Duration::from_secs(1));
        assert!(!late.out().contains("works"), "{file}: {}", late.out());
        drop(late);
        assert!(other.terminates_with(0).errors.is_empty(), "the token is accepted");
        b.run.terminates_with(0);
    }
}

/// A step of an application: the time of its check, the end of the answer, in seconds since the boot.
#[derive(Debug, Clone, Copy)]
struct Step {
    at: f64,
    until: f64,
    token: u64,
}

fn steps(out: &str, scale: f64) -> Vec<Step> {
    let step = |line: &str| {
        let (at, rest) = line.split_once(" works until ")?;
        let (until, token) = rest.split_once(" with token ")?;
        let number = |text: &str| text.parse::<f64>().ok().map(|number| number * scale);
        Some(Step { at: number(at)?, until: number(until)?, token: token.parse().ok()? })
    };
    out.lines().filter_map(step).collect()
}

/// Ends an application, and returns its output. A signal ends an application that has no handler yet.
fn end_application(application: Run) -> String {
    let ended = application.terminate();
    assert!(matches!(ended.code, Some(0) | None), "{ended:?}");
    ended.out
}

/// Pods whose sidecars and applications are killed, stopped and ended at random.
fn faulty_pods_never_overlap(sidecars: &Sidecars) {
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut all = Vec::new();
    let files = ["app.py", "app.sh", "app.py"];
    let scale = |file: &str| if file.ends_with(".sh") { 0.001 } else { 1.0 };
    let start = |pod: usize, file: &str| {
        let sidecar = sidecars.start(&format!("pod-{pod}"), &[]);
        let application = sidecars.application(file, &sidecar.address);
        (sidecar, application)
    };
    let mut pods: Vec<_> = files.iter().enumerate().map(|(pod, file)| Some(start(pod, file))).collect();
    for _ in 0..8 {
        thread::sleep(Duration::from_millis(random.u64(500..2_500)));
        let leads = |pod: &Option<(Sidecar, Run)>| pod.as_ref().is_some_and(|(it, _)| it.answer()["is_leader"] == true);
        let pod = pods.iter().position(leads).unwrap_or_else(|| random.usize(..pods.len()));
        let Some((sidecar, application)) = pods[pod].take() else { continue };
        let out = match random.u8(..4) {
            // The pod ends as Kubernetes ends it: the application first.
            0 => {
                let out = end_application(application);
                sidecar.run.terminates_with(0);
                out
            }
            // The sidecar is killed. Its application works until the end of the last answer.
            1 => {
                sidecar.run.kill();
                thread::sleep(LEASE_DURATION);
                application.kill().out
            }
            // The application is stopped, and continues after its sidecar has ended.
            2 => {
                application.suspend();
                sidecar.run.terminates_with(0);
                application.signal(Signal::CONT);
                thread::sleep(Duration::from_secs(1));
                application.kill().out
            }
            // The sidecar is stopped for longer than its term.
            _ => {
                sidecar.run.suspend();
                thread::sleep(LEASE_DURATION + Duration::from_secs(1));
                sidecar.run.signal(Signal::CONT);
                thread::sleep(Duration::from_secs(1));
                drop(sidecar);
                application.kill().out
            }
        };
        all.extend(steps(&out, scale(files[pod])));
        pods[pod] = Some(start(pod, files[pod]));
    }
    for (pod, file) in pods.into_iter().zip(files) {
        let Some((sidecar, application)) = pod else { continue };
        all.extend(steps(&end_application(application), scale(file)));
        sidecar.run.terminates_with(0);
    }
    all.sort_by(|a, b| a.at.total_cmp(&b.at));
    for pair in all.windows(2) {
        assert!(pair[0].token <= pair[1].token, "seed {seed}: {pair:?} of {all:#?}");
        assert!(pair[0].at < pair[0].until, "seed {seed}: {:?} is late", pair[0]);
    }
    assert!(all.len() > 5, "seed {seed}: {all:?}");
}

/// Runs these tests on both servers and on a file.
macro_rules! on_each_store {
    ($($test:ident),* $(,)?) => {
        mod on_a_file {
            $(#[test] fn $test() { super::$test(&super::Sidecars::on_a_file()); })*
        }
        mod on_servers {
            $(fn $test(cluster: &crate::support::cluster::Cluster) {
                super::$test(&super::Sidecars::at(super::of_cluster(cluster)));
            })*
            crate::on_both_servers!($($test),*);
        }
    };
}

on_each_store!(
    done_releases_and_stands_aside,
    lease_expires_without_done,
    done_after_sigterm_releases_at_once,
    restarted_sidecar_waits_for_its_own_lease,
    requested_step_down_leaves_the_lease_until_done,
    late_answer_gives_no_time,
    faulty_pods_never_overlap,
);
