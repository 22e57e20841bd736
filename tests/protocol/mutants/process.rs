//! Runs programs that may not end by themselves.

use std::io::{self, Read, Seek};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A process that is killed when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `command`, and returns its status and everything that it printed.
///
/// Returns `TimedOut` if the process does not end within `timeout`.
pub fn run_to_its_end(mut command: Command, timeout: Option<Duration>) -> io::Result<(ExitStatus, String)> {
    // The output goes to a file. A pipe would have to be read while the process runs, and would stay open while any
    // child of the process still runs.
    let mut output = tempfile::tempfile()?;
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output.try_clone()?);
    let mut process = Running(command.spawn()?);
    let began = Instant::now();
    let status = loop {
        if let Some(status) = process.0.try_wait()? {
            break status;
        }
        if timeout.is_some_and(|timeout| began.elapsed() > timeout) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        thread::sleep(Duration::from_millis(20));
    };
    let mut said = Vec::new();
    output.rewind()?;
    output.read_to_end(&mut said)?;
    Ok((status, String::from_utf8_lossy(&said).into_owned()))
}
