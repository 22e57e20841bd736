//! Tests of the environment, the streams, the exit code and the signals of a command.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use rustix::process::{Signal, kill_process};
use serde_json::json;

use crate::support::cluster::Cluster;
use crate::support::command::{Arena, LONG, children, is_guardian, leasehold};
use crate::support::run::{Ended, Run};
use crate::support::{A_WHILE, wait_until};

fn shell(script: &str) -> Ended {
    Arena::on_a_file(LONG).run(&["--", "sh", "-c", script]).end()
}

#[test]
fn command_finds_leader_lease_and_token_in_its_environment() {
    let arena = Arena::on_a_file(LONG);
    let script = "echo $LEASEHOLD_LEASE $LEASEHOLD_IDENTITY $((LEASEHOLD_FENCING_TOKEN > 0)) $0 $1";
    let ended = arena.run(&["--identity=me", "--", "sh", "-c", script, "zero", "one; two"]).end();
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "jobs me 1 zero one; two\n"), "{}", ended.errors);
    arena.assert_nothing_is_left();
}

#[test]
fn a_store_with_a_password_is_not_the_commands_to_know() {
    let arena = Arena::on_a_file(LONG);
    let url = format!("sqlite://{}", arena.path("other.db").display());
    let seen = arena.path("seen").display().to_string();
    let probe = format!("--probe=sh -c 'env > {seen}.new && mv {seen}.new {seen}'");
    let mut command = leasehold();
    command.env("LEASEHOLD_STORE", &url).args(["run", "--lease=jobs", &probe, "--", "env"]).stdin(Stdio::null());
    let ended = Run::of(&mut command).end();
    assert!(ended.code == Some(0) && arena.path("other.db").exists(), "{}", ended.errors);
    assert!(ended.out.contains("LEASEHOLD_LEASE=jobs") && !ended.out.contains(&url), "{}", ended.out);
    let seen = std::fs::read_to_string(seen).expect("the probe ran");
    assert!(seen.contains("PATH=") && !seen.contains(&url), "{seen}");
}

#[test]
fn guardian_that_is_late_is_not_lost() {
    let arena = Arena::on_a_file(&["--lease-duration=60s", "--retry-period=20ms"]);
    let run = arena.run(&["--", "sh", "-c", "echo works; sleep 2; echo done"]);
    run.wait_for_out("works");
    let guardian = run.guardian();
    let began = Instant::now();
    kill_process(guardian, Signal::STOP).expect("it runs");
    thread::sleep(Duration::from_millis(400));
    kill_process(guardian, Signal::CONT).expect("it runs");
    let was_late = began.elapsed() < Duration::from_millis(700);
    let ended = run.end();
    // If a busy machine paused the guardian for longer, the test proves nothing.
    assert!(!was_late || (ended.code, ended.out.as_str()) == (Some(0), "works\ndone\n"), "{}", ended.errors);
}

#[test]
fn its_end_is_ours() {
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143)] {
        let ended = shell(script);
        assert_eq!(ended.code, Some(code), "{script}: {}", ended.errors);
    }
}

#[test]
fn it_has_our_streams_and_no_descriptor_of_ours() {
    let arena = Arena::on_a_file(LONG);
    let mut command = arena.command(&["--", "sh", "-c", "cat; echo; ls /proc/self/fd"]);
    let mut supervisor = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    supervisor.stdin.take().expect("piped").write_all(b"to the command").expect("it reads");
    let output = supervisor.wait_with_output().expect("it ends");
    // Besides the standard streams and the directory of `ls`, the command may have descriptors that this test
    // inherited.
    let ours = std::process::Command::new("ls").arg("/proc/self/fd").output().expect("ls").stdout;
    let expected = format!("to the command\n{}", String::from_utf8_lossy(&ours));
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

#[test]
fn missing_program_is_reported_before_a_campaign() {
    let arena = Arena::on_a_file(LONG);
    let script = arena.path("script").display().to_string();
    fs::write(&script, "#! /there/is/none -x\n").expect("written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("its mode");
    for (program, code, says) in [
        ("no-such-program", 127, "no-such-program: command not found"),
        ("/etc/passwd", 126, "/etc/passwd: cannot be executed"),
        ("/", 126, "is a directory"),
        (&script, 127, "interpreter /there/is/none not found"),
    ] {
        let ended = arena.run(&["--", program]).end();
        assert_eq!(ended.code, Some(code), "{}", ended.errors);
        assert!(ended.errors.starts_with("leasehold: ") && ended.errors.contains(says), "{}", ended.errors);
        assert_eq!(ended.errors.lines().count(), 1, "{}", ended.errors);
    }
    assert!(!arena.path("election.db").exists());
}

#[test]
fn internal_subcommand_explains_itself_to_users() {
    for name in ["__exec", "__guardian"] {
        let ended = Run::of(leasehold().arg(name).stdin(Stdio::null())).end();
        assert_eq!(ended.code, Some(125), "{name}: {}", ended.errors);
        assert!(ended.errors.contains("is internal to leasehold run"), "{name}: {}", ended.errors);
    }
}

#[test]
fn waiting_guardian_serves_only_its_supervisor_in_time() {
    let ours = std::process::id();
    // The deadline is a time since the machine booted.
    for (parent, deadline, code, out) in [(ours, u64::MAX, 0, "works\n"), (ours, 0, 125, ""), (1, u64::MAX, 125, "")] {
        let flags = SocketFlags::CLOEXEC;
        let (link, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("a pair");
        let mut command = leasehold();
        command.args(["__exec", &parent.to_string(), "sh", "-c", "echo $WHAT"]).stdin(Stdio::from(theirs));
        let waits = Run::of(&mut command);
        // `command` keeps the other end of the socket pair open.
        drop(command);
        let deadline = json!({ "secs": deadline, "nanos": 0 });
        let begin = json!({ "deadline": deadline, "group": null, "environment": [["WHAT", "works"]] });
        // The process may have ended already, so a failure to send is ignored.
        let _ = send(&link, begin.to_string().as_bytes(), SendFlags::NOSIGNAL);
        let ended = waits.end();
        assert_eq!((ended.code, ended.out.as_str()), (Some(code), out), "{}", ended.errors);
    }
}

#[test]
fn stopped_standby_has_run_nothing() {
    let arena = Arena::on_a_file(LONG);
    let leader = arena.run(&["--", "sh", "-c", "echo works; exec sleep 1000"]);
    leader.wait_for_out("works");
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129), (Signal::QUIT, 131)] {
        let standby = arena.run_with_signals(&["--", "echo", "works"]);
        standby.wait_for_error("new leader");
        standby.signal(signal);
        let ended = standby.end();
        assert_eq!((ended.code, ended.out.as_str()), (Some(code), ""), "{}", ended.errors);
    }
    assert_eq!(leader.terminate().code, Some(143));
    arena.assert_nothing_is_left();
}

#[test]
fn stopped_guardian_ends_all_and_a_killed_one_is_replaced() {
    let arena = Arena::on_a_file(LONG);
    let leader = arena.run_with_signals(&["--", "sh", "-c", "echo works; exec sleep 1000"]);
    leader.wait_for_out("works");
    let probed = arena.path("probed");
    let probe = format!("--probe=sh -c '(sleep 0.01 &); echo >> {}'", probed.display());
    let standby = arena.run_with_signals(&[&probe, "--", "true"]);
    standby.wait_for_error("new leader");
    // Besides the guardian, the supervisor may have a probe as a child.
    let guardian_of = |run: &Run| children(run.pid).into_iter().find(|&pid| is_guardian(pid));
    kill_process(guardian_of(&standby).expect("it has one"), Signal::KILL).expect("it runs");
    standby.wait_for_error("guardian lost, starting another");
    wait_until("another guardian", || guardian_of(&standby).is_some());
    wait_until("many probes", || fs::read(&probed).is_ok_and(|lines| lines.len() > 5));
    wait_until("all orphans of the probe are reaped", || children(standby.pid).len() == 1);
    for run in [standby, leader] {
        kill_process(guardian_of(&run).expect("it has one"), Signal::TERM).expect("it runs");
        assert_eq!(run.end().code, Some(143));
    }
}

#[test]
fn signals_are_passed_on_to_the_command() {
    let arena = Arena::on_a_file(LONG);
    let script =
        "trap 'echo hup' HUP; trap 'echo one' USR1; trap 'echo two' USR2; echo ready; while :; do sleep 0.02; done";
    let run = arena.run_with_signals(&["--", "sh", "-c", script]);
    run.wait_for_out("ready");
    for (signal, says) in [(Signal::HUP, "hup"), (Signal::USR1, "one"), (Signal::USR2, "two")] {
        run.signal(signal);
        run.wait_for_out(says);
    }
    // A service manager may signal all processes of a service. The signal is meant for the command, so a standby
    // ignores the signal.
    let mut standby = arena.run_with_signals(&["--", "true"]);
    standby.wait_for_error("new leader");
    standby.prepared();
    for pid in arena.processes() {
        let _ = kill_process(pid, Signal::USR1);
    }
    wait_until("it hears of it twice", || run.out().matches("one").count() >= 2);
    thread::sleep(A_WHILE);
    assert!(standby.is_running(), "{}", standby.errors());
    run.signal(Signal::INT);
    assert_eq!(run.end().code, Some(143), "it is told to end by SIGTERM, whatever told us");
    assert_eq!(standby.end().code, Some(0));
}

#[test]
fn second_signal_changes_nothing() {
    let arena = Arena::on_a_file(LONG);
    let run = arena.work(&["--stop-timeout=2s"], &["stubborn"]);
    let began = arena.wait_for_work_after(0);
    run.signal(Signal::TERM);
    arena.wait_for_sigterm(&began);
    thread::sleep(Duration::from_millis(500));
    [Signal::TERM, Signal::INT].into_iter().for_each(|signal| run.signal(signal));
    let ended = run.ends_with(137);
    assert_eq!(ended.errors.matches("stopping the command").count(), 1, "{}", ended.errors);
    assert_eq!(arena.stamps().iter().filter(|stamp| stamp.what == "sigterm").count(), 1);
}

#[test]
fn command_and_probe_start_in_the_folder_of_run() {
    let arena = Arena::on_a_file(LONG);
    fs::write(arena.path("fit"), "").expect("written");
    let script = "pwd; cd /; exit 3";
    let mut command = arena.command(&["--restart", "--probe=test -e fit", "--", "sh", "-c", script]);
    let run = Run::of(command.current_dir(arena.path("")).stdin(Stdio::null()));
    wait_until("the command runs again", || run.out().lines().count() >= 2);
    let folder = fs::canonicalize(arena.path("")).expect("a folder").display().to_string();
    assert!(run.out().lines().all(|line| line == folder), "{}", run.out());
    run.terminate();
}

#[test]
fn later_campaign_is_limited_by_wait() {
    let cluster = Cluster::in_memory("later-campaign");
    let arena = Arena::on(&cluster, LONG);
    let run = arena.run(&["--wait=4s", "--", "sh", "-c", "echo works; exec sleep 1000"]);
    run.wait_for_out("works");
    cluster.edit(|lease| lease["spec"]["holderIdentity"] = "other".into());
    run.ends_with(75);
}

#[test]
fn unfit_leader_exits_with_124_on_request() {
    let arena = Arena::on_a_file(LONG);
    let fit = arena.path("fit");
    fs::write(&fit, "").expect("written");
    let run = arena.work(&["--on-loss=exit", &format!("--probe=test -e {}", fit.display())], &[]);
    arena.wait_for_work_after(0);
    fs::remove_file(&fit).expect("removed");
    run.ends_with(124);
    arena.assert_nothing_is_left();
}

#[test]
fn program_deleted_during_the_campaign_is_exit_code_127() {
    let arena = Arena::on_a_file(LONG);
    let script = arena.path("script");
    fs::write(&script, "#!/bin/sh\n").expect("written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("its mode");
    let leader = arena.run(&["--", "sh", "-c", "echo works; exec sleep 1000"]);
    leader.wait_for_out("works");
    let standby = arena.run(&["--", &script.display().to_string()]);
    standby.wait_for_error("new leader");
    fs::remove_file(&script).expect("removed");
    leader.terminate();
    standby.ends_with(127);
}
