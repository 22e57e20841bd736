//! Conversion of a kubeconfig context to a client configuration.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::schema::{AuthInfo, Cluster, Exec};
use super::{Kubeconfig, NamedEntry, choices};
use crate::backends::kubernetes::client::auth::{AuthConfig, DEFAULT_LIMIT, ExecPlugin, ExecStderr, Impersonation};
use crate::backends::kubernetes::client::config::{ClientConfig, Env, in_cluster, proxy};
use crate::backends::kubernetes::client::error::ClientError;
use crate::net::endpoint::Endpoint;
use crate::net::proxy::Proxy;
use crate::net::secret::Secret;
use crate::net::tls::{PemSource, TlsSettings, Verification};

/// The name of the cluster extension that is passed on to credential plugins.
const EXEC_EXTENSION: &str = "client.authentication.k8s.io/exec";

const EXEC_VERSIONS: [&str; 2] = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];

impl Kubeconfig {
    pub(crate) fn client_config_from(&self, context: Option<&str>, env: Env<'_>) -> Result<ClientConfig, ClientError> {
        self.client_config_in(context, env, Path::new(in_cluster::DIRECTORY))
    }

    pub(crate) fn client_config_in(
        &self,
        context: Option<&str>,
        env: Env<'_>,
        service_account: &Path,
    ) -> Result<ClientConfig, ClientError> {
        let name = context.or(self.current_context.as_deref()).ok_or_else(|| {
            if self.contexts.is_empty() {
                let rule = "has no current-context and no contexts; use another file";
                return ClientError::config(self.origin.clone(), rule);
            }
            let rule = format!(
                "has no current-context; choose one with `kubectl config use-context NAME`, or by name with \
                 Kubeconfig::client_config(Some(NAME)); {}",
                self.choices()
            );
            ClientError::config(self.origin.clone(), rule)
        })?;
        let context = find(&self.contexts, name).ok_or_else(|| {
            let rule = format!("has no context named {}; {}", choices::quoted(name), self.choices());
            ClientError::config(self.origin.clone(), rule)
        })?;
        let cluster = context.value.cluster.as_deref().unwrap_or_default();
        let no_cluster = || context.refusal("cluster", format!("there is no cluster named {cluster:?}"));
        let cluster = find(&self.clusters, cluster).ok_or_else(no_cluster)?;
        // kubectl treats a context without a user as anonymous.
        let user = context.value.user.as_deref().filter(|user| !user.is_empty());
        let no_user = |user| context.refusal("user", format!("there is no user named {user:?}"));
        let user = user.map(|user| find(&self.users, user).ok_or_else(|| no_user(user))).transpose()?;
        let mut config = cluster.config(env, user.is_some_and(NamedEntry::has_certificate))?;
        // The source names the file, because `KUBECONFIG` may lead another candidate to another file.
        config.source = match self.origin == "KUBECONFIG" {
            true => format!("context {name:?} of {} in KUBECONFIG", context.file.display()),
            false => format!("context {name:?} of {}", self.origin),
        };
        let of_context = context.value.namespace.clone().filter(|n| !n.is_empty());
        if let Some(namespace) = of_context.or_else(|| in_cluster::namespace_around(env, service_account)) {
            config.default_namespace = namespace;
        }
        if let Some(user) = user {
            user.apply(&mut config, cluster)?;
        }
        Ok(config)
    }

    fn choices(&self) -> String {
        match self.contexts.is_empty() {
            true => "there are no contexts".to_owned(),
            false => format!("the contexts are {}", choices::list(self.contexts.iter().map(|c| c.name.as_str()))),
        }
    }
}

fn find<'a, T>(entries: &'a [NamedEntry<T>], name: &str) -> Option<&'a NamedEntry<T>> {
    entries.iter().find(|entry| entry.name == name)
}

impl<T> NamedEntry<T> {
    fn at(&self, field: &str) -> String {
        format!("{}: {}[{}].{field}", self.file.display(), self.list, self.name)
    }

    fn refusal(&self, field: &str, rule: impl Into<String>) -> ClientError {
        ClientError::config(self.at(field), rule)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.file.with_file_name(path)
    }

    /// Returns the PEM text from the base64 field, or else from the file in the file field.
    fn pem(&self, field: &str, data: Option<&str>, file: Option<&str>) -> Result<Option<PemSource>, ClientError> {
        if let Some(data) = data.filter(|d| !d.is_empty()) {
            let packed: String = data.chars().filter(|c| !c.is_ascii_whitespace()).collect();
            let malformed = |_| self.refusal(&format!("{field}-data"), "is not base64");
            return Ok(Some(PemSource::inline(BASE64_STANDARD.decode(packed).map_err(malformed)?)));
        }
        let Some(file) = file.filter(|f| !f.is_empty()) else { return Ok(None) };
        let path = self.path(file);
        let rule = || format!("{} cannot be read", path.display());
        PemSource::read(&path).map(Some).map_err(|e| self.refusal(field, rule()).caused_by(e))
    }
}

impl NamedEntry<Cluster> {
    fn ca(&self) -> Result<Option<PemSource>, ClientError> {
        let Cluster { certificate_authority: file, certificate_authority_data: data, .. } = &self.value;
        self.pem("certificate-authority", data.as_deref(), file.as_deref())
    }

    fn insecure(&self) -> bool {
        self.value.insecure_skip_tls_verify.unwrap_or(false)
    }

    fn config(&self, env: Env<'_>, has_certificate: bool) -> Result<ClientConfig, ClientError> {
        let server = self.value.server.as_ref().map(Secret::expose).unwrap_or_default();
        if server.is_empty() {
            return Err(self.refusal("server", "is missing"));
        }
        let ca = self.ca()?;
        let has_tls = ca.is_some() || has_certificate || self.insecure();
        let endpoint = Endpoint::parse_by_tls(server, &self.at("server"), has_tls)?;
        let mut config = ClientConfig::for_endpoint(endpoint, self.file.display().to_string());
        if let Some(ca) = ca {
            if self.insecure() {
                let rule = "contradicts certificate-authority; remove one of the two";
                return Err(self.refusal("insecure-skip-tls-verify", rule));
            }
            config.tls.trust(ca).map_err(|rule| self.refusal("certificate-authority", rule))?;
        }
        if self.insecure() {
            config.tls.verification = Verification::Nothing;
        }
        config.tls.server_name = self.value.tls_server_name.clone().filter(|n| !n.is_empty());
        config.proxy = match self.value.proxy_url.as_ref().filter(|url| !url.is_empty()) {
            Some(url) => Some(Proxy::parse(url.expose(), &self.at("proxy-url"))?),
            None => proxy::from_env(env, &config.endpoint)?,
        };
        Ok(config)
    }

    /// Returns the `spec.cluster` of an `ExecCredential`.
    fn exec_info(&self) -> Result<Value, ClientError> {
        let Cluster { server, tls_server_name, proxy_url, extensions, .. } = &self.value;
        let config = extensions.iter().flatten().find(|extension| extension.name == EXEC_EXTENSION);
        let members = [
            ("server", server.as_ref().map(|server| json!(server.expose()))),
            ("tls-server-name", tls_server_name.as_ref().filter(|name| !name.is_empty()).map(|name| json!(name))),
            ("insecure-skip-tls-verify", self.insecure().then_some(Value::Bool(true))),
            ("certificate-authority-data", self.ca()?.map(|ca| json!(BASE64_STANDARD.encode(&ca.bytes)))),
            ("proxy-url", proxy_url.as_ref().filter(|url| !url.is_empty()).map(|url| json!(url.expose()))),
            ("config", config.map(|extension| extension.extension.clone())),
        ];
        Ok(members.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
    }
}

impl NamedEntry<AuthInfo> {
    fn apply(&self, config: &mut ClientConfig, cluster: &NamedEntry<Cluster>) -> Result<(), ClientError> {
        let user = &self.value;
        if let Some(provider) = &user.auth_provider {
            let name = provider.name.as_deref().unwrap_or_default();
            let instead = match name {
                "gcp" => "gke-gcloud-auth-plugin",
                "azure" => "kubelogin",
                "oidc" => "kubectl oidc-login",
                _ => "the provider's credential plugin",
            };
            let rule = format!(
                "{name:?} is not supported, as in kubectl since 1.26; use exec with {instead} \
                 (client.authentication.k8s.io/v1)"
            );
            return Err(self.refusal("auth-provider", rule));
        }
        self.show_identity(&mut config.tls)?;
        config.auth = self.auth(cluster)?;
        config.check_secrecy(|field| self.at(field))?;
        config.impersonation = Impersonation {
            user: user.act_as.clone().filter(|u| !u.is_empty()),
            uid: user.as_uid.clone().filter(|u| !u.is_empty()),
            groups: user.as_groups.clone().unwrap_or_default(),
            extra: user.as_user_extra.clone().unwrap_or_default().into_iter().collect(),
        };
        // Checks the headers now, because a later error could not name the kubeconfig.
        config.impersonation.headers().map_err(|e| e.during(&self.file.display().to_string()))?;
        Ok(())
    }

    fn has_certificate(&self) -> bool {
        let AuthInfo { client_certificate, client_certificate_data, .. } = &self.value;
        let data = client_certificate_data.as_ref().map(Secret::expose);
        [client_certificate.as_deref(), data].into_iter().flatten().any(|text| !text.is_empty())
    }

    fn show_identity(&self, tls: &mut TlsSettings) -> Result<(), ClientError> {
        let user = &self.value;
        let chain_data = user.client_certificate_data.as_ref().map(Secret::expose);
        let chain = self.pem("client-certificate", chain_data, user.client_certificate.as_deref())?;
        let key_data = user.client_key_data.as_ref().map(Secret::expose);
        let key = self.pem("client-key", key_data, user.client_key.as_deref())?;
        match (chain, key) {
            (Some(chain), Some(key)) => {
                Ok(tls.show(chain, key).map_err(|e| e.during(&self.at("client-certificate")))?)
            }
            (None, None) => Ok(()),
            (Some(_), None) => Err(self.refusal("client-key", "is missing beside client-certificate")),
            (None, Some(_)) => Err(self.refusal("client-certificate", "is missing beside client-key")),
        }
    }

    fn auth(&self, cluster: &NamedEntry<Cluster>) -> Result<AuthConfig, ClientError> {
        let user = &self.value;
        let token = user.token.as_ref().filter(|t| !t.is_empty());
        let token_file = user.token_file.as_deref().filter(|f| !f.is_empty());
        let name = user.username.as_deref().filter(|n| !n.is_empty());
        if name.is_some() && (token.is_some() || token_file.is_some()) {
            return Err(self.refusal("username", "contradicts token; remove one of the two"));
        }
        // The order of precedence is the same as in client-go. A plugin does not replace a token or a password.
        if let Some(file) = token_file {
            return Ok(AuthConfig::TokenFile(self.path(file)));
        }
        if let Some(token) = token {
            return Ok(AuthConfig::Fixed(Secret::new(format!("Bearer {}", token.expose().trim()))));
        }
        if let Some(name) = name {
            let password = user.password.as_ref().map(Secret::expose).unwrap_or_default();
            let pair = BASE64_STANDARD.encode(format!("{name}:{password}"));
            return Ok(AuthConfig::Fixed(Secret::new(format!("Basic {pair}"))));
        }
        match &user.exec {
            Some(exec) => Ok(AuthConfig::Exec(Box::new(self.plugin(exec, cluster)?))),
            None => Ok(AuthConfig::None),
        }
    }

    fn plugin(&self, exec: &Exec, cluster: &NamedEntry<Cluster>) -> Result<ExecPlugin, ClientError> {
        let version = exec.api_version.as_deref().unwrap_or_default();
        if !EXEC_VERSIONS.contains(&version) {
            let rule = format!("must be one of {}", EXEC_VERSIONS.join(" and "));
            return Err(self.refusal("exec.apiVersion", rule));
        }
        let command = exec.command.as_deref().unwrap_or_default();
        if command.is_empty() {
            return Err(self.refusal("exec.command", "is missing"));
        }
        if exec.interactive_mode.as_deref() == Some("Always") {
            return Err(self.refusal("exec.interactiveMode", "Always needs a terminal, but plugins run without one"));
        }
        let variables = exec.env.iter().flatten();
        for variable in variables.clone() {
            // With these characters, the standard library panics or sets another variable.
            if variable.name.is_empty() || variable.name.contains(['=', '\0']) || variable.value.expose().contains('\0')
            {
                return Err(self.refusal("exec.env", "has a name or value that an environment cannot hold"));
            }
        }
        let args = exec.args.iter().flatten();
        let wants_cluster = exec.provide_cluster_info.unwrap_or(false);
        let cluster_info = wants_cluster.then(|| cluster.exec_info()).transpose()?;
        // As in kubectl, a path is relative to the kubeconfig. The system searches for a name without a slash in `PATH`.
        let is_path = Path::new(command).components().count() > 1 || command.contains('/');
        Ok(ExecPlugin {
            api_version: version.to_owned(),
            command: if is_path { self.path(command) } else { command.into() },
            args: args.map(|a| a.expose().to_owned()).collect(),
            env: variables.map(|v| (v.name.clone(), v.value.clone())).collect(),
            install_hint: exec.install_hint.clone(),
            cluster_info,
            limit: DEFAULT_LIMIT,
            stderr: ExecStderr::default(),
        })
    }
}
