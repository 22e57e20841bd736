//! A guardian whose supervisor is the test: stops, signals and the times of SIGTERM and SIGKILL.

use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::{fs, thread};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use rustix::process::{Pid, Signal, getpgrp, kill_process};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use crate::support::command::{Arena, LONG, children, is_prepared, leasehold};
use crate::support::run::Run;
use crate::support::{A_WHILE, wait_for, wait_until};

/// A guardian, and the test's end of the socket between them.
struct Guarded {
    link: OwnedFd,
    run: Run,
}

impl Guarded {
    /// Starts a guardian for a command.
    fn new(arena: &Arena, command: &[&str]) -> Self {
        let flags = SocketFlags::CLOEXEC;
        let (link, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("a pair");
        let mut guardian = leasehold();
        arena.mark(&mut guardian);
        let run = Run::of(guardian.arg("__guardian").args(command).stdin(Stdio::from(theirs)));
        // `guardian` keeps the other end of the socket pair open.
        drop(guardian);
        let guarded = Self { link, run };
        assert_eq!(guarded.report(), "Ready");
        guarded
    }

    /// Starts a guardian and a command whose term is longer than a test, and waits until the command is ready.
    fn running(arena: &Arena, command: &[&str], group: Option<i32>) -> (Self, Pid) {
        let guarded = Self::new(arena, command);
        let pid = guarded.start(3_600, 60, group);
        guarded.run.wait_for_out("ready");
        (guarded, pid)
    }

    fn start(&self, valid_for: i64, loss_grace: i64, group: Option<i32>) -> Pid {
        let [stop, grace, margin, until] = [60, loss_grace, 1, clock_gettime(ClockId::Boottime).tv_sec + valid_for]
            .map(|it| json!({ "secs": it, "nanos": 0 }));
        let times = json!({ "stop_timeout": stop, "loss_grace": grace, "kill_margin": margin });
        self.order(json!({ "Start": { "times": times, "valid_until": until, "group": group, "environment": [] } }));
        let pid = self.report()["Started"].as_i64().and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
        pid.expect("a process")
    }

    fn order(&self, what: Value) {
        let order = json!({ "number": 1, "what": what }).to_string();
        send(&self.link, order.as_bytes(), SendFlags::NOSIGNAL).expect("it runs");
    }

    fn stop(&self, is_told: bool) {
        self.order(json!({ "Stop": { "is_told": is_told } }));
    }

    /// Waits for the next report other than an acknowledgement.
    fn report(&self) -> Value {
        loop {
            let mut buffer = [0; 4096];
            let receive = || recv(&self.link, &mut buffer[..], RecvFlags::DONTWAIT).ok();
            let (length, _) = wait_for("a report", receive);
            let report: Value = serde_json::from_slice(&buffer[..length]).expect("a report");
            if report.get("Acknowledged").is_none() {
                return report;
            }
        }
    }

    /// Asserts that the command ends with this code by itself, and leaves no process to kill.
    fn ends_with(&self, code: u8) {
        assert_eq!([self.report(), self.report()], [json!({ "Ended": { "Code": code } }), json!("Gone")]);
    }
}

/// Returns a script that sets its traps and waits for a signal.
fn script(traps: &str) -> String {
    format!("{traps}; echo ready; while :; do sleep 0.02; done")
}

#[test]
fn stopped_command_receives_its_signal_and_continues() {
    let (arena, group) = (Arena::on_a_file(LONG), getpgrp().as_raw_nonzero().get());
    let script = script("trap 'exit 7' TERM; trap 'exit 8' USR1");
    // SIGUSR1 stands for the signal of the terminal, because the parent of this test may ignore SIGINT.
    for (group, of_terminal, code) in [(None, None, 7), (Some(group), Some(Signal::USR1), 8)] {
        let (guarded, pid) = Guarded::running(&arena, &["sh", "-c", &script], group);
        kill_process(pid, Signal::STOP).expect("it runs");
        let stat = format!("/proc/{}/stat", pid.as_raw_nonzero());
        wait_until("it is stopped", || fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") T ")));
        of_terminal.into_iter().for_each(|signal| kill_process(pid, signal).expect("it runs"));
        guarded.stop(of_terminal.is_some());
        guarded.ends_with(code);
    }
}

/// The terminal does not send Ctrl-C to a process outside the foreground group.
#[test]
fn ctrl_c_is_sigterm_outside_the_foreground_group() {
    let (arena, group) = (Arena::on_a_file(LONG), getpgrp().as_raw_nonzero().get());
    let command = "trap 'echo told' USR1; setsid sh -c \"$0\" & wait $!; wait $!; exit 9";
    let of_session = script("trap 'exit 0' TERM");
    let (guarded, pid) = Guarded::running(&arena, &["sh", "-c", command, &of_session], Some(group));
    kill_process(pid, Signal::USR1).expect("it runs");
    guarded.run.wait_for_out("told");
    guarded.stop(true);
    guarded.ends_with(9);
}

#[test]
fn child_of_a_thread_receives_sigterm() {
    let arena = Arena::on_a_file(LONG);
    let command = "
import signal, subprocess, sys, threading
signal.signal(signal.SIGTERM, lambda *_: None)
thread = threading.Thread(target=subprocess.run, args=[['sh', '-c', sys.argv[1]]])
thread.start()
thread.join()";
    let of_child = script("trap 'exit 0' TERM");
    let (guarded, _) = Guarded::running(&arena, &["python3", "-c", command, &of_child], None);
    guarded.stop(false);
    guarded.ends_with(0);
}

/// Many programs exit immediately after the second SIGTERM.
#[test]
fn second_stop_sends_no_second_sigterm() {
    let arena = Arena::on_a_file(LONG);
    let script = script("trap 'echo term' TERM; trap 'exit 5' USR1");
    let (guarded, pid) = Guarded::running(&arena, &["sh", "-c", &script], None);
    guarded.stop(false);
    guarded.run.wait_for_out("term");
    guarded.stop(false);
    thread::sleep(A_WHILE);
    // The supervisor is gone, which also stops the command.
    drop(guarded.link);
    thread::sleep(A_WHILE);
    kill_process(pid, Signal::USR1).expect("it runs");
    assert_eq!(guarded.run.ends_with(0).out, "ready\nterm\n");
}

#[test]
fn killed_prepared_process_is_forgotten() {
    let arena = Arena::on_a_file(LONG);
    let guarded = Guarded::new(&arena, &["true"]);
    let guardian = guarded.run.pid;
    let prepared = || {
        guarded.order(json!("Prepare"));
        wait_for("a process", || children(guardian).into_iter().find(|&child| is_prepared(child)))
    };
    let first = prepared();
    kill_process(first, Signal::KILL).expect("it waits");
    wait_until("it is reaped", || children(guardian).is_empty());
    assert_ne!(prepared(), first);
    drop(guarded.link);
    guarded.run.ends_with(0);
    arena.assert_nothing_is_left();
}

#[test]
fn guardian_without_orders_terminates_before_it_kills() {
    let arena = Arena::on_a_file(LONG);
    let guarded = Guarded::new(&arena, &["sleep", "60"]);
    // SIGTERM follows within a second, and SIGKILL three seconds later.
    guarded.start(5, 3, None);
    assert_eq!(guarded.report(), "Terminated");
    assert!(guarded.report().get("Ended").is_some());
}
