//! How etcd is reached, and as whom.

use std::error::Error;

use crate::backends::password::Password;
use crate::net::endpoint::Endpoint;
use crate::net::tls::config::{TlsConfig, refuse};
use crate::store::CallContext;
use crate::util::config_error::ConfigError;

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
    pub(crate) tls: TlsConfig,
    pub(crate) user: Option<EtcdUser>,
}

/// Who we are to etcd.
#[derive(Clone, Debug, Default)]
pub(crate) struct EtcdUser {
    pub(crate) name: String,
    pub(crate) password: Password,
}

impl EtcdConfig {
    /// The client URLs of the members of one cluster, such as `https://10.0.0.1:2379`; one is enough, and with all of them
    /// others are tried when one fails. `https` trusts the system's roots unless [`with_tls`](Self::with_tls) says otherwise.
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
        Ok(Self { endpoints, prefix: "leasehold/".to_owned(), tls: TlsConfig::default(), user: None })
    }

    /// What the keys of the records begin with: the record `jobs` is under the key `<prefix>jobs`. Default: `leasehold/`.
    /// Nothing else should be written below it, and a user needs the right to read and write there.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Whom to trust, and what to show of ourselves, where an endpoint is `https`. A client certificate is for TLS alone: by its
    /// gateway etcd takes nobody's name from it, so who has to be somebody needs [`with_user`](Self::with_user), too.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use leasehold::{EtcdConfig, TlsConfig};
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

    /// Logs in with a user name and a password. What etcd gives for them is used until it is refused, and then asked for
    /// again. Over plain `http` a password is sent to this very machine only.
    #[must_use]
    pub fn with_user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        let user = self.user.get_or_insert_default();
        user.name = name.into();
        user.password.fix(password);
        self
    }

    /// Logs in as the user `name` with the password that `source` returns.
    ///
    /// The client calls the source before the first login, and again after etcd has refused a token. If etcd refuses the login, the
    /// client calls the source once more before the call fails. The source runs on the thread of the call and must return within
    /// [`CallContext::remaining`]. If a password is also set, [`EtcdStore::new`](crate::EtcdStore::new) returns an error.
    ///
    /// Defaults to the user and the password of the URL.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{EtcdConfig, EtcdStore};
    ///
    /// // A mounted Secret.
    /// let config = EtcdConfig::new(["https://10.0.0.1:2379"])?
    ///     .with_user_from("jobs", |_| std::fs::read_to_string("/run/secrets/etcd/password"));
    /// let store = EtcdStore::new(config)?;
    /// # Ok::<(), leasehold::ConfigError>(())
    /// ```
    #[must_use]
    pub fn with_user_from<F, E>(mut self, name: impl Into<String>, source: F) -> Self
    where
        F: Fn(&CallContext) -> Result<String, E> + Send + Sync + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let user = self.user.get_or_insert_default();
        user.name = name.into();
        user.password.take_from(source);
        self
    }

    /// Returns the name of the user, if the URL or [`with_user`](Self::with_user) has set one.
    pub fn user_name(&self) -> Option<&str> {
        self.user.as_ref().map(|user| &*user.name)
    }

    /// That no password goes in clear to another machine.
    pub(crate) fn check_secrecy(&self) -> Result<(), ConfigError> {
        let in_clear = |endpoint: &&Endpoint| !endpoint.is_https() && !endpoint.is_loopback();
        match self.endpoints.iter().find(in_clear).filter(|_| self.user.is_some()) {
            Some(endpoint) => {
                let rule = format!(
                    "it would go in clear to {}; use https (`etcds://` in the URL of a store), or leave it out",
                    endpoint.url()
                );
                Err(ConfigError::new("password", "set", rule))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_value_is_refused_without_showing_secrets() {
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
    }
}
