//! How PostgreSQL is reached, and as whom.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use crate::backends::password::Password;
use crate::backends::sql::tls_mode::TlsMode;
use crate::net::database_url::{Address, DatabaseUrl};
use crate::net::tls::config::{TlsConfig, UrlFiles};
use crate::store::CallContext;
use crate::util::config_error::ConfigError;

const DEFAULT_PORT: u16 = 5432;

/// A watch that has to ask does so this often.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How PostgreSQL is reached, and as whom. Passwords and keys in it are not shown by `Debug`.
///
/// # Examples
///
/// ```
/// use leasehold::{PostgresConfig, PostgresStore};
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
    pub(crate) poll_interval: Duration,
}

impl PostgresConfig {
    /// Where it is, and as whom to log in: `postgres://user:password@host:port/database`, with `%`-codes for what is special in
    /// a URL. The port is 5432 unless it is given, the database has the user's name, and the host is `localhost`. One host is
    /// named; a name that leads to whichever server is the primary is what a fail-over needs.
    ///
    /// Parameters, as libpq calls them: `host` (a directory, such as `/run/postgresql`: the socket in it is used),
    /// `application_name`, `sslmode` (`disable`, `require` or `verify-full`; through a socket it says nothing), `sslrootcert`, `sslcert`,
    /// `sslkey`. `connect_timeout` says nothing, for every call has its own time, and neither does `target_session_attrs`, for the
    /// server has to be a primary.
    ///
    /// Without `sslmode` another machine has to prove by TLS that it is the host that is named, as with `verify-full`; to this
    /// machine nothing is encrypted. `require` encrypts, and believes anybody.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when it is no such URL, or has a parameter that is not one of these.
    pub fn new(url: &str) -> Result<Self, ConfigError> {
        let refuse = |rule: &str| ConfigError::new("url", "unusable", format!("it {rule}"));
        let url = DatabaseUrl::parse(url, &["postgres", "postgresql"]).map_err(|rule| {
            ConfigError::new("url", "unusable", format!("it {rule}; such as postgres://user@host:5432/database"))
        })?;
        let (mut host, mut application_name, mut sslmode) = (url.host, "leasehold".to_owned(), None);
        let mut files = UrlFiles::default();
        for (name, value) in url.parameters {
            match name.as_str() {
                "host" => host = value,
                "application_name" => application_name = value,
                // Every call has its own time, and every server has to be a primary.
                "connect_timeout" => {}
                "target_session_attrs" if ["any", "primary", "read-write"].contains(&&*value) => {}
                "sslmode" => {
                    sslmode = Some(match value.as_str() {
                        "disable" => TlsMode::Disable,
                        "require" => TlsMode::Require,
                        "verify-full" => TlsMode::VerifyFull,
                        _ => return Err(refuse("has an sslmode that is not disable, require or verify-full")),
                    });
                }
                "sslrootcert" => files.ca = Some(value),
                "sslcert" => files.certificate = Some(value),
                "sslkey" => files.key = Some(value),
                _ => {
                    let known = "host, application_name, sslmode, sslrootcert, sslcert, sslkey";
                    return Err(refuse(&format!("has the parameter {name:?}, which is none of {known}")));
                }
            }
        }
        let tls = files.read(|| refuse("must have both sslcert and sslkey, or neither"))?;
        let port = url.port.unwrap_or(DEFAULT_PORT);
        let address = match host.as_str() {
            "" => Address::Tcp { host: "localhost".to_owned(), port },
            directory if directory.starts_with('/') => {
                Address::Unix(PathBuf::from(directory).join(format!(".s.PGSQL.{port}")))
            }
            _ => Address::Tcp { host, port },
        };
        let user = url.user.ok_or_else(|| refuse("must name a user"))?;
        let tls_mode = match (&address, sslmode) {
            // As libpq has it: nobody else is on the way.
            (Address::Unix(_), _) => TlsMode::Disable,
            (_, Some(mode)) => mode,
            (address, None) => TlsMode::default_for(address),
        };
        Ok(Self {
            database: url.database.unwrap_or_else(|| user.clone()),
            user,
            password: url.password.into(),
            application_name,
            tls_mode,
            address,
            tls,
            poll_interval: POLL_INTERVAL,
        })
    }

    /// The password, where it is not to stand in a URL.
    #[must_use]
    pub fn with_password(mut self, password: impl Into<String>) -> Self {
        self.password.fix(password);
        self
    }

    /// Sets the source of the password, which is called before each login.
    ///
    /// If the server refuses the login, the source is called once more before the call fails. The source runs on the thread of the
    /// call and must return within [`CallContext::remaining`]. If a password is also set, [`PostgresStore::new`] returns an error.
    ///
    /// Defaults to the password of the URL.
    ///
    /// [`PostgresStore::new`]: crate::PostgresStore::new
    ///
    /// # Examples
    ///
    /// A token of RDS IAM, which lasts 15 minutes:
    ///
    /// ```
    /// use std::{io, process::Command};
    /// use leasehold::{PostgresConfig, PostgresStore};
    ///
    /// let config = PostgresConfig::new("postgres://jobs@db.example/elections")?.with_password_from(|_| {
    ///     let arguments = ["rds", "generate-db-auth-token", "--hostname=db.example", "--port=5432", "--username=jobs"];
    ///     let output = Command::new("aws").args(arguments).output()?;
    ///     match output.status.success() {
    ///         true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
    ///         false => Err(io::Error::other(format!("aws failed: {}", output.status))),
    ///     }
    /// });
    /// let store = PostgresStore::new(config)?;
    /// # Ok::<(), leasehold::ConfigError>(())
    /// ```
    #[must_use]
    pub fn with_password_from<F, E>(mut self, source: F) -> Self
    where
        F: Fn(&CallContext) -> Result<String, E> + Send + Sync + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.password.take_from(source);
        self
    }

    /// Whom to trust in TLS, and what to show of ourselves; in place of `sslrootcert`, `sslcert` and `sslkey`.
    #[must_use]
    pub fn with_tls(mut self, tls: TlsConfig) -> Self {
        self.tls = tls;
        self
    }

    /// How often a watch reads where notifications are not delivered, as behind PgBouncer in transaction mode. Default: 50 ms. At
    /// least 1 ms.
    #[must_use]
    pub fn with_poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = interval.max(Duration::from_millis(1));
        self
    }
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
            "postgres://me:hunter2@h/x?sslmode=prefer",
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
