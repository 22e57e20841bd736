//! The TLS settings of a store: trusted authorities and the client certificate.

use std::path::Path;

use crate::net::error as net;
use crate::net::tls::{PemSource, TlsSettings};
use crate::util::config_error::ConfigError;

/// The TLS settings of a store: trusted authorities and the client certificate.
///
/// The configurations of Kubernetes clients, etcd and the SQL stores use these settings. By default, a store trusts the
/// system's roots and sends no client certificate.
///
/// Files may be replaced while the store is in use. A store reads a file again when the last read is a minute old. A
/// store also reads the files immediately after the store rejected the server's certificate, or the server rejected the
/// store's. While a file is unusable, or a key does not match its certificate, the previous certificates stay in use,
/// and a warning is logged. New connections use the new certificates. A watch keeps its connection.
///
/// `Debug` does not show keys.
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
    /// Creates settings that trust the system's roots, without a client certificate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts only the authorities whose certificates are in `pem`.
    ///
    /// Defaults to the system's roots.
    ///
    /// # Errors
    ///
    /// - Returns [`ConfigError`] if `pem` contains no certificate.
    pub fn with_ca_pem(self, pem: impl Into<Vec<u8>>) -> Result<Self, ConfigError> {
        self.with_ca(PemSource::inline(pem))
    }

    /// Trusts only the authorities whose certificates are in this PEM file.
    ///
    /// Defaults to the system's roots.
    ///
    /// # Errors
    ///
    /// - Returns [`ConfigError`] if the file cannot be read, or contains no certificate in PEM.
    pub fn with_ca_file(self, path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        self.with_ca(read("ca", path.as_ref())?)
    }

    fn with_ca(mut self, source: PemSource) -> Result<Self, ConfigError> {
        self.settings.trust(source).map_err(|rule| ConfigError::new("ca", "unusable", rule))?;
        Ok(self)
    }

    /// Sets the client certificate: a certificate chain and its private key, both in PEM.
    ///
    /// The key has the form PKCS#8, PKCS#1 or SEC1. The certificate is sent only to a server that requests a client
    /// certificate.
    ///
    /// Defaults to no client certificate.
    ///
    /// # Errors
    ///
    /// - Returns [`ConfigError`] if the chain or the key is not valid.
    pub fn with_client_certificate_pem(
        self,
        chain: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Result<Self, ConfigError> {
        self.with_identity(PemSource::inline(chain), PemSource::inline(key))
    }

    /// Sets the client certificate from PEM files with a certificate chain and its private key.
    ///
    /// Defaults to no client certificate.
    ///
    /// # Errors
    ///
    /// - Returns [`ConfigError`] if a file cannot be read, or the chain or the key is not valid.
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

    /// Sets the name that the server's certificate must contain.
    ///
    /// Defaults to the host of the connection.
    #[must_use]
    pub fn with_server_name(mut self, name: impl Into<String>) -> Self {
        self.settings.server_name = Some(name.into());
        self
    }
}

/// The paths of TLS files in the parameters of a URL.
#[cfg(feature = "_server")]
#[derive(Default)]
pub(crate) struct UrlFiles {
    pub(crate) ca: Option<String>,
    pub(crate) certificate: Option<String>,
    pub(crate) key: Option<String>,
}

#[cfg(feature = "_server")]
impl UrlFiles {
    /// Returns `true` if a file is set.
    #[cfg(any(feature = "etcd", feature = "mysql"))]
    pub(crate) fn are_set(&self) -> bool {
        self.ca.is_some() || self.certificate.is_some() || self.key.is_some()
    }

    /// Reads the files.
    ///
    /// Returns the `incomplete` error for a certificate without a key, and for a key without a certificate.
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

/// Returns an error that does not quote the value, because the value may be a secret.
pub(crate) fn refuse(field: &'static str, error: &net::Error) -> ConfigError {
    ConfigError::new(field, "unusable", error)
}

fn read(field: &'static str, path: &Path) -> Result<PemSource, ConfigError> {
    PemSource::read(path)
        .map_err(|error| ConfigError::new(field, path.display(), format!("cannot read the file: {error}")))
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
