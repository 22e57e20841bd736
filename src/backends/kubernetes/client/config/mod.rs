//! Everything a client needs to know: where the cluster is, whom to trust there, who we are.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
#[cfg(feature = "kubeconfig")]
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

#[cfg(feature = "kubeconfig")]
use super::auth::ExecStderr;
use super::auth::{AuthConfig, Impersonation};
use super::error::ClientError;
use crate::net::endpoint::Endpoint;
use crate::net::proxy::Proxy;
use crate::net::secret::Secret;
use crate::net::tls::{PemSource, TlsSettings};

pub(crate) mod choice;
pub(crate) mod in_cluster;
mod infer;
#[cfg(feature = "kubeconfig")]
pub(crate) mod kubeconfig;
mod proxy;
mod user_agent;

#[cfg(feature = "kubeconfig")]
pub use kubeconfig::Kubeconfig;

/// The environment, as a parameter, so that tests do not depend on the environment of their process.
type Env<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// How to reach a cluster. Credentials in it are not shown by `Debug`.
///
/// ```
/// use leasehold::kubernetes::{Client, ClientConfig};
///
/// // `kubectl proxy` on this machine: no TLS and no credentials.
/// let config = ClientConfig::new("http://127.0.0.1:8001")?.with_default_namespace("jobs");
/// let client = Client::new(config)?;
/// assert_eq!(client.default_namespace(), "jobs");
/// # Ok::<(), leasehold::kubernetes::ClientError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// For people: where this was found.
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
    /// A server by its URL, without credentials and without looking at the environment.
    ///
    /// The URL may have a path, which goes in front of the path of every request. `https` trusts the system's roots
    /// unless [`with_ca_pem`](Self::with_ca_pem) is called. Over `http` no token and no password is sent but to this very
    /// machine: [`Client::new`](super::Client::new) refuses that. A link-local address has a zone, the name or number of an
    /// interface, as in `https://[fe80::1%25eth0]:6443` (RFC 6874): it says where to connect, and is not sent.
    ///
    /// # Errors
    ///
    /// [`Config`](crate::backends::kubernetes::client::ErrorKind::Config) when it is not an `http` or `https` URL.
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

    /// The namespace of the context, else of the pod this runs in, else `default`.
    pub fn default_namespace(&self) -> &str {
        &self.default_namespace
    }

    /// Sets what [`default_namespace`](Self::default_namespace) answers.
    #[must_use]
    pub fn with_default_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.default_namespace = namespace.into();
        self
    }

    /// Trusts these certificate authorities, given as a PEM bundle, and no others.
    ///
    /// # Errors
    ///
    /// [`Config`](crate::backends::kubernetes::client::ErrorKind::Config) when it is not a PEM bundle with at least one certificate.
    pub fn with_ca_pem(self, bundle: &[u8]) -> Result<Self, ClientError> {
        self.with_ca(PemSource::inline(bundle))
    }

    /// Trusts the certificate authorities in a file, a PEM bundle, and no others.
    ///
    /// The file is read again when it is a minute old, and at once when a server's certificate is not accepted. While it
    /// holds nothing usable, those that it held before are trusted, and a warning is logged. As `CAFile` of client-go's
    /// `rest.TLSClientConfig`.
    ///
    /// # Errors
    ///
    /// [`Config`](crate::backends::kubernetes::client::ErrorKind::Config), with the file, when it cannot be read or is no PEM bundle.
    pub fn with_ca_file(self, path: impl AsRef<Path>) -> Result<Self, ClientError> {
        self.with_ca(pem_file(path.as_ref())?)
    }

    fn with_ca(mut self, ca: PemSource) -> Result<Self, ClientError> {
        self.tls.trust(ca).map_err(|rule| ClientError::config("certificate-authority", rule))?;
        Ok(self)
    }

    /// Expects the server's certificate to be for this name, and sends it as SNI, whatever the URL's host is.
    #[must_use]
    pub fn with_tls_server_name(mut self, name: impl Into<String>) -> Self {
        self.tls.server_name = Some(name.into());
        self
    }

    /// Authenticates with a client certificate: a PEM chain and a PEM key in PKCS#8, PKCS#1 or SEC1 form.
    ///
    /// The user's credential plugin is not run then, as in client-go (`UpdateTransportConfig` in `exec.go`).
    ///
    /// # Errors
    ///
    /// [`Config`](crate::backends::kubernetes::client::ErrorKind::Config) when either does not parse.
    pub fn with_client_certificate_pem(mut self, chain: &[u8], key: &[u8]) -> Result<Self, ClientError> {
        self.tls.show(PemSource::inline(chain), PemSource::inline(key))?;
        Ok(self)
    }

    /// Authenticates with a client certificate and its key from files, in the forms that
    /// [`with_client_certificate_pem`](Self::with_client_certificate_pem) takes.
    ///
    /// The files are read again when they are a minute old, and at once when the server answers 401 or ends the TLS
    /// session. While they hold nothing usable, or a certificate and a key that do not belong together, those from before
    /// are used, and a warning is logged. Requests after a change go over new connections; a watch goes on with its own.
    /// As `CertFile` and `KeyFile` of client-go's `rest.TLSClientConfig`.
    ///
    /// # Errors
    ///
    /// [`Config`](crate::backends::kubernetes::client::ErrorKind::Config), with the file, when one cannot be read or does not parse.
    ///
    /// ```no_run
    /// use leasehold::kubernetes::{Client, ClientConfig};
    ///
    /// let config = ClientConfig::new("https://10.0.0.1:6443")?
    ///     .with_ca_file("/etc/jobs/ca.crt")?
    ///     .with_client_certificate_files("/etc/jobs/tls.crt", "/etc/jobs/tls.key")?;
    /// let client = Client::new(config)?;
    /// # Ok::<(), leasehold::kubernetes::ClientError>(())
    /// ```
    pub fn with_client_certificate_files(
        mut self,
        chain: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> Result<Self, ClientError> {
        self.tls.show(pem_file(chain.as_ref())?, pem_file(key.as_ref())?)?;
        Ok(self)
    }

    /// Authenticates with a bearer token.
    #[must_use]
    pub fn with_token(mut self, token: impl AsRef<str>) -> Self {
        self.auth = AuthConfig::Fixed(Secret::new(format!("Bearer {}", token.as_ref().trim())));
        self
    }

    /// Authenticates with the bearer token in a file, read again when it is a minute old and after every 401.
    ///
    /// Unlike the files of certificates it is not read here, for it may be written later: while it is missing, requests
    /// fail with [`Credentials`](crate::backends::kubernetes::client::ErrorKind::Credentials).
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

    /// Authenticates with a user name and a password.
    #[must_use]
    pub fn with_basic_auth(mut self, user: &str, password: &str) -> Self {
        let pair = BASE64_STANDARD.encode(format!("{user}:{password}"));
        self.auth = AuthConfig::Fixed(Secret::new(format!("Basic {pair}")));
        self
    }

    /// Goes through a proxy: `http://` and `https://` for one that takes `CONNECT`, `socks5://` and `socks5h://` for one
    /// that speaks SOCKS 5 (RFC 1928). Without a scheme it is `http://`; the ports are 80, 443 and 1080 if none is named.
    /// A user name and a password may stand before the host, percent-encoded.
    ///
    /// The proxy looks up the server's name, also with `socks5://`, as in Go's `net/http`. The certificate of an
    /// `https://` proxy must be for its own name, and may come from one of the cluster's authorities or of the system's.
    /// It is not shown the client certificate. `insecure-skip-tls-verify` holds for it, too.
    ///
    /// # Errors
    ///
    /// [`Config`](crate::backends::kubernetes::client::ErrorKind::Config) when it is not such a URL.
    ///
    /// ```
    /// use leasehold::kubernetes::ClientConfig;
    ///
    /// let config = ClientConfig::new("https://10.0.0.1:6443")?.with_proxy("socks5://me:p%40ss@bastion.example:1080")?;
    /// assert!(ClientConfig::new("https://10.0.0.1:6443")?.with_proxy("ftp://bastion.example").is_err());
    /// # Ok::<(), leasehold::kubernetes::ClientError>(())
    /// ```
    pub fn with_proxy(mut self, url: &str) -> Result<Self, ClientError> {
        self.proxy = Some(Proxy::parse(url, "proxy-url")?);
        Ok(self)
    }

    /// Sets the `User-Agent` of every request, by which audit logs tell programs apart, and in front of whose first slash
    /// stands the manager that `metadata.managedFields` names.
    ///
    /// Default: `<program>/unknown (<os>/<arch>) leasehold/<version>`, with the name of the program's file; its version
    /// only the program itself knows.
    ///
    /// # Errors
    ///
    /// [`Config`](crate::backends::kubernetes::client::ErrorKind::Config) when it is empty, longer than 1024 characters, or holds anything but printable
    /// ASCII.
    ///
    /// ```
    /// use leasehold::kubernetes::ClientConfig;
    ///
    /// let config = ClientConfig::new("https://10.0.0.1:6443")?
    ///     .with_user_agent(concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")))?;
    /// # Ok::<(), leasehold::kubernetes::ClientError>(())
    /// ```
    pub fn with_user_agent(mut self, user_agent: impl Into<String>) -> Result<Self, ClientError> {
        self.user_agent = user_agent::check(user_agent.into())?;
        Ok(self)
    }

    /// Gives a run of the user's credential plugin so long; 60 s without this. At least a second and at most an hour.
    ///
    /// A run that takes longer is ended, on Unix with its process group: whatever it started that made no group of its
    /// own. Requests wait for a run up to their own time-out and leave it alone when they give up, so it may well be
    /// longer than these. This changes nothing where the user has no plugin. client-go knows no such limit.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use leasehold::kubernetes::{Client, ClientConfig};
    ///
    /// // Somebody has to confirm the login on a telephone.
    /// let config = ClientConfig::infer()?.with_exec_timeout(Duration::from_secs(180));
    /// let client = Client::new(config)?;
    /// # Ok::<(), leasehold::kubernetes::ClientError>(())
    /// ```
    #[cfg(feature = "kubeconfig")]
    #[must_use]
    pub fn with_exec_timeout(mut self, limit: Duration) -> Self {
        if let AuthConfig::Exec(plugin) = &mut self.auth {
            plugin.options.set_limit(limit);
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
            plugin.options.stderr = stderr;
        }
        self
    }

    /// The URL of the server, without credentials.
    pub fn server(&self) -> String {
        self.endpoint.url()
    }

    /// Refuses to send a secret in clear. What stays on this machine does not; what goes through a proxy leaves it.
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
        Err(ClientError::config(place(field), format!("would go in clear to {server}; use https, or leave it out")))
    }
}

fn pem_file(path: &Path) -> Result<PemSource, ClientError> {
    PemSource::read(path).map_err(|e| ClientError::config(path.display().to_string(), "cannot be read").caused_by(e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_credential() {
        let config = ClientConfig::new("https://a").unwrap().with_basic_auth("me", "hunter2");
        let text = format!("{config:?}");
        assert!(!text.contains("hunter2") && !text.contains("Basic"), "{text}");
        let text = format!("{:?}", config.with_token("hunter2"));
        assert!(!text.contains("hunter2"), "{text}");
    }

    #[test]
    fn no_secret_goes_in_clear_to_another_machine() {
        let plain = |url: &str| ClientConfig::new(url).unwrap();
        let refused = |config: ClientConfig, field: &str| {
            let error = crate::backends::kubernetes::client::Client::new(config).unwrap_err().to_string();
            assert!(error.contains(field) && error.contains("in clear") && !error.contains("hunter2"), "{error}");
        };
        for url in ["http://10.0.0.1:8080", "http://api.test", "http://localhost.api.test", "http://[fd00::1]"] {
            refused(plain(url).with_token("hunter2"), "token");
            refused(plain(url).with_basic_auth("me", "hunter2"), "password");
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
