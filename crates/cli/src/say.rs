//! Text on stdout, and the last message of a process on stderr.
//!
//! The process ends even if the reader of stderr has stopped or is gone.

use std::error::Error;
use std::io::{self, Write};
#[cfg(unix)]
use std::os::fd::AsFd;
use std::time::Duration;

#[cfg(unix)]
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::election::by_flags;
use crate::one_line::OneLine;

/// The exit code of this program's own errors, the same as in env(1) and timeout(1).
///
/// Other programs rarely use this code.
pub const FAILED: u8 = 125;

/// The exit code, and the message on stderr before the exit.
pub struct Failure(pub u8, pub String);

/// An error of this program itself. The message has the names of flags instead of settings.
impl<E: Into<Box<dyn Error>>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(FAILED, by_flags(&*error.into()))
    }
}

/// Writes a line to stderr, unless the reader blocks.
///
/// Used in processes without a log, and after the log has ended.
pub fn say(message: &str) {
    let mut line = format!("leasehold: {}\n", OneLine(message));
    if let Some((cut, _)) = line.char_indices().find(|(at, _)| *at >= LONGEST) {
        line.truncate(cut);
        line.push_str("…\n");
    }
    print(&line, PATIENCE);
}

/// Writes a text of several lines to stderr, for at most `patience`.
pub fn print(text: &str, patience: Duration) {
    if is_read(patience) {
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

/// The time to wait for a reader that blocks.
pub const PATIENCE: Duration = Duration::from_millis(500);

/// The longest message in bytes.
///
/// A pipe with free space accepts a message of this length without blocking. Source: pipe(7), `PIPE_BUF`.
const LONGEST: usize = 4_000;

#[cfg(unix)]
fn is_read(patience: Duration) -> bool {
    let events = poll_once(&io::stderr(), PollFlags::OUT, patience);
    // A write to a pipe without a reader may end the process by a signal.
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

/// Returns an error if stdout has no reader.
///
/// A write returns the same error, but a long time may pass until the next write.
pub fn check_stdout() -> io::Result<()> {
    #[cfg(unix)]
    if poll_once(&io::stdout(), PollFlags::empty(), Duration::ZERO).contains(PollFlags::ERR) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    Ok(())
}

/// Returns `false` if the reader has closed stdout, which is not an error of a command.
pub fn is_stdout_open(written: io::Result<()>) -> Result<bool, String> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("cannot write to stdout: {error}")),
    }
}

/// Returns the events of a stream, or no event after `patience`.
#[cfg(unix)]
fn poll_once(stream: &impl AsFd, wanted: PollFlags, patience: Duration) -> PollFlags {
    let mut polled = [PollFd::new(stream, wanted)];
    let _ = poll(&mut polled, Timespec::try_from(patience).ok().as_ref());
    polled[0].revents()
}
