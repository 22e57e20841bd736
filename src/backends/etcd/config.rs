//! Configuration of an [`EtcdStore`](crate::etcd::EtcdStore).

use crate::backends::password::Password;
use crate::net::endpoint::Endpoint;
use crate::net::tls::config::{TlsConfig, refuse};
use crate::util::config_error::{ConfigError, require};

/// The addresses of etcd's members, the user, and the prefix of the records.
///
/// `Debug` does not show passwords and keys.
///
/// # Examples
///
/// ```
/// use leasehold::etcd::{EtcdConfig, EtcdStore};
///
/// let config = EtcdConfig::new(["https://10.0.0.1:2379", "https://10.0.0.2:2379", "https://10.0.0.3:2379"])?
///     .with_prefix("leasehold/production/")
///     .with_user("jobs").with_password("sesame");
/// let store = EtcdStore::new(config)?;
/// # Ok::<(), leasehold::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct EtcdConfig {
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) prefix: String,
    pub(crate) tls: TlsConfig,
    pub(crate) user: Option<EtcdUser>,
}

/// The user that logs in to etcd.
#[derive(Clone, Debug, Default)]
pub(crate) struct EtcdUser {
    pub(crate) name: String,
    pub(crate) password: Password,
}

impl EtcdConfig {
    /// Creates a configuration from the client URLs of one cluster's members.
    ///
    /// One URL is enough. With several URLs, the client tries another member if one fails. An `https` endpoint is
    /// verified with the root certificates of the system unless [`with_tls`](Self::with_tls) is called.
    ///
    /// # Errors
    ///
    /// Returns [`ConfigError`] if there is no URL, or if a URL is invalid.
    pub fn new(endpoints: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, ConfigError> {
        let parse = |url: &str| Endpoint::parse(url, "endpoints").map_err(|error| refuse("endpoints", &error));
        let endpoints: Vec<_> = endpoints.into_iter().map(|url| parse(url.as_ref())).collect::<Result<_, _>>()?;
        require(!endpoints.is_empty(), "endpoints", "empty", "add a member, such as http://127.0.0.1:2379")?;
        Ok(Self { endpoints, prefix: "leasehold/".to_owned(), tls: TlsConfig::default(), user: None })
    }

    /// Sets the prefix of the keys, so that the record `jobs` has the key `<prefix>jobs`.
    ///
    /// Other programs should not write keys with this prefix. The user needs the right to read and write keys with this
    /// prefix.
    ///
    /// Defaults to `leasehold/`.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the trusted authorities and the client certificate for `https` endpoints.
    ///
    /// etcd's gateway does not read a user name from the client certificate. If etcd has users enabled, call
    /// [`with_user`](Self::with_user) too.
    ///
    /// Defaults to the root certificates of the system, without a client certificate.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use leasehold::etcd::EtcdConfig;
    /// use leasehold::TlsConfig;
    ///
    /// let tls = TlsConfig::new().with_ca_file("/etc/etcd/ca.crt")?;
    /// let config = EtcdConfig::new(["https://10.0.0.1:2379"])?.with_tls(tls);
    /// # Ok::<(), leasehold::ConfigError>(())
    /// ```
    #[must_use]
    pub fn with_tls(mut self, tls: TlsConfig) -> Self {
        self.tls = tls;
        self
    }

    /// Sets the name of the user.
    ///
    /// The client logs in before its first request, and again after etcd has refused the token of the login. Over plain
    /// `http`, the client may send the password only to this machine. [`EtcdStore::new`](crate::etcd::EtcdStore::new)
    /// returns an error for other `http` endpoints, and for a user without a password.
    ///
    /// Defaults to the user of the URL, or else to no login.
    #[must_use]
    pub fn with_user(mut self, name: impl Into<String>) -> Self {
        self.user.get_or_insert_default().name = name.into();
        self
    }

    /// Sets the password, or its source.
    ///
    /// If the URL has a password and `password` is a source, or if no user is set,
    /// [`EtcdStore::new`](crate::etcd::EtcdStore::new) returns an error.
    ///
    /// Defaults to the password of the URL.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::etcd::{EtcdConfig, EtcdStore};
    /// use leasehold::Password;
    ///
    /// let password = Password::from_source(|_| std::fs::read_to_string("/run/secrets/etcd/password"));
    /// let config = EtcdConfig::new(["https://10.0.0.1:2379"])?.with_user("jobs").with_password(password);
    /// let store = EtcdStore::new(config)?;
    /// # Ok::<(), leasehold::ConfigError>(())
    /// ```
    #[must_use]
    pub fn with_password(mut self, password: impl Into<Password>) -> Self {
        self.user.get_or_insert_default().password.set(password.into());
        self
    }

    /// Returns an error if the password would be sent to another machine without TLS.
    pub(crate) fn check_secrecy(&self) -> Result<(), ConfigError> {
        let in_clear = |endpoint: &&Endpoint| !endpoint.is_https() && !endpoint.is_loopback();
        let server = self.endpoints.iter().find(in_clear).filter(|_| self.user.is_some()).map(Endpoint::url);
        server.map_or(Ok(()), |server| {
            let remedy = "use https (`etcds://` in the URL of a store)";
            let rule = format_args!("the password would be sent without TLS to {server}; {remedy}");
            Err(ConfigError::new("password", "set", rule))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_value_is_refused_without_showing_secrets() {
        let config = EtcdConfig::new(["https://a:2379"]).unwrap().with_user("jobs").with_password("hunter2");
        assert!(!format!("{config:?}").contains("hunter2"));
        assert!(config.check_secrecy().is_ok());
        let plain = EtcdConfig::new(["http://127.0.0.1:2379", "http://a:2379"])
            .unwrap()
            .with_user("jobs")
            .with_password("hunter2");
        let refusal = plain.check_secrecy().unwrap_err().to_string();
        assert!(refusal.contains("without TLS to http://a:2379") && !refusal.contains("hunter2"), "{refusal}");
        assert!(EtcdConfig::new(["http://a"]).unwrap().check_secrecy().is_ok(), "no secret");
        assert!(EtcdConfig::new(Vec::<String>::new()).is_err());
        for url in ["", "a", "ftp://a", "https://me:hunter2@a"] {
            let refusal = EtcdConfig::new([url]).unwrap_err().to_string();
            assert!(!refusal.contains("hunter2"), "{refusal}");
        }
    }
}
