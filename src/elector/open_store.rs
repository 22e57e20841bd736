//! Stores that are named by a URL.

use std::fmt;
#[cfg(feature = "sqlite")]
use std::path::Path;

#[cfg(feature = "etcd")]
use crate::backends::etcd::{config::EtcdConfig, store::EtcdStore};
#[cfg(feature = "mysql")]
use crate::backends::mysql::{config::MySqlConfig, store::MySqlStore};
#[cfg(feature = "_server")]
use crate::backends::password::Password;
#[cfg(feature = "postgres")]
use crate::backends::postgres::{config::PostgresConfig, store::PostgresStore};
#[cfg(feature = "sqlite")]
use crate::backends::sqlite::store::SqliteStore;
use crate::store::Store;
use crate::util::config_error::ConfigError;

/// The URL forms of all stores, for errors.
const STORE_URLS: &str = "etcd://HOST:PORT,…/PREFIX, sqlite:///DIRECTORY/FILE, postgres://USER:PASSWORD@HOST:PORT/DATABASE and \
                     mysql://USER:PASSWORD@HOST:PORT/DATABASE";

/// Opens the store that a URL names, such as `sqlite:///var/lib/app/election.db`.
///
/// | URL | Store | Feature |
/// | --- | --- | --- |
/// | `etcd://HOST:PORT,…/PREFIX`, `etcds://…` | [`EtcdStore`](crate::etcd::EtcdStore) | `etcd` |
/// | `sqlite:///DIRECTORY/FILE`, `sqlite://RELATIVE/FILE` (without `?`, `#` and `%`), at the end `?shared-folder=true` | [`SqliteStore`](crate::sqlite::SqliteStore) | `sqlite` |
/// | `postgres://USER:PASSWORD@HOST:PORT/DATABASE` | [`PostgresStore`](crate::postgres::PostgresStore) | `postgres` |
/// | `mysql://USER:PASSWORD@HOST:PORT/DATABASE` | [`MySqlStore`](crate::mysql::MySqlStore) | `mysql` |
///
/// This function opens a SQLite file, and creates a missing file. The other stores connect at the first request, which
/// also creates a missing table.
///
/// # Examples
///
/// ```no_run
/// use leasehold::LeaderElector;
///
/// let url = std::env::var("ELECTION_STORE")?;
/// let elector = LeaderElector::builder("jobs").start_on(leasehold::open_store(&url)?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// - Returns [`ConfigError`] if the URL is invalid, if the feature of the store is missing, or if a SQLite file cannot
///   be opened.
///
/// The error does not contain the URL, which may contain a password. The path of a `sqlite://` URL is the exception.
pub fn open_store(url: &str) -> Result<Box<dyn Store>, ConfigError> {
    StoreOptions::new().open(url)
}

/// Options for opening the store that a URL names, in the style of [`std::fs::OpenOptions`].
///
/// # Examples
///
/// ```no_run
/// use leasehold::{Password, StoreOptions};
///
/// let password = Password::from_source(|_| std::fs::read_to_string("/run/secrets/database/password"));
/// let store = StoreOptions::new().password(password).create(false).open("postgres://jobs@db.example/app")?;
/// # Ok::<(), leasehold::ConfigError>(())
/// ```
#[derive(Debug, Clone)]
pub struct StoreOptions {
    #[cfg(feature = "_server")]
    password: Option<Password>,
    create: bool,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl StoreOptions {
    /// Creates options with the defaults below.
    pub fn new() -> Self {
        Self {
            #[cfg(feature = "_server")]
            password: None,
            create: true,
        }
    }

    /// Sets the password, or its source.
    ///
    /// Defaults to the password of the URL.
    #[cfg(feature = "_server")]
    #[must_use]
    pub fn password(mut self, password: impl Into<Password>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Sets whether missing files and tables are created.
    ///
    /// Defaults to `true`.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Opens a store like [`open_store`].
    ///
    /// # Errors
    ///
    /// - Returns the errors of [`open_store`].
    /// - Returns [`ConfigError`] if the store has no passwords, or if the URL has one too.
    /// - Returns [`ConfigError`] if a SQLite file does not exist and `create` is `false`.
    pub fn open(self, url: &str) -> Result<Box<dyn Store>, ConfigError> {
        let parts = url.split_once("://").filter(|(scheme, _)| scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        let (scheme, _) = parts.ok_or_else(|| refuse(format!("not a URL; use one of {STORE_URLS}")))?;
        match scheme {
            #[cfg(feature = "etcd")]
            "etcd" | "etcds" => {
                let config = EtcdConfig::from_url(url)?;
                Ok(Box::new(EtcdStore::new(self.password.into_iter().fold(config, EtcdConfig::with_password))?))
            }
            #[cfg(feature = "sqlite")]
            "sqlite" => self.open_file(&url["sqlite://".len()..]),
            #[cfg(feature = "postgres")]
            "postgres" | "postgresql" => {
                let config = PostgresConfig::new(url)?;
                let config = self.password.into_iter().fold(config, PostgresConfig::with_password);
                Ok(Box::new(PostgresStore::open(config, self.create)?))
            }
            #[cfg(feature = "mysql")]
            "mysql" => {
                let config = MySqlConfig::new(url)?;
                let config = self.password.into_iter().fold(config, MySqlConfig::with_password);
                Ok(Box::new(MySqlStore::open(config, self.create)?))
            }
            #[allow(unreachable_patterns, reason = "the arms above match the stores of this build")]
            "etcd" | "etcds" | "sqlite" | "postgres" | "postgresql" | "mysql" => Err(refuse(format!(
                "cannot open {scheme}://: this program is built without the feature for this store"
            ))),
            _ => Err(refuse(format!("unknown store {scheme}://; use one of {STORE_URLS}"))),
        }
    }
}

#[cfg(feature = "sqlite")]
impl StoreOptions {
    fn open_file(&self, rest: &str) -> Result<Box<dyn Store>, ConfigError> {
        #[cfg(feature = "_server")]
        if self.password.is_some() {
            return Err(refuse("sqlite:// has no password"));
        }
        let (path, in_shared_folder) = match rest.strip_suffix("?shared-folder=true") {
            Some(path) => (path, true),
            None => (rest, false),
        };
        // Other tools treat these characters as parameters or escapes. Two processes could then elect in two different
        // files.
        if path.contains(['?', '#', '%']) {
            return Err(refuse(
                "the path must not contain `?`, `#` or `%`, because sqlite:// has no escapes, and no parameter except \
                 shared-folder=true",
            ));
        }
        let exists = Path::new(path).exists();
        if !self.create && !exists {
            return Err(unusable(format!("file {path} does not exist")));
        }
        // A path after three slashes is absolute, a path after two slashes is relative.
        let relative = if exists || path.starts_with('/') { "" } else { "; an absolute path begins with sqlite:///" };
        let opened = SqliteStore::open_with(Path::new(path), in_shared_folder, self.create);
        Ok(Box::new(opened.map_err(|error| unusable(format!("{error}{relative}")))?))
    }
}

/// Returns an error that does not show the URL, because the URL may contain a password.
fn refuse(rule: impl fmt::Display) -> ConfigError {
    ConfigError::new("store URL", "invalid", rule)
}

#[cfg(feature = "sqlite")]
fn unusable(cause: impl fmt::Display) -> ConfigError {
    ConfigError::new("store", "unusable", cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_of_no_store_is_refused_and_not_shown() {
        for (url, rule) in [
            ("paper://wall:sesame", "unknown store paper://"),
            ("postgres:u:sesame@h://x", "not a URL"),
            ("/sesame", "not a URL"),
            #[cfg(not(feature = "mysql"))]
            ("mysql://u:sesame@h/d", "built without the feature"),
        ] {
            let error = open_store(url).err().expect("refused").to_string();
            assert!(error.contains(rule) && !error.contains("sesame"), "{error}");
        }
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn sqlite_file_is_created_only_if_that_is_allowed() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let path = scratch.path().join("election.db");
        let url = format!("sqlite://{}", path.display());
        assert!(StoreOptions::new().create(false).open(&url).is_err() && !path.exists());
        std::fs::write(&path, "").expect("a file");
        let error = StoreOptions::new().create(false).open(&url).err().expect("no table").to_string();
        assert!(error.contains("no table") && std::fs::read(&path).expect("a file").is_empty(), "{error}");
        std::fs::remove_file(&path).expect("a file");
        assert!(StoreOptions::new().password("sesame").open(&url).is_err() && !path.exists());
        assert!(open_store(&url).is_ok() && path.exists());
        assert!(open_store(&format!("{url}?shared-folder=true")).is_ok());
        for other in ["?mode=ro", "?shared-folder=no", "#1", "%20"] {
            let error = open_store(&format!("{url}{other}")).err().expect("refused").to_string();
            assert!(error.contains("must not contain"), "{error}");
        }
        assert_eq!(std::fs::read_dir(scratch.path()).expect("a directory").count(), 1, "no other file");
    }
}
