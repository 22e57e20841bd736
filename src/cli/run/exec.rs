//! The last step before a command: a process that becomes it, unless it is too late for that.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::Duration;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use super::command;
use super::times::boot_time;

/// What the guardian starts it by: its own number, and until when the command may begin, in nanoseconds of the boot time.
pub const NAME: &str = "__exec";

/// Becomes the command that `arguments` say after the two that it is told by.
pub fn main(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let mut number = || arguments.next()?.to_str()?.parse::<u64>().ok();
    let (Some(parent), Some(deadline)) = (number(), number()) else {
        eprintln!("leasehold: {NAME} is for leasehold run itself");
        return ExitCode::from(command::FAILED);
    };
    // It is sent when the thread ends that has started us, which is the guardian's only one. Who ended before that is not our
    // parent any more.
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        eprintln!("leasehold: the command is not started, for it would outlive its guardian: {error}");
        return ExitCode::from(command::FAILED);
    }
    let is_parent = getppid().map(Pid::as_raw_nonzero).is_some_and(|pid| i64::from(pid.get()) == parent as i64);
    if !is_parent || boot_time() >= Duration::from_nanos(deadline) {
        return ExitCode::from(command::FAILED);
    }
    let Some(program) = arguments.next() else { return ExitCode::from(command::FAILED) };
    let error = Command::new(&program).args(arguments).exec();
    eprintln!("leasehold: {}: {error}", program.display());
    ExitCode::from(command::not_started(&error))
}
