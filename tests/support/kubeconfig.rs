//! Kubeconfigs of servers that write none, and the output of credential plugins.

use std::fmt::Display;

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
