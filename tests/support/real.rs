//! A real kube-apiserver on a real etcd, started once for a test binary.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;

use super::{in_target, is_built, repository};

/// The path of the launcher in the target directory.
pub const LAUNCHER: &str = "apiserver/apiserver";

/// A running launcher, which runs the API server and etcd.
pub struct Real {
    pub ready: Ready,
    pipes: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
    _launcher: Child,
    _dir: TempDir,
}

/// The line that the launcher prints when everything is ready.
#[derive(Deserialize)]
pub struct Ready {
    pub url: String,
    pub version: String,
    pub namespace: String,
    pub kubeconfigs: BTreeMap<String, PathBuf>,
}

impl Real {
    /// Returns the server that all tests of this binary share.
    ///
    /// If the server is not built, the test is skipped.
    ///
    /// The server ends with the test process, even if the test process is killed, because the launcher's input then
    /// ends.
    pub fn shared() -> Option<&'static Real> {
        static SHARED: OnceLock<Real> = OnceLock::new();
        let launcher = in_target(LAUNCHER);
        is_built(&launcher, "every test on a real kube-apiserver", "tests/apiserver/build")
            .then(|| SHARED.get_or_init(|| Real::start(&launcher)))
    }

    /// Starts a server that only one test uses, for tests that stop the server.
    pub fn own() -> Option<Real> {
        Real::shared()?;
        Some(Real::start(&in_target(LAUNCHER)))
    }

    fn start(launcher: &Path) -> Real {
        let dir = tempfile::Builder::new().prefix("leasehold-").tempdir().expect("a scratch directory");
        let mut child = Command::new(launcher)
            .arg("--dir")
            .arg(dir.path().join("apiserver"))
            .arg("--rbac")
            .arg(repository().join("docs/rbac.yaml"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the launcher of the real server runs");
        let stdin = child.stdin.take().expect("piped");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("the launcher prints");
        let ready =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("the launcher printed {line:?}: {error}"));
        Real { ready, pipes: Mutex::new((stdin, stdout)), _launcher: child, _dir: dir }
    }

    /// Sends a command, such as `stop kube-apiserver`, to the launcher. The command must succeed.
    pub fn tell(&self, command: &str) {
        let mut pipes = self.pipes.lock();
        writeln!(pipes.0, "{command}").expect("the launcher listens");
        let mut line = String::new();
        pipes.1.read_line(&mut line).expect("the launcher answers");
        let answer: Value = serde_json::from_str(&line).expect("an answer in JSON");
        assert_eq!(answer["ok"], true, "{command}: {line}");
    }
}

impl Drop for Real {
    /// Ends a server of [`Real::own`].
    ///
    /// The server of [`Real::shared`] is never dropped, and ends with the test process.
    fn drop(&mut self) {
        // If the launcher is killed, its other children end too, such as etcd.
        let _ = writeln!(self.pipes.get_mut().0, "stop kube-apiserver");
        let _ = self._launcher.kill();
        let _ = self._launcher.wait();
    }
}
