//! Commands of different terms never run at once, even if a supervisor or guardian fails.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use leasehold_testing::{Fault, Verb};
use rustix::process::{Signal, geteuid, kill_process};

use crate::on_both_servers;
use crate::support::cluster::Cluster;
use crate::support::command::{Arena, LONG, SHORT, children};
use crate::support::process::mono;
use crate::support::proxy::{Faults, Proxy};
use crate::support::run::Run;
use crate::support::{SOON, skip, wait_until};

on_both_servers! {
    one_that_ends_is_followed_at_once,
    stopped_command_is_renewed_until_it_has_ended,
    one_whose_supervisor_is_killed_ends,
    one_whose_supervisor_is_stopped_ends_before_another_begins,
    one_whose_guardian_is_lost_ends_with_all_that_it_has_started,
    one_whose_lease_is_deleted_is_killed,
    command_without_a_server_ends_before_its_term,
}

const EVERYTHING: &[&str] = &["stubborn", "children", "orphans", "sessions", "breed"];

fn one_that_ends_is_followed_at_once(cluster: &Cluster) {
    let arena = Arena::on(cluster, LONG);
    let first = arena.work(&[], EVERYTHING);
    let began = arena.wait_for_stamp("the first", |stamp| stamp.what == "begins");
    let second = arena.standby();
    kill_process(rustix::process::Pid::from_raw(began.pid).expect("a process"), Signal::KILL).expect("it runs");
    first.ends_with(137);
    let token = arena.wait_for_work_after(began.token).token;
    assert_eq!(second.terminate().code, Some(9), "as it ends when it is told to");
    assert!(token > began.token);
    assert_eq!(arena.assert_one_at_a_time(), 2);
    arena.assert_nothing_is_left();
    assert_eq!(cluster.holder(), None);
}

fn stopped_command_is_renewed_until_it_has_ended(cluster: &Cluster) {
    let arena = Arena::on(cluster, SHORT);
    // The command continues after SIGTERM for longer than the lease duration.
    let first = arena.work(&["--stop-timeout=9s"], &["stubborn"]);
    let began = arena.wait_for_work_after(0);
    let _second = arena.standby();
    first.signal(Signal::TERM);
    let sigterm = arena.wait_for_sigterm(&began);
    first.ends_with(137);
    arena.wait_for_work_after(began.token);
    assert_eq!(arena.assert_one_at_a_time(), 2);
    let worked = arena.worked_after(&sigterm);
    assert!(worked > 8.0, "the command ran for {worked} s after SIGTERM");
}

fn one_whose_supervisor_is_killed_ends(cluster: &Cluster) {
    let arena = Arena::on(cluster, SHORT);
    let first = arena.work(&["--stop-timeout=500ms"], EVERYTHING);
    let began = arena.wait_for_work_after(0);
    let second = arena.standby();
    first.signal(Signal::KILL);
    let ended = first.end();
    assert_eq!(ended.code, None);
    assert!(ended.errors.contains("the supervisor is gone, stopping the command"), "{}", ended.errors);
    arena.wait_for_sigterm(&began);
    arena.wait_for_work_after(began.token);
    assert_eq!(arena.assert_one_at_a_time(), 2);
    drop(second);
    arena.assert_nothing_is_left();
}

fn one_whose_supervisor_is_stopped_ends_before_another_begins(cluster: &Cluster) {
    let arena = Arena::on(cluster, SHORT);
    let first = arena.work(&["--on-loss=exit"], EVERYTHING);
    let began = arena.wait_for_work_after(0);
    let second = arena.standby();
    first.suspend();
    arena.wait_for_work_after(began.token);
    let left = arena.processes().len();
    first.signal(Signal::CONT);
    first.ends_with(124);
    assert_eq!(arena.assert_one_at_a_time(), 2);
    // The second run has a supervisor, a guardian and a command. The first run has only a supervisor and a guardian.
    assert_eq!(left, 5);
    second.terminate();
    arena.assert_nothing_is_left();
}

#[test]
fn killed_guardian_leaves_no_children_behind() {
    // While a killed guardian exits, its children are briefly in no list of child processes.
    let arena = Arena::on_a_file(LONG);
    for _ in 0..20 {
        let before = arena.stamps().last().map_or(0, |stamp| stamp.token);
        let run = arena.work(&["--on-loss=exit"], &["children", "threads"]);
        arena.wait_for_work_after(before);
        kill_process(run.guardian(), Signal::KILL).expect("it runs");
        assert_eq!(run.end().code, Some(124));
        assert_eq!(arena.processes(), [], "it has released the lease");
    }
    assert_eq!(arena.assert_one_at_a_time(), 20);
}

#[test]
fn cause_of_a_lost_term_is_in_the_log_before_the_end() {
    let cluster = Cluster::in_memory("caused");
    let server = cluster.in_memory_server().expect("it is");
    for (code, reason, text) in [(401, "Unauthorized", "made up: 401"), (403, "Forbidden", "made up: 403")] {
        let arena = Arena::on(&cluster, SHORT);
        let run = arena.work(&["--on-loss=exit"], &[]);
        arena.wait_for_work_after(0);
        // A minute has not passed between the outage and the refusal.
        let fault =
            |code, reason| server.fault(Fault::status(code, reason, &format!("made up: {code}")).user("candidate"));
        let outage = fault(503, "ServiceUnavailable");
        run.wait_for_error("made up: 503");
        outage.remove();
        let refusal = fault(code, reason);
        let ended = run.ends_with(124);
        refusal.remove();
        let of = |what: &str| ended.errors.find(what).unwrap_or_else(|| panic!("{what}: {}", ended.errors));
        let line = |at: usize| ended.errors[at..].lines().next().unwrap_or_default().to_owned();
        let (warned, stopped) = (of(text), of("lease not renewed, command received SIGTERM: "));
        assert!(warned < stopped, "{}", ended.errors);
        assert!(line(stopped).contains(text), "{}", ended.errors);
        let end = line(of("stopped leading: no renewal succeeded within the renew deadline; last error: "));
        assert!(end.contains(text), "{}", ended.errors);
        assert!(!ended.errors.contains("dropped or released"), "{}", ended.errors);
        cluster.delete();
    }
}

/// The regular checks of the guardian would take more than 30 s.
#[test]
fn stopped_guardian_is_killed_soon_after_a_kill_order() {
    let cluster = Cluster::in_memory("kill-order");
    let arena = Arena::on(&cluster, &["--lease-duration=60s", "--renew-deadline=40s", "--retry-period=30s"]);
    let run = arena.work(&["--on-loss=exit"], EVERYTHING);
    arena.wait_for_work_after(0);
    kill_process(run.guardian(), Signal::STOP).expect("it runs");
    let deleted = mono();
    cluster.delete();
    run.ends_with(124);
    let worked = arena.last_stamp() - deleted;
    assert!(worked < 10.0, "the command ran for {worked} s after the deletion");
    arena.assert_nothing_is_left();
}

/// The supervisor is killed right after it has killed its stopped guardian.
#[test]
fn supervisor_killed_while_stopping_leaves_nothing() {
    for _ in 0..5 {
        let arena = Arena::on_a_file(LONG);
        let run = arena.work(&[], &["stubborn", "sessions"]);
        // The command and two sessions of two processes each. The supervisor could miss a session that is starting.
        let workers = || arena.stamps().into_iter().map(|stamp| stamp.pid).collect::<BTreeSet<_>>().len();
        wait_until("all of it works", || workers() == 5);
        let guardian = run.guardian();
        let state = || fs::read_to_string(format!("/proc/{}/stat", guardian.as_raw_nonzero())).unwrap_or_default();
        kill_process(guardian, Signal::STOP).expect("it runs");
        wait_until("it is stopped", || state().contains(") T "));
        let until = Instant::now() + SOON;
        while state().contains(") T ") {
            assert!(Instant::now() < until, "it is not ended");
        }
        run.signal(Signal::KILL);
        arena.assert_nothing_is_left();
    }
}

#[test]
fn a_lease_that_comes_too_late_is_given_back_before_the_end() {
    let cluster = Cluster::in_memory("too-late");
    let server = cluster.in_memory_server().expect("it is");
    // The user `no-watch` cannot watch. A watch would report the lease before the delayed response arrives.
    let arena = Arena::by(&cluster.kubeconfig("no-watch"), &cluster.lease, LONG);
    for http in [&[][..], &["--http=127.0.0.1:0"]] {
        let _late = server.fault(Fault::delay_answer(Duration::from_secs(1)).verb(Verb::Create).first(1));
        let run = arena.run(&[http, &["--identity=late", "--release-timeout=60s", "--", "echo", "works"]].concat());
        wait_until("it is acquired", || cluster.holder().as_deref() == Some("late"));
        let ended = run.terminate();
        assert_eq!((ended.code, ended.out.as_str()), (Some(143), ""), "{}", ended.errors);
        assert_eq!(cluster.holder(), None);
        cluster.delete();
    }
}

#[test]
fn release_that_takes_longer_than_its_timeout_is_waited_for() {
    let cluster = Cluster::in_memory("slow-release");
    let server = cluster.in_memory_server().expect("it is");
    let arena = Arena::on(&cluster, &["--lease-duration=60s", "--retry-period=5s", "--release-timeout=10ms"]);
    let run = arena.run(&["--", "sh", "-c", "echo works; exec sleep 1000"]);
    run.wait_for_out("works");
    let _slow = server.fault(Fault::delay(Duration::from_secs(1)).verb(Verb::Update));
    run.signal(Signal::TERM);
    assert!(run.end().errors.contains("not confirmed within 10ms"));
    assert_eq!(cluster.holder(), None);
}

/// A term can start without a prepared process, which only makes the start faster.
#[test]
fn killed_or_stopped_waiting_guardian_ends_with_the_others() {
    let arena = Arena::on_a_file(LONG);
    let (mut leader, mut last) = (arena.work(&[], &[]), 0);
    for (number, signal) in [Some(Signal::KILL), Some(Signal::STOP), Some(Signal::TERM), None].into_iter().enumerate() {
        let token = arena.wait_for_stamp("the next", |stamp| stamp.token > last).token;
        last = token;
        let standby = arena.standby();
        let prepared = standby.prepared();
        if let Some(signal) = signal {
            kill_process(prepared, signal).expect("it waits");
        }
        // If the prepared process ended only after the start of the term, its end would count as the end of the
        // command.
        if matches!(signal, Some(Signal::KILL | Signal::TERM)) {
            wait_until("it has ended", || !children(standby.guardian()).contains(&prepared));
        }
        leader.terminate();
        let begun = arena.wait_for_work_after(token).pid;
        let is_that = matches!(signal, None | Some(Signal::STOP));
        assert_eq!(begun == prepared.as_raw_nonzero().get(), is_that, "{number}");
        leader = standby;
    }
    let standby = arena.work(&[], &[]);
    standby.prepared();
    standby.terminate();
    leader.terminate();
    assert_eq!(arena.assert_one_at_a_time(), 5);
    arena.assert_nothing_is_left();
}

/// The kernel kills the command, because the supervisor is stopped and the guardian is dead.
#[test]
fn a_command_is_killed_with_both_that_are_above_it() {
    let arena = Arena::on_a_file(LONG);
    let run = arena.work(&[], &["stubborn"]);
    arena.wait_for_work_after(0);
    let guardian = run.guardian();
    run.suspend();
    kill_process(guardian, Signal::KILL).expect("it runs");
    let left = || arena.processes().into_iter().filter(|&pid| pid != run.pid && pid != guardian).count();
    wait_until("the command is killed", || left() == 0);
}

fn one_whose_guardian_is_lost_ends_with_all_that_it_has_started(cluster: &Cluster) {
    for signal in [Signal::KILL, Signal::STOP] {
        loses_its_guardian(cluster, signal);
    }
}

fn loses_its_guardian(cluster: &Cluster, signal: Signal) {
    // The guardian is lost long before the lease can expire.
    let arena = Arena::on(cluster, LONG);
    let run = arena.work(&[], EVERYTHING);
    let began = arena.wait_for_work_after(0);
    let standby = arena.standby();
    kill_process(run.guardian(), signal).expect("it runs");
    // Either the standby leads next, or the same candidate leads again with a new guardian.
    let next = arena.wait_for_work_after(began.token);
    arena.wait_for_stamp("some time", |stamp| stamp.token == next.token && stamp.mono > next.mono + 0.3);
    let ended = run.terminate();
    for text in ["guardian lost", "campaigning again in 1s"] {
        assert!(ended.errors.contains(text), "{text}: {}", ended.errors);
    }
    standby.terminate();
    assert!(arena.assert_one_at_a_time() >= 2);
    arena.assert_nothing_is_left();
}

fn one_whose_lease_is_deleted_is_killed(cluster: &Cluster) {
    let arena = Arena::on(cluster, LONG);
    let run = arena.work(&["--on-loss=exit"], EVERYTHING);
    arena.wait_for_work_after(0);
    cluster.delete();
    let ended = run.ends_with(124);
    assert!(ended.errors.contains("the lease was deleted"), "{}", ended.errors);
    assert!(!arena.stamps().iter().any(|stamp| stamp.what == "sigterm"), "it is too late for that");
    arena.assert_nothing_is_left();
}

#[test]
fn unkillable_command_keeps_its_lease_unreleased() {
    if !geteuid().is_root() {
        return skip("this is not root", "the test of what cannot be killed", "run it as root");
    }
    // The supervisor renews the lease while it tries to kill the processes. A shorter lease could expire on a busy
    // machine before the supervisor gives up.
    let arena = Arena::on_a_file(SHORT);
    let [source, program, copy] = ["of_root.c", "of_root", "leasehold"].map(|name| arena.path(name));
    fs::write(
        &source,
        "#define _GNU_SOURCE\n#include <unistd.h>\nint main() { return setresuid(0, 0, 0) || write(1, \"of root\\n\", 8) < 8 || pause(); }",
    )
    .expect("written");
    assert!(Command::new("cc").arg(&source).arg("-o").arg(&program).status().expect("a C compiler").success());
    // Every user may run the program, which then runs as root.
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).expect("its mode");
    fs::set_permissions(arena.path(""), fs::Permissions::from_mode(0o777)).expect("its mode");
    let run = arena.command(&["--stop-timeout=300ms", "--"]);
    fs::copy(run.get_program(), &copy).expect("a copy");
    let mut setpriv = Command::new("setpriv");
    setpriv.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&copy).args(run.get_args()).arg(&program);
    arena.mark(&mut setpriv);
    let run = Run::of(setpriv.stdin(Stdio::null()));
    run.wait_for_out("of root");
    let standby = arena.work(&["--identity=standby"], &[]);
    standby.wait_for_error("new leader");
    run.signal(Signal::TERM);
    run.wait_for_error("some processes of the command cannot be killed");
    let given_up = mono();
    let took_over = arena.wait_for_work_after(0).mono;
    assert!(took_over > given_up, "by the end of the lease: {took_over} {given_up}");
    let code = run.code();
    assert_eq!(code, Some(125));
}

fn command_without_a_server_ends_before_its_term(cluster: &Cluster) {
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let kubeconfig = scratch.path().join("kubeconfig");
    let proxy = Proxy::by_kubeconfig(&cluster.kubeconfig("candidate"), &kubeconfig);
    let arena = Arena::by(&kubeconfig, &cluster.lease, SHORT);
    let run = arena.work(&["--on-loss=exit"], EVERYTHING);
    arena.wait_for_work_after(0);
    // The other elector must not lead until all processes of the command have ended.
    let other = cluster.elector("other");
    let campaign = other.campaign().expect("a campaign");
    let cut_at = mono();
    proxy.set(Faults::BlackHole);
    let guard = campaign.receiver().recv_timeout(SOON).expect("in time").expect("a term");
    let led_at = mono();
    run.ends_with(124);
    let stamps = arena.stamps();
    let sigterm = stamps.iter().find(|stamp| stamp.what == "sigterm").expect("SIGTERM comes first").mono;
    let last = stamps.iter().map(|stamp| stamp.mono).fold(0.0, f64::max);
    assert!(cut_at < sigterm && sigterm < last && last < led_at, "{cut_at} {sigterm} {last} {led_at}");
    arena.assert_nothing_is_left();
    drop(guard);
}
