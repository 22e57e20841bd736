//! Tests of addresses and of requests to step down, on clusters and on etcd.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use crate::support::api::Method;
use leasehold::store::MicroTime;
use leasehold_testing::{Fault, Verb};
use serde_json::{Value, json};

use crate::on_both_servers;
use crate::support::cluster::{Cluster, NAMESPACE, Server};
use crate::support::command::{Arena, LONG, SHORT, address, get, leasehold};
use crate::support::etcd::Etcd;
use crate::support::process::mono;
use crate::support::run::{Ended, Run};
use crate::support::{A_WHILE, SOON, wait_for, wait_until};

on_both_servers! {
    address_of_the_leader_is_found_and_shown,
    address_of_another_term_or_of_no_leader_is_absent,
    accepted_request_moves_the_command_and_back,
    annotation_is_a_request,
    request_without_acceptance_stops_no_command,
    requested_command_is_renewed_until_it_has_ended,
}

const NOTE: &str = "leasehold.dev/note";
const STEP_DOWN: &str = "leasehold.dev/step-down";
const ADDRESS: &str = "10.0.3.7:9000";

fn start(arguments: &[&str]) -> Run {
    Run::of(leasehold().args(arguments).stdin(Stdio::null()))
}

fn start_in(cluster: &Cluster, arguments: &[&str]) -> Run {
    let mut command = leasehold();
    command.args(arguments).arg("--kubeconfig").arg(cluster.kubeconfig("candidate"));
    Run::of(command.args(["--namespace", NAMESPACE]).stdin(Stdio::null()))
}

/// Runs a subcommand with `--lease`.
fn ask(cluster: &Cluster, arguments: &[&str]) -> Ended {
    start_in(cluster, &[arguments, &["--lease", &cluster.lease]].concat()).end()
}

/// Asserts the exit code, stdout, and a part of stderr. An empty part means an empty stderr.
#[track_caller]
fn assert_ended(ended: &Ended, code: i32, out: &str, says: &str) {
    assert_eq!((ended.code, &*ended.out), (Some(code), out), "{}", ended.errors);
    assert!(if says.is_empty() { ended.errors.is_empty() } else { ended.errors.contains(says) }, "{}", ended.errors);
}

/// Asserts that a request for `holder` was written.
#[track_caller]
fn assert_asked(ended: &Ended, holder: &str) {
    assert_eq!((ended.code, &*ended.errors), (Some(0), ""), "{}", ended.out);
    assert!(ended.out.starts_with(&format!("asked {holder} to step down from ")), "{}", ended.out);
}

fn annotation(cluster: &Cluster, name: &str) -> Option<String> {
    cluster.lease()?["metadata"]["annotations"][name].as_str().map(str::to_owned)
}

/// Sets an annotation like `kubectl annotate`, which sends a PATCH.
///
/// Without `kubectl`, and on the in-memory server, which has no PATCH, replaces the object.
fn annotate(cluster: &Cluster, name: &str, value: &str) {
    if let Server::Real(_) = cluster.server() {
        let mut kubectl = Command::new("kubectl");
        kubectl.arg("--kubeconfig").arg(cluster.kubeconfig("admin")).args(["--namespace", NAMESPACE, "annotate"]);
        kubectl.args(["lease", &cluster.lease, "--overwrite", &format!("{name}={value}")]);
        if let Ok(output) = kubectl.output() {
            assert!(output.status.success(), "{output:?}");
            return;
        }
    }
    cluster.edit(|lease| lease["metadata"]["annotations"][name] = json!(value));
}

/// Creates a lease that `holder` holds, with the note of `address`.
fn create_with_note(cluster: &Cluster, holder: &str, address: &str) {
    let acquired = "2026-01-02T03:04:05.000006Z";
    let mut lease = cluster.new_lease(json!({
        "holderIdentity": holder, "leaseDurationSeconds": 3600, "acquireTime": acquired, "renewTime": acquired,
    }));
    let note = json!({ "acquireTime": acquired, "address": address }).to_string();
    lease["metadata"]["annotations"] = json!({ NOTE: note });
    cluster.request(Method::POST, false, Some(&lease)).expect("a lease made by hand");
}

fn address_of_the_leader_is_found_and_shown(cluster: &Cluster) {
    assert_ended(&ask(cluster, &["where"]), 1, "", "has no holder");
    let observer = start_in(cluster, &["observe", "--json", "--lease", &cluster.lease, "--lease", "another"]);
    let plain = start_in(cluster, &["observe", "--lease", &cluster.lease]);
    let arena = Arena::on(cluster, LONG);
    let leader = arena.work(&["--identity=a", "--advertise", ADDRESS], &[]);
    arena.wait_for_work_after(0);
    assert_ended(&ask(cluster, &["where"]), 0, &format!("{ADDRESS}\n"), "");
    assert_ended(&ask(cluster, &["wait"]), 0, "a\n", "");
    plain.wait_for_out(&format!("held by a at {ADDRESS}, renewed 0s ago by its clock; free in "));
    // The next renewal restores a removed address. Both changes are events, although the term continues.
    cluster.edit(|lease| drop(lease["metadata"]["annotations"].as_object_mut().expect("notes").remove(NOTE)));
    let is_event = |line: &&str, address: Value| {
        let line: Value = serde_json::from_str(line).expect("a line of JSON");
        line["lease"] == *cluster.lease && line["event"] == "new_address" && line["address"] == address
    };
    for address in [Value::Null, json!(ADDRESS)] {
        wait_until("a changed address", || observer.out().lines().any(|line| is_event(&line, address.clone())));
    }
    plain.wait_for_out(": a has no address, since");
    plain.wait_for_out(&format!(": a is at {ADDRESS}, since"));
    assert!(observer.out().contains("\"lease\":\"another\",\"event\":\"unheld\",\"holder\":null"));
    leader.terminate();
    assert_ended(&ask(cluster, &["where"]), 1, "", "has no holder");
    assert_ended(&ask(cluster, &["step-down"]), 1, "", "has no holder");
}

fn address_of_another_term_or_of_no_leader_is_absent(cluster: &Cluster) {
    assert_ended(&ask(cluster, &["step-down"]), 1, "", "has no holder");
    create_with_note(cluster, "a", "x\n\u{1b}[2J");
    assert_ended(&ask(cluster, &["where"]), 0, "x\\n\\u{1b}[2J\n", "");
    cluster.edit(|lease| lease["spec"]["acquireTime"] = json!("2026-01-02T03:04:06.000006Z"));
    assert_ended(&ask(cluster, &["where"]), 1, "", "is held by a, which advertises no address");
    cluster.delete();
    create_with_note(cluster, "a\n", &"x".repeat(2 * 1024));
    assert_ended(&ask(cluster, &["where"]), 1, "", "is held by a\\n, which advertises no address");
    cluster.edit(|lease| lease["spec"]["holderIdentity"] = json!(""));
    assert_ended(&ask(cluster, &["where"]), 1, "", "has no holder");
}

fn accepted_request_moves_the_command_and_back(cluster: &Cluster) {
    let arena = Arena::on(cluster, LONG);
    let a = arena.work(&["--identity=a", "--accept-requests"], &["children"]);
    let first = arena.wait_for_work_after(0);
    let b = arena.work(&["--identity=b", "--accept-requests"], &[]);
    b.wait_for_error("new leader: a");
    assert_asked(&ask(cluster, &["step-down"]), "a");
    let second = arena.wait_for_work_after(first.token);
    a.wait_for_error("command ended with code 9 after it was stopped: a step-down was requested");
    assert_eq!(annotation(cluster, STEP_DOWN), None, "the acquisition removes the request");
    // The former leader is a standby again, because another candidate has led.
    assert_asked(&ask(cluster, &["step-down"]), "b");
    arena.wait_for_work_after(second.token);
    assert_eq!(cluster.holder().as_deref(), Some("a"));
    assert_eq!(b.terminate().code, Some(143));
    assert_eq!(a.terminate().code, Some(9));
    assert_eq!(arena.assert_one_at_a_time(), 3);
    arena.assert_nothing_is_left();
}

fn annotation_is_a_request(cluster: &Cluster) {
    let arena = Arena::on(cluster, LONG);
    let a = arena.work(&["--identity=a", "--accept-requests", "--on-loss=exit", "--wait=0s"], &[]);
    let first = arena.wait_for_work_after(0);
    let b = arena.standby();
    for useless in ["b", "A", "", &"a".repeat(2 * 1024)] {
        annotate(cluster, STEP_DOWN, useless);
    }
    std::thread::sleep(A_WHILE);
    assert!(!a.errors().contains("step-down was requested"), "{}", a.errors());
    annotate(cluster, STEP_DOWN, "a");
    a.wait_for_error("stopping the command (SIGKILL in 10s): a step-down was requested");
    let second = arena.wait_for_work_after(first.token);
    arena.wait_for_sigterm(&first);
    // A request is not a loss, so the former leader does not exit, and campaigns without the limit of `--wait`.
    b.terminate();
    arena.wait_for_work_after(second.token);
    assert_eq!(arena.assert_one_at_a_time(), 3);
}

fn request_without_acceptance_stops_no_command(cluster: &Cluster) {
    let arena = Arena::on(cluster, LONG);
    let a = arena.work(&["--identity=a", "--advertise", ADDRESS], &[]);
    arena.wait_for_work_after(0);
    let refuses = "is held by a, which accepts no requests; nothing is written";
    assert_ended(&ask(cluster, &["step-down"]), 3, "", refuses);
    assert_eq!(annotation(cluster, STEP_DOWN), None);
    assert!(ask(cluster, &["status"]).out.contains("requests to step down: not accepted by the holder\n"));
    annotate(cluster, STEP_DOWN, "a");
    a.wait_for_error("request to step down ignored");
    std::thread::sleep(A_WHILE);
    assert_eq!(annotation(cluster, STEP_DOWN).as_deref(), Some("a"), "renewals keep the request");
    assert_ended(&ask(cluster, &["where"]), 0, &format!("{ADDRESS}\n"), "");
    let ended = a.terminate();
    assert_eq!((ended.code, ended.errors.matches("request to step down ignored").count()), (Some(9), 1));
    assert_eq!(arena.assert_one_at_a_time(), 1);
}

fn requested_command_is_renewed_until_it_has_ended(cluster: &Cluster) {
    let arena = Arena::on(cluster, SHORT);
    // The command continues after SIGTERM for longer than two renew deadlines.
    let _first = arena.work(&["--identity=a", "--accept-requests", "--stop-timeout=14s"], &["stubborn", "sessions"]);
    let began = arena.wait_for_work_after(0);
    let _second = arena.standby();
    assert_eq!(ask(cluster, &["step-down"]).code, Some(0));
    let sigterm = arena.wait_for_sigterm(&began);
    let next = arena.wait_for_work_after(began.token);
    assert_ne!(cluster.holder().as_deref(), Some("a"), "the standby leads: {next:?}");
    assert_eq!(arena.assert_one_at_a_time(), 2);
    let worked = arena.worked_after(&sigterm);
    assert!(worked > 12.5, "the command ran for {worked} s after SIGTERM");
}

/// Starts a command that ignores SIGTERM, and requests a step-down. Returns after the command has received SIGTERM.
fn requested_command(cluster: &Cluster, arena: &Arena, stop_timeout: &str) -> Run {
    let run = arena.work(&["--identity=a", "--accept-requests", stop_timeout], &["stubborn"]);
    let began = arena.wait_for_work_after(0);
    assert_eq!(ask(cluster, &["step-down"]).code, Some(0));
    arena.wait_for_sigterm(&began);
    run
}

#[test]
fn lease_deleted_while_a_requested_command_ends_kills_it() {
    let cluster = Cluster::in_memory("deleted-while-draining");
    // The interval of the supervisor's regular checks is 7.5 s.
    let arena = Arena::on(&cluster, &["--lease-duration=60s", "--retry-period=30s"]);
    let run = requested_command(&cluster, &arena, "--stop-timeout=1h");
    let deleted = mono();
    cluster.delete();
    run.wait_for_error("killing the command: the lease could not be renewed");
    run.wait_for_error("command ended by SIGKILL after it was stopped: a step-down was requested");
    assert!(arena.last_stamp() < deleted + 3.0, "the command worked for {} s", arena.last_stamp() - deleted);
    run.terminates_with(143);
    arena.assert_nothing_is_left();
}

#[test]
fn requested_replica_is_the_leader_until_its_command_ends() {
    let cluster = Cluster::in_memory("leader-while-draining");
    let arena = Arena::on(&cluster, &[LONG, &["--http=127.0.0.1:0"]].concat());
    let run = requested_command(&cluster, &arena, "--stop-timeout=1h");
    let of_leader = address(&run);
    let (status, body) = get(&of_leader, "/leader");
    let body: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((status, &body["leader"], &body["is_leader"]), (200, &"a".into(), &true.into()));
    assert!(body["remaining_ms"].as_u64().is_some_and(|left| left > 1_000 && left < 60_000), "{body}");
    let metrics = get(&of_leader, "/metrics").1;
    assert!(metrics.contains("leader=\"a\",address=\"\"} 1\n"), "{metrics}");
    cluster.delete();
    wait_until("the command is killed", || get(&of_leader, "/leader").0 == 503);
}

#[test]
fn signal_ends_a_run_whose_command_is_asked_to_end() {
    let cluster = Cluster::in_memory("signaled-while-draining");
    let arena = Arena::on(&cluster, LONG);
    let run = requested_command(&cluster, &arena, "--stop-timeout=2s");
    run.terminates_with(137);
    assert_eq!(cluster.holder(), None, "the lease is released");
}

#[test]
fn request_is_written_once_and_repeated_after_conflicts() {
    let cluster = Cluster::in_memory("requested-by-hand");
    let server = cluster.in_memory_server().expect("it is");
    create_with_note(&cluster, "a\n\u{1b}[2J", "host:1");
    annotate(&cluster, STEP_DOWN, "other");
    let faults = [(409, "Conflict"), (503, "ServiceUnavailable")]
        .map(|(code, reason)| server.fault(Fault::status(code, reason, "made up").verb(Verb::Update).first(1)));
    assert_asked(&ask(&cluster, &["step-down"]), "a\\n\\u{1b}[2J");
    faults.iter().for_each(|fault| assert!(fault.wait_for_hits(1, SOON)));
    assert_eq!(annotation(&cluster, STEP_DOWN).as_deref(), Some("a\n\u{1b}[2J"));
    let before = cluster.lease().expect("a lease");
    assert_eq!(before["spec"]["renewTime"], "2026-01-02T03:04:05.000006Z", "the record is unchanged");
    assert_ended(&ask(&cluster, &["where"]), 0, "host:1\n", "");
    assert_eq!(ask(&cluster, &["step-down"]).code, Some(0));
    assert_eq!(cluster.lease().expect("a lease"), before, "the same request is not written again");
    // A lost answer is not an error, because the next attempt finds the request.
    cluster.edit(|lease| lease["spec"]["holderIdentity"] = json!("b"));
    server.fault(Fault::drop_after().verb(Verb::Update).first(1));
    assert_asked(&ask(&cluster, &["step-down"]), "b");
    assert_eq!(annotation(&cluster, STEP_DOWN).as_deref(), Some("b"));
}

#[test]
fn request_reports_its_effect_and_a_holder_that_is_silent() {
    let cluster = Cluster::in_memory("requested-of-the-silent");
    let acquired = MicroTime::from(SystemTime::now()).to_string();
    let create = |note: Value| {
        let mut lease = cluster.new_lease(json!({
            "holderIdentity": "a", "leaseDurationSeconds": 4, "acquireTime": acquired, "renewTime": acquired,
        }));
        let mut term = json!({ "acquireTime": acquired, "holder": "a" });
        term.as_object_mut().expect("an object").extend(note.as_object().expect("an object").clone());
        lease["metadata"]["annotations"] = json!({ NOTE: term.to_string() });
        cluster.request(Method::POST, false, Some(&lease)).expect("a lease made by hand");
    };
    // A holder that publishes nothing may be client-go.
    create(json!({}));
    let ended = ask(&cluster, &["step-down"]);
    assert_asked(&ended, "a");
    assert!(ended.out.contains("; unknown whether a accepts requests\n"), "{}", ended.out);
    cluster.delete();
    create(json!({ "acceptsRequests": true, "acceptsRequestsAfterSeconds": 3_600 }));
    let ended = ask(&cluster, &["step-down"]);
    assert_eq!(ended.code, Some(4), "{}", ended.errors);
    assert!(ended.out.contains("; the request takes effect in 59m") || ended.out.contains("in 1h"), "{}", ended.out);
    assert!(ended.errors.contains("a has not renewed") && ended.errors.contains(" for 2s, "), "{}", ended.errors);
    assert_eq!(annotation(&cluster, STEP_DOWN).as_deref(), Some("a"), "written all the same");
    let status: Value = serde_json::from_str(&ask(&cluster, &["status", "--json"]).out).expect("JSON");
    assert_eq!((&status["notes"]["accepts_requests"], &status["notes"]["step_down"]), (&true.into(), &"a".into()));
    // Without an answer of the store, the holder is not blamed.
    let server = cluster.in_memory_server().expect("it is");
    let broken = Fault::status(500, "InternalError", "made up").verb(Verb::Get).user("candidate").skip(1);
    let broken = server.fault(broken);
    let ended = ask(&cluster, &["step-down"]);
    assert_eq!(ended.code, Some(125), "{}", ended.errors);
    assert!(ended.errors.contains("the request is written, but then the store failed: "), "{}", ended.errors);
    broken.remove();
    // A renewal during the wait shows that the holder is alive.
    cluster.edit(|lease| lease["spec"]["leaseDurationSeconds"] = json!(60));
    let run = start_in(&cluster, &["step-down", "--lease", &cluster.lease]);
    run.wait_for_out("asked a");
    cluster.edit(|lease| lease["spec"]["renewTime"] = json!(MicroTime::from(SystemTime::now()).to_string()));
    assert_asked(&run.end(), "a");
    // The owner of a shard does not read the shard's notes.
    cluster.edit(|lease| {
        lease["spec"]["leaseDurationSeconds"] = json!(i32::MAX);
        drop(lease["metadata"]["annotations"].as_object_mut().expect("notes").remove(STEP_DOWN));
    });
    assert_ended(&ask(&cluster, &["step-down"]), 125, "", "is a shard");
    assert_eq!(annotation(&cluster, STEP_DOWN), None);
}

#[test]
fn request_is_written_although_stdout_is_closed_or_full() {
    let cluster = Cluster::in_memory("requested-without-stdout");
    create_with_note(&cluster, "a", "host:1");
    let kubeconfig = cluster.kubeconfig("candidate");
    let run = |command: &str, stdout: Stdio| {
        let mut leasehold = leasehold();
        leasehold.args([command, &cluster.lease, "--namespace", NAMESPACE, "--kubeconfig"]).arg(&kubeconfig);
        let output = leasehold.stdin(Stdio::null()).stdout(stdout).output().expect("it ends");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let closed = || Stdio::from(std::io::pipe().expect("a pipe").1);
    let full = || Stdio::from(std::fs::File::options().write(true).open("/dev/full").expect("a device"));
    for command in ["status", "where"] {
        assert_eq!(run(command, closed()), (Some(0), String::new()), "{command}: the reader needs no more");
        let (code, errors) = run(command, full());
        assert!(code == Some(125) && errors.contains("cannot write to stdout"), "{command}: {errors}");
    }
    for stdout in [closed(), full()] {
        cluster.edit(|lease| drop(lease["metadata"]["annotations"].as_object_mut().expect("notes").remove(STEP_DOWN)));
        let (code, errors) = run("step-down", stdout);
        assert_eq!(code, Some(0), "{errors}");
        assert!(errors.contains("asked a to step down from ") && errors.contains("cannot write to stdout"), "{errors}");
        assert_eq!(annotation(&cluster, STEP_DOWN).as_deref(), Some("a"));
    }
}

#[test]
fn holder_after_an_unanswered_request_is_not_asked() {
    let cluster = Cluster::in_memory("requested-without-answer");
    let server = cluster.in_memory_server().expect("it is");
    create_with_note(&cluster, "a", "host:1");
    server.fault(Fault::drop_after().verb(Verb::Update).user("candidate").first(1));
    // The second read waits until another candidate leads.
    let read = server.fault(Fault::hang().verb(Verb::Get).user("candidate").skip(1).first(1));
    let run = start_in(&cluster, &["step-down", "--lease", &cluster.lease]);
    assert!(read.wait_for_hits(1, SOON));
    assert_eq!(annotation(&cluster, STEP_DOWN).as_deref(), Some("a"));
    cluster.edit(|lease| {
        lease["spec"]["holderIdentity"] = json!("b");
        drop(lease["metadata"]["annotations"].as_object_mut().expect("notes").remove(STEP_DOWN));
    });
    read.release();
    assert_asked(&run.end(), "a");
    assert_eq!(annotation(&cluster, STEP_DOWN), None, "b is not asked");
}

#[test]
fn failing_store_is_error_125_within_the_timeout() {
    let cluster = Cluster::in_memory("asked-in-vain");
    let server = cluster.in_memory_server().expect("it is");
    create_with_note(&cluster, "a", "host:1");
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = format!("etcd://{}", silent.local_addr().expect("an address"));
    for command in ["where", "step-down"] {
        for store in ["etcd://127.0.0.1:1", &silent] {
            let began = Instant::now();
            let ended = start(&[command, "--lease=jobs", "--store", store, "--timeout=1s"]).end();
            assert_ended(&ended, 125, "", "cannot get etcd key leasehold/jobs");
            assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        }
        let nobody = cluster.kubeconfig("nobody").display().to_string();
        let place = ["--kubeconfig", &nobody, "--namespace", NAMESPACE];
        let ended = start(&[&[command, "--lease", &cluster.lease], &place[..]].concat()).end();
        assert_ended(&ended, 125, "", "grant the verb `get`");
        assert_eq!(ended.errors.lines().count(), 1, "{}", ended.errors);
        assert_ended(&start_in(&cluster, &[command, "--lease=Jobs"]).end(), 125, "", "invalid lease name \"Jobs\"");
        let down = server.fault(Fault::status(503, "ServiceUnavailable", "made up"));
        assert_ended(&ask(&cluster, &[command, "--timeout=500ms"]), 125, "", "503 ServiceUnavailable (made up)");
        down.remove();
    }
    server.fault(Fault::status(403, "Forbidden", "made up").verb(Verb::Update));
    assert_ended(&ask(&cluster, &["step-down"]), 125, "", "made up");
}

/// The server asks once for a pause of an hour.
#[test]
fn requested_pause_is_limited_or_ends_the_command_at_once() {
    for (timeout, code) in [("10s", 125), ("60s", 0)] {
        std::thread::scope(|scope| {
            for command in ["where", "step-down", "wait"] {
                scope.spawn(move || {
                    let cluster = Cluster::in_memory(&format!("pause-{command}-{timeout}"));
                    create_with_note(&cluster, "a", "host:1");
                    let server = cluster.in_memory_server().expect("it is");
                    server.fault(Fault::status(503, "ServiceUnavailable", "made up").retry_after(3_600).first(1));
                    let began = Instant::now();
                    let run = start_in(&cluster, &[command, "--timeout", timeout, "--lease", &cluster.lease]);
                    if command == "wait" && code == 0 {
                        run.wait_for_error("following ");
                        cluster.edit(|lease| lease["spec"]["renewTime"] = json!("2026-01-02T03:04:06.000006Z"));
                    }
                    let ended = run.end();
                    let took = began.elapsed();
                    assert_eq!(ended.code, Some(code), "{command} {timeout}: {}", ended.errors);
                    assert_eq!(took >= Duration::from_secs(15), code == 0, "{command} {timeout}: {took:?}");
                    assert!(ended.errors.contains("made up") == (code == 125 || command == "wait"), "{}", ended.errors);
                });
            }
        });
    }
}

#[test]
fn invalid_flags_are_error_125() {
    let arena = Arena::on_a_file(LONG);
    let url = format!("sqlite://{}", arena.path("election.db").display());
    for (flags, says) in
        [(&["--advertise=a\nb"][..], "--advertise is \"a\\nb\""), (&["--advertise="], "--advertise is \"\"")]
    {
        assert_ended(&arena.run(&[flags, &["--", "true"]].concat()).end(), 125, "", says);
    }
    let cluster = Cluster::in_memory("two-objects");
    let admin = cluster.kubeconfig("admin").display().to_string();
    let place = ["--lease=x", "--lock-type=configmapsleases", "--kubeconfig", &admin, "--namespace", NAMESPACE];
    let ended = start(&[&["run", "--accept-requests"], &place[..], &["--", "true"]].concat()).end();
    assert_ended(&ended, 125, "", "must be false with two objects");
    assert_eq!(arena.run(&["--identity=a", "--", "true"]).end().code, Some(0));
    for (flags, code, says) in [
        (&["step-down", "--lease=jobs"][..], 1, "jobs"),
        (&["where", "jobs"], 1, "jobs"),
        (&["wait"], 125, "<LEASE>"),
        (&["wait", "jobs", "--lease=jobs"], 125, "cannot be used with"),
        (&["observe", "jobs", "--lease=jobs"], 125, "cannot be used with"),
        (&["step-down"], 125, "<LEASE>"),
        (&["step-down", "jobs", "--lease=jobs"], 125, "cannot be used with"),
        (&["where", "--lease=jobs", "--timeout=0s"], 125, "give a duration above zero"),
        (&["step-down", "--lease=jobs", "--lock-type=leases"], 125, "cannot be used with"),
    ] {
        let ended = start(&[flags, &["--store", &url]].concat()).end();
        assert!(ended.errors.contains(says), "{flags:?}: {}", ended.errors);
        assert_eq!((ended.code, &*ended.out), (Some(code), ""), "{flags:?}");
    }
    let ended = start(&["step-down", "--lease=jobs", "--lock-type=endpointsleases"]).end();
    assert_ended(&ended, 125, "", "leases, configmaps and endpoints");
}

#[test]
fn config_maps_have_addresses_and_requests() {
    let cluster = Cluster::in_memory("config-maps");
    let admin = cluster.kubeconfig("admin").display().to_string();
    let place = ["--lease=jobs", "--lock-type=configmaps", "--kubeconfig", &admin, "--namespace", NAMESPACE];
    let flags = ["run", "--identity=a", "--accept-requests", "--advertise", ADDRESS];
    let leader = start(&[&flags[..], LONG, &place, &["--", "sh", "-c", "echo works; exec sleep 1000"]].concat());
    leader.wait_for_out("works");
    assert_ended(&start(&[&["where"], &place[..]].concat()).end(), 0, &format!("{ADDRESS}\n"), "");
    assert_asked(&start(&[&["step-down"], &place[..]].concat()).end(), "a");
    leader.wait_for_error("command ended by SIGTERM after it was stopped: a step-down was requested");
    assert_ended(&start(&[&["where"], &place[..]].concat()).end(), 1, "", "has no holder");
}

#[test]
fn etcd_has_addresses_and_requests() {
    let Some(etcd) = Etcd::shared() else { return };
    let url = format!("etcd://{}/command-leader", etcd.urls().remove(0).replace("http://", ""));
    let ask = |flags: &[&str]| start(&[flags, &["--lease=jobs", "--store", &url]].concat());
    assert_ended(&ask(&["where"]).end(), 1, "", "has no holder");
    assert_ended(&ask(&["step-down"]).end(), 1, "", "has no holder");
    let run = |identity: &str| {
        let identity = format!("--identity={identity}");
        let flags = ["run", &identity, "--accept-requests", "--advertise", ADDRESS, "--store", &url, "--lease=jobs"];
        start(&[&flags[..], LONG, &["--", "sh", "-c", "echo works; exec sleep 1000"]].concat())
    };
    let a = run("a");
    a.wait_for_out("works");
    assert_ended(&ask(&["where"]).end(), 0, &format!("{ADDRESS}\n"), "");
    let b = run("b");
    b.wait_for_error("new leader: a");
    assert_asked(&ask(&["step-down"]).end(), "a");
    b.wait_for_out("works");
    let value = wait_for("the record", || etcd.value("command-leader/jobs"));
    assert!(value.contains("\"holderIdentity\":\"b\"") && !value.contains("stepDown"), "{value}");
    assert_eq!(b.terminate().code, Some(143));
    wait_until("it leads again", || a.out().matches("works").count() == 2);
    assert_eq!(a.terminate().code, Some(143));
}
