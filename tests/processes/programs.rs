//! Tests of the examples that are programs in Rust, C and Python, on both servers.
//!
//! Several processes of one program run, and are ended or hang.

use std::path::PathBuf;
use std::process::Command;

use crate::examples::get;
use crate::on_both_servers;
use crate::support::cluster::Cluster;
use crate::support::cluster::client;
use crate::support::process::{cargo, example};
use crate::support::run::Run;
use crate::support::{skip, wait_until};

on_both_servers! {
    job_runners_hand_over_on_sigterm,
    a_leader_whose_work_hangs_ends_and_another_leads,
    programs_in_c_and_python_lead_and_release,
}

fn start(mut command: Command, cluster: &Cluster) -> Run {
    Run::of(command.env("KUBECONFIG", cluster.kubeconfig("admin")))
}

fn program(name: &'static str, arguments: &[&str], cluster: &Cluster) -> Run {
    let mut command = example(name);
    command.args(arguments);
    start(command, cluster)
}

/// Returns the rest of the line after `text`.
pub fn after(program: &Run, text: &str) -> String {
    program.wait_for_out(text);
    let printed = program.out();
    printed.split_once(text).and_then(|(_, rest)| rest.lines().next()).expect("it was there").to_owned()
}

fn job_runners_hand_over_on_sigterm(cluster: &Cluster) {
    let runners = ["", ""].map(|_| program("job_runner", &["127.0.0.1:0"], cluster));
    let addresses = runners.each_ref().map(|runner| after(runner, "metrics at http://"));
    let leads = |at: usize| {
        get(&addresses[at], "/metrics")
            .1
            .lines()
            .any(|line| line.starts_with("leader_election_master_status{") && line.ends_with(" 1"))
    };
    wait_until("one of them leads", || leads(0) || leads(1));
    let first = usize::from(leads(1));
    let other = 1 - first;
    assert!(!leads(other));
    for address in &addresses {
        wait_until("it is ready", || get(address, "/readyz").0 == 200);
        assert_eq!(get(address, "/healthz").0, 200);
    }
    wait_until("a job is done", || {
        let metrics = get(&addresses[first], "/metrics").1;
        metrics.lines().any(|line| line.starts_with("job_runs_total{job=\"rollup\"}") && !line.ends_with(" 0"))
    });
    assert!(get(&addresses[other], "/metrics").1.contains("job_runs_total{job=\"rollup\"} 0"));
    let [one, two] = runners;
    let (former, standby) = if first == 0 { (one, two) } else { (two, one) };
    assert!(former.terminates_with(0).out.contains("ended\n"));
    // The lease lasts fifteen seconds, but the standby learns of the release at once.
    wait_until("the other leads", || leads(other));
    standby.terminates_with(0);
}

fn a_leader_whose_work_hangs_ends_and_another_leads(cluster: &Cluster) {
    let hanging = program("watchdog", &["0"], cluster);
    hanging.wait_for_out("leads, with token ");
    let standby = program("watchdog", &[], cluster);
    standby.wait_for_error(": standby: ");
    assert!(hanging.ends_with(1).errors.contains("the work is stalled: progress is"));
    standby.wait_for_out("leads, with token ");
    standby.terminates_with(0);
}

fn programs_in_c_and_python_lead_and_release(cluster: &Cluster) {
    let Some(library) = library() else { return };
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let program = scratch.path().join("main");
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples/ffi");
    let mut compile = Command::new("cc");
    compile.args(["-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(directory.join("main.c")).arg(&library);
    assert!(compile.status().expect("a C compiler").success());
    let mut in_python = Command::new("python3");
    in_python.arg(directory.join("main.py")).arg(&library);
    let mut tokens = Vec::new();
    for command in [Command::new(program), in_python] {
        let mut program = start(command, cluster);
        assert!(program.status().success(), "{}", program.errors());
        assert!(program.out().contains("released\n"));
        tokens.push(after(&program, "leads, with token ").parse::<u64>().expect("a number"));
    }
    assert!(tokens[0] > 0 && tokens[1] > tokens[0]);
}

/// Builds the library for C, and returns its path.
///
/// Returns `None`, and reports the reason, if `cc` or `python3` is missing.
fn library() -> Option<PathBuf> {
    for program in ["cc", "python3"] {
        if Command::new(program).arg("--version").output().is_err() {
            skip(&format!("there is no {program}"), "programs in C and Python", "`tests/run --all` installs it");
            return None;
        }
    }
    let mut build = cargo();
    build.args(["build", "--locked", "--quiet", "-p", "leasehold-ffi"]);
    assert!(build.status().expect("cargo").success());
    let programs = std::env::current_exe().expect("a path");
    Some(programs.ancestors().nth(2).expect("the profile's directory").join("libleasehold.so"))
}

#[test]
fn api_server_prints_a_kubeconfig_and_ends_on_sigterm() {
    let server = Run::of(&mut example("api_server"));
    server.wait_for_out("current-context");
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let path = scratch.path().join("kubeconfig");
    std::fs::write(&path, server.out()).expect("a file");
    let elector = leasehold::LeaderElector::builder("jobs").start_with_client(client(path)).expect("an elector");
    assert!(elector.try_acquire().expect("an answer").is_some());
    server.terminates_with(0);
}
