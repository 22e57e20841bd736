//! The last step before a command: a process that is there before its time, and becomes the command, unless it is too late for that.

use std::ffi::OsString;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, kill_process, set_parent_process_death_signal, setpgid, waitpid,
};
use serde::{Deserialize, Serialize};

use super::super::say::say;
use super::command;
use super::messages::{Environment, GuardianLink};
use super::times::boot_time;

/// What the guardian starts it by, with its own number.
pub const NAME: &str = "__exec";

/// What it is told when its time has come. The command's stdin comes along.
#[derive(Debug, Serialize, Deserialize)]
pub struct Begin {
    /// Until when the command may begin, in boot time.
    pub deadline: Duration,
    /// The process group that it joins, if not one of its own.
    pub group: Option<i32>,
    pub environment: Environment,
}

/// A process that waits to become a command. To be started by a guardian's main thread: it is killed when that ends.
pub struct Prepared {
    pub pid: Pid,
    link: GuardianLink,
}

impl Prepared {
    /// Starting it takes longer than all else between the acquisition and the command.
    pub fn start(arguments: &[OsString]) -> io::Result<Self> {
        let (link, theirs) = GuardianLink::pair()?;
        let mut command = Command::new("/proc/self/exe");
        command.arg0("leasehold").args([NAME, &getpid().as_raw_nonzero().to_string()]).args(arguments);
        // It is reaped with all others.
        let child = command.stdin(Stdio::from(theirs)).process_group(0).spawn()?;
        Ok(Self { pid: Pid::from_child(&child), link })
    }

    /// Has it become the command.
    ///
    /// # Errors
    ///
    /// When it is gone: another one has to be started.
    pub fn begin(&self, begin: &Begin, stdin: Option<BorrowedFd<'_>>) -> io::Result<()> {
        // Somebody may have stopped it. The command is not to be continued: it may ask why.
        kill_process(self.pid, Signal::CONT)?;
        self.link.send(begin, stdin)
    }

    /// Ends it, for it is not needed.
    pub fn end(self) {
        let _ = kill_process(self.pid, Signal::KILL);
        let _ = waitpid(Some(self.pid), WaitOptions::empty());
    }
}

/// Becomes the command that `arguments` say after the one that it is told by.
pub fn main(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let parent = arguments.next().and_then(|number| number.to_str()?.parse().ok()).and_then(Pid::from_raw);
    let (Some(parent), Some(program)) = (parent, arguments.next()) else {
        say(&format!("{NAME} is for leasehold run itself"));
        return ExitCode::from(command::FAILED);
    };
    let (begin, stdin) = match wait(parent) {
        Ok(Some(told)) => told,
        Ok(None) => return ExitCode::from(command::FAILED),
        Err(error) => {
            say(&format!("the command is not started: {error}"));
            return ExitCode::from(command::FAILED);
        }
    };
    let mut command = Command::new(&program);
    command.args(arguments).stdin(stdin.map_or_else(Stdio::null, Stdio::from));
    for (name, value) in begin.environment {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if boot_time() >= begin.deadline {
        return ExitCode::from(command::FAILED);
    }
    let error = command.exec();
    say(&format!("{}: {error}", program.display()));
    ExitCode::from(command::not_started(&error))
}

/// Waits until it is told to begin. `None`: that will not come any more.
fn wait(parent: Pid) -> io::Result<Option<(Begin, Option<OwnedFd>)>> {
    let _ = rustix::thread::set_name(c"leasehold");
    // It is sent when the thread ends that has started us, which is the guardian's only one. Who ended before that is not our
    // parent any more.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() != Some(parent) {
        return Ok(None);
    }
    let told = GuardianLink::new(fcntl_dupfd_cloexec(io::stdin(), 3)?).next::<Begin>()?;
    if let Some(group) = told.as_ref().and_then(|(begin, _)| begin.group) {
        setpgid(None, Pid::from_raw(group))?;
    }
    Ok(told)
}
