//! Kubeconfigs of servers that write none, and the output of credential plugins.

use std::fmt::Display;
use std::path::Path;

use leasehold::kubernetes::{ClientConfig, ClientError};

/// Returns a kubeconfig with one cluster and one user, whose fields are in YAML.
pub fn with(cluster: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{ name: k, cluster: {{ {cluster} }} }}]\n\
         contexts: [{{ name: c, context: {{ cluster: k, user: u }} }}]\n\
         users: [{{ name: u, user: {{ {user} }} }}]\n"
    )
}

/// Returns the output of a credential plugin.
pub fn exec_credential(status: impl Display) -> String {
    format!(r#"{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{status}}}"#)
}

/// Returns the configuration of a kubeconfig without relative paths.
pub fn config_of(text: &str) -> Result<ClientConfig, ClientError> {
    let directory = tempfile::tempdir().expect("a scratch directory");
    config_in(text, directory.path())
}

/// Returns the configuration of a kubeconfig, which this function writes to a file in `directory`.
pub fn config_in(text: &str, directory: &Path) -> Result<ClientConfig, ClientError> {
    let file = directory.join("kubeconfig");
    std::fs::write(&file, text).expect("a kubeconfig");
    ClientConfig::from_kubeconfig(Some(&file), None)
}
