//! Whom a store trusts in TLS, and what it shows of itself.

use std::path::Path;

use crate::net::error as net;
use crate::net::tls::{PemSource, TlsSettings};
use crate::util::config_error::ConfigError;

/// Whom a store trusts in TLS, and what it shows of itself: for [`EtcdConfig`](https://docs.rs/leasehold/latest/leasehold/struct.EtcdConfig.html)
/// and the configurations of the SQL stores. Keys in it are not shown by `Debug`.
///
/// By default the system's roots are trusted, and no client certificate is shown. Files are read again while the store is in
/// use, so that certificates may be renewed.
///
/// # Examples
///
/// ```no_run
/// use leasehold::TlsConfig;
///
/// let tls = TlsConfig::new()
///     .with_ca_file("/etc/store/ca.crt")?
///     .with_client_certificate_files("/etc/store/client.crt", "/etc/store/client.key")?;
/// # Ok::<(), leasehold::ConfigError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct TlsConfig {
    pub(crate) settings: TlsSettings,
}

impl TlsConfig {
    /// One that trusts the system's roots, and shows nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts these authorities alone: certificates in PEM.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when it holds none.
    pub fn with_ca_pem(self, pem: impl Into<Vec<u8>>) -> Result<Self, ConfigError> {
        self.with_ca(PemSource::inline(pem))
    }

    /// Trusts the authorities in this file alone. It is read again while the store is in use.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when it cannot be read, or holds no certificate in PEM.
    pub fn with_ca_file(self, path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        self.with_ca(read("ca", path.as_ref())?)
    }

    fn with_ca(mut self, source: PemSource) -> Result<Self, ConfigError> {
        self.settings.trust(source).map_err(|rule| ConfigError::new("ca", "unusable", rule))?;
        Ok(self)
    }

    /// Shows this certificate to servers that ask for one: a chain and its key, in PEM.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when they are not what they should be.
    pub fn with_client_certificate_pem(
        self,
        chain: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Result<Self, ConfigError> {
        self.with_identity(PemSource::inline(chain), PemSource::inline(key))
    }

    /// The same from files, which are read again while the store is in use.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when they cannot be read, or are not what they should be.
    pub fn with_client_certificate_files(
        self,
        chain: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> Result<Self, ConfigError> {
        let field = "client_certificate";
        self.with_identity(read(field, chain.as_ref())?, read(field, key.as_ref())?)
    }

    fn with_identity(mut self, chain: PemSource, key: PemSource) -> Result<Self, ConfigError> {
        self.settings.show(chain, key).map_err(|error| refuse("client_certificate", &error))?;
        Ok(self)
    }

    /// Expects a certificate for this name, where it is not for the host that is connected to.
    #[must_use]
    pub fn with_server_name(mut self, name: impl Into<String>) -> Self {
        self.settings.server_name = Some(name.into());
        self
    }
}

/// The files of a URL's parameters for TLS.
#[cfg(any(feature = "etcd", feature = "postgres"))]
#[derive(Default)]
pub(crate) struct UrlFiles {
    pub(crate) ca: Option<String>,
    pub(crate) certificate: Option<String>,
    pub(crate) key: Option<String>,
}

#[cfg(any(feature = "etcd", feature = "postgres"))]
impl UrlFiles {
    /// Reads the files. Returns the `incomplete` error if there is a certificate without a key, or the reverse.
    pub(crate) fn read(self, incomplete: impl FnOnce() -> ConfigError) -> Result<TlsConfig, ConfigError> {
        let mut tls = TlsConfig::new();
        if let Some(ca) = self.ca {
            tls = tls.with_ca_file(ca)?;
        }
        match (self.certificate, self.key) {
            (Some(certificate), Some(key)) => tls.with_client_certificate_files(certificate, key),
            (None, None) => Ok(tls),
            _ => Err(incomplete()),
        }
    }
}

/// Refuses a value without quoting the value, which may be a secret.
pub(crate) fn refuse(field: &'static str, error: &net::Error) -> ConfigError {
    ConfigError::new(field, "unusable", error)
}

fn read(field: &'static str, path: &Path) -> Result<PemSource, ConfigError> {
    PemSource::read(path)
        .map_err(|error| ConfigError::new(field, path.display(), format!("it cannot be read: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_value_is_refused_without_showing_secrets() {
        let config = TlsConfig::new;
        assert_eq!(config().with_ca_pem("hunter2").unwrap_err().field(), "ca");
        assert_eq!(config().with_ca_file("/nowhere").unwrap_err().field(), "ca");
        let refusal = config().with_client_certificate_pem("hunter2", "hunter2").unwrap_err();
        assert!(refusal.field() == "client_certificate" && !refusal.to_string().contains("hunter2"), "{refusal}");
    }
}
