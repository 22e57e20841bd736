//! The commands `leasehold observe` and `leasehold wait`, beside electors of this process.

#![cfg(unix)]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use leasehold::LeaderElector;
use leasehold::kubernetes::LeaseStore;
use leasehold::store::{LeaderElectionRecord, MicroTime, Store};
use leasehold_testing::{Fault, Resource, User, Verb};
use serde_json::{Value, json};

use crate::on_both_servers;
use crate::support::cluster::{Cluster, NAMESPACE};
use crate::support::command::leasehold;
use crate::support::real_store::{File, RealStore};
use crate::support::run::Run;
use crate::support::server::installed;
use crate::support::stores::{call, elector, held_by};
use crate::support::{A_WHILE, SOON, wait_or_explain, wait_until};

fn of(arguments: &[&str]) -> Command {
    let mut command = leasehold();
    command.args(arguments);
    command
}

/// A running command, which is killed when this value is dropped.
struct Running {
    run: Run,
    /// The number of lines of stdout that the test has read.
    seen: usize,
}

impl Running {
    fn start(mut command: Command) -> Running {
        Running { run: Run::of(command.stdin(Stdio::null())), seen: 0 }
    }

    /// Returns the next line of stdout for which `is_wanted` returns `true`.
    fn line(&mut self, what: &str, is_wanted: impl Fn(&str) -> bool) -> String {
        let (run, seen, mut found) = (&self.run, self.seen, None);
        wait_or_explain(
            SOON,
            || format!("{what}: not in {}\n{}", run.out(), run.errors()),
            || {
                let out = run.out();
                let mut lines = out.lines().enumerate().skip(seen);
                found = lines.find(|(_, line)| is_wanted(line)).map(|(at, line)| (at, line.to_owned()));
                found.is_some()
            },
        );
        let (at, line) = found.expect("it was waited for");
        self.seen = at + 1;
        line
    }

    /// Returns the next event of one kind for a lease.
    fn event(&mut self, lease: &str, event: &str) -> Value {
        let of = |line: &str| serde_json::from_str::<Value>(line).expect("a line of JSON");
        let line = self.line(&format!("{event} of {lease}"), |line| {
            let line = of(line);
            line["lease"] == lease && line["event"] == event
        });
        of(&line)
    }

    /// Returns the kinds of all events of a lease so far, without renewals.
    fn events(&self, lease: &str) -> Vec<String> {
        let out = self.run.out();
        let lines = out.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
        let events = lines.filter(|line| line["lease"] == lease && line["event"] != "renewed");
        events.map(|line| line["event"].as_str().expect("an event").to_owned()).collect()
    }

    fn complaint(&self, what: &str) {
        self.run.wait_for_error(what);
    }

    /// Returns the exit code, stdout and stderr of a command that ends by itself.
    fn end(self) -> (Option<i32>, String, String) {
        let ended = self.run.end();
        (ended.code, ended.out.trim_end_matches('\n').to_owned(), ended.errors.trim_end_matches('\n').to_owned())
    }
}

fn file() -> File {
    File::shared("observed").expect("a file needs no server")
}

fn run_on(file: &File, arguments: &[&str]) -> Running {
    let mut command = of(arguments);
    command.args(["--store", &file.url()]);
    Running::start(command)
}

fn observe_in(cluster: &Cluster, user: &str, arguments: &[&str]) -> Running {
    let mut command = of(&["observe", "--namespace", NAMESPACE]);
    command.arg("--kubeconfig").arg(cluster.kubeconfig(user)).args(arguments);
    Running::start(command)
}

#[test]
fn observe_reports_terms_of_a_file_in_json() {
    let file = file();
    let store = Arc::new(file.store());
    let mut observing = run_on(&file, &["observe", "--json", "jobs"]);
    let unheld = observing.event("jobs", "unheld");
    assert_eq!((&unheld["holder"], &unheld["seconds_left"]), (&Value::Null, &Value::Null));
    let (anna, ben) = (elector(&store, "anna"), elector(&store, "ben"));
    let guard = anna.block_until_leader().expect("the lease");
    let first = observing.event("jobs", "new_leader");
    assert_eq!((&first["holder"], &first["transitions"]), (&json!("anna"), &json!(0)), "{first}");
    assert_eq!((&first["lease_duration_seconds"], &first["seconds_left"]), (&json!(60), &json!(60.0)), "{first}");
    assert!(first["version"].as_u64().expect("a version") >= guard.fencing_token(), "{first}");
    for field in ["time", "acquire_time", "renew_time"] {
        assert!(first[field].as_str().is_some_and(|time| time.len() == 27 && time.ends_with('Z')), "{first}");
    }
    let renewed = observing.event("jobs", "renewed");
    assert!(renewed["renewals"].as_u64() >= Some(1) && renewed["version"].as_u64() > first["version"].as_u64());
    drop(guard);
    let released = observing.event("jobs", "released");
    assert_eq!((&released["holder"], &released["previous_holder"]), (&Value::Null, &json!("anna")), "{released}");
    let guard = ben.block_until_leader().expect("the lease");
    let second = observing.event("jobs", "new_leader");
    assert_eq!((&second["holder"], &second["transitions"]), (&json!("ben"), &json!(1)), "{second}");
    file.delete("jobs");
    let deleted = observing.event("jobs", "deleted");
    assert_eq!((&deleted["holder"], &deleted["previous_holder"]), (&Value::Null, &json!("ben")), "{deleted}");
    drop(guard);
    assert_eq!(observing.events("jobs"), ["unheld", "new_leader", "released", "new_leader", "deleted"]);
    assert_eq!(observing.run.errors(), "");
}

#[test]
fn observe_follows_all_leases_of_a_namespace_and_reconnects() {
    let cluster = Cluster::in_memory("observed");
    let server = cluster.in_memory_server().expect("it is");
    cluster.create(json!({ "holderIdentity": "somebody\n\u{1b}[2J", "renewTime": null }));
    server.set_user(User::nobody().grant(Verb::List, Resource::Leases).grant(Verb::Watch, Resource::Leases));
    let mut observing = observe_in(&cluster, "nobody", &["--json"]);
    let first = observing.event(&cluster.lease, "new_leader");
    assert_eq!(first["holder"], "somebody\n\u{1b}[2J");
    for field in ["transitions", "acquire_time", "renew_time", "lease_duration_seconds", "seconds_left"] {
        assert_eq!(first[field], Value::Null, "{first}");
    }
    // An elector of this process holds another lease in the namespace.
    let theirs = LeaderElector::builder("theirs").namespace(NAMESPACE).identity("anna");
    let theirs = theirs.lease_duration(Duration::from_secs(60));
    let elector = theirs.start_with_client(cluster.client("candidate")).expect("an elector");
    let guard = elector.block_until_leader().expect("the lease");
    assert_eq!(observing.event("theirs", "new_leader")["holder"], "anna");
    server.stop();
    observing.complaint("; retrying");
    server.restart().expect("it starts again");
    cluster.edit(|lease| lease["spec"]["holderIdentity"] = json!("ben"));
    let second = observing.event(&cluster.lease, "new_leader");
    assert_eq!((&second["holder"], &second["previous_holder"]), (&json!("ben"), &first["holder"]), "{second}");
    observing.complaint("following ");
    drop(guard);
    observing.event("theirs", "released");
    cluster.delete();
    let deleted = observing.event(&cluster.lease, "deleted");
    assert_eq!(deleted["previous_holder"], "ben", "{deleted}");
    assert_eq!(observing.events(&cluster.lease), ["new_leader", "new_leader", "deleted"]);
    let complaints = observing.run.errors();
    assert_eq!(complaints.matches("following ").count(), 1, "{complaints}");
}

on_both_servers! {
    observe_prints_one_line_per_change_for_any_identity,
    status_shows_the_right_to_campaign,
}

fn observe_prints_one_line_per_change_for_any_identity(cluster: &Cluster) {
    cluster.create(json!({ "holderIdentity": "x\n2026 jobs: y\u{1b}[2J", "leaseDurationSeconds": 3600 }));
    let mut observing = observe_in(cluster, "candidate", &[&cluster.lease]);
    let line = observing.line("the holder", |_| true);
    let text = r": held by x\n2026 jobs: y\u{1b}[2J; free in 1h unless it renews (renewals 0)";
    assert!(line.ends_with(text), "{line}");
    cluster.edit(|lease| lease["spec"]["holderIdentity"] = json!(""));
    let line = observing.line("the release", |_| true);
    assert!(line.contains(r": released by x\n2026 jobs: y\u{1b}[2J"), "{line}");
    cluster.delete();
    let line = observing.line("the deletion", |_| true);
    assert!(line.ends_with(": deleted"), "{line}");
}

#[test]
fn silent_watch_is_detected_when_a_lease_seems_expired() {
    let cluster = Cluster::in_memory("observed-in-silence");
    let server = cluster.in_memory_server().expect("it is");
    cluster.create(json!({ "holderIdentity": "anna", "leaseDurationSeconds": 2 }));
    let mut observing = observe_in(&cluster, "candidate", &["--json", &cluster.lease]);
    observing.event(&cluster.lease, "new_leader");
    server.fault(Fault::stall_watch());
    cluster.edit(|lease| lease["spec"]["leaseDurationSeconds"] = json!(3600));
    observing.event(&cluster.lease, "expired");
    assert_eq!(observing.event(&cluster.lease, "renewed")["lease_duration_seconds"], 3600);
}

#[test]
fn config_maps_with_a_record_are_leases() {
    let cluster = Cluster::in_memory("observed-config-maps");
    let server = cluster.in_memory_server().expect("it is");
    let put = |name: &str, annotations: Value| {
        let object = json!({ "metadata": { "annotations": annotations } });
        server.put(Resource::ConfigMaps, NAMESPACE, name, object);
    };
    let leader = |record: &str| json!({ "control-plane.alpha.kubernetes.io/leader": record });
    put("a-setting", json!({}));
    put("not-a-record", leader("nonsense"));
    put("jobs", leader(r#"{"holderIdentity":"anna","leaseDurationSeconds":60}"#));
    let mut observing = observe_in(&cluster, "admin", &["--json", "--lock-type", "configmaps"]);
    assert_eq!(observing.event("jobs", "new_leader")["holder"], "anna");
    put("jobs", json!({}));
    observing.event("jobs", "deleted");
    assert_eq!(observing.run.out().lines().count(), 2);
}

#[test]
fn permanent_error_names_a_remedy_and_no_secret() {
    let cluster = Cluster::in_memory("observed-by-nobody");
    let refused = |running: Running, what: &str| {
        let (code, stdout, stderr) = running.end();
        assert_eq!((code, &*stdout, stderr.lines().count()), (Some(125), "", 1), "{what}: {stderr}");
        assert!(stderr.contains(what) && !stderr.contains("sesame"), "{what}: {stderr}");
    };
    refused(observe_in(&cluster, "nobody", &["--json"]), "in the namespace `leasehold-tests` without `resourceNames`");
    refused(observe_in(&cluster, "no-watch", &["jobs"]), "grant the verb `watch`");
    refused(observe_in(&cluster, "candidate", &["Jobs"]), "Jobs");
    let server = cluster.in_memory_server().expect("it is");
    let kubeconfig = cluster.kubeconfig("candidate");
    server.set_token("candidate", "another");
    let mut waiting = of(&["wait", "jobs", "--kubeconfig"]);
    waiting.arg(kubeconfig);
    refused(Running::start(waiting), "401");
    // An unreachable server may recover, so `wait` continues until its timeout. No leader is another exit code.
    let nowhere = ["wait", "jobs", "--timeout", "1s", "--store", "postgres://jobs:sesame@127.0.0.1:1/jobs"];
    let (code, _, stderr) = Running::start(of(&nowhere)).end();
    assert!(code == Some(125) && stderr.contains("127.0.0.1:1") && !stderr.contains("sesame"), "{stderr}");
    assert!(stderr.contains("cannot read lease jobs within 1s"), "{stderr}");
    for (timeout, what) in [("0s", "made up"), ("500ms", "cannot read lease jobs within 500ms")] {
        let fault = server.fault(Fault::status(503, "ServiceUnavailable", "made up"));
        let mut waiting = of(&["wait", "jobs", "--timeout", timeout, "--namespace", NAMESPACE, "--kubeconfig"]);
        waiting.arg(cluster.kubeconfig("admin"));
        let (code, _, stderr) = Running::start(waiting).end();
        assert!(code == Some(125) && stderr.contains(what), "{timeout}: {stderr}");
        fault.remove();
    }
    refused(Running::start(of(&["observe", "--store", "paper://wall:sesame"])), "unknown store");
    let (code, _, stderr) = Running::start(of(&["observe", "--lock-type", "endpointsleases"])).end();
    assert!(code == Some(125) && stderr.contains("leases, configmaps and endpoints"), "{stderr}");
}

#[test]
fn a_reader_that_has_seen_enough_ends_it_quietly() {
    let file = file();
    for (arguments, lines) in [(&["observe", "jobs"][..], 1), (&["observe", "--json"], 0)] {
        let mut command = of(arguments);
        command.args(["--store", &file.url()]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut observing = command.spawn().expect("it runs");
        let reader = BufReader::new(observing.stdout.take().expect("piped"));
        // The reader closes the pipe after these lines. No later event causes output, so the command must detect the
        // closed pipe without writing.
        assert_eq!(reader.lines().take(lines).filter_map(Result::ok).count(), lines);
        wait_until("it ends", || observing.try_wait().expect("a child of ours").is_some());
        let ended = observing.wait_with_output().expect("it has ended");
        let (code, stderr) = (ended.status.code(), String::from_utf8_lossy(&ended.stderr));
        assert_eq!((code, &*stderr), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn wait_ends_with_the_name_of_the_leader() {
    let file = file();
    let mut waiting = run_on(&file, &["wait", "jobs"]);
    thread::sleep(A_WHILE);
    assert!(waiting.run.is_running(), "{}", waiting.run.out());
    // Other clients accept an identity with control characters.
    let mut written = file.store().create("jobs", held_by("anna\n\u{1b}[2J").as_write(), &call()).expect("a record");
    let mut renew = |identity: &str| {
        let renew_time = Some(MicroTime::from(SystemTime::now()));
        let record = LeaderElectionRecord { renew_time, ..held_by(identity) };
        written = file.store().update("jobs", &written, record.as_write(), &call()).expect("an update");
    };
    let said = (Some(0), r"anna\n\u{1b}[2J".to_owned(), String::new());
    let mut already = run_on(&file, &["wait", "jobs"]);
    let mut for_ben = run_on(&file, &["wait", "--holder", "ben", "jobs"]);
    thread::sleep(A_WHILE);
    for waiting in [&mut waiting, &mut already, &mut for_ben] {
        assert!(waiting.run.is_running(), "no renewal was seen: {}", waiting.run.out());
    }
    renew("anna\n\u{1b}[2J");
    assert_eq!((waiting.end(), already.end()), (said.clone(), said));
    renew("ben");
    thread::sleep(A_WHILE);
    assert!(for_ben.run.is_running(), "{}", for_ben.run.out());
    renew("ben");
    assert_eq!(for_ben.end(), (Some(0), "ben".to_owned(), String::new()));
}

#[test]
fn crashed_holder_does_not_lead() {
    let file = file();
    let renewed = SystemTime::now() - Duration::from_secs(11 * 60 + 31);
    let record = LeaderElectionRecord { renew_time: Some(MicroTime::from(renewed)), ..held_by("anna") };
    let written = file.store().create("jobs", record.as_write(), &call()).expect("a record");
    let standing = |text: &str| text.contains("held by anna, renewed 11m3") && text.contains(" unless it renews");
    for (timeout, holder) in [("500ms", None), ("500ms", Some("anna")), ("0s", None), ("0s", Some("ben"))] {
        let holder = holder.map_or_else(Vec::new, |holder| vec!["--holder", holder]);
        let (code, out, stderr) = run_on(&file, &[&["wait", "jobs", "--timeout", timeout], &holder[..]].concat()).end();
        assert_eq!((code, &*out), (Some(124), ""), "{stderr}");
        assert!(standing(&stderr), "{stderr}");
    }
    let mut observing = run_on(&file, &["observe", "jobs"]);
    let line = observing.line("the holder", |_| true);
    assert!(standing(&line), "{line}");
    let mut observing = run_on(&file, &["observe", "--json", "jobs"]);
    let event = observing.event("jobs", "new_leader");
    assert_eq!((&event["leads"], &event["owner"]), (&json!(false), &Value::Null), "{event}");
    assert!(event["seconds_since_renewal"].as_f64().is_some_and(|age| age > 690.0 && age < 1_000.0), "{event}");
    file.store().update("jobs", &written, held_by("anna").as_write(), &call()).expect("an update");
    assert_eq!(observing.event("jobs", "renewed")["leads"], true);
}

#[test]
fn status_reads_once_and_has_the_fields_of_observe() {
    let file = file();
    let status = |arguments: &[&str]| run_on(&file, arguments).end();
    let (code, out, stderr) = status(&["status", "jobs"]);
    assert_eq!((code, &*stderr), (Some(1), ""), "{out}");
    assert!(out.contains(": no record\n") && out.contains("this user may campaign: unknown"), "{out}");
    let renewed = SystemTime::now() - Duration::from_secs(11 * 60 + 31);
    let record = LeaderElectionRecord { renew_time: Some(MicroTime::from(renewed)), ..held_by("anna") };
    file.store().create("jobs", record.as_write(), &call()).expect("a record");
    let (code, out, stderr) = status(&["status", "--lease", "jobs"]);
    assert_eq!((code, &*stderr), (Some(0), ""), "{out}");
    assert!(out.contains("held by anna, renewed 11m3") && out.contains("; free in 15s unless it renews\n"), "{out}");
    assert!(out.contains("transitions: 3\n"), "{out}");
    let (code, out, _) = status(&["status", "jobs", "--json"]);
    let line: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &line["holder"], &line["leads"]), (Some(0), &json!("anna"), &json!(false)));
    assert!(line["seconds_since_renewal"].as_f64().is_some_and(|age| age > 690.0 && age < 1_000.0), "{line}");
    assert_eq!(line["may_campaign"], "unknown");
    let mut observing = run_on(&file, &["observe", "--json", "jobs"]);
    let event = observing.event("jobs", "new_leader");
    let fields = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    let of_status: Vec<_> = fields(&line).into_iter().filter(|field| field != "may_campaign").collect();
    assert_eq!(of_status, fields(&event));
    let (code, once, _) = status(&["observe", "--once", "--json", "jobs", "others"]);
    let once: Vec<Value> = once.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((code, fields(&once[0])), (Some(1), fields(&line)), "one lease has no holder");
    assert_eq!(once[1]["event"], "unheld");
    let away = ["status", "jobs", "--timeout=1s", "--store", "postgres://jobs:sesame@127.0.0.1:1/jobs"];
    assert_eq!(Running::start(of(&away)).end().0, Some(125));
}

fn status_shows_the_right_to_campaign(cluster: &Cluster) {
    let right = |user: &str| {
        let mut command = of(&["status", &cluster.lease, "--json", "--namespace", NAMESPACE, "--kubeconfig"]);
        command.arg(cluster.kubeconfig(user));
        let (_, out, stderr) = Running::start(command).end();
        serde_json::from_str::<Value>(&out).unwrap_or_else(|_| panic!("{stderr}"))["may_campaign"].clone()
    };
    let store = |user: &str| LeaseStore::new(cluster.client(user), NAMESPACE).expect("a store");
    let is_real = cluster.in_memory_server().is_none();
    for exists in [false, true] {
        // The in-memory server reviews no access.
        assert_eq!(right("candidate"), if is_real { "yes" } else { "unknown" });
        assert_eq!(store("nobody").may_campaign(&cluster.lease, exists, &call()), is_real.then_some(false));
        if !exists {
            cluster.create(json!({ "holderIdentity": "a", "leaseDurationSeconds": 60 }));
        }
    }
}

#[test]
fn shard_is_observed_by_its_owner_and_not_waited_for() {
    let file = file();
    let record = LeaderElectionRecord { lease_duration_seconds: Some(i32::MAX), ..held_by("3/uid/anna") };
    file.store().create("ingest-shard-003", record.as_write(), &call()).expect("a record");
    for timeout in ["0s", "30s"] {
        let (code, _, stderr) = run_on(&file, &["wait", "ingest-shard-003", "--timeout", timeout]).end();
        assert!(code == Some(125) && stderr.contains("`leasehold observe --group ingest`"), "{stderr}");
    }
    let mut observing = run_on(&file, &["observe", "ingest-shard-003"]);
    let line = observing.line("the owner", |_| true);
    assert!(line.contains(": owned by anna, since ") && !line.contains("left"), "{line}");
}

#[test]
fn wait_gives_up_when_its_timeout_has_passed() {
    let file = file();
    file.store().create("jobs", held_by("anna").as_write(), &call()).expect("it is created");
    for (arguments, said) in [
        (["wait", "others", "--timeout", "500ms", "--lock-type=leases"].as_slice(), None),
        (&["wait", "others", "--timeout", "500ms"], Some("lease others was not held within 500ms")),
        (
            &["wait", "jobs", "--holder", "ben", "--timeout", "500ms"],
            Some("lease jobs was not held by ben within 500ms"),
        ),
    ] {
        let began = Instant::now();
        let (code, stdout, stderr) = run_on(&file, arguments).end();
        let Some(said) = said else {
            assert!(code == Some(125) && stderr.contains("cannot be used with"), "{stderr}");
            continue;
        };
        assert_eq!((code, &*stdout), (Some(124), ""), "{stderr}");
        assert!(stderr.contains(said) && began.elapsed() >= Duration::from_millis(500), "{stderr}");
    }
}

#[test]
fn in_a_terminal_a_table_is_drawn_over_the_one_before() {
    let Some(script) = installed("script", &[], "a terminal for `leasehold observe`") else { return };
    let file = file();
    let mut command = Command::new(script);
    let observe = format!("exec {} observe jobs --store {}", env!("CARGO_BIN_EXE_leasehold"), file.url());
    command
        .args(["-qec", &observe, "/dev/null"])
        .env("TERM", "xterm")
        .env("SHELL", "/bin/sh")
        .env_remove("LEASEHOLD_LOG");
    let mut observing = Running::start(command);
    observing.line("nobody holds it", |line| line.starts_with("jobs") && line.trim_end().ends_with("  -"));
    // Other clients accept an identity with control characters.
    file.store().create("jobs", held_by("anna\u{1b}[2J").as_write(), &call()).expect("a record");
    let line = observing.line("it is held", |line| line.contains(r"anna\u{1b}[2J"));
    let cells: Vec<_> = line.split_whitespace().collect();
    assert!(cells[0] == "jobs" && cells[1].ends_with('s') && cells[2] == "3", "{line}");
    let head = observing.line("it is drawn again", |line| line.contains("HOLDER"));
    assert!(head.contains("\u{1b}[2A\u{1b}[J") && head.contains("LEASE"), "{head:?}");
}
