//! Programs that print a secret and exit, such as credential plugins.

use std::convert::Infallible;
use std::io::{self, Read};
#[cfg(unix)]
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus};
use std::time::{Duration, Instant};

#[cfg(unix)]
use rustix::process::{Pid, Signal, kill_process_group};

use crate::util::sync::channel::{self, Receiver, select};
use crate::util::sync::{Mutex, thread};

/// Maximum time that [`close`](Programs::close) waits for a program that is just starting.
const STARTING: Duration = Duration::from_secs(1);

/// The running programs, which other threads can end.
#[derive(Default)]
pub struct Programs(Mutex<ProgramsState>);

#[derive(Default)]
struct ProgramsState {
    /// The children that were not waited for, so their process IDs and their groups' IDs are still valid.
    running: Vec<Child>,
    is_closed: bool,
}

/// The reason why a program has not printed its output and exited.
pub enum RunFailure {
    NotStarted(io::Error),
    /// A failure after the start: its text, and the cause.
    Failed(&'static str, io::Error),
    TooLong,
    Late,
    /// The caller has abandoned the run, or [`Programs::close`] has ended the program.
    Abandoned,
}

impl Programs {
    /// Runs a program whose stdout is a pipe, and returns its exit status and its output.
    ///
    /// The program has its own process group. If the program does not exit within `limit`, prints more than `longest`
    /// bytes, or if `abandoned` disconnects, the program is killed with its children.
    pub fn run(
        &self,
        command: &mut Command,
        longest: u64,
        limit: Duration,
        abandoned: &Receiver<Infallible>,
    ) -> Result<(ExitStatus, Vec<u8>), RunFailure> {
        let began = Instant::now();
        // A kill of the group includes the program's children, and no other process.
        #[cfg(unix)]
        command.process_group(0);
        let (id, stdout) = self.start(command)?;
        let left = || limit.saturating_sub(began.elapsed());
        let ended = read_aside(stdout, longest).and_then(|output| self.wait(id, &output, longest, left, abandoned));
        if ended.is_err() {
            self.0.lock().running.extract_if(.., |child| child.id() == id).for_each(kill_and_reap);
        }
        ended
    }

    fn start(&self, command: &mut Command) -> Result<(u32, Option<ChildStdout>), RunFailure> {
        let mut state = self.0.lock();
        if state.is_closed {
            return Err(RunFailure::Abandoned);
        }
        let mut child = command.spawn().map_err(RunFailure::NotStarted)?;
        let started = (child.id(), child.stdout.take());
        state.running.push(child);
        Ok(started)
    }

    /// Blocks until the program has exited.
    fn wait(
        &self,
        id: u32,
        output: &Receiver<io::Result<Vec<u8>>>,
        longest: u64,
        left: impl Fn() -> Duration,
        abandoned: &Receiver<Infallible>,
    ) -> Result<(ExitStatus, Vec<u8>), RunFailure> {
        let output = select! {
            recv(output) -> read => read.unwrap_or(Err(io::ErrorKind::BrokenPipe.into())).map_err(unreadable)?,
            recv(abandoned) -> _ => return Err(RunFailure::Abandoned),
            default(left()) => return Err(RunFailure::Late),
        };
        if output.len() as u64 > longest {
            return Err(RunFailure::TooLong);
        }
        // The program has closed its output and will exit soon. The loop polls, because no portable call waits for an
        // exit with a time limit.
        let mut pause = Duration::from_millis(1);
        loop {
            if let Some(status) = self.try_wait(id)? {
                return Ok((status, output));
            }
            if left().is_zero() {
                return Err(RunFailure::Late);
            }
            select! {
                recv(abandoned) -> _ => return Err(RunFailure::Abandoned),
                default(pause) => pause = (pause * 2).min(Duration::from_millis(50)),
            }
        }
    }

    fn try_wait(&self, id: u32) -> Result<Option<ExitStatus>, RunFailure> {
        let running = &mut self.0.lock().running;
        let child = running.iter_mut().find(|child| child.id() == id).ok_or(RunFailure::Abandoned)?;
        let failed = |error| RunFailure::Failed("cannot get its exit status", error);
        let status = child.try_wait().map_err(failed)?;
        // An exited child was waited for, so its IDs may soon belong to other processes.
        running.retain(|child| status.is_none() || child.id() != id);
        Ok(status)
    }

    /// Ends all programs with their children, and prevents further starts.
    pub fn close(&self) {
        // If the start takes longer, the thread that starts the program also ends the program.
        if let Some(mut state) = self.0.try_lock_for(STARTING) {
            state.is_closed = true;
            state.running.drain(..).for_each(kill_and_reap);
        }
    }
}

/// Kills the program, and reaps it without blocking the caller.
///
/// A process that is stuck in the kernel is reaped on another thread.
fn kill_and_reap(mut child: Child) {
    // A killed shell leaves its children running, so the kill includes the process group.
    #[cfg(unix)]
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    let _ = child.kill();
    if !matches!(child.try_wait(), Ok(Some(_))) {
        let _ = thread::Builder::new().name("leasehold-reap".to_owned()).spawn(move || child.wait());
    }
}

fn unreadable(error: io::Error) -> RunFailure {
    RunFailure::Failed("cannot be read from", error)
}

/// Reads the output on another thread.
///
/// A grandchild that keeps the pipe open would block the caller.
fn read_aside(stdout: Option<ChildStdout>, longest: u64) -> Result<Receiver<io::Result<Vec<u8>>>, RunFailure> {
    let (done, output) = channel::bounded(1);
    let read = move || {
        let mut bytes = Vec::new();
        let read = stdout.map_or(Ok(0), |stdout| stdout.take(longest + 1).read_to_end(&mut bytes));
        let _ = done.send(read.map(|_| bytes));
    };
    thread::Builder::new().name("leasehold-output".to_owned()).spawn(read).map_err(unreadable)?;
    Ok(output)
}
