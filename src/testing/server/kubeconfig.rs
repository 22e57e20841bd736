//! The kubeconfig file of the server.

use serde_json::json;

/// Returns a kubeconfig in YAML. `cluster` and `credentials` are pairs of a name and a value in YAML.
pub(crate) fn render(cluster: &[(&str, String)], user: &str, credentials: &[(&str, String)]) -> String {
    let written = |members: &[(&str, String)]| -> String {
        members.iter().map(|(name, value)| format!("    {name}: {value}\n")).collect()
    };
    let cluster = written(cluster);
    let credentials = match credentials {
        [] => "  user: {}\n".to_owned(),
        members => format!("  user:\n{}", written(members)),
    };
    let user = quoted(user);
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         clusters:\n\
         - name: testing\n  cluster:\n{cluster}\
         users:\n\
         - name: {user}\n{credentials}\
         contexts:\n\
         - name: testing\n  context:\n    cluster: testing\n    user: {user}\n    namespace: default\n\
         current-context: testing\n"
    )
}

/// Returns a text quoted as in JSON, which is also valid YAML.
pub(crate) fn quoted(text: &str) -> String {
    json!(text).to_string()
}
