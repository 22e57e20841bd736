//! A kubeconfig as YAML again, in a form that nobody would choose: all on one line, the texts escaped.

use serde_json::{Value, json};

use crate::backends::kubernetes::client::Kubeconfig;
use crate::backends::kubernetes::client::config::kubeconfig::NamedEntry;
use crate::backends::kubernetes::client::config::kubeconfig::schema::{AuthInfo, Cluster, Context, Exec};
use crate::net::secret::Secret;

/// What stands in an entry, under the names of the file format.
pub(super) trait Members {
    /// The key of an entry's content.
    const KEY: &str;

    fn members(&self) -> Value;
}

impl Members for Context {
    const KEY: &str = "context";

    fn members(&self) -> Value {
        json!({ "cluster": self.cluster, "user": self.user, "namespace": self.namespace })
    }
}

impl Members for Cluster {
    const KEY: &str = "cluster";

    fn members(&self) -> Value {
        let extension = |e: &crate::backends::kubernetes::client::config::kubeconfig::schema::Extension| json!({ "name": e.name, "extension": e.extension });
        json!({
            "server": text(&self.server),
            "tls-server-name": self.tls_server_name,
            "insecure-skip-tls-verify": self.insecure_skip_tls_verify,
            "certificate-authority": self.certificate_authority,
            "certificate-authority-data": self.certificate_authority_data,
            "proxy-url": text(&self.proxy_url),
            "extensions": self.extensions.as_ref().map(|all| all.iter().map(extension).collect::<Vec<_>>()),
        })
    }
}

impl Members for AuthInfo {
    const KEY: &str = "user";

    fn members(&self) -> Value {
        json!({
            "client-certificate": self.client_certificate,
            "client-certificate-data": text(&self.client_certificate_data),
            "client-key": self.client_key,
            "client-key-data": text(&self.client_key_data),
            "token": text(&self.token),
            "tokenFile": self.token_file,
            "username": self.username,
            "password": text(&self.password),
            "as": self.act_as,
            "as-uid": self.as_uid,
            "as-groups": self.as_groups,
            "as-user-extra": self.as_user_extra,
            "auth-provider": self.auth_provider.as_ref().map(|provider| json!({ "name": provider.name })),
            "exec": self.exec.as_ref().map(exec),
        })
    }
}

fn exec(exec: &Exec) -> Value {
    let args = exec.args.as_ref().map(|args| args.iter().map(Secret::expose).collect::<Vec<_>>());
    let env = exec
        .env
        .as_ref()
        .map(|env| env.iter().map(|v| json!({ "name": v.name, "value": v.value.expose() })).collect::<Vec<_>>());
    json!({
        "apiVersion": exec.api_version,
        "command": exec.command,
        "args": args,
        "env": env,
        "installHint": exec.install_hint,
        "provideClusterInfo": exec.provide_cluster_info,
        "interactiveMode": exec.interactive_mode,
    })
}

fn text(secret: &Option<Secret>) -> Option<&str> {
    secret.as_ref().map(Secret::expose)
}

pub(super) fn write(kubeconfig: &Kubeconfig) -> String {
    let mut out = String::new();
    push(
        &mut out,
        &json!({
            "current-context": kubeconfig.current_context,
            "clusters": list(&kubeconfig.clusters),
            "users": list(&kubeconfig.users),
            "contexts": list(&kubeconfig.contexts),
        }),
    );
    out
}

fn list<T: Members>(entries: &[NamedEntry<T>]) -> Vec<Value> {
    entries.iter().map(|entry| json!({ "name": entry.name, T::KEY: present(entry.value.members()) })).collect()
}

/// An absent member and a null one are the same.
fn present(mut members: Value) -> Value {
    members.as_object_mut().expect("members").retain(|_, value| !value.is_null());
    members
}

fn push(out: &mut String, value: &Value) {
    match value {
        Value::String(text) => push_text(out, text, |_| true),
        Value::Array(all) => {
            out.push_str("[ ");
            for value in all {
                push(out, value);
                out.push_str(", ");
            }
            out.push(']');
        }
        Value::Object(all) => {
            out.push_str("{ ");
            for (name, value) in all {
                push_text(out, name, |c| !c.is_ascii_alphanumeric() && c != '-');
                out.push_str(": ");
                push(out, value);
                out.push_str(", ");
            }
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

fn push_text(out: &mut String, text: &str, escaped: impl Fn(char) -> bool) {
    out.push('"');
    for c in text.chars() {
        match escaped(c) {
            true => out.push_str(&format!("\\U{:08X}", u32::from(c))),
            false => out.push(c),
        }
    }
    out.push('"');
}
