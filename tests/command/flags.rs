//! Tests of the flags of `leasehold run`: the store, the waiting time and the log.

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use std::{fs, thread};

use leasehold_testing::{Fault, FaultHandle, Verb};
use serde_json::json;

use crate::support::cluster::Cluster;
use crate::support::command::{Arena, LONG, address, get, leasehold};
use crate::support::postgres::Postgres;
use crate::support::proxy::{Faults, Proxy};
use crate::support::run::{Ended, Run};
use crate::support::sql::SqlServer;
use crate::support::{SOON, wait_for, wait_until};

fn run(arguments: &[&str], store: Option<&str>) -> Run {
    let mut command = leasehold();
    command.arg("run").args(arguments).stdin(Stdio::null());
    if let Some(url) = store {
        command.env("LEASEHOLD_STORE", url);
    }
    Run::of(&mut command)
}

fn assert_refused(ended: &Ended, says: &str) {
    assert!(ended.code == Some(125) && ended.errors.contains(says), "{says}: {:?}: {}", ended.code, ended.errors);
    assert_eq!(ended.out, "");
}

#[test]
fn invalid_flags_are_one_line_and_exit_code_125() {
    let arena = Arena::on_a_file(&[]);
    for (flags, says) in [
        (&["--loss-grace=5s", "--", "true"][..], "decrease either flag, or increase --renew-deadline"),
        (&["--lease-duration=15s", "--renew-deadline=20s", "--", "true"], "--renew-deadline is 20s"),
        (&["--lease-duration=15s", "--renew-deadline=14.5s", "--", "true"], "--no-client-go-peers"),
        (&["--identity=a\nb", "--", "true"], "--identity is \"a\\nb\""),
        (&["--probe=", "--", "true"], "--probe \"\": give a program"),
        (&["--probe=nothing-like-that", "--", "true"], "--probe nothing-like-that: command not found"),
        (&["--http=256.0.0.1:80", "--", "true"], "--http"),
        (&["--http=8080", "--", "true"], ":8080 for all addresses"),
        (&["--progress=x", "--progress-timeout=0s", "--", "true"], "give a duration above zero"),
        (&["--store=oracle://x", "--", "true"], "unknown store oracle://"),
        (&["--store=etcd://a?cacert=/x", "--", "true"], "etcds://"),
        (&["--password-file=/x", "--", "true"], "sqlite:// has no password"),
        (&["--password-command='", "--", "true"], "--password-command: give a program"),
        (&["--password-file=/x", "--password-command=x", "--", "true"], "cannot be used with"),
        (&["--store=etcd://a", "--password-file=/x", "--", "true"], "needs a user"),
        (&["--store=etcd://a:sesame@127.0.0.1", "--password-file=/x", "--", "true"], "password is given twice"),
        (&["--store=mysql://a:sesame@b/c", "--password-command=x", "--", "true"], "password is given twice"),
        (&["--store=postgres://a:sesame@b/c", "--password-file=x", "--", "true"], "password is given twice"),
        (&["--store=postgres://a@127.0.0.1:1/c", "--password-file=/there/is/none", "--", "true"], "/there/is/none"),
    ] {
        assert_refused(&arena.run(flags).end(), says);
    }
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let store = format!("--store=sqlite://{}", scratch.path().join("election.db").display());
    for (flags, says) in [
        (&["run", "--lease=jobs"][..], "<COMMAND>"),
        (&["run", "true"], "--lease <NAME>"),
        (&["run", "--group=jobs", "--lease=jobs", "--", "true"], "cannot be used with"),
        (&["run", "--group=jobs", "--http=:0", "--", "true"], "cannot be used with"),
        (&["run", "--lease=jobs", "--shards=3", "--", "true"], "cannot be used with"),
        (&["run", "--group=jobs", "--shards=0", &store, "--", "true"], "--shards is 0"),
        (&["run", "--group=jobs", "--max-members=65", &store, "--", "true"], "--max-members is 65"),
        (&["elect", "--http=:0"], "--lease <NAME>"),
        (&["elect", "--lease=jobs"], "--http <ADDRESS>"),
        (&["elect", "--lease=jobs", "--http=:0", &store, "--identity="], "--identity is"),
        (
            &["elect", "--lease=jobs", "--http=:0", &store, "--done-token-file=/there/is/none"],
            "--done-token-file /there",
        ),
        (&["observe", "--group=jobs", "jobs"], "cannot be used with"),
        (&["walk"], "walk"),
        // A misspelled flag must not be run as a program.
        (&["run", "--lease=jobs", "--stop-timeuot=1s", "true"], "'--stop-timeuot'"),
        // Flags after the program belong to the command, so `--` is required.
        (&["run", "--lease=jobs", "sleep", "1", "--store=sqlite://x"], "-- <COMMAND>..."),
        (&["run", "--lease=jobs", "--kubeconfig=/there/is/none", "--", "true"], "/there/is/none"),
        (&["run", "--lease=jobs", "--", "true"], "or use another store, such as --store sqlite:///"),
        (&["run", "--lease=jobs", "--store=sqlite://there/is/none.db", "--", "true"], "begins with sqlite:///"),
        (&["run", "--lease=jobs", "--store=postgres://localhost/", "--", "true"], "--store: "),
        (&["wait", "jobs", "--kubeconfig=/x", "--password-file=/x"], "--password-command need --store"),
    ] {
        assert_refused(&Run::of(leasehold().args(flags)).end(), says);
    }
}

#[test]
fn a_program_may_begin_as_flags_do_and_its_flags_are_its_own() {
    let arena = Arena::on_a_file(LONG);
    arena.run(&["--", "-no-such-program"]).ends_with(127);
    let ended = arena.run(&["--", "echo", "--lease", "-q", "--", "x"]).end();
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "--lease -q -- x\n"), "{}", ended.errors);
}

#[test]
fn help_is_no_error() {
    let ended = Run::of(leasehold().args(["run", "--help"])).end();
    assert_eq!((ended.code, ended.errors.as_str()), (Some(0), ""));
    for word in ["--lease <NAME>", "--stop-timeout", "LEASEHOLD_FENCING_TOKEN", "Exit codes"] {
        assert!(ended.out.contains(word), "{word}: {}", ended.out);
    }
}

#[test]
fn store_variable_and_cluster_flags_must_agree() {
    let arena = Arena::on_a_file(&[]);
    let url = format!("sqlite://{}", arena.path("other.db").display());
    for flag in ["--namespace=jobs", "--context=here", "--kubeconfig=/there/is/none", "--lock-type=leases"] {
        let says = format!("{} needs a cluster, but LEASEHOLD_STORE", flag.split('=').next().expect("a name"));
        assert_refused(&run(&["--lease=jobs", flag, "--", "true"], Some(&url)).end(), &says);
        // An empty `LEASEHOLD_STORE` counts as absent.
        let without = run(&["--lease=jobs", "--kubeconfig=/there/is/none", "--", "true"], Some("")).end();
        assert_refused(&without, "/there/is/none");
    }
    assert!(!arena.path("other.db").exists());
    let elsewhere = format!("--store=sqlite://{}", arena.path("this.db").display());
    run(&["--lease=jobs", &elsewhere, "--", "true"], Some(&url)).ends_with(0);
    assert!(arena.path("this.db").exists() && !arena.path("other.db").exists(), "the flag counts");
}

#[test]
fn a_lease_is_waited_for_no_longer_than_that() {
    let arena = Arena::on_a_file(LONG);
    for wait in ["--wait=0s", "--wait=60s"] {
        let ended = arena.run(&[wait, "--", "echo", "works"]).end();
        assert_eq!((ended.code, ended.out.as_str()), (Some(0), "works\n"), "{wait}: {}", ended.errors);
    }
    let ended = arena.run(&["--probe=true", "--probe-timeout=30s", "--wait=0s", "--", "echo", "works"]).end();
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "works\n"), "{}", ended.errors);
    let leader = arena.run(&["--identity=leader", "--", "sh", "-c", "echo works; exec sleep 1000"]);
    leader.wait_for_out("works");
    for (wait, at_least) in [("--wait=0s", 0), ("--wait=500ms", 500)] {
        let began = Instant::now();
        let ended = arena.run(&["-q", wait, "--", "echo", "works"]).end();
        assert_eq!((ended.code, ended.out.as_str()), (Some(75), ""), "{wait}: {}", ended.errors);
        assert!(began.elapsed() >= Duration::from_millis(at_least), "{:?}", began.elapsed());
        assert!(ended.errors.contains(": held by leader") && ended.errors.contains("jobs in "), "{}", ended.errors);
    }
    // An unusable store and an unfit candidate have different exit codes, 125 and 75.
    for (wait, store) in
        ["--wait=0s", "--wait=500ms"].into_iter().zip(["etcd://127.0.0.1:1", "postgres://a:b@127.0.0.1:1/c"])
    {
        let store = format!("--store={store}");
        let ended = arena.run(&[&store, wait, "--", "echo", "works"]).end();
        assert_eq!((ended.code, ended.out.as_str()), (Some(125), ""), "{wait} {store}: {}", ended.errors);
    }
    for wait in ["--wait=0s", "--wait=500ms"] {
        let ended = arena.run(&["--probe=false", wait, "--", "echo", "works"]).end();
        assert_eq!((ended.code, ended.out.as_str()), (Some(75), ""), "{wait}: {}", ended.errors);
        assert!(ended.errors.contains("this replica is unfit to lead\n"), "{}", ended.errors);
    }
    // An unfit candidate ends without waiting for a store that does not respond.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let store = format!("--store=etcd://{}", silent.local_addr().expect("an address"));
    assert_eq!(arena.run(&[&store, "--probe=false", "--wait=0s", "--", "true"]).end().code, Some(75));
    leader.terminate();
    let ended = arena.run(&["--hold-back=5s", "--wait=500ms", "--", "echo", "works"]).end();
    assert_eq!((ended.code, ended.out.as_str()), (Some(75), ""), "{}", ended.errors);
    assert!(ended.errors.contains("within 500ms: --hold-back (5s) leaves a free lease"), "{}", ended.errors);
    arena.assert_nothing_is_left();
}

#[test]
fn refused_writes_are_an_error_unless_another_candidate_leads() {
    let cluster = Cluster::in_memory("refused");
    let server = cluster.in_memory_server().expect("it is");
    let arena = Arena::on(&cluster, LONG);
    let wait = |wait: &str, code, says: &str| {
        let ended = arena.run(&[wait, "--", "true"]).end();
        assert!(ended.code == Some(code) && ended.errors.contains(says), "{wait}: {:?}: {}", ended.code, ended.errors);
    };
    let refused = |code, reason| {
        let fault = || Fault::status(code, reason, "made up").user("candidate");
        [Verb::Create, Verb::Update].map(|verb| server.fault(fault().verb(verb)))
    };
    let faults = refused(409, "Conflict");
    wait("--wait=0s", 125, "the lease is free, but no write has succeeded");
    cluster.create(json!({ "holderIdentity": "gone", "leaseDurationSeconds": 1 }));
    wait("--wait=5s", 125, "the lease is free, but no write has succeeded");
    faults.iter().for_each(FaultHandle::remove);
    let faults = refused(503, "ServiceUnavailable");
    let run = arena.run(&["--http=127.0.0.1:0", "--", "true"]);
    let ready = address(&run);
    wait_until("the text names the failed write", || {
        get(&ready, "/readyz").1.starts_with("ok, but the last write failed")
    });
    drop(run);
    wait("--wait=5s", 125, "made up");
    cluster.edit(|lease| lease["spec"]["leaseDurationSeconds"] = 60.into());
    wait("--wait=0s", 75, ": held by gone");
    faults.iter().for_each(FaultHandle::remove);
    cluster.delete();

    // Another candidate creates the lease first, and the next attempt reads the identity of that candidate.
    let late = server.fault(Fault::hang().verb(Verb::Create).first(1));
    thread::scope(|scope| {
        scope.spawn(|| wait("--wait=0s", 75, ": held by faster"));
        assert!(late.wait_for_hits(1, SOON));
        cluster.create(json!({ "holderIdentity": "faster", "leaseDurationSeconds": 60 }));
        late.release();
    });
    cluster.delete();
    let _once = server.fault(Fault::status(409, "Conflict", "made up").verb(Verb::Create).first(1));
    wait("--wait=0s", 0, "");
}

#[test]
fn quiet_logs_only_warnings_and_errors() {
    let arena = Arena::on_a_file(LONG);
    let ended = arena.run(&["-q", "--", "sh", "-c", "echo works"]).end();
    assert_eq!((ended.code, ended.out.as_str(), ended.errors.as_str()), (Some(0), "works\n", ""));
    let ended = arena.run(&["-q", "--", "sh", "-c", "exit 7"]).end();
    assert!(ended.errors.contains("WARN  leasehold: command ended with code 7"), "{}", ended.errors);
    let ended = arena.run(&["--identity=a", "--", "true"]).end();
    assert!(ended.errors.contains(" INFO  leasehold: jobs in "), "{}", ended.errors);
}

/// `RUST_LOG` does not set the level, because the command may use `RUST_LOG` itself.
#[test]
fn log_level_is_chosen_by_its_own_variable() {
    let arena = Arena::on_a_file(LONG);
    for (variable, filter, of_election, of_command) in [
        ("RUST_LOG", "other=debug", true, true),
        ("LEASEHOLD_LOG", "other=debug", false, false),
        ("LEASEHOLD_LOG", "leasehold::election=info", true, false),
        ("LEASEHOLD_LOG", "leasehold::command=info", false, true),
    ] {
        let mut command = arena.command(&["--", "true"]);
        let ended = Run::of(command.env(variable, filter).stdin(Stdio::null())).end();
        let has = (ended.errors.contains("started leading"), ended.errors.contains("command started"));
        assert_eq!(has, (of_election, of_command), "{variable}={filter}: {}", ended.errors);
    }
}

#[test]
fn blocked_stderr_delays_no_one() {
    let arena = Arena::on_a_file(LONG);
    let script = arena.path("script");
    fs::write(&script, "#!/bin/sh\n").expect("written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("its mode");
    let bad = arena.path("bad");
    fs::write(&bad, "#!/tmp\n").expect("written");
    fs::set_permissions(&bad, fs::Permissions::from_mode(0o755)).expect("its mode");
    // Either the reader has closed the pipe, or the pipe is full and is not read.
    for is_full in [false, true] {
        let command = |flags: &[&str], code: i32| {
            let (reader, mut writer) = std::io::pipe().expect("a pipe");
            let _reader = is_full.then_some(reader);
            if is_full {
                rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::NONBLOCK).expect("its flags");
                while writer.write(&[b'x'; 4096]).is_ok() {}
                rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::empty()).expect("its flags");
            }
            let mut command = arena.command(flags);
            let mut child =
                command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(writer).spawn().expect("it starts");
            drop(command);
            let ended = wait_for(&format!("{flags:?} ends"), || child.try_wait().expect("a child of ours"));
            assert_eq!(ended.code(), Some(code), "{flags:?}, full: {is_full}");
        };
        command(&["--", "/nonexistent"], 127);
        command(&["--", "/etc/passwd"], 126);
        command(&["--no-such-flag"], 125);
        command(&["--store=oracle://x", "--", "true"], 125);
        command(&["--", &script.display().to_string()], 0);
        // The start of this script fails, because its interpreter is a directory.
        command(&["--", &bad.display().to_string()], 126);
    }
}

#[test]
fn a_password_that_is_no_text_is_not_shown() {
    use std::os::unix::ffi::OsStrExt;
    let url = std::ffi::OsStr::from_bytes(b"postgres://u:sesame\xff@127.0.0.1:1/d");
    let mut command = leasehold();
    command.args(["run", "--lease=jobs", "--", "true"]).env("LEASEHOLD_STORE", url).stdin(Stdio::null());
    let ended = Run::of(&mut command).end();
    assert_refused(&ended, "LEASEHOLD_STORE is not UTF-8");
    let ended = run(&["--lease=jobs", "--", "true"], Some("postgres:u:sesame@h://x")).end();
    assert_refused(&ended, "not a URL");
    assert!(!ended.errors.contains("sesame"), "{}", ended.errors);
}

#[test]
fn a_database_may_start_after_us() {
    let Some(postgres) = Postgres::shared() else { return };
    let database = postgres.database("command_late");
    let (server, url) = Proxy::by_url(postgres.port(), &postgres.url("postgres", &database));
    server.set(Faults::Cut);
    let late = run(&["--lease=jobs", "--retry-period=250ms", "--", "echo", "works"], Some(&url));
    late.wait_for_error("get failed");
    let reported = run(&["--lease=jobs", "--", "echo", "works"], Some(&url));
    reported.wait_for_error("get failed");
    assert_eq!(reported.terminate().code, Some(143));
    server.set(Faults::Fair);
    let ended = late.end();
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "works\n"), "{}", ended.errors);
    assert!(!ended.errors.contains(&url), "{}", ended.errors);
}

#[test]
fn observing_creates_nothing() {
    let arena = Arena::on_a_file(&[]);
    let url = format!("--store=sqlite://{}", arena.path("mistyped.db").display());
    for arguments in [&["observe", &url][..], &["wait", "jobs", &url]] {
        assert_refused(&Run::of(leasehold().args(arguments)).end(), "does not exist");
    }
    assert!(!Path::new(&arena.path("mistyped.db")).exists());
}

#[test]
fn leftover_processes_are_killed_and_logged() {
    let arena = Arena::on_a_file(LONG);
    let ended = arena.run(&["--", "sh", "-c", "sleep 1000 & sleep 1000 & true"]).ends_with(0);
    assert!(ended.errors.contains("killed 2 processes that the command left behind"), "{}", ended.errors);
    let stubborn = arena.work(&["--stop-timeout=300ms"], &["stubborn"]);
    wait_until("it works", || !arena.stamps().is_empty());
    let ended = stubborn.terminate();
    assert!(ended.errors.contains("stopping the command (SIGKILL in 300ms): received SIGTERM"), "{}", ended.errors);
    assert!(ended.errors.contains("processes that did not exit in time"), "{}", ended.errors);
}
