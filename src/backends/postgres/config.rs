//! Configuration of a [`PostgresStore`](crate::postgres::PostgresStore).

use std::time::Duration;

use super::channel_binding::ChannelBindingMode;
use crate::backends::password::Password;
use crate::backends::sql::tls_mode::TlsMode;
use crate::net::database_url::Address;
use crate::net::tls::config::TlsConfig;
use crate::util::config_error::ConfigError;
use crate::util::setters::setters;

/// Default interval between the reads of a watch without notifications.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The address of a PostgreSQL server, and the user.
///
/// `Debug` does not show passwords and keys.
///
/// # Examples
///
/// ```
/// use leasehold::postgres::{PostgresConfig, PostgresStore};
///
/// let config = PostgresConfig::new("postgres://jobs@db.example/elections")?.with_password("sesame");
/// let store = PostgresStore::new(config)?;
/// # Ok::<(), leasehold::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PostgresConfig {
    pub(crate) address: Address,
    pub(crate) user: String,
    pub(crate) password: Password,
    pub(crate) database: String,
    pub(crate) application_name: String,
    pub(crate) tls_mode: TlsMode,
    pub(crate) tls: TlsConfig,
    /// The name in the server's certificate, if it is not the host of `address`.
    pub(crate) server_name: Option<String>,
    pub(crate) channel_binding: ChannelBindingMode,
    /// The command-line options of the session, in the server's syntax.
    pub(crate) options: String,
    pub(crate) poll_interval: Duration,
}

impl PostgresConfig {
    /// Creates a configuration from a URL such as `postgres://user:password@host:port/database`.
    ///
    /// Special characters must be percent-encoded. The host defaults to `localhost`, the port to 5432, and the database
    /// to the user's name. The URL contains one host. After a fail-over, the name of the host must lead to the new
    /// primary.
    ///
    /// The parameters have libpq's names:
    ///
    /// | parameter | value |
    /// |---|---|
    /// | `host`, `hostaddr`, `port`, `user`, `password`, `dbname` | replace the parts of the URL; a `host` that begins with `/` is the directory of a Unix socket |
    /// | `application_name`, `fallback_application_name` | a name for the server's logs; defaults to `leasehold` |
    /// | `sslmode` | `disable`, `require`, `verify-ca` or `verify-full`; `allow` and `prefer` mean `require`; ignored for a socket |
    /// | `sslrootcert`, `sslcert`, `sslkey` | PEM files; `sslrootcert=system` for the system's roots |
    /// | `channel_binding` | `require`, `prefer` (default) or `disable` |
    /// | `poll_interval` | the time between a watch's reads without notifications, from `1ms` to `1day`; defaults to `50ms` |
    /// | `options` | `-c search_path=…`, and the `endpoint=…` of Neon |
    ///
    /// [POSTGRES.md] lists the other parameters: some have no effect, and some are refused.
    ///
    /// Without `sslmode`, connections to other machines use `verify-full`, so the server must prove by TLS that it is
    /// the host in the URL. Connections within this machine are not encrypted. `require` encrypts without verifying the
    /// server, unless `sslrootcert` or [`with_tls`](Self::with_tls) sets an authority: `require` is then `verify-ca`.
    /// `verify-ca` accepts every host with a certificate of the authority.
    ///
    /// [POSTGRES.md]: https://docs.rs/crate/leasehold/latest/source/docs/stores/POSTGRES.md
    ///
    /// # Errors
    ///
    /// Returns [`ConfigError`] if the URL is invalid, or has an unknown or refused parameter.
    pub fn new(url: &str) -> Result<Self, ConfigError> {
        Self::from_url(url)
    }
}

setters! {
    impl PostgresConfig;

    /// Sets the password, or its source.
    ///
    /// If the URL has a password and `password` is a source, [`PostgresStore::new`] returns an error.
    ///
    /// Defaults to the password of the URL.
    ///
    /// [`PostgresStore::new`]: crate::postgres::PostgresStore::new
    #[must_use]
    pub fn with_password(mut self, password: impl Into<Password>) { self.password.set(password.into()) }

    /// Sets the trusted authorities and the client certificate for TLS.
    ///
    /// Replaces `sslrootcert`, `sslcert` and `sslkey`.
    ///
    /// Defaults to the files of these URL parameters, or else to the system's root certificates without a client
    /// certificate.
    #[must_use]
    pub fn with_tls(mut self, tls: TlsConfig) { self.tls = tls }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_server_is_verified_unless_the_url_disables_it() {
        for (url, mode, address) in [
            ("postgres://me@db.test", TlsMode::VerifyFull, "db.test:5432"),
            ("postgres://me@127.0.0.1", TlsMode::Disable, "127.0.0.1:5432"),
            ("postgres://me@/", TlsMode::Disable, "localhost:5432"),
            ("postgresql://me@db.test:1/x?sslmode=disable", TlsMode::Disable, "db.test:1"),
            ("postgres://me@localhost/x?sslmode=require", TlsMode::Require, "localhost:5432"),
            ("postgres://me@:7/x?host=/run/pg", TlsMode::Disable, "/run/pg/.s.PGSQL.7"),
            ("postgres://me@/x?host=/run/pg&sslmode=require", TlsMode::Disable, "/run/pg/.s.PGSQL.5432"),
            ("postgres://me@h/x?connect_timeout=5&target_session_attrs=primary", TlsMode::VerifyFull, "h:5432"),
            ("postgres://me@%2Frun%2Fpg/x", TlsMode::Disable, "/run/pg/.s.PGSQL.5432"),
        ] {
            let config = PostgresConfig::new(url).unwrap();
            let address = address.replace("/.s.", &format!("{}.s.", std::path::MAIN_SEPARATOR));
            assert_eq!((config.tls_mode, config.address.to_string()), (mode, address), "{url}");
        }
        let config = PostgresConfig::new("postgres://me:hunter2@h/x?application_name=a").unwrap();
        assert_eq!((&*config.user, &*config.database, &*config.application_name), ("me", "x", "a"));
        assert!(!format!("{config:?}").contains("hunter2"));
        assert_eq!(PostgresConfig::new("postgres://me@h").unwrap().database, "me");
    }

    #[test]
    fn unusable_value_is_refused_without_showing_secrets() {
        for url in [
            "me:hunter2@h",
            "postgres://h/hunter2",
            "postgres://me:hunter2@h/x?sslmode=hunter2",
            "postgres://me:se?hunter2=x@h/x",
            "postgres://me:hunter2@h/x?options=-c",
            "postgres://me:hunter2@h/x?sslrootcert=/nowhere",
            "postgres://me:hunter2@h/x?sslcert=/nowhere",
            "postgres://me:hunter2@h/x?target_session_attrs=standby",
            "postgres://me:hunter2@h,i/x",
        ] {
            let refusal = PostgresConfig::new(url).unwrap_err().to_string();
            assert!(!refusal.contains("hunter2"), "{refusal}");
        }
    }
}
