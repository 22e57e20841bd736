//! The last step before a command: a process that waits to become the command.

use std::ffi::OsString;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, kill_process, set_parent_process_death_signal, setpgid, waitpid,
};
use serde::{Deserialize, Serialize};

use super::super::say::Failure;
use super::command;
use super::messages::{Environment, GuardianLink};
use super::signals::ParentMask;
use super::times::boot_time;

/// The hidden subcommand, which the guardian starts with its own process ID.
pub const NAME: &str = "__exec";

/// The order to become the command. The command's stdin is attached to the message.
#[derive(Debug, Serialize, Deserialize)]
pub struct Begin {
    /// The latest start of the command, in boot time.
    pub deadline: Duration,
    /// The process group that the command joins, or `None` for a group of its own.
    pub group: Option<i32>,
    pub environment: Environment,
}

/// A process that waits to become a command.
///
/// The guardian's main thread must start the process, because the kernel kills the process when the starting thread
/// ends.
pub struct Prepared {
    pub pid: Pid,
    link: GuardianLink,
}

impl Prepared {
    /// Starts the process ahead of time.
    ///
    /// Starting a process takes longer than every other step between the acquisition and the start of the command.
    pub fn start(arguments: &[OsString], mask: &ParentMask) -> io::Result<Self> {
        let (link, theirs) = GuardianLink::pair()?;
        let mut command = Command::new("/proc/self/exe");
        command.arg0("leasehold").args([NAME, &getpid().as_raw_nonzero().to_string()]).args(arguments);
        // `reap_all` or `end` reaps the process, so the `Child` is not needed.
        let child = mask.spawn(command.stdin(Stdio::from(theirs)).process_group(0))?;
        Ok(Self { pid: Pid::from_child(&child), link })
    }

    /// Makes the process become the command.
    ///
    /// # Errors
    ///
    /// Returns an error if the process is gone. The caller must then start another process.
    pub fn begin(&self, begin: &Begin, stdin: Option<BorrowedFd<'_>>) -> io::Result<()> {
        // The waiting process may have been stopped. SIGCONT is sent before the order, because the command itself may
        // react to SIGCONT.
        kill_process(self.pid, Signal::CONT)?;
        self.link.send(begin, stdin)
    }

    /// Kills the waiting process, because no command will start.
    pub fn end(self) {
        let _ = kill_process(self.pid, Signal::KILL);
        let _ = waitpid(Some(self.pid), WaitOptions::empty());
    }
}

/// Becomes the command that follows the guardian's process ID in `arguments`.
///
/// Returns an error with an exit code if this fails.
pub fn main(mut arguments: impl Iterator<Item = OsString>) -> Result<u8, Failure> {
    let parent = arguments.next().and_then(|number| number.to_str()?.parse().ok()).and_then(Pid::from_raw);
    let (Some(parent), Some(program)) = (parent, arguments.next()) else {
        return Err(format!("{NAME} is internal to leasehold run").into());
    };
    let order = wait(parent).map_err(|error| format!("cannot start the command: {error}"))?;
    let Some((begin, stdin)) = order else { return Ok(command::FAILED) };
    let mut command = Command::new(&program);
    command.args(arguments).stdin(stdin.map_or_else(Stdio::null, Stdio::from));
    for (name, value) in begin.environment {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if boot_time() >= begin.deadline {
        return Ok(command::FAILED);
    }
    let error = command.exec();
    Err(Failure(command::not_started(&error), format!("{}: {error}", program.display())))
}

/// Waits for the order to start. Returns `None` if no order can come.
fn wait(parent: Pid) -> io::Result<Option<(Begin, Option<OwnedFd>)>> {
    let _ = rustix::thread::set_name(c"leasehold");
    // The kernel kills this process when the guardian's only thread ends. If the guardian has already ended, this
    // process has another parent.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() != Some(parent) {
        return Ok(None);
    }
    let told = GuardianLink(fcntl_dupfd_cloexec(io::stdin(), 3)?).next::<Begin>()?;
    if let Some(group) = told.as_ref().and_then(|(begin, _)| begin.group) {
        setpgid(None, Pid::from_raw(group))?;
    }
    Ok(told)
}
