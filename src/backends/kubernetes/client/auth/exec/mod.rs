//! Credential plugins: programs that print an `ExecCredential`.
//!
//! Source: Kubernetes documentation, "client-go credential plugins", and `client.authentication.k8s.io/v1`.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::net::secret::Secret;
use crate::util::debug_fields::debug_fields;
use crate::util::log_fields::CLIENT;
use crate::util::panics::log_line;

mod credential;
mod run;
mod schedule;
mod source;

pub(crate) use source::ExecSource;

/// Default time limit of a run.
///
/// The limit is long enough for an interactive login, and short enough to end a plugin that hangs.
pub(crate) const DEFAULT_LIMIT: Duration = Duration::from_secs(60);

const SHORTEST_LIMIT: Duration = Duration::from_secs(1);

const LONGEST_LIMIT: Duration = Duration::from_secs(60 * 60);

/// The destination of a credential plugin's stderr.
///
/// Plugins may print tokens on stderr, and clusters keep logs for a long time. The library therefore never reads a
/// plugin's stderr, and no error or log line quotes a plugin's output. client-go always inherits the stderr.
///
/// # Examples
///
/// ```no_run
/// use leasehold::kubernetes::{Client, ClientConfig, ExecStderr};
///
/// // The plugin of an interactive tool prints the login URL on stderr.
/// let config = ClientConfig::infer()?.with_exec_stderr(ExecStderr::Inherit);
/// let client = Client::new(config)?;
/// # Ok::<(), leasehold::kubernetes::ClientError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExecStderr {
    /// The stderr of this program.
    Inherit,
    /// No destination: the output is discarded.
    #[default]
    Discard,
}

/// A plugin and its arguments.
#[derive(Clone)]
pub(crate) struct ExecPlugin {
    pub(crate) api_version: String,
    pub(crate) command: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, Secret)>,
    pub(crate) install_hint: Option<String>,
    /// Data about the cluster for the plugin, if the kubeconfig requests it.
    pub(crate) cluster_info: Option<Value>,
    /// The time limit of a run, which the program sets rather than the kubeconfig.
    pub(crate) limit: Duration,
    /// Set by the program rather than the kubeconfig.
    pub(crate) stderr: ExecStderr,
}

impl ExecPlugin {
    pub(crate) fn set_limit(&mut self, limit: Duration) {
        self.limit = limit.clamp(SHORTEST_LIMIT, LONGEST_LIMIT);
    }

    /// Logs at `info` that the plugin does not run. Called once for each client.
    pub(crate) fn say_that_it_is_not_run(&self) {
        log_line!(info, target: CLIENT, "kubernetes: {} not run: the user has a client certificate", self.place());
    }

    fn place(&self) -> String {
        format!("credential plugin {}", self.command.display())
    }
}

// Omits the arguments, because some contain secrets.
debug_fields!(impl Debug for ExecPlugin {
    self => command: self.command, api_version: self.api_version, limit: self.limit, stderr: self.stderr, ..
});

#[cfg(feature = "_internals")]
pub(crate) mod properties;
