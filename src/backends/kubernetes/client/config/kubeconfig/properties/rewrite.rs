//! Writes a kubeconfig as YAML in an unusual form: on one line, as JSON, with escapes.

use serde::Serialize;
use serde_json::{Value, json};

use crate::backends::kubernetes::client::Kubeconfig;
use crate::backends::kubernetes::client::config::kubeconfig::NamedEntry;

/// Returns a kubeconfig as JSON on one line.
///
/// Characters beyond printable ASCII are escaped. Such characters occur only in JSON strings.
pub(super) fn write(kubeconfig: &Kubeconfig) -> String {
    let document = json!({
        "current-context": kubeconfig.current_context,
        "clusters": list("cluster", &kubeconfig.clusters),
        "users": list("user", &kubeconfig.users),
        "contexts": list("context", &kubeconfig.contexts),
    });
    let mut out = String::new();
    for c in document.to_string().chars() {
        match c {
            ' '..='~' => out.push(c),
            _ => out.push_str(&format!("\\U{:08X}", u32::from(c))),
        }
    }
    out
}

fn list<T: Serialize>(key: &str, entries: &[NamedEntry<T>]) -> Vec<Value> {
    entries.iter().map(|entry| json!({ "name": entry.name, key: entry.value })).collect()
}
