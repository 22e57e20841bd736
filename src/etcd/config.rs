//! How etcd is reached, and as whom.

use std::path::Path;

use crate::config::ConfigError;
use crate::net::endpoint::Endpoint;
use crate::net::error as net;
use crate::net::secret::Secret;
use crate::net::tls::{Identity, IdentitySource, PemSource, TlsSettings, certificates};

/// How etcd is reached, as whom, and below which prefix its records are. Passwords and keys in it are not shown by `Debug`.
///
/// # Examples
///
/// ```
/// use leasehold::{EtcdConfig, EtcdStore};
///
/// let config = EtcdConfig::new(["https://10.0.0.1:2379", "https://10.0.0.2:2379", "https://10.0.0.3:2379"])?
///     .with_prefix("leasehold/production/")
///     .with_user("jobs", "sesame");
/// let store = EtcdStore::new(config)?;
/// # Ok::<(), leasehold::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct EtcdConfig {
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) prefix: String,
    pub(crate) tls: TlsSettings,
    pub(crate) user: Option<User>,
}

/// Who we are to etcd.
#[derive(Clone, Debug)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) password: Secret,
}

impl EtcdConfig {
    /// The client URLs of the members of one cluster, such as `https://10.0.0.1:2379`; one is enough, and with all of them
    /// others are tried when one fails. `https` trusts the system's roots unless an authority is given.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when there is none, or one is no such URL.
    pub fn new(endpoints: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, ConfigError> {
        let parse = |url: &str| Endpoint::parse(url, "endpoints").map_err(|error| refuse("endpoints", &error));
        let endpoints: Vec<_> = endpoints.into_iter().map(|url| parse(url.as_ref())).collect::<Result<_, _>>()?;
        if endpoints.is_empty() {
            return Err(ConfigError::new("endpoints", "empty", "name one member at least, as http://127.0.0.1:2379"));
        }
        Ok(Self { endpoints, prefix: "leasehold/".to_owned(), tls: TlsSettings::default(), user: None })
    }

    /// What the keys of the records begin with: the record `jobs` is under the key `<prefix>jobs`. Default: `leasehold/`.
    /// Nothing else should be written below it, and a user needs the right to read and write there.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
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
        certificates(source.bytes()).map_err(|rule| ConfigError::new("ca", "unusable", source.breaks(rule)))?;
        self.tls.ca = Some(source);
        Ok(self)
    }

    /// Shows this certificate to servers that ask for one: a chain and its key, in PEM. It is for TLS alone: by its gateway
    /// etcd takes nobody's name from a certificate, so who has to be somebody needs [`with_user`](Self::with_user), too.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when they are not what they should be.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use leasehold::EtcdConfig;
    ///
    /// let config = EtcdConfig::new(["https://10.0.0.1:2379"])?
    ///     .with_ca_file("/etc/etcd/ca.crt")?
    ///     .with_client_certificate_files("/etc/etcd/client.crt", "/etc/etcd/client.key")?;
    /// # Ok::<(), leasehold::ConfigError>(())
    /// ```
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
        Identity::from_sources(&chain, &key).map_err(|error| refuse("client_certificate", &error))?;
        self.tls.identity = Some(IdentitySource { chain, key });
        Ok(self)
    }

    /// Logs in with a user name and a password. What etcd gives for them is used until it is refused, and then asked for
    /// again. Over plain `http` a password is sent to this very machine only.
    #[must_use]
    pub fn with_user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.user = Some(User { name: name.into(), password: Secret::new(password) });
        self
    }

    /// That no password goes in clear to another machine.
    pub(crate) fn check_secrecy(&self) -> Result<(), ConfigError> {
        let in_clear = |endpoint: &&Endpoint| !endpoint.is_https() && !endpoint.is_loopback();
        match self.endpoints.iter().find(in_clear).filter(|_| self.user.is_some()) {
            Some(endpoint) => {
                let rule = format!("it would go in clear to {}; use https, or leave it out", endpoint.url());
                Err(ConfigError::new("password", "set", rule))
            }
            None => Ok(()),
        }
    }
}

/// What cannot be used, without its value, which may hold a secret.
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
    fn what_cannot_be_used_is_refused_and_no_secret_shows() {
        let config = EtcdConfig::new(["https://a:2379"]).unwrap().with_user("jobs", "hunter2");
        assert!(!format!("{config:?}").contains("hunter2"));
        assert!(config.check_secrecy().is_ok());
        let plain = EtcdConfig::new(["http://127.0.0.1:2379", "http://a:2379"]).unwrap().with_user("jobs", "hunter2");
        let refusal = plain.check_secrecy().unwrap_err().to_string();
        assert!(refusal.contains("in clear to http://a:2379") && !refusal.contains("hunter2"), "{refusal}");
        assert!(EtcdConfig::new(["http://a"]).unwrap().check_secrecy().is_ok(), "there is nothing to hide");
        assert!(EtcdConfig::new(Vec::<String>::new()).is_err());
        for url in ["", "a", "ftp://a", "https://me:hunter2@a"] {
            let refusal = EtcdConfig::new([url]).unwrap_err().to_string();
            assert!(!refusal.contains("hunter2"), "{refusal}");
        }
        let config = || EtcdConfig::new(["https://a"]).unwrap();
        assert_eq!(config().with_ca_pem("hunter2").unwrap_err().field(), "ca");
        assert_eq!(config().with_ca_file("/nowhere").unwrap_err().field(), "ca");
        let refusal = config().with_client_certificate_pem("hunter2", "hunter2").unwrap_err();
        assert!(refusal.field() == "client_certificate" && !refusal.to_string().contains("hunter2"), "{refusal}");
    }
}
