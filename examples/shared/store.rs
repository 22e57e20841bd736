//! Where the records are, as `--store URL` says.

use leasehold::{EtcdConfig, EtcdStore, SqliteStore, Store};

/// Opens the store that a URL such as `sqlite:///var/lib/app/election.db` names.
pub fn open(url: &str) -> Result<Box<dyn Store>, Box<dyn std::error::Error>> {
    let unusable = |why: &str| format!("--store {url}: {why}; there are etcd://HOST:PORT,…/PREFIX and sqlite://FILE");
    let (scheme, rest) = url.split_once("://").ok_or_else(|| unusable("this is no URL"))?;
    match scheme {
        "etcd" => {
            let (members, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            let config = EtcdConfig::new(members.split(',').map(|member| format!("http://{member}")))?;
            let config = if prefix.is_empty() { config } else { config.with_prefix(prefix) };
            Ok(Box::new(EtcdStore::new(config)?))
        }
        // With three slashes the path is absolute, with two it is relative.
        "sqlite" => Ok(Box::new(SqliteStore::open(rest)?)),
        _ => Err(unusable("there is no such store").into()),
    }
}
