//! Where the records are, as `--store URL` says.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::{
    Call, Cancel, ConfigError, Cursor, EtcdConfig, EtcdStore, LeaderElectionRecord, MySqlConfig, MySqlStore, Observed,
    PostgresConfig, PostgresStore, SqliteStore, Store, StoreError, StoreErrorKind, WatchEvent, WatchScope,
};

const KINDS: &str = "etcd://HOST:PORT,…/PREFIX, sqlite:///DIRECTORY/FILE, postgres://USER:PASSWORD@HOST:PORT/DATABASE and \
                     mysql://USER:PASSWORD@HOST:PORT/DATABASE";

/// Returns the password of the store.
pub type PasswordSource = Arc<dyn Fn(&Call) -> Result<String, String> + Send + Sync>;

type Error = Box<dyn std::error::Error>;

/// Opens the store that a URL such as `sqlite:///var/lib/app/election.db` names. A file or a table that it needs is made if that may be:
/// the table when the store is reached for the first time. Whoever only looks at it makes nothing.
pub fn open(url: &str, password: Option<PasswordSource>, may_create: bool) -> Result<Box<dyn Store>, Error> {
    let is_made = AtomicBool::new(!may_create);
    let of_store = |error: ConfigError| format!("--store: {error}");
    // The URL may have a password in it, and is not shown.
    let (scheme, rest) = url.split_once("://").ok_or_else(|| format!("--store: this is no URL; there are {KINDS}"))?;
    match scheme {
        "etcd" | "etcds" => {
            let mut config = EtcdConfig::from_url(url).map_err(of_store)?;
            if let Some(source) = password {
                let name = config.user_name().ok_or("--store: the URL names no user")?.to_owned();
                config = config.with_user_from(name, move |call| source(call));
            }
            Ok(Box::new(EtcdStore::new(config).map_err(of_store)?))
        }
        // With three slashes the path is absolute, with two it is relative.
        "sqlite" if password.is_some() => Err("--store: sqlite:// has no password".into()),
        "sqlite" => {
            if !may_create && !Path::new(rest).exists() {
                return Err(format!("--store: there is no file {rest}").into());
            }
            let is_found = rest.starts_with('/') || Path::new(rest).exists();
            let relative = if is_found { "" } else { "; an absolute path has three slashes before it" };
            Ok(Box::new(SqliteStore::open(rest).map_err(|error| format!("--store: {error}{relative}"))?))
        }
        "postgres" | "postgresql" => {
            let mut config = PostgresConfig::new(url).map_err(of_store)?;
            if let Some(source) = password {
                config = config.with_password_from(move |call| source(call));
            }
            let store = PostgresStore::new(config).map_err(of_store)?;
            Ok(Box::new(WithTable { store, create: PostgresStore::create_table_within, is_made }))
        }
        "mysql" => {
            let mut config = MySqlConfig::new(url).map_err(of_store)?;
            if let Some(source) = password {
                config = config.with_password_from(move |call| source(call));
            }
            let store = MySqlStore::new(config).map_err(of_store)?;
            Ok(Box::new(WithTable { store, create: MySqlStore::create_table_within, is_made }))
        }
        _ if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
            Err(format!("--store: there is no such store as {scheme}://; there are {KINDS}").into())
        }
        _ => Err(format!("--store: this is no URL; there are {KINDS}").into()),
    }
}

/// A store whose table is created before the first request, because the server may start later.
struct WithTable<S> {
    store: S,
    create: fn(&S, &Call) -> Result<(), StoreError>,
    is_made: AtomicBool,
}

impl<S: Store> WithTable<S> {
    /// Calls do not wait for each other, because a server may hang.
    fn create_table(&self, call: &Call) -> Result<(), StoreError> {
        if self.is_made.load(Ordering::Acquire) { Ok(()) } else { (self.create)(&self.store, call) }
    }
}

impl<S: Store> Store for WithTable<S> {
    fn get(&self, key: &str, call: &Call) -> Result<Option<Observed>, StoreError> {
        let created = match self.create_table(call) {
            // The password may be a file that another program has not written yet.
            Err(error) if error.is_transient() || error.kind() == StoreErrorKind::Unauthorized => return Err(error),
            created => created,
        };
        let answer = self.store.get(key, call);
        match &answer {
            Ok(_) => self.is_made.store(true, Ordering::Release),
            // A user without the right to create tables may use a table that exists.
            Err(error) if error.kind() == StoreErrorKind::NotFound => created?,
            Err(_) => {}
        }
        answer
    }

    fn create(&self, key: &str, record: &LeaderElectionRecord, call: &Call) -> Result<Observed, StoreError> {
        self.store.create(key, record, call)
    }

    fn update(
        &self,
        key: &str,
        base: &Observed,
        record: &LeaderElectionRecord,
        call: &Call,
    ) -> Result<Observed, StoreError> {
        self.store.update(key, base, record, call)
    }

    fn watch(
        &self,
        scope: WatchScope<'_>,
        from: Option<&Cursor>,
        cancel: &Cancel,
        on_event: &mut dyn FnMut(WatchEvent),
    ) -> Result<(), StoreError> {
        // A read returns the error, and within a shorter time.
        let _ = self.create_table(&Call::new(Duration::from_secs(10), cancel.clone()));
        self.store.watch(scope, from, cancel, on_event)
    }

    fn check_key(&self, key: &str) -> Result<(), ConfigError> {
        self.store.check_key(key)
    }

    fn describe(&self, key: &str) -> String {
        self.store.describe(key)
    }

    fn location(&self) -> Option<String> {
        self.store.location()
    }

    fn namespace(&self) -> Option<String> {
        self.store.namespace()
    }
}
