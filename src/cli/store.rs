//! Where the records are, as `--store URL` says.

use leasehold::{EtcdConfig, EtcdStore, MySqlConfig, MySqlStore, PostgresConfig, PostgresStore, SqliteStore, Store};

const KINDS: &str = "etcd://HOST:PORT,…/PREFIX, sqlite://FILE, postgres://USER:PASSWORD@HOST:PORT/DATABASE and \
                     mysql://USER:PASSWORD@HOST:PORT/DATABASE";

/// Opens the store that a URL such as `sqlite:///var/lib/app/election.db` names.
pub fn open(url: &str) -> Result<Box<dyn Store>, Box<dyn std::error::Error>> {
    // The URL may have a password in it, and is not shown.
    let (scheme, rest) = url.split_once("://").ok_or_else(|| format!("--store: this is no URL; there are {KINDS}"))?;
    match scheme {
        "etcd" => {
            let (members, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            let config = EtcdConfig::new(members.split(',').map(|member| format!("http://{member}")))?;
            let config = if prefix.is_empty() { config } else { config.with_prefix(prefix) };
            Ok(Box::new(EtcdStore::new(config)?))
        }
        "mysql" => {
            let store = MySqlStore::new(MySqlConfig::new(url)?)?;
            // A user without the right to make it needs a table that is there.
            if let Err(error) = store.create_table() {
                log::info!("{error}");
            }
            Ok(Box::new(store))
        }
        // With three slashes the path is absolute, with two it is relative.
        "sqlite" => Ok(Box::new(SqliteStore::open(rest)?)),
        "postgres" | "postgresql" => {
            let store = PostgresStore::new(PostgresConfig::new(url)?)?;
            store.create_table()?;
            Ok(Box::new(store))
        }
        _ => Err(format!("--store: there is no such store as {scheme}://; there are {KINDS}").into()),
    }
}
