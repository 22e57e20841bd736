//! Tests of `where`, `step-down` and the flags for addresses and requests.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::support::cluster::{Cluster, NAMESPACE};
use crate::support::command::{Arena, leasehold};
use crate::support::etcd::Etcd;
use crate::support::run::Run;
use crate::support::{wait_for, wait_until};

const TIMES: &[&str] = &["--lease-duration=4s", "--renew-deadline=3s", "--retry-period=250ms"];

/// Runs a command of the operator. Returns its exit code, its output and its messages.
fn ask(place: &[&str], arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = leasehold();
    let ended = Run::of(command.args(arguments).args(place).stdin(Stdio::null())).end();
    (ended.code, ended.out, ended.errors)
}

/// Returns the flags that select the cluster.
fn flags_of(cluster: &Cluster) -> [String; 3] {
    let kubeconfig = format!("--kubeconfig={}", cluster.kubeconfig("admin").display());
    [kubeconfig, format!("--namespace={NAMESPACE}"), format!("--lease={}", cluster.lease)]
}

fn obeys_a_request(place: &[&str], run: impl Fn(&[&str]) -> Run, holder: impl Fn() -> Option<String>) {
    let (code, out, errors) = ask(place, &["where"]);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{errors}");
    assert!(errors.contains("has no leader"), "{errors}");
    let (code, _, errors) = ask(place, &["step-down"]);
    assert!(code == Some(1) && errors.contains("has no leader"), "{code:?}: {errors}");

    let script = "trap 'echo stopped; exit 0' TERM; echo works; while :; do sleep 0.05; done";
    let candidate = |id: &str| {
        let (identity, address) = (format!("--identity={id}"), format!("--advertise={id}:9000"));
        run(&[&identity, &address, "--accept-requests", "--", "sh", "-c", script])
    };
    let first = candidate("a");
    first.wait_for_out("works");
    assert_eq!(ask(place, &["where"]), (Some(0), "a:9000\n".to_owned(), String::new()));
    let second = candidate("b");
    wait_until("the second candidate waits", || second.errors().contains("standby: a holds the lease"));
    let (code, out, errors) = ask(place, &["step-down"]);
    assert!(code == Some(0) && out.starts_with("requested a step-down of a from "), "{out}{errors}");
    first.wait_for_out("stopped");
    second.wait_for_out("works");
    assert_eq!(holder().as_deref(), Some("b"));
    assert_eq!(ask(place, &["where"]).1, "b:9000\n");
    // The former leader campaigns again.
    wait_until("the first candidate waits", || first.errors().contains("standby: b holds the lease"));
    second.terminates_with(0);
    wait_until("another term", || first.out().matches("works").count() == 2);
    assert_eq!(holder().as_deref(), Some("a"));
    first.terminates_with(0);
    assert_eq!(ask(place, &["where"]).0, Some(1));
}

#[test]
fn leader_obeys_a_request_on_a_real_cluster() {
    let Some(cluster) = Cluster::real("leader_obeys_a_request") else { return };
    let flags = flags_of(&cluster);
    let arena = Arena::on(&cluster, TIMES);
    obeys_a_request(&flags.each_ref().map(String::as_str), |flags| arena.run(flags), || cluster.holder());
    arena.assert_nothing_is_left();
}

#[test]
fn leader_obeys_a_request_in_etcd() {
    let Some(etcd) = Etcd::shared() else { return };
    let url = format!("{}/command_notes/", etcd.members[0].url().replace("http", "etcd"));
    let run = |flags: &[&str]| {
        let mut command = leasehold();
        command.args(["run", "--lease=jobs", "--store", &url]).args(TIMES).args(flags);
        Run::of(command.stdin(Stdio::null()))
    };
    let place = ["--lease=jobs", "--store", &url];
    let holder = || {
        let value: Value = serde_json::from_str(&etcd.value("command_notes/jobs")?).expect("JSON");
        value["holderIdentity"].as_str().map(str::to_owned).filter(|it| !it.is_empty())
    };
    obeys_a_request(&place, run, holder);
}

#[test]
fn annotation_without_acceptance_leaves_the_command_alone() {
    let cluster = Cluster::in_memory("annotation_without_acceptance");
    let arena = Arena::on(&cluster, TIMES);
    let run = arena.run(&["--identity=a", "--", "sh", "-c", "echo works; exec sleep 60"]);
    run.wait_for_out("works");
    let flags = flags_of(&cluster);
    let place = flags.each_ref().map(String::as_str);
    let (code, out, errors) = ask(&place, &["where"]);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{errors}");
    assert!(errors.contains("advertises no address"), "{errors}");
    assert_eq!(ask(&place, &["step-down"]).0, Some(0));
    assert_eq!(ask(&place, &["step-down"]).0, Some(0), "the same request again");
    wait_until("a log line", || run.errors().contains("request to step down ignored"));
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(cluster.holder().as_deref(), Some("a"));
    let forged = |address: String| {
        cluster.edit(|lease| {
            let note = serde_json::json!({ "acquireTime": lease["spec"]["acquireTime"], "address": address });
            lease["metadata"]["annotations"]["leasehold.dev/note"] = note.to_string().into();
        });
        ask(&place, &["where"])
    };
    // A renewal without an address removes the note.
    let shown = wait_for("the address", || Some(forged("host\u{1b}[2J\n:1".to_owned())).filter(|it| it.0 == Some(0)));
    assert_eq!(shown.1, "host\\u{1b}[2J\\n:1\n");
    assert_eq!(forged("x".repeat(2_048)).0, Some(1));
    run.terminates_with(143);
}

#[test]
fn observers_show_the_address_and_accept_the_flag() {
    let cluster = Cluster::in_memory("observers_show_the_address");
    let arena = Arena::on(&cluster, TIMES);
    let run = arena.run(&["--identity=a", "--advertise=host:1", "--", "sh", "-c", "echo works; exec sleep 60"]);
    run.wait_for_out("works");
    let flags = flags_of(&cluster);
    let place = flags.each_ref().map(String::as_str);
    assert_eq!(ask(&place, &["wait"]), (Some(0), "a\n".to_owned(), String::new()));
    let observe = |more: &[&str]| {
        let mut command = leasehold();
        Run::of(command.arg("observe").args(place).args(more).stdin(Stdio::null()))
    };
    observe(&[]).wait_for_out("a leads at host:1");
    observe(&["--json"]).wait_for_out("\"address\":\"host:1\"");
    run.terminates_with(143);
}

#[test]
fn errors_of_where_and_step_down_have_code_125() {
    let arena = Arena::on_a_file(&[]);
    let url = format!("sqlite://{}", arena.path("election.db").display());
    drop(leasehold::SqliteStore::open(arena.path("election.db")).expect("a store"));
    for (arguments, says) in [
        (&["step-down", "--lease=jobs", "--store", &url][..], "need a cluster or etcd"),
        (&["where", "--lease=", "--store", &url], "invalid lease name"),
        (&["where", "--lease=jobs", "--store=etcd://127.0.0.1:1", "--timeout=1s"], "127.0.0.1 port 1"),
        (&["step-down", "--lease=jobs", "--store=etcd://127.0.0.1:1", "--timeout=1s"], "127.0.0.1 port 1"),
        (&["where"], "--lease"),
        (&["where", "--lease=jobs", "--timeout=0s"], "above zero"),
    ] {
        let (code, out, errors) = ask(&[], arguments);
        assert!(code == Some(125) && out.is_empty() && errors.contains(says), "{arguments:?}: {code:?}: {errors}");
    }
    let (code, _, errors) = ask(&[], &["where", "--lease=jobs", "--store", &url]);
    assert!(code == Some(1) && errors.contains("has no leader"), "{errors}");
    let refused = arena.run(&["--advertise=host:1", "--", "true"]).end();
    assert!(refused.code == Some(125) && refused.errors.contains("--advertise"), "{}", refused.errors);
}
