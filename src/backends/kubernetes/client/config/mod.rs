//! Configuration of a client: the cluster, the trusted authorities, and the credentials.

use std::ffi::OsString;
use std::path::PathBuf;
#[cfg(feature = "kubeconfig")]
use std::time::Duration;

#[cfg(feature = "kubeconfig")]
use super::auth::ExecStderr;
use super::auth::{AuthConfig, Impersonation};
use super::error::ClientError;
use crate::net::endpoint::Endpoint;
use crate::net::proxy::Proxy;
use crate::net::secret::Secret;
use crate::net::tls::TlsSettings;
use crate::net::tls::config::TlsConfig;

pub(crate) mod in_cluster;
pub(crate) mod infer;
#[cfg(feature = "kubeconfig")]
pub(crate) mod kubeconfig;
mod proxy;
mod user_agent;

/// A function that reads an environment variable. Tests pass their own function.
type Env<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The address of a cluster and the credentials for it.
///
/// `Debug` does not show credentials.
///
/// # Examples
///
/// ```
/// use leasehold::kubernetes::{Client, ClientConfig};
///
/// // `kubectl proxy` on this machine: no TLS and no credentials.
/// let client = Client::new(ClientConfig::new("http://127.0.0.1:8001")?)?;
/// assert_eq!(client.default_namespace(), "default");
/// # Ok::<(), leasehold::kubernetes::ClientError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// The place where the configuration was found, for messages.
    pub(crate) source: String,
    pub(crate) endpoint: Endpoint,
    pub(crate) default_namespace: String,
    pub(crate) tls: TlsSettings,
    pub(crate) auth: AuthConfig,
    pub(crate) impersonation: Impersonation,
    pub(crate) proxy: Option<Proxy>,
    pub(crate) user_agent: String,
}

impl ClientConfig {
    /// Creates a configuration for a server URL, without credentials.
    ///
    /// Reads no environment variables. The URL may have a path, which precedes the path of every request. With `https`,
    /// the client trusts the roots of the system unless [`with_tls`](Self::with_tls) sets other authorities. Over
    /// `http`, [`Client::new`](super::Client::new) rejects tokens and passwords unless the server is this machine.
    ///
    /// A link-local address needs a zone, which is the name or number of an interface, as in
    /// `https://[fe80::1%25eth0]:6443` (RFC 6874). The client uses the zone to connect, and does not send the zone to
    /// the server.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`](super::ErrorKind::Config) if `url` is not an `http` or `https` URL.
    pub fn new(url: &str) -> Result<Self, ClientError> {
        Ok(Self::for_endpoint(Endpoint::parse(url, "server")?, "given by the program"))
    }

    pub(crate) fn for_endpoint(endpoint: Endpoint, source: impl Into<String>) -> Self {
        ClientConfig {
            source: source.into(),
            endpoint,
            default_namespace: "default".to_owned(),
            tls: TlsSettings::default(),
            auth: AuthConfig::None,
            impersonation: Impersonation::default(),
            proxy: None,
            user_agent: user_agent::default(),
        }
    }

    /// Sets the trusted authorities, the client certificate, and the expected server name.
    ///
    /// `tls` replaces the TLS settings of the kubeconfig or the pod as a whole. Corresponds to client-go's
    /// `rest.TLSClientConfig`. With a client certificate, the client runs no credential plugin, as in client-go
    /// (`UpdateTransportConfig` in `exec.go`).
    ///
    /// Defaults to the settings of the kubeconfig or the pod, or else to the roots of the system.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use leasehold::TlsConfig;
    /// use leasehold::kubernetes::{Client, ClientConfig};
    ///
    /// let tls = TlsConfig::new()
    ///     .with_ca_file("/etc/jobs/ca.crt")?
    ///     .with_client_certificate_files("/etc/jobs/tls.crt", "/etc/jobs/tls.key")?;
    /// let client = Client::new(ClientConfig::new("https://10.0.0.1:6443")?.with_tls(tls))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_tls(mut self, tls: TlsConfig) -> Self {
        self.tls = tls.settings;
        self
    }

    /// Sets a bearer token, replacing other credentials except client certificates.
    ///
    /// Defaults to the credentials of the kubeconfig or the pod, or else to none.
    #[must_use]
    pub fn with_token(mut self, token: impl AsRef<str>) -> Self {
        self.auth = AuthConfig::Fixed(Secret::new(format!("Bearer {}", token.as_ref().trim())));
        self
    }

    /// Sets a file with a bearer token, replacing other credentials except client certificates.
    ///
    /// The client reads the file again when the last read is a minute old, and after every 401. This method does not
    /// read the file, which may be written later. While the file is missing, requests fail with
    /// [`ErrorKind::Credentials`](super::ErrorKind::Credentials).
    ///
    /// Defaults to the credentials of the kubeconfig or the pod, or else to none.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::kubernetes::{Client, ClientConfig};
    ///
    /// let config = ClientConfig::new("https://10.0.0.1:6443")?.with_token_file("/var/run/secrets/jobs/token");
    /// let client = Client::new(config)?;
    /// # Ok::<(), leasehold::kubernetes::ClientError>(())
    /// ```
    #[must_use]
    pub fn with_token_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.auth = AuthConfig::TokenFile(path.into());
        self
    }

    /// Sets the proxy through which the client connects to the server.
    #[cfg(test)]
    pub(crate) fn with_proxy(mut self, url: &str) -> Result<Self, ClientError> {
        self.proxy = Some(Proxy::parse(url, "proxy-url")?);
        Ok(self)
    }

    /// Sets the `User-Agent` of every request.
    ///
    /// API servers write the value to their audit logs. The part before the first slash is the manager in
    /// `metadata.managedFields`.
    ///
    /// Defaults to `<program>/unknown (<os>/<arch>) leasehold/<version>`, with the file name of the program. The
    /// library cannot read the program's version.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::kubernetes::ClientConfig;
    ///
    /// let config = ClientConfig::new("https://10.0.0.1:6443")?
    ///     .with_user_agent(concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")))?;
    /// # Ok::<(), leasehold::kubernetes::ClientError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`](super::ErrorKind::Config) if the value is empty, is longer than 1,024 characters,
    /// or contains characters other than printable ASCII.
    pub fn with_user_agent(mut self, user_agent: impl Into<String>) -> Result<Self, ClientError> {
        self.user_agent = user_agent::check(user_agent.into())?;
        Ok(self)
    }

    /// Sets the time limit for a run of the user's credential plugin.
    ///
    /// The limit is at least one second and at most an hour. A run that exceeds the limit is ended. On Unix its process
    /// group ends too, which includes every child process that has not left the group. The limit may exceed the timeout
    /// of a request, because a run continues after a request has given up. Without a plugin the limit has no effect.
    /// client-go has no such limit.
    ///
    /// Defaults to 60 s.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use leasehold::kubernetes::{Client, ClientConfig};
    ///
    /// // A person must confirm the login on a telephone.
    /// let config = ClientConfig::infer()?.with_exec_timeout(Duration::from_secs(180));
    /// let client = Client::new(config)?;
    /// # Ok::<(), leasehold::kubernetes::ClientError>(())
    /// ```
    #[cfg(feature = "kubeconfig")]
    #[must_use]
    pub fn with_exec_timeout(mut self, limit: Duration) -> Self {
        if let AuthConfig::Exec(plugin) = &mut self.auth {
            plugin.set_limit(limit);
        }
        self
    }

    /// Sets the destination of the stderr of the user's credential plugin, if the user has one.
    ///
    /// Defaults to [`ExecStderr::Discard`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use leasehold::kubernetes::{Client, ClientConfig, ExecStderr};
    ///
    /// let config = ClientConfig::infer()?.with_exec_stderr(ExecStderr::Inherit);
    /// let client = Client::new(config)?;
    /// # Ok::<(), leasehold::kubernetes::ClientError>(())
    /// ```
    #[cfg(feature = "kubeconfig")]
    #[must_use]
    pub fn with_exec_stderr(mut self, stderr: ExecStderr) -> Self {
        if let AuthConfig::Exec(plugin) = &mut self.auth {
            plugin.stderr = stderr;
        }
        self
    }

    /// Returns the URL of the server, without credentials.
    pub(crate) fn server(&self) -> String {
        self.endpoint.url()
    }

    /// Returns an error if a secret would leave this machine without TLS.
    ///
    /// A proxy counts as another machine.
    pub(crate) fn check_secrecy(&self, place: impl Fn(&str) -> String) -> Result<(), ClientError> {
        let stays_here = self.endpoint.is_loopback() && self.proxy.is_none();
        let field = match &self.auth {
            _ if self.endpoint.is_https() || stays_here => return Ok(()),
            AuthConfig::None => return Ok(()),
            AuthConfig::Fixed(secret) if secret.expose().starts_with("Basic ") => "password",
            AuthConfig::Fixed(_) => "token",
            AuthConfig::TokenFile(_) => "tokenFile",
            #[cfg(feature = "kubeconfig")]
            AuthConfig::Exec(_) => "exec",
        };
        let server = self.server();
        Err(ClientError::config(place(field), format!("would be sent without TLS to {server}; use https")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backends::kubernetes::client::ErrorKind;

    #[test]
    fn invalid_token_is_refused_without_being_quoted() {
        let config = ClientConfig::new("https://a").unwrap().with_token("hunter2\u{1}x");
        let refused = crate::backends::kubernetes::client::Client::new(config).unwrap_err();
        let shown = format!("{refused} {refused:?}");
        assert!(*refused.kind() == ErrorKind::Config && !shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn no_secret_goes_in_clear_to_another_machine() {
        let plain = |url: &str| ClientConfig::new(url).unwrap();
        let refused = |config: ClientConfig, field: &str| {
            let error = crate::backends::kubernetes::client::Client::new(config).unwrap_err().to_string();
            assert!(error.contains(field) && error.contains("without TLS") && !error.contains("hunter2"), "{error}");
        };
        for url in ["http://10.0.0.1:8080", "http://api.test", "http://localhost.api.test", "http://[fd00::1]"] {
            refused(plain(url).with_token("hunter2"), "token");
            // `me:hunter2` in Base64, as from a kubeconfig.
            let auth = AuthConfig::Fixed(Secret::new("Basic bWU6aHVudGVyMg=="));
            refused(ClientConfig { auth, ..plain(url) }, "password");
            refused(plain(url).with_token_file("/tmp/hunter2"), "tokenFile");
            assert!(
                crate::backends::kubernetes::client::Client::new(plain(url)).is_ok(),
                "without one there is nothing to hide"
            );
        }
        for url in ["http://127.0.0.1:8001", "http://[::1]", "http://localhost", "https://api.test"] {
            assert!(plain(url).with_token("hunter2").check_secrecy(str::to_owned).is_ok(), "{url}");
        }
        let tunnelled = plain("http://localhost").with_token("hunter2").with_proxy("http://10.0.0.1:3128").unwrap();
        refused(tunnelled, "token");
    }
}
