//! Processes whose output a test reads while they run.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::process::{mono, take_sigint};
use super::{SOON, wait_or_explain, wait_until};

/// A process, which ends at the latest when this value is dropped.
pub struct Run {
    pub pid: Pid,
    child: Child,
    out: Arc<Mutex<String>>,
    errors: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
}

/// The exit code and the output of an ended process.
#[derive(Debug)]
pub struct Ended {
    /// `None` if a signal ended the process.
    pub code: Option<i32>,
    pub out: String,
    pub errors: String,
}

impl Run {
    pub fn of(command: &mut Command) -> Self {
        let out = Arc::<Mutex<String>>::default();
        let read = Arc::clone(&out);
        let mut run = Self::telling(command, move |line| add(&read, line));
        run.out = out;
        run
    }

    /// Starts a command, and calls `on_line` with each line of stdout.
    pub fn telling(command: &mut Command, on_line: impl FnMut(&str) + Send + 'static) -> Self {
        take_sigint();
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let errors = Arc::<Mutex<String>>::default();
        let complaints = Arc::clone(&errors);
        let readers = vec![
            read(child.stdout.take().expect("piped"), on_line),
            read(child.stderr.take().expect("piped"), move |line| add(&complaints, line)),
        ];
        Self { pid: Pid::from_child(&child), child, out: Arc::default(), errors, readers }
    }

    pub fn out(&self) -> String {
        self.out.lock().clone()
    }

    pub fn errors(&self) -> String {
        self.errors.lock().clone()
    }

    pub fn wait_for_out(&self, text: &str) {
        self.wait_for("stdout", &self.out, text);
    }

    pub fn wait_for_error(&self, text: &str) {
        self.wait_for("stderr", &self.errors, text);
    }

    fn wait_for(&self, stream: &str, output: &Mutex<String>, text: &str) {
        let explain = || format!("{text:?} is not on {stream}; on stderr is: {}", self.errors());
        wait_or_explain(SOON, explain, || output.lock().contains(text));
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).expect("it was not waited for yet");
    }

    /// Stops the process with SIGSTOP. Returns a time at which the process is already stopped.
    pub fn suspend(&self) -> f64 {
        self.signal(Signal::STOP);
        wait_until("it stops", || {
            let changed = waitpid(Some(self.pid), WaitOptions::UNTRACED | WaitOptions::NOHANG);
            changed.expect("a child of ours").is_some_and(|(_, status)| status.stopped())
        });
        mono()
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for the process to exit, but not for its children.
    ///
    /// Returns `None` if a signal ended the process.
    pub fn code(mut self) -> Option<i32> {
        self.wait().code()
    }

    fn wait(&mut self) -> ExitStatus {
        let until = Instant::now() + SOON;
        while self.is_running() {
            assert!(Instant::now() < until, "it does not end; on stderr {}", self.errors());
            thread::sleep(Duration::from_millis(2));
        }
        self.child.wait().expect("a child of ours")
    }

    /// Waits until the process has ended by itself and all of its output is read.
    pub fn status(&mut self) -> ExitStatus {
        let status = self.wait();
        // Child processes that still run keep the output open.
        let until = Instant::now() + SOON;
        while !self.readers.iter().all(JoinHandle::is_finished) {
            assert!(Instant::now() < until, "something of it is left: {}", self.errors());
            thread::sleep(Duration::from_millis(2));
        }
        status
    }

    /// Kills the process with SIGKILL, and waits until all of its output is read.
    pub fn kill(mut self) -> Ended {
        self.child.kill().expect("it can be killed");
        self.end()
    }

    /// Sends SIGTERM, and waits until the process has ended and all of its output is read.
    pub fn terminate(self) -> Ended {
        self.signal(Signal::TERM);
        self.end()
    }

    #[track_caller]
    pub fn terminates_with(self, code: i32) -> Ended {
        self.signal(Signal::TERM);
        self.ends_with(code)
    }

    #[track_caller]
    pub fn ends_with(self, code: i32) -> Ended {
        let ended = self.end();
        assert_eq!(ended.code, Some(code), "{}", ended.errors);
        ended
    }

    /// Waits until the process has ended by itself and all of its output is read.
    ///
    /// Returns the exit code and the output.
    pub fn end(mut self) -> Ended {
        let code = self.status().code();
        Ended { code, out: self.out(), errors: self.errors() }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.is_running() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn add(text: &Mutex<String>, line: &str) {
    let mut text = text.lock();
    text.push_str(line);
    text.push('\n');
}

/// Reads the lines of a stream, on a thread that ends with the stream.
fn read(stream: impl Read + Send + 'static, mut on_line: impl FnMut(&str) + Send + 'static) -> JoinHandle<()> {
    thread::spawn(move || BufReader::new(stream).lines().map_while(Result::ok).for_each(|line| on_line(&line)))
}
