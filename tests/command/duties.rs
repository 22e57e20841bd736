//! Tests of restarts, probes, progress and the HTTP server of `leasehold run`.

use std::fs;
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::command::{Arena, LONG, SHORT, address, ask, get};
use crate::support::run::Run;
use crate::support::wait_until;

#[test]
fn one_that_ends_is_run_again_after_a_pause_that_grows() {
    let arena = Arena::on_a_file(LONG);
    let began = Instant::now();
    let run = arena.run(&["--restart", "--", "sh", "-c", "echo $LEASEHOLD_FENCING_TOKEN; exit 3"]);
    wait_until("three runs", || run.out().lines().count() >= 3);
    // The first pause lasts one second, and the second pause lasts two seconds.
    assert!(began.elapsed() >= Duration::from_secs(3), "{:?}", began.elapsed());
    let tokens: Vec<u64> = run.out().lines().map(|line| line.parse().expect("a token")).collect();
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    run.wait_for_error("campaigning again in 4s");
    let ended = run.terminates_with(143);
    assert!(!ended.errors.contains("received SIGTERM"), "before another campaign: {}", ended.errors);
}

#[test]
fn a_pause_is_others_to_lead_in() {
    let arena = Arena::on_a_file(LONG);
    let crashes = arena.run(&["--restart", "--", "sh", "-c", "echo crashes; exit 3"]);
    crashes.wait_for_out("crashes");
    let works = arena.run(&["--", "echo", "works"]);
    let ended = works.end();
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "works\n"), "{}", ended.errors);
}

#[test]
fn replica_leads_only_while_its_probe_succeeds() {
    let arena = Arena::on_a_file(LONG);
    let fit = arena.path("fit");
    let probe = format!("--probe=sh -c 'test -e {} || {{ echo why >&2; echo not yet >&2; false; }}'", fit.display());
    let run = arena.work(&[&probe, "--probe-timeout=30s"], &["stubborn"]);
    run.wait_for_error("unfit to lead: exit status: 1: not yet\n");
    assert_eq!(arena.stamps().len(), 0);
    fs::write(&fit, "").expect("a file");
    let first = arena.wait_for_work_after(0);
    fs::remove_file(&fit).expect("a file");
    arena.wait_for_sigterm(&first);
    let other = arena.work(&[], &[]);
    arena.wait_for_work_after(first.token);
    assert_eq!(arena.assert_one_at_a_time(), 2);
    let ended = run.terminate();
    assert_eq!(ended.code, Some(143), "it runs nothing");
    assert_eq!(ended.errors.matches(": not yet\n").count(), 2, "each change once: {}", ended.errors);
    other.terminate();
    arena.assert_nothing_is_left();
}

/// A program that forbids `pidfd_open` to the program in its arguments, with the error in the first argument.
const WITHOUT_PIDFD: &str = r#"
import ctypes, os, struct, sys
# Loads the number of the system call, and compares it with that of `pidfd_open`, which is 434 on every architecture.
allow, refuse = 0x7fff0000, 0x00050000 | int(sys.argv[1])
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, 434), (0x06, 0, 0, refuse), (0x06, 0, 0, allow)]
steps = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 4, ctypes.addressof(steps)))
prctl = ctypes.CDLL(None, use_errno=True).prctl
# PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP
for arguments in [(38, 1, 0, 0, 0), (22, 2, ctypes.byref(program))]:
    if prctl(*arguments) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[2], sys.argv[2:])
"#;

#[test]
fn probe_works_without_pidfd_open() {
    let arena = Arena::on_a_file(LONG);
    for (errno, error) in [("38", "ENOSYS"), ("1", "EPERM"), ("24", "EMFILE")] {
        let outer = ["python3", "-c", WITHOUT_PIDFD, errno];
        let flags = ["--probe=true", "--probe-timeout=30s", "--wait=60s", "--", "echo", "works"];
        let ended = Run::of(&mut arena.command_under(&outer, &flags)).end();
        assert_eq!((ended.code, ended.out.as_str()), (Some(0), "works\n"), "{error}: {}", ended.errors);
    }
}

#[test]
fn failing_probe_is_named_without_a_term_of_the_library() {
    let arena = Arena::on_a_file(SHORT);
    let mut command = arena.command(&["--probe=false", "--", "true"]);
    let run = Run::of(command.env("LEASEHOLD_LOG", "leasehold=debug").stdin(Stdio::null()));
    run.wait_for_error("unfit since the start");
    assert!(run.errors().contains("--probe 'false': unfit to lead: exit status: 1"), "{}", run.errors());
    assert!(!run.errors().contains("Fitness"), "{}", run.errors());
}

#[test]
fn sigterm_counts_while_the_command_is_being_stopped() {
    let arena = Arena::on_a_file(LONG);
    let fit = arena.path("fit");
    fs::write(&fit, "").expect("a file");
    let probe = format!("--probe=test -e {}", fit.display());
    let run = arena.work(&[&probe, "--probe-timeout=30s", "--stop-timeout=1s"], &["stubborn"]);
    let began = arena.wait_for_work_after(0);
    fs::remove_file(&fit).expect("a file");
    arena.wait_for_sigterm(&began);
    let ended = run.terminate();
    assert_eq!(ended.code, Some(137), "as the command, and without another campaign");
    assert_eq!(ended.errors.matches("stopping the command").count(), 1, "{}", ended.errors);
}

#[test]
fn one_that_makes_no_progress_is_stopped_and_its_lease_released() {
    let arena = Arena::on_a_file(LONG);
    let beat = arena.path("beat");
    let progress = format!("--progress={}", beat.display());
    let script = format!(
        "for i in 1 2 3 4 5 6 7 8; do echo $i >> {}; sleep 1; done; echo hangs; exec sleep 1000",
        beat.display()
    );
    let run = arena.run(&[&progress, "--progress-timeout=5s", "--on-loss=exit", "--", "sh", "-c", &script]);
    run.wait_for_out("hangs");
    let ended = run.ends_with(124);
    let says = format!("no progress: {} has not changed for 5s", beat.display());
    assert!(ended.errors.contains(&says), "{}", ended.errors);
    let next = arena.run(&["--", "echo", "works"]).end();
    assert_eq!(next.out, "works\n", "{}", next.errors);
}

#[test]
fn systemd_watchdog_messages_are_progress() {
    let arena = Arena::on_a_file(LONG);
    let script = r#"
import os, socket, sys, time
name = os.environ["NOTIFY_SOCKET"]
assert name[0] == "@" and os.environ["WATCHDOG_USEC"] == "5000000" and "WATCHDOG_PID" not in os.environ, os.environ
notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notify.connect("\0" + name[1:])
for i in range(8):
    notify.send(b"STATUS=busy\nWATCHDOG=1\n")
    time.sleep(1)
print("hangs", flush=True)
time.sleep(1000)
"#;
    let flags = ["--progress=notify", "--progress-timeout=5s", "--", "python3", "-c", script];
    let mut command = arena.command(&flags);
    // A service manager sets `WATCHDOG_PID` for the supervisor. The command must not inherit `WATCHDOG_PID`.
    let run = Run::of(command.env("WATCHDOG_PID", "1").stdin(Stdio::null()));
    run.wait_for_out("hangs");
    run.wait_for_error("campaigning again in 1s");
}

#[test]
fn a_cluster_asks_by_http() {
    let arena = Arena::on_a_file(LONG);
    let flags = ["--http=127.0.0.1:0", "--", "sh", "-c", "echo $LEASEHOLD_FENCING_TOKEN; exec sleep 1000"];
    let leader = arena.run(&[&["--identity=one"], &flags[..]].concat());
    wait_until("it works", || !leader.out().is_empty());
    let standby = arena.run(&[&["--identity=two"], &flags[..]].concat());
    standby.wait_for_error("new leader: one");
    let (of_leader, of_standby) = (address(&leader), address(&standby));

    let (status, body) = get(&of_leader, "/leader");
    let body: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((status, &body["leader"], &body["is_leader"]), (200, &"one".into(), &true.into()));
    assert_eq!(body["fencing_token"].to_string(), leader.out().trim());
    assert!(body["remaining_ms"].as_u64().is_some_and(|left| left > 1_000 && left < 60_000), "{body}");
    assert!(body["since"].as_str().is_some_and(|since| humantime::parse_rfc3339(since).is_ok()), "{body}");

    let (status, body) = get(&of_standby, "/leader");
    let body: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(
        (status, &body["leader"], &body["is_leader"], &body["since"]),
        (503, &"one".into(), &false.into(), &Value::Null)
    );

    for of in [&of_leader, &of_standby] {
        assert_eq!((get(of, "/healthz").0, get(of, "/readyz?verbose").0, get(of, "/nothing").0), (200, 200, 404));
        // Together, these requests exceed the limit of simultaneous connections, so the server must close each
        // connection.
        assert!((0..40).all(|_| get(of, "/livez") == (200, "ok\n".to_owned())));
        assert_eq!(ask(of, "HEAD /healthz HTTP/1.1\r\n\r\n"), (200, String::new()));
        assert_eq!(ask(of, "POST /healthz HTTP/1.1\r\n\r\n").0, 405);
    }
    for (of, is_running) in [(&of_leader, 1), (&of_standby, 0)] {
        let metrics = get(of, "/metrics").1;
        assert!(metrics.contains("leader_election_master_status{name=\"jobs\""), "{metrics}");
        let of_command = format!("leasehold_command_running {is_running}\n");
        assert!(metrics.contains(&of_command), "{metrics}");
        assert!(metrics.contains(&format!("leasehold_command_starts_total {is_running}\n")), "{metrics}");
    }

    // Idle connections and an invalid request do not delay other requests.
    let idle: Vec<_> = (0..8).map(|_| TcpStream::connect(&of_leader).expect("it listens")).collect();
    assert_eq!(ask(&of_leader, &"x".repeat(8 * 1024)).0, 400);
    assert_eq!(get(&of_leader, "/healthz").0, 200);
    drop(idle);

    leader.terminate();
    wait_until("the other leads", || get(&of_standby, "/leader").0 == 200);
}

#[test]
fn a_command_that_keeps_failing_is_seen_in_the_metrics() {
    let arena = Arena::on_a_file(LONG);
    let run = arena.run(&["--restart", "--http=localhost:0", "--", "sh", "-c", "exit 3"]);
    let address = address(&run);
    let number = |name: &str| {
        let metrics = get(&address, "/metrics").1;
        let line = metrics.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
        line.and_then(|number| number.trim().parse::<u64>().ok())
    };
    wait_until("two failures", || number("leasehold_command_failures_total ") >= Some(2));
    assert!(number("leasehold_command_starts_total ") >= Some(2));
    assert_eq!(number("leasehold_command_last_exit_code "), Some(3));
}

#[test]
fn replica_without_a_leader_is_unready_only_on_request() {
    let arena = Arena::on_a_file(&["--lease-duration=3s", "--renew-deadline=2s", "--retry-period=250ms"]);
    let standby = |flags: &[&str]| arena.run(&[flags, &["--probe=false", "--http=127.0.0.1:0", "--", "true"]].concat());
    let (asked, plain) = (standby(&["--unready-without-leader=2"]), standby(&[]));
    let (of_asked, of_plain) = (address(&asked), address(&plain));
    wait_until("nobody leads", || get(&of_asked, "/readyz").1.starts_with("no candidate has led for "));
    assert_eq!((get(&of_asked, "/readyz").0, get(&of_asked, "/healthz").0), (503, 200));
    assert_eq!(get(&of_plain, "/readyz"), (200, "ok\n".to_owned()));
    let leader = arena.work(&[], &[]);
    wait_until("a leader", || get(&of_asked, "/readyz") == (200, "ok\n".to_owned()));
    // A holder that no longer renews leads no longer.
    leader.suspend();
    wait_until("its lease expires", || get(&of_asked, "/readyz").0 == 503);
    wait_until("no leader", || get(&of_plain, "/leader").1.contains("\"leader\":null"));
}

#[test]
fn replica_without_contact_to_the_store_is_not_ready() {
    let arena = Arena::on_a_file(LONG);
    let store = "--store=etcd://127.0.0.1:1";
    let mut command = crate::support::command::leasehold();
    command.args(["run", "--lease=jobs", store, "--http=127.0.0.1:0", "--", "true"]);
    arena.mark(&mut command);
    let run = Run::of(&mut command);
    let address = address(&run);
    assert_eq!(get(&address, "/readyz"), (503, "no response from the store yet\n".to_owned()));
    assert_eq!(get(&address, "/healthz").0, 200, "to be started again is no help");
}
