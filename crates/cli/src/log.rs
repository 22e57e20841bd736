//! Log lines on stderr.
//!
//! Only the log thread waits for the reader of stderr, so a stopped reader does not stop a leader.

use std::io::{self, Write};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};
use env_logger::{Builder, Env, Target};

use super::say::PATIENCE;
use crate::one_line::OneLine;

/// The target of the log lines of the command, for filters.
pub const COMMAND: &str = "leasehold::command";

/// The largest number of queued lines. While the queue is full, new lines are dropped.
const BEHIND: usize = 1024;

enum LogMessage {
    Line(Vec<u8>),
    Flush(Sender<()>),
}

/// The handle of the log thread, which receives whole lines from `env_logger`.
///
/// Dropping the handle waits briefly until queued lines are written.
pub struct StderrLog(Sender<LogMessage>);

impl StderrLog {
    /// Makes the `log` crate write to stderr, with levels from LEASEHOLD_LOG.
    ///
    /// RUST_LOG is ignored, because RUST_LOG may be meant for the command that `leasehold run` starts.
    pub fn start(is_quiet: bool) -> io::Result<Self> {
        let (sender, messages) = bounded(BEHIND);
        thread::Builder::new().name("log".into()).spawn(move || write(&messages))?;
        let levels = if is_quiet { "warn" } else { "warn,leasehold=info" };
        Builder::from_env(Env::new().filter_or("LEASEHOLD_LOG", levels))
            .format(|out, record| {
                writeln!(out, "{} {:5} leasehold: {}", out.timestamp(), record.level(), OneLine(record.args()))
            })
            .target(Target::Pipe(Box::new(Self(sender.clone()))))
            .init();
        Ok(Self(sender))
    }
}

impl Drop for StderrLog {
    fn drop(&mut self) {
        let (written, is_written) = bounded(1);
        if self.0.send_timeout(LogMessage::Flush(written), PATIENCE).is_ok() {
            let _ = is_written.recv_timeout(PATIENCE);
        }
    }
}

impl Write for StderrLog {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let _ = self.0.try_send(LogMessage::Line(line.to_owned()));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write(messages: &Receiver<LogMessage>) {
    for message in messages {
        match message {
            LogMessage::Line(line) => _ = io::stderr().write_all(&line),
            LogMessage::Flush(written) => _ = written.try_send(()),
        }
    }
}
