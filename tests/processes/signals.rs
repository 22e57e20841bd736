//! Programs that stop at signals.

use std::process::Command;
use std::thread;

use rustix::process::{Signal, kill_process};

use crate::support::command::children;
use crate::support::process::example;
use crate::support::run::Run;
use crate::support::{A_WHILE, skip, wait_for};

fn program(arguments: &[&str]) -> Run {
    ready(example("stop_program").args(arguments))
}

/// Starts a program, and waits until it handles signals.
fn ready(command: &mut Command) -> Run {
    let run = Run::of(command);
    run.wait_for_out("ready");
    run
}

#[test]
fn sigterm_and_sigint_stop_a_program_even_if_they_were_blocked() {
    for signal in [Signal::TERM, Signal::INT] {
        for arguments in [&[][..], &["blocked"], &["limited"]] {
            let run = program(arguments);
            run.signal(signal);
            assert!(run.ends_with(0).out.ends_with("stopped\n"), "{signal:?} {arguments:?}");
        }
    }
}

#[test]
fn second_signal_ends_a_program_that_hangs() {
    let run = program(&["hangs"]);
    run.signal(Signal::TERM);
    run.wait_for_out("stopped");
    run.signal(Signal::INT);
    assert_eq!(run.end().code, None, "ended by the signal");
}

#[test]
fn limited_stop_ends_a_program_that_hangs() {
    let run = program(&["hangs", "limited"]);
    run.signal(Signal::TERM);
    let ended = run.ends_with(1);
    assert!(ended.errors.contains("process still runs 300ms after the signal: ending the process"), "{}", ended.errors);
}

#[test]
fn ignored_signal_stays_ignored() {
    let path = example("stop_program").get_program().to_owned();
    let mut run = ready(Command::new("sh").args(["-c", "trap '' INT; exec \"$0\""]).arg(path));
    run.signal(Signal::INT);
    thread::sleep(A_WHILE);
    assert!(run.is_running() && !run.out().contains("stopped"));
    run.terminates_with(0);
}

#[test]
fn signals_are_handled_after_a_thread_could_not_start() {
    let mut command = example("stop_program");
    // A cached stack of an ended thread would be used in spite of the limit.
    command.arg("without-threads").env("GLIBC_TUNABLES", "glibc.pthread.stack_cache_size=0");
    ready(&mut command).terminates_with(0);
}

#[test]
fn second_signal_ends_the_first_process_of_a_container() {
    let path = example("stop_program").get_program().to_owned();
    let mut command = Command::new("unshare");
    let run = Run::of(command.args(["--pid", "--fork", "--kill-child"]).arg(path).arg("hangs"));
    if wait_for("a program", || {
        Some(run.out().contains("ready")).filter(|is_ready| *is_ready || !run.errors().is_empty())
    }) {
        let child = children(run.pid)[0];
        kill_process(child, Signal::TERM).expect("it runs");
        run.wait_for_out("stopped");
        kill_process(child, Signal::INT).expect("it runs");
        run.ends_with(128 + 2);
    } else {
        skip("this user cannot create a PID namespace", "a test of signals", "run it as root");
    }
}
