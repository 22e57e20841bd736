//! Sources of the credentials of requests, and the renewal of credentials.
//!
//! A closed connection does not renew credentials. A fixed token has no successor, a token file is read every minute, and
//! a plugin's token is renewed before it expires or after a 401. client-go renews a token in no other case either.

use std::path::PathBuf;

use crate::backends::kubernetes::client::counters::ClientCounters;
use crate::backends::kubernetes::client::error::ClientError;
use crate::net::secret::Secret;

mod credentials;
#[cfg(feature = "kubeconfig")]
pub(crate) mod exec;
mod impersonation;
#[cfg(feature = "kubeconfig")]
pub(crate) mod rfc3339;
mod token_file;

pub(crate) use credentials::{Credentials, Limits};
#[cfg(feature = "kubeconfig")]
pub use exec::ExecStderr;
#[cfg(feature = "kubeconfig")]
pub(crate) use exec::{DEFAULT_LIMIT, ExecPlugin};
pub(crate) use impersonation::Impersonation;

use credentials::{bearer, header};
#[cfg(feature = "kubeconfig")]
use exec::ExecSource;
use token_file::TokenFile;

/// The configured credentials, except a client certificate.
#[derive(Clone, Debug)]
pub(crate) enum AuthConfig {
    None,
    /// A value of the `Authorization` header that never changes.
    Fixed(Secret),
    TokenFile(PathBuf),
    #[cfg(feature = "kubeconfig")]
    Exec(Box<ExecPlugin>),
}

/// A source of credentials that all requests of a client share.
pub(crate) enum Auth {
    /// Credentials that never change, possibly none.
    Fixed(Credentials),
    TokenFile(TokenFile),
    #[cfg(feature = "kubeconfig")]
    Exec(Box<ExecSource>),
}

impl Auth {
    /// Creates a source of the configured credentials.
    ///
    /// With a client certificate, no credential plugin runs. Source: client-go's `exec.go`, `UpdateTransportConfig`.
    #[cfg_attr(not(feature = "kubeconfig"), expect(unused_variables, reason = "only plugins depend on it"))]
    pub(crate) fn new(config: AuthConfig, has_certificate: bool) -> Result<Self, ClientError> {
        Ok(match config {
            AuthConfig::None => Auth::Fixed(Credentials::default()),
            AuthConfig::Fixed(value) => Auth::Fixed(Credentials {
                authorization: Some(header(value.expose()).ok_or_else(|| {
                    ClientError::config("users[].token", "contains a character that is invalid in a header")
                })?),
                ..Credentials::default()
            }),
            AuthConfig::TokenFile(path) => Auth::TokenFile(TokenFile::new(path)),
            #[cfg(feature = "kubeconfig")]
            AuthConfig::Exec(plugin) if has_certificate => {
                plugin.say_that_it_is_not_run();
                Auth::Fixed(Credentials::default())
            }
            #[cfg(feature = "kubeconfig")]
            AuthConfig::Exec(plugin) => Auth::Exec(Box::new(ExecSource::new(*plugin))),
        })
    }

    /// Returns the credentials to use now.
    #[cfg_attr(not(feature = "kubeconfig"), expect(unused_variables, reason = "only plugins take time"))]
    pub(crate) fn current(&self, limits: Limits<'_>) -> Result<Credentials, ClientError> {
        match self {
            Auth::Fixed(credentials) => Ok(credentials.clone()),
            Auth::TokenFile(file) => file.current().map(bearer),
            #[cfg(feature = "kubeconfig")]
            Auth::Exec(source) => source.current(limits),
        }
    }

    /// Returns credentials that differ from `rejected`, or `None` if none exist.
    #[cfg_attr(not(feature = "kubeconfig"), expect(unused_variables, reason = "only plugins take time"))]
    pub(crate) fn after_rejection(
        &self,
        rejected: &Credentials,
        limits: Limits<'_>,
    ) -> Result<Option<Credentials>, ClientError> {
        let newer = match self {
            Auth::Fixed(_) => return Ok(None),
            Auth::TokenFile(file) => bearer(file.read_again()?),
            #[cfg(feature = "kubeconfig")]
            Auth::Exec(source) => source.after_rejection(rejected, limits)?,
        };
        let same = newer.authorization == rejected.authorization && newer.identity_version == rejected.identity_version;
        Ok((!same).then_some(newer))
    }

    /// Sets the counters of this source in `counters`.
    pub(crate) fn count(&self, counters: &mut ClientCounters) {
        match self {
            Auth::Fixed(_) => {}
            Auth::TokenFile(file) => counters.token_reloads = file.reloads(),
            #[cfg(feature = "kubeconfig")]
            Auth::Exec(source) => (counters.plugin_runs, counters.plugin_failures) = source.runs_and_failures(),
        }
    }
}
