//! One run of a plugin.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::{self, Read};
#[cfg(unix)]
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded, select};
use parking_lot::Mutex;
#[cfg(unix)]
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::json;

use super::credential::ExecCredentialStatus;
use super::{ExecPlugin, ExecStderr};
use crate::backends::kubernetes::client::error::{ClientError, ErrorKind};
use crate::net::interrupt::interrupted;
use crate::net::text::clean;

const MAX_OUTPUT: u64 = 1024 * 1024;

/// Maximum time that dropping a client waits for a plugin that is just starting.
const STARTING: Duration = Duration::from_secs(1);

/// The process of the current run, which other threads can end.
#[derive(Default)]
pub(super) struct Process(Mutex<ProcessSlot>);

#[derive(Default)]
enum ProcessSlot {
    #[default]
    Empty,
    /// A child that was not waited for, so its process ID and its group's ID are still valid.
    Running(Child),
    Closed,
}

impl Process {
    /// Starts the process. Returns `None` after `close`.
    fn start(&self, command: &mut Command) -> io::Result<Option<Option<ChildStdout>>> {
        let mut slot = self.0.lock();
        if matches!(*slot, ProcessSlot::Closed) {
            return Ok(None);
        }
        let mut child = command.spawn()?;
        let stdout = child.stdout.take();
        *slot = ProcessSlot::Running(child);
        Ok(Some(stdout))
    }

    fn try_wait(&self) -> Result<Option<ExitStatus>, ClientError> {
        let mut slot = self.0.lock();
        let ProcessSlot::Running(child) = &mut *slot else { return Err(interrupted().into()) };
        let failed = |e| ClientError::new(ErrorKind::Credentials, "cannot get its exit status").caused_by(e);
        let status = child.try_wait().map_err(failed)?;
        if status.is_some() {
            *slot = ProcessSlot::Empty;
        }
        Ok(status)
    }

    /// Ends the process and all its children, unless the process has already ended.
    fn end(&self) {
        let mut slot = self.0.lock();
        if matches!(*slot, ProcessSlot::Running(_)) {
            kill_and_reap(std::mem::take(&mut *slot));
        }
    }

    /// Ends the process and prevents further starts.
    pub(super) fn close(&self) {
        // If the start takes longer, the thread that starts the process also ends the process.
        if let Some(mut slot) = self.0.try_lock_for(STARTING) {
            kill_and_reap(std::mem::replace(&mut *slot, ProcessSlot::Closed));
        }
    }
}

/// Kills the process, and reaps it without blocking the caller.
///
/// A process that is stuck in the kernel is reaped on another thread.
fn kill_and_reap(slot: ProcessSlot) {
    if let ProcessSlot::Running(mut child) = slot {
        // A killed shell leaves its children running, so the kill includes the process group.
        #[cfg(unix)]
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        let _ = child.kill();
        if !matches!(child.try_wait(), Ok(Some(_))) {
            let _ = thread::Builder::new().name("leasehold-reap".to_owned()).spawn(move || child.wait());
        }
    }
}

impl ExecPlugin {
    /// Runs the plugin until it ends, its time limit elapses, or `abandoned` disconnects.
    pub(super) fn run(
        &self,
        process: &Process,
        abandoned: &Receiver<Infallible>,
    ) -> Result<ExecCredentialStatus, ClientError> {
        let deadline = Instant::now() + self.limit;
        let stdout = match process.start(&mut self.command()) {
            Ok(Some(stdout)) => stdout,
            Ok(None) => return Err(interrupted().into()),
            Err(e) => return Err(self.not_started(e)),
        };
        let output = stdout.ok_or(io::ErrorKind::BrokenPipe.into()).and_then(read_aside);
        let printed = output.map_err(unreadable);
        let printed = printed.and_then(|output| self.wait(process, &output, deadline, abandoned));
        if printed.is_err() {
            process.end();
        }
        self.parse(&printed?)
    }

    fn command(&self) -> Command {
        let mut spec = json!({ "interactive": false });
        if let Some(cluster) = &self.cluster_info {
            spec["cluster"] = cluster.clone();
        }
        let info = json!({ "apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec });
        let mut command = Command::new(&self.command);
        command
            .args(&self.args)
            .envs(self.env.iter().map(|(name, value)| (name, OsString::from(value.expose()))))
            .env("KUBERNETES_EXEC_INFO", info.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(match self.stderr {
                ExecStderr::Inherit => Stdio::inherit(),
                ExecStderr::Discard => Stdio::null(),
            });
        // A kill of the group includes the plugin's children, and no other process.
        #[cfg(unix)]
        command.process_group(0);
        command
    }

    fn not_started(&self, e: io::Error) -> ClientError {
        let hint = match &self.install_hint {
            Some(hint) if e.kind() == io::ErrorKind::NotFound => {
                format!("cannot be started; {}", clean(hint, 500))
            }
            _ => "cannot be started; install the plugin in PATH or next to the kubeconfig".to_owned(),
        };
        ClientError::new(ErrorKind::Credentials, hint).caused_by(e)
    }

    /// Blocks until the plugin has exited with status 0, and returns its complete output.
    fn wait(
        &self,
        process: &Process,
        output: &Receiver<io::Result<Vec<u8>>>,
        deadline: Instant,
        abandoned: &Receiver<Infallible>,
    ) -> Result<Vec<u8>, ClientError> {
        let late = || {
            let limit = self.limit;
            let detail = format!("did not finish within its time limit of {limit:?}; killed with its child processes");
            ClientError::new(ErrorKind::Timeout, detail)
        };
        let bytes = select! {
            recv(output) -> read => match read {
                Ok(Ok(bytes)) => bytes,
                Ok(Err(e)) => return Err(unreadable(e)),
                Err(_) => return Err(unreadable(None)),
            },
            recv(abandoned) -> _ => return Err(interrupted().into()),
            default(deadline.saturating_duration_since(Instant::now())) => return Err(late()),
        };
        if bytes.len() as u64 > MAX_OUTPUT {
            return Err(ClientError::new(ErrorKind::Credentials, "printed more than 1 MiB"));
        }
        // The plugin has closed its output and will exit soon. The loop polls, because no portable call waits for an
        // exit with a time limit.
        let mut pause = Duration::from_millis(1);
        loop {
            match process.try_wait()? {
                Some(status) if status.success() => return Ok(bytes),
                Some(status) => {
                    let advice = "run the plugin manually, or inherit its stderr, to see its messages";
                    return Err(ClientError::new(ErrorKind::Credentials, format!("failed ({status}); {advice}")));
                }
                None => {}
            }
            if Instant::now() >= deadline {
                return Err(late());
            }
            select! {
                recv(abandoned) -> _ => return Err(interrupted().into()),
                default(pause) => pause = (pause * 2).min(Duration::from_millis(50)),
            }
        }
    }
}

fn unreadable(cause: impl Into<Option<io::Error>>) -> ClientError {
    ClientError::new(ErrorKind::Credentials, "cannot be read from").caused_by(cause)
}

/// Reads the plugin's output on another thread.
///
/// A grandchild that keeps the pipe open would block the caller.
fn read_aside(stdout: impl Read + Send + 'static) -> io::Result<Receiver<io::Result<Vec<u8>>>> {
    let (done, output) = bounded(1);
    thread::Builder::new().name("leasehold-exec-out".to_owned()).spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.take(MAX_OUTPUT + 1).read_to_end(&mut bytes);
        let _ = done.send(read.map(|_| bytes));
    })?;
    Ok(output)
}
