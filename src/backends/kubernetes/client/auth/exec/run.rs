//! One run of a plugin.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::process::{Command, Stdio};

use crossbeam_channel::Receiver;
use serde_json::json;

use super::credential::ExecCredentialStatus;
use super::{ExecPlugin, ExecStderr};
use crate::backends::kubernetes::client::error::{ClientError, ErrorKind};
use crate::net::interrupt::interrupted;
use crate::net::text::clean;
use crate::util::program::{Programs, RunFailure};

const MAX_OUTPUT: u64 = 1024 * 1024;

impl ExecPlugin {
    /// Runs the plugin until it ends, its time limit elapses, or `abandoned` disconnects.
    pub(super) fn run(
        &self,
        programs: &Programs,
        abandoned: &Receiver<Infallible>,
    ) -> Result<ExecCredentialStatus, ClientError> {
        let limit = self.limit;
        let unusable = |detail: String| ClientError::new(ErrorKind::Credentials, detail);
        match programs.run(&mut self.command(), MAX_OUTPUT, limit, abandoned) {
            Ok((status, output)) if status.success() => self.parse(&output),
            Ok((status, _)) => {
                let advice = "run the plugin manually, or inherit its stderr, to see its messages";
                Err(unusable(format!("failed ({status}); {advice}")))
            }
            Err(RunFailure::NotStarted(e)) => Err(self.not_started(e)),
            Err(RunFailure::Failed(what, e)) => Err(unusable(what.to_owned()).caused_by(e)),
            Err(RunFailure::TooLong) => Err(unusable("printed more than 1 MiB".to_owned())),
            Err(RunFailure::Late) => {
                let detail =
                    format!("did not finish within its time limit of {limit:?}; killed with its child processes");
                Err(ClientError::new(ErrorKind::Timeout, detail))
            }
            Err(RunFailure::Abandoned | RunFailure::Closed) => Err(interrupted().into()),
        }
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
}
