//! Tests of `leasehold run --once-per`: jobs that succeed once per period.

use std::fs;
use std::path::Path;

use leasehold_testing::{Fault, Verb};
use rustix::process::{Signal, kill_process};

use crate::support::cluster::Cluster;
use crate::support::command::{Arena, LONG, SHORT, leasehold};
use crate::support::run::{Ended, Run};

/// Starts one host, whose job is a shell script.
fn host(arena: &Arena, identity: &str, flags: &[&str], script: &str) -> Run {
    let identity = format!("--identity={identity}");
    arena.run(&[&[&*identity, "--once-per=1h"], flags, &["--", "sh", "-c", script]].concat())
}

fn assert_ended(ended: &Ended, code: i32, says: &str) {
    assert!(ended.code == Some(code) && ended.errors.contains(says), "{says}: {:?}: {}", ended.code, ended.errors);
}

/// Returns the lines that jobs have written.
fn lines(path: &Path) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().count()
}

fn job_runs_on_one_of_five_hosts(arena: &Arena) {
    let ran = arena.path("ran");
    let script = format!("echo ran >> {}; sleep 0.5", ran.display());
    let hosts: Vec<_> =
        (0..5).map(|host_number| host(arena, &host_number.to_string(), &["--quiet"], &script)).collect();
    for ended in hosts.into_iter().map(Run::end) {
        assert_eq!((ended.code, ended.errors.as_str()), (Some(0), ""), "a host with nothing to do prints nothing");
    }
    assert_eq!(lines(&ran), 1);
    let late = host(arena, "late", &[], &script).end();
    assert_ended(&late, 0, "the job has succeeded in this period: on ");
    assert_eq!(lines(&ran), 1);
    let forced = host(arena, "forced", &["--force"], &script).end();
    assert_eq!((forced.code, lines(&ran)), (Some(0), 2), "{}", forced.errors);
    arena.assert_nothing_is_left();
}

fn on_one_of_five_hosts_in_a_cluster(cluster: &Cluster) {
    job_runs_on_one_of_five_hosts(&Arena::on(cluster, SHORT));
}

crate::on_both_servers!(on_one_of_five_hosts_in_a_cluster);

#[test]
fn on_one_of_five_hosts_with_a_file() {
    job_runs_on_one_of_five_hosts(&Arena::on_a_file(SHORT));
}

#[test]
fn job_of_a_killed_host_runs_on_another() {
    let arena = Arena::on_a_file(SHORT);
    let first = host(&arena, "a", &[], "echo works; exec sleep 1000");
    first.wait_for_out("works");
    let second = host(&arena, "b", &[], "echo done");
    kill_process(first.guardian(), Signal::KILL).expect("a guardian");
    first.signal(Signal::KILL);
    let second = second.end();
    assert_eq!((second.code, second.out.as_str()), (Some(0), "done\n"), "{}", second.errors);
    let status = status(&arena, &[]);
    assert!(status.contains(" on b, took ") && status.contains("next run: not before "), "{status}");
    drop(first);
}

fn status(arena: &Arena, flags: &[&str]) -> String {
    let store = format!("--store=sqlite://{}", arena.path("election.db").display());
    let ended = Run::of(leasehold().args(["status", "jobs", &store]).args(flags)).end();
    assert!(matches!(ended.code, Some(0 | 1)), "{}", ended.errors);
    ended.out
}

#[test]
fn failed_job_runs_again_until_its_attempts_are_used() {
    let arena = Arena::on_a_file(SHORT);
    let ran = arena.path("ran");
    let script = format!("echo ran >> {}; exit 3", ran.display());
    let hosts = ["a", "b"].map(|identity| host(&arena, identity, &["--attempts=2"], &script));
    for ended in hosts.map(Run::end) {
        assert_ended(&ended, 3, "all attempts of this period have failed (2 since ");
    }
    assert_eq!(lines(&ran), 2);
    assert!(status(&arena, &[]).contains("attempt 2 of the period, exit code 3; the period ends at "));
    // Two more attempts in the same period.
    let more = host(&arena, "c", &["--attempts=4"], "exit 0").end();
    assert_ended(&more, 0, "");
    let metrics = status(&arena, &["--prometheus"]);
    for line in ["leasehold_job_attempts{lease=\"jobs\"} 3", "leasehold_job_period_seconds{lease=\"jobs\"} 3600"] {
        assert!(metrics.lines().any(|it| it == line), "{line} in {metrics}");
    }
}

#[test]
fn stopped_job_is_no_success() {
    let arena = Arena::on_a_file(SHORT);
    let stopped = host(&arena, "a", &[], "trap 'exit 0' TERM; echo works; sleep 1000 & wait");
    stopped.wait_for_out("works");
    assert_eq!(stopped.terminate().code, Some(143), "0 means that the job has succeeded");
    let next = host(&arena, "b", &[], "echo done").end();
    assert_eq!((next.code, next.out.as_str()), (Some(0), "done\n"), "{}", next.errors);
}

#[test]
fn host_that_waits_for_a_running_job_gives_up_with_75() {
    let arena = Arena::on_a_file(LONG);
    let running = host(&arena, "a", &[], "echo works; exec sleep 1000");
    running.wait_for_out("works");
    for wait in ["--wait=1s", "--wait=0s"] {
        let ended = host(&arena, "b", &[wait], "echo done").end();
        assert_ended(&ended, 75, "held by a");
        assert!(ended.errors.contains("--wait must exceed the lease duration"), "{}", ended.errors);
    }
    running.terminate();
}

/// The job has done its work, but no write of its success is answered.
#[test]
fn success_that_is_not_recorded_is_error_125() {
    let cluster = Cluster::in_memory("success_that_is_not_recorded_is_error_125");
    let arena = Arena::on(&cluster, SHORT);
    let done = arena.path("done");
    let script = format!("echo works; until [ -e {} ]; do sleep 0.05; done", done.display());
    let run = host(&arena, "a", &[], &script);
    run.wait_for_out("works");
    let fault = cluster.in_memory_server().expect("in memory").fault(Fault::drop_before().verb(Verb::Update));
    fs::write(&done, "").expect("written");
    let ended = run.end();
    assert_ended(&ended, 125, "the job may run again");
    fault.remove();
    let again = host(&arena, "b", &[], "echo again").end();
    assert_eq!((again.code, again.out.as_str()), (Some(0), "again\n"), "{}", again.errors);
}

#[test]
fn other_period_and_other_objects_are_refused() {
    let arena = Arena::on_a_file(SHORT);
    assert_eq!(host(&arena, "a", &[], "exit 0").end().code, Some(0));
    let other = arena.run(&["--once-per=2h", "--", "true"]).end();
    assert_ended(&other, 125, "--once-per is 2h: must be 1h, the period in the record; a run with --force");
    let forced = arena.run(&["--once-per=2h", "--force", "--", "true"]).end();
    assert_eq!(forced.code, Some(0), "{}", forced.errors);
    for flags in [
        &["--once-per=1h", "--restart", "--", "true"][..],
        &["--once-per=1h", "--on-loss=exit", "--", "true"],
        &["--once-per=0s", "--", "true"],
        &["--once-per=1500ms", "--", "true"],
        &["--once-per=1h", "--attempts=0", "--", "true"],
        &["--force", "--", "true"],
    ] {
        let ended = arena.run(flags).end();
        assert_eq!(ended.code, Some(125), "{flags:?}: {}", ended.errors);
    }
    let objects = ["run", "--lease=jobs", "--lock-type=configmaps", "--once-per=1h", "--", "true"];
    let ended = Run::of(leasehold().args(objects)).end();
    assert_ended(&ended, 125, "--once-per needs --lock-type leases");
}

#[test]
fn missing_command_uses_no_attempt() {
    let arena = Arena::on_a_file(SHORT);
    let missing = arena.run(&["--once-per=1h", "--", "no-such-program"]).end();
    assert_eq!(missing.code, Some(127), "{}", missing.errors);
    let run = host(&arena, "a", &[], "exit 0").end();
    assert_eq!(run.code, Some(0), "{}", run.errors);
    assert!(status(&arena, &["--prometheus"]).contains("leasehold_job_attempts{lease=\"jobs\"} 1\n"));
}

/// Edits the history in the database, like an operator.
fn edit(arena: &Arena, job: &str) {
    let database = rusqlite::Connection::open(arena.path("election.db")).expect("a database");
    let notes = format!(r#"{{"job":{job}}}"#);
    database.execute("UPDATE leasehold SET writes = writes + 1, notes = ?1", [notes]).expect("an update");
}

#[test]
fn history_without_a_success_never_exits_with_0() {
    let arena = Arena::on_a_file(SHORT);
    assert_eq!(host(&arena, "a", &[], "exit 0").end().code, Some(0));
    let start = humantime::format_rfc3339_micros(std::time::SystemTime::now());
    edit(
        &arena,
        &format!(r#"{{"periodSeconds":0,"firstAttemptStart":"{start}","attempts":3,"lastAttemptExitCode":0}}"#),
    );
    assert_ended(&host(&arena, "b", &[], "exit 0").end(), 125, "all attempts of this period have failed");
}

#[test]
fn forced_run_that_is_stopped_names_the_reason() {
    let arena = Arena::on_a_file(SHORT);
    let run = host(&arena, "a", &["--force", "--accept-requests"], "echo works; exec sleep 1000");
    run.wait_for_out("works");
    let store = format!("--store=sqlite://{}", arena.path("election.db").display());
    assert_eq!(Run::of(leasehold().args(["step-down", "jobs", &store])).end().code, Some(0));
    assert_ended(&run.end(), 143, "forced run was stopped: a step-down was requested");
}
