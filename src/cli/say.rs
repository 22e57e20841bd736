//! The last words of a process, on stderr: whoever reads it may have stopped to, or be gone, and the process ends all the same.

use std::io::{self, Write};
#[cfg(unix)]
use std::os::fd::AsFd;
use std::time::Duration;

#[cfg(unix)]
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use leasehold::util::one_line::OneLine;

/// The exit code of this program's own errors, as of env(1) and timeout(1): commands hardly ever exit with the code.
pub const FAILED: u8 = 125;

/// The exit code, and the message on stderr before the exit.
pub type Failure = (u8, String);

/// Returns the failure of an error of this program itself.
pub fn failed(message: impl Into<String>) -> Failure {
    (FAILED, message.into())
}

/// Writes it as a line, unless nobody takes that for a moment. To be used where there is no log, or what is said comes after it.
pub fn say(message: &str) {
    let mut line = format!("leasehold: {}\n", OneLine(message));
    if let Some((cut, _)) = line.char_indices().find(|(at, _)| *at >= LONGEST) {
        line.truncate(cut);
        line.push_str("…\n");
    }
    print(&line, PATIENCE);
}

/// The same with a text as it is, of a few lines, and for so long.
pub fn print(text: &str, patience: Duration) {
    if is_read(patience) {
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

/// How long to wait for who reads it.
pub const PATIENCE: Duration = Duration::from_millis(500);

/// A pipe that takes anything takes so much at once. Source: pipe(7), `PIPE_BUF`.
const LONGEST: usize = 4_000;

#[cfg(unix)]
fn is_read(patience: Duration) -> bool {
    let events = poll_once(&io::stderr(), PollFlags::OUT, patience);
    // Who writes to a pipe that nobody has may be ended by a signal.
    !events.is_empty() && !events.intersects(PollFlags::ERR | PollFlags::NVAL)
}

#[cfg(not(unix))]
fn is_read(_: Duration) -> bool {
    true
}

/// Writes a text to stdout, which may be a pipe.
pub fn write_stdout(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Returns an error if nobody reads stdout. A write returns the same error, but there may be nothing to write for long.
pub fn check_stdout() -> io::Result<()> {
    #[cfg(unix)]
    if poll_once(&io::stdout(), PollFlags::empty(), Duration::ZERO).contains(PollFlags::ERR) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    Ok(())
}

/// Returns the events of a stream, or none if there are none within `patience`.
#[cfg(unix)]
fn poll_once(stream: &impl AsFd, wanted: PollFlags, patience: Duration) -> PollFlags {
    let mut polled = [PollFd::new(stream, wanted)];
    let _ = poll(&mut polled, Timespec::try_from(patience).ok().as_ref());
    polled[0].revents()
}
