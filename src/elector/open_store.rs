//! Stores that are named by a URL.

use std::fmt;
#[cfg(feature = "sqlite")]
use std::path::Path;
use std::sync::Arc;

#[cfg(feature = "etcd")]
use crate::backends::etcd::{config::EtcdConfig, store::EtcdStore};
#[cfg(feature = "mysql")]
use crate::backends::mysql::{config::MySqlConfig, store::MySqlStore};
#[cfg(feature = "postgres")]
use crate::backends::postgres::{config::PostgresConfig, store::PostgresStore};
#[cfg(feature = "sqlite")]
use crate::backends::sqlite::store::SqliteStore;
use crate::store::{CallContext, Store};
use crate::util::config_error::ConfigError;

/// The URL forms of all stores, for errors and for the help of the command.
pub const STORE_URLS: &str = "etcd://HOST:PORT,…/PREFIX, sqlite:///DIRECTORY/FILE, postgres://USER:PASSWORD@HOST:PORT/DATABASE and \
                     mysql://USER:PASSWORD@HOST:PORT/DATABASE";

/// A function that returns the password of a store before each login.
pub type PasswordSource = Arc<dyn Fn(&CallContext) -> Result<String, String> + Send + Sync>;

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
    open_store_with(url, None, true)
}

/// Opens a store like [`open_store`], with a source of its password.
///
/// Creates files and tables only if `may_create` is `true`.
///
/// # Errors
///
/// Returns the errors of [`open_store`], and a [`ConfigError`] if a password does not apply to the URL.
#[allow(clippy::needless_pass_by_value, unused_variables, reason = "each store uses some of the arguments")]
pub fn open_store_with(
    url: &str,
    password: Option<PasswordSource>,
    may_create: bool,
) -> Result<Box<dyn Store>, ConfigError> {
    let parts = url.split_once("://").filter(|(scheme, _)| scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    let (scheme, rest) = parts.ok_or_else(|| refuse(format!("not a URL; use one of {STORE_URLS}")))?;
    let (path, in_shared_folder) = match rest.strip_suffix("?shared-folder=true") {
        Some(path) => (path, true),
        None => (rest, false),
    };
    match scheme {
        #[cfg(feature = "etcd")]
        "etcd" | "etcds" => {
            let mut config = EtcdConfig::from_url(url)?;
            if let Some(source) = password {
                let name = config.user_name().ok_or_else(|| refuse("a password needs a user in the URL"))?.to_owned();
                config = config.with_user_from(name, move |call| source(call));
            }
            Ok(Box::new(EtcdStore::new(config)?))
        }
        #[cfg(feature = "sqlite")]
        "sqlite" if password.is_some() => Err(refuse("sqlite:// has no password")),
        // Other tools treat these characters as parameters or escapes. Two processes could then elect in two different
        // files.
        #[cfg(feature = "sqlite")]
        "sqlite" if path.contains(['?', '#', '%']) => Err(refuse(
            "the path must not contain `?`, `#` or `%`, because sqlite:// has no escapes, and no parameter except \
             shared-folder=true",
        )),
        // A path after three slashes is absolute, a path after two slashes is relative.
        #[cfg(feature = "sqlite")]
        "sqlite" => {
            let exists = Path::new(path).exists();
            if !may_create && !exists {
                return Err(unusable(format!("file {path} does not exist")));
            }
            let relative =
                if exists || path.starts_with('/') { "" } else { "; an absolute path begins with sqlite:///" };
            let opened = SqliteStore::open_with(Path::new(path), in_shared_folder, may_create);
            Ok(Box::new(opened.map_err(|error| unusable(format!("{error}{relative}")))?))
        }
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => {
            let mut config = PostgresConfig::new(url)?;
            if let Some(source) = password {
                config = config.with_password_from(move |call| source(call));
            }
            Ok(Box::new(PostgresStore::open(config, may_create)?))
        }
        #[cfg(feature = "mysql")]
        "mysql" => {
            let mut config = MySqlConfig::new(url)?;
            if let Some(source) = password {
                config = config.with_password_from(move |call| source(call));
            }
            Ok(Box::new(MySqlStore::open(config, may_create)?))
        }
        #[allow(unreachable_patterns, reason = "the arms above match the stores of this build")]
        "etcd" | "etcds" | "sqlite" | "postgres" | "postgresql" | "mysql" => {
            Err(refuse(format!("cannot open {scheme}://: this program is built without the feature for this store")))
        }
        _ => Err(refuse(format!("unknown store {scheme}://; use one of {STORE_URLS}"))),
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
        assert!(open_store_with(&url, None, false).is_err() && !path.exists());
        std::fs::write(&path, "").expect("a file");
        let error = open_store_with(&url, None, false).err().expect("no table").to_string();
        assert!(error.contains("no table") && std::fs::read(&path).expect("a file").is_empty(), "{error}");
        std::fs::remove_file(&path).expect("a file");
        assert!(open_store_with(&url, Some(Arc::new(|_| Ok(String::new()))), true).is_err() && !path.exists());
        assert!(open_store(&url).is_ok() && path.exists());
        assert!(open_store(&format!("{url}?shared-folder=true")).is_ok());
        for other in ["?mode=ro", "?shared-folder=no", "#1", "%20"] {
            let error = open_store(&format!("{url}{other}")).err().expect("refused").to_string();
            assert!(error.contains("must not contain"), "{error}");
        }
        assert_eq!(std::fs::read_dir(scratch.path()).expect("a directory").count(), 1, "no other file");
    }
}
