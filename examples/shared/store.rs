//! Where the records are, as `--store URL` says.

use leasehold::{SqliteStore, Store};

/// Opens the store that a URL such as `sqlite:///var/lib/app/election.db` names.
pub fn open(url: &str) -> Result<Box<dyn Store>, Box<dyn std::error::Error>> {
    let unusable = |why: &str| format!("--store {url}: {why}; there is sqlite://FILE");
    let (scheme, rest) = url.split_once("://").ok_or_else(|| unusable("this is no URL"))?;
    match scheme {
        // With three slashes the path is absolute, with two it is relative.
        "sqlite" => Ok(Box::new(SqliteStore::open(rest)?)),
        _ => Err(unusable("there is no such store").into()),
    }
}
