//! Programs that stop at signals.

use std::process::Command;
use std::thread;

use rustix::process::Signal;

use crate::support::A_WHILE;
use crate::support::process::example;
use crate::support::run::Run;

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
