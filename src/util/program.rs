//! Programs that print a secret and exit, such as credential plugins.

use std::convert::Infallible;
use std::io::{self, Read};
use std::ops::DerefMut;
#[cfg(unix)]
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus};
use std::time::{Duration, Instant};

#[cfg(unix)]
use rustix::process::{Pid, Signal, kill_process_group};

use crate::util::sync::channel::{self, Receiver, select};
use crate::util::sync::{AtomicBool, Mutex, Ordering, thread};

/// Maximum time that [`close`](Programs::close) waits for a program that is just starting.
const STARTING: Duration = Duration::from_secs(1);

/// The running programs, which other threads can end.
#[derive(Default)]
pub struct Programs {
    /// The children that were not waited for, so their process IDs and their groups' IDs are still valid.
    running: Mutex<Vec<Child>>,
    is_closed: AtomicBool,
}

/// The reason why a program has not printed its output and exited.
pub enum RunFailure {
    NotStarted(io::Error),
    /// A failure after the start: its text, and the cause.
    Failed(&'static str, io::Error),
    TooLong,
    Late,
    Abandoned,
    /// [`Programs::close`] has killed the program or prevented its start.
    Closed,
}

impl Programs {
    /// Runs a program whose stdout is a pipe, and returns its exit status and its output.
    ///
    /// The program has its own process group. If the program does not exit within `limit`, prints more than `longest`
    /// bytes, or if `abandoned` disconnects, the program is killed with its children.
    pub fn run(
        &self,
        mut command: impl DerefMut<Target = Command>,
        longest: u64,
        limit: Duration,
        abandoned: &Receiver<Infallible>,
    ) -> Result<(ExitStatus, Vec<u8>), RunFailure> {
        let began = Instant::now();
        // A kill of the group includes the program's children, and no other process.
        #[cfg(unix)]
        command.process_group(0);
        let (id, stdout) = self.start(&mut command)?;
        drop(command);
        let left = || limit.saturating_sub(began.elapsed());
        let ended = read_aside(stdout, longest).and_then(|output| self.wait(id, &output, longest, left, abandoned));
        if ended.is_err() {
            self.running.lock().extract_if(.., |child| child.id() == id).for_each(kill_and_reap);
        }
        ended
    }

    fn start(&self, command: &mut Command) -> Result<(u32, Option<ChildStdout>), RunFailure> {
        let mut running = self.running.lock();
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(RunFailure::Closed);
        }
        let mut child = command.spawn().map_err(RunFailure::NotStarted)?;
        // A start may take long, for example on a network file system that hangs. `close` does not wait for the start.
        if self.is_closed.load(Ordering::SeqCst) {
            kill_and_reap(child);
            return Err(RunFailure::Closed);
        }
        let started = (child.id(), child.stdout.take());
        running.push(child);
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
                default(pause.min(left())) => pause = (pause * 2).min(Duration::from_millis(50)),
            }
        }
    }

    fn try_wait(&self, id: u32) -> Result<Option<ExitStatus>, RunFailure> {
        let mut running = self.running.lock();
        let child = running.iter_mut().find(|child| child.id() == id).ok_or(RunFailure::Closed)?;
        let failed = |error| RunFailure::Failed("cannot get its exit status", error);
        let status = child.try_wait().map_err(failed)?;
        // An exited child was waited for, so its IDs may soon belong to other processes.
        running.retain(|child| status.is_none() || child.id() != id);
        Ok(status)
    }

    /// Ends all programs with their children, and prevents further starts.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        if let Some(mut running) = self.running.try_lock_for(STARTING) {
            running.drain(..).for_each(kill_and_reap);
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn closed_programs_start_no_program() {
        let (programs, (_abandon, abandoned)) = (Programs::default(), channel::bounded(0));
        let run = || programs.run(&mut Command::new("true"), 1, Duration::from_secs(60), &abandoned);
        assert!(run().is_ok_and(|(status, _)| status.success()));
        programs.close();
        assert!(matches!(run(), Err(RunFailure::Closed)));
    }
}
