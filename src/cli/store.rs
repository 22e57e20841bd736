//! Where the records are, as `--store URL` says.

use leasehold::{
    EtcdConfig, EtcdStore, MySqlConfig, MySqlStore, PostgresConfig, PostgresStore, SqliteStore, Store, StoreError,
};

const KINDS: &str = "etcd://HOST:PORT,…/PREFIX, sqlite://FILE, postgres://USER:PASSWORD@HOST:PORT/DATABASE and \
                     mysql://USER:PASSWORD@HOST:PORT/DATABASE";

type Error = Box<dyn std::error::Error>;

/// Opens the store that a URL such as `sqlite:///var/lib/app/election.db` names, and makes what it needs there.
///
/// # Errors
///
/// A [`StoreError`] that is transient may not come again.
pub fn open(url: &str) -> Result<Box<dyn Store>, Error> {
    reach(url, true)
}

/// The same to look at it: nothing is made.
#[allow(dead_code, reason = "examples only campaign")]
pub fn open_existing(url: &str) -> Result<Box<dyn Store>, Error> {
    reach(url, false)
}

fn reach(url: &str, may_create: bool) -> Result<Box<dyn Store>, Error> {
    // The URL may have a password in it, and is not shown.
    let (scheme, rest) = url.split_once("://").ok_or_else(|| format!("--store: this is no URL; there are {KINDS}"))?;
    let create_table = |create: &dyn Fn() -> Result<(), StoreError>| match create() {
        Err(error) if error.is_transient() => Err(error),
        // A user without the right to make it needs a table that is there: what else is wrong is told when it is read.
        Err(error) => {
            log::info!("{error}");
            Ok(())
        }
        Ok(()) => Ok(()),
    };
    match scheme {
        "etcd" | "etcds" => Ok(Box::new(EtcdStore::new(EtcdConfig::from_url(url)?)?)),
        // With three slashes the path is absolute, with two it is relative.
        "sqlite" => {
            if !may_create && !std::path::Path::new(rest).exists() {
                return Err(format!("--store: there is no file {rest}").into());
            }
            Ok(Box::new(SqliteStore::open(rest)?))
        }
        "postgres" | "postgresql" => {
            let store = PostgresStore::new(PostgresConfig::new(url)?)?;
            if may_create {
                create_table(&|| store.create_table())?;
            }
            Ok(Box::new(store))
        }
        "mysql" => {
            let store = MySqlStore::new(MySqlConfig::new(url)?)?;
            if may_create {
                create_table(&|| store.create_table())?;
            }
            Ok(Box::new(store))
        }
        _ => Err(format!("--store: there is no such store as {scheme}://; there are {KINDS}").into()),
    }
}
