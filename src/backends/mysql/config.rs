//! Configuration of a [`MySqlStore`](crate::mysql::MySqlStore).

use std::time::Duration;

use crate::backends::password::Password;
use crate::backends::sql::tls_mode::TlsMode;
use crate::net::database_url::Address;
use crate::net::tls::config::TlsConfig;
use crate::util::config_error::ConfigError;
use crate::util::setters::setters;

/// Default interval between a watch's reads.
///
/// People do not notice such a delay, and the reads are a small load for a server.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The address of a MySQL or MariaDB server, the user, and the database.
///
/// `Debug` does not show passwords and keys.
///
/// # Examples
///
/// ```
/// use leasehold::mysql::{MySqlConfig, MySqlStore};
///
/// let config = MySqlConfig::new("mysql://db.example.com/app")?.with_user("jobs").with_password("sesame");
/// let store = MySqlStore::new(config)?;
/// # Ok::<(), leasehold::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct MySqlConfig {
    pub(crate) address: Address,
    pub(crate) user: Option<String>,
    pub(crate) password: Password,
    pub(crate) database: String,
    pub(crate) ssl_mode: Option<TlsMode>,
    pub(crate) tls: Option<TlsConfig>,
    pub(crate) poll_interval: Duration,
}

impl MySqlConfig {
    /// Creates a configuration from a URL such as `mysql://user:password@host:3306/database`.
    ///
    /// The scheme `mariadb://` has the same meaning. Names and passwords must be percent-encoded, except letters,
    /// digits, `-`, `.`, `_` and `~`. The port defaults to 3306. The host must be the primary server. The host must not
    /// be a load balancer that distributes connections over replicas.
    ///
    /// | parameter | meaning |
    /// |---|---|
    /// | `socket=/run/mysqld/mysqld.sock` | connects through this Unix socket instead of the host |
    /// | `ssl-mode=VERIFY_IDENTITY` | uses TLS, and verifies that the certificate is for the host |
    /// | `ssl-mode=VERIFY_CA` | uses TLS, and accepts every host with a certificate of the authority in `ssl-ca` |
    /// | `ssl-mode=REQUIRED` | uses TLS **without verifying the server**; with `ssl-ca`, means `VERIFY_CA` |
    /// | `ssl-mode=PREFERRED` | means `REQUIRED` |
    /// | `ssl-mode=DISABLED` | uses no TLS |
    /// | `ssl-ca`, `ssl-cert`, `ssl-key` | PEM files of the authority, and of a client certificate and its key |
    /// | `poll-interval=50ms` | the time between a watch's reads, from `1ms` to `1day`; defaults to `50ms` |
    /// | `user`, `password` | replace the user and the password of the URL |
    ///
    /// [MYSQL.md] lists other spellings, such as `sslMode` and `ssl_ca`, and parameters without effect.
    ///
    /// [MYSQL.md]: https://docs.rs/crate/leasehold/latest/source/docs/stores/MYSQL.md
    ///
    /// With `REQUIRED`, any machine on the network path can pose as the server. Such a machine gets the password if the
    /// authentication method sends the password itself.
    ///
    /// `ssl-mode` defaults to `VERIFY_IDENTITY` for other machines and after [`with_tls`](Self::with_tls), and to
    /// `DISABLED` for this machine.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::mysql::MySqlConfig;
    ///
    /// let config = MySqlConfig::new("mysql://jobs@localhost/app?socket=/run/mysqld/mysqld.sock")?;
    /// # Ok::<(), leasehold::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`ConfigError`] if the URL is invalid. The error does not contain the URL, which may contain a password.
    pub fn new(url: &str) -> Result<Self, ConfigError> {
        Self::from_url(url)
    }
}

setters! {
    impl MySqlConfig;

    /// Sets the user.
    ///
    /// Defaults to the user of the URL.
    #[must_use]
    pub fn with_user(mut self, name: impl Into<String>) { self.user = Some(name.into()) }

    /// Sets the password, or its source.
    ///
    /// If the URL has a password and `password` is a source, [`MySqlStore::new`] returns an error.
    ///
    /// Defaults to the password of the URL, or else to no password.
    ///
    /// [`MySqlStore::new`]: crate::mysql::MySqlStore::new
    #[must_use]
    pub fn with_password(mut self, password: impl Into<Password>) { self.password.set(password.into()) }

    /// Enables TLS with the trusted authorities and the client certificate in `tls`.
    ///
    /// Connections within this machine use TLS, too.
    ///
    /// Replaces `ssl-ca`, `ssl-cert` and `ssl-key`.
    ///
    /// Defaults to the files of these URL parameters, or else to the system's root certificates without a client
    /// certificate if `ssl-mode` or the address requires TLS.
    #[must_use]
    pub fn with_tls(mut self, tls: TlsConfig) { self.tls = Some(tls) }
}

impl MySqlConfig {
    pub(crate) fn tls_mode(&self) -> Result<TlsMode, ConfigError> {
        match (self.ssl_mode, &self.tls) {
            (Some(TlsMode::Disable), Some(_)) => {
                let rule = "certificates are configured, too; remove one of the two";
                Err(ConfigError::new("ssl-mode", "DISABLED", rule))
            }
            (Some(mode), _) => Ok(mode),
            (None, Some(_)) => Ok(TlsMode::VerifyFull),
            (None, None) => Ok(TlsMode::default_for(&self.address)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::secret::Secret;

    fn config(url: &str) -> MySqlConfig {
        MySqlConfig::new(url).unwrap()
    }

    #[test]
    fn url_gives_address_and_user() {
        let full = config("mysql://jo%40b:p%3Aw@db.test:3307/app");
        assert_eq!(full.address, Address::Tcp { host: "db.test".to_owned(), port: 3307 });
        assert_eq!(
            (full.user.as_deref(), full.password.fixed.as_ref().map(Secret::expose), &*full.database),
            (Some("jo@b"), Some("p:w"), "app")
        );
        assert!(!format!("{full:?}").contains("p:w"));
        let other = full.with_user("other").with_password("else");
        assert_eq!((other.user.as_deref(), other.password.fixed), (Some("other"), Some(Secret::new("else"))));
        assert_eq!(config("mariadb://[::1]/app").address, Address::Tcp { host: "::1".to_owned(), port: 3306 });
        assert_eq!(config("mysql:///app?socket=/run/x.sock").address, Address::Unix("/run/x.sock".into()));
    }

    #[test]
    fn invalid_url_is_refused_without_being_quoted() {
        for url in [
            "hunter2",
            "postgres://me:hunter2@a/b",
            "mysql://me:hunter2@a",
            "mysql://me:hunter2@a/",
            "mysql://me:hunter2@/b",
            "mysql://me:se?hunter2=1@a/b",
            "mysql://me:se?x=1&hunter2=1@a/b",
            "mysql://me:hunter2@a/b?ssl-mode=hunter2",
            "mysql://me:hunter2@/b?socket=",
            "mysql://me:hunter2@a:x/b",
        ] {
            let error = MySqlConfig::new(url).unwrap_err();
            assert!(error.field() == "url" && !error.to_string().contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn remote_server_is_verified_unless_configured_otherwise() {
        for (url, expected) in [
            ("mysql://a/b", TlsMode::VerifyFull),
            ("mysql://a/b?ssl-mode=REQUIRED", TlsMode::Require),
            ("mysql://a/b?ssl-mode=DISABLED", TlsMode::Disable),
            ("mysql://127.0.0.1/b", TlsMode::Disable),
            ("mysql://localhost/b", TlsMode::Disable),
            ("mysql://localhost/b?ssl-mode=VERIFY_IDENTITY", TlsMode::VerifyFull),
            ("mysql:///b?socket=/a", TlsMode::Disable),
        ] {
            assert_eq!(config(url).tls_mode(), Ok(expected), "{url}");
        }
        assert_eq!(config("mysql://127.0.0.1/b").with_tls(TlsConfig::new()).tls_mode(), Ok(TlsMode::VerifyFull));
        let both = config("mysql://a/b?ssl-mode=DISABLED").with_tls(TlsConfig::new()).tls_mode();
        assert_eq!(both.unwrap_err().field(), "ssl-mode");
    }
}
