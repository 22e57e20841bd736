//! The fields of a kubeconfig that the client uses. Unknown fields are ignored.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::net::secret::Secret;
use crate::util::debug_fields::debug_fields;

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct File {
    pub(super) current_context: Option<String>,
    pub(super) clusters: Option<Vec<Named<Cluster>>>,
    pub(super) users: Option<Vec<Named<AuthInfo>>>,
    pub(super) contexts: Option<Vec<Named<Context>>>,
}

#[derive(Deserialize)]
pub(super) struct Named<T> {
    pub(super) name: String,
    /// The value of the key `cluster`, `user` or `context`. Empty if the value is null or absent.
    #[serde(
        alias = "cluster",
        alias = "user",
        alias = "context",
        default,
        deserialize_with = "or_default",
        bound(deserialize = "T: Deserialize<'de> + Default")
    )]
    pub(super) value: T,
}

#[cfg_attr(feature = "_internals", derive(serde::Serialize))]
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct Context {
    pub(super) cluster: Option<String>,
    pub(super) user: Option<String>,
    pub(super) namespace: Option<String>,
}

#[cfg_attr(feature = "_internals", derive(serde::Serialize))]
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct Cluster {
    /// A secret until the URL is validated, because an invalid URL may contain a password.
    pub(super) server: Option<Secret>,
    pub(super) tls_server_name: Option<String>,
    pub(super) insecure_skip_tls_verify: Option<bool>,
    pub(super) certificate_authority: Option<String>,
    pub(super) certificate_authority_data: Option<String>,
    /// A secret because the URL may contain a password.
    pub(super) proxy_url: Option<Secret>,
    pub(super) extensions: Option<Vec<Extension>>,
}

#[cfg_attr(feature = "_internals", derive(serde::Serialize))]
#[derive(Deserialize, Clone)]
pub(super) struct Extension {
    pub(super) name: String,
    /// Data for a plugin, which may be secret.
    #[serde(default)]
    pub(super) extension: Value,
}

debug_fields!(impl Debug for Extension { self => name: self.name, .. });

#[cfg_attr(feature = "_internals", derive(serde::Serialize))]
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct AuthInfo {
    pub(super) client_certificate: Option<String>,
    /// A secret because the text may also contain the key, as in a kubelet's files.
    pub(super) client_certificate_data: Option<Secret>,
    pub(super) client_key: Option<String>,
    pub(super) client_key_data: Option<Secret>,
    pub(super) token: Option<Secret>,
    #[serde(rename = "tokenFile")]
    pub(super) token_file: Option<String>,
    pub(super) username: Option<String>,
    pub(super) password: Option<Secret>,
    #[serde(rename = "as")]
    pub(super) act_as: Option<String>,
    pub(super) as_uid: Option<String>,
    pub(super) as_groups: Option<Vec<String>>,
    pub(super) as_user_extra: Option<BTreeMap<String, Vec<String>>>,
    pub(super) auth_provider: Option<AuthProvider>,
    pub(super) exec: Option<Exec>,
}

#[cfg_attr(feature = "_internals", derive(serde::Serialize))]
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub(super) struct AuthProvider {
    pub(super) name: Option<String>,
}

#[cfg_attr(feature = "_internals", derive(serde::Serialize))]
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Exec {
    pub(super) api_version: Option<String>,
    pub(super) command: Option<String>,
    pub(super) args: Option<Vec<Secret>>,
    pub(super) env: Option<Vec<Variable>>,
    pub(super) install_hint: Option<String>,
    pub(super) provide_cluster_info: Option<bool>,
    pub(super) interactive_mode: Option<String>,
}

#[cfg_attr(feature = "_internals", derive(serde::Serialize))]
#[derive(Deserialize, Clone, Debug)]
pub(super) struct Variable {
    pub(super) name: String,
    /// The value of the variable. Empty if absent or null, as in client-go.
    #[serde(default, deserialize_with = "or_default")]
    pub(super) value: Secret,
}

fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}
