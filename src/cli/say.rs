//! The last words of a process, on stderr: whoever reads it may have stopped to, or be gone, and the process ends all the same.

use std::io::{self, Write};
use std::time::Duration;

use crate::one_line::OneLine;

/// The exit code of this program's own errors, as of env(1) and timeout(1): commands hardly ever exit with the code.
pub const FAILED: u8 = 125;

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
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let stderr = io::stderr();
    let mut polled = [PollFd::new(&stderr, PollFlags::OUT)];
    let patience = Timespec::try_from(patience).ok();
    let ready = poll(&mut polled, patience.as_ref()).is_ok_and(|ready| ready > 0);
    // Who writes to a pipe that nobody has may be ended by a signal.
    ready && !polled[0].revents().intersects(PollFlags::ERR | PollFlags::NVAL)
}

#[cfg(not(unix))]
fn is_read(_: Duration) -> bool {
    true
}
