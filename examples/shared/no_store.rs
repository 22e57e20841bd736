//! In place of `store.rs` where the library is built for a cluster alone, as benches/compare builds it to weigh that.

use leasehold::Store;

pub fn open(url: &str, _: Option<&str>, _: bool) -> Result<Box<dyn Store>, Box<dyn std::error::Error>> {
    let scheme = url.split("://").next().unwrap_or_default();
    Err(format!("--store: there is no such store as {scheme}://; this program is built for a cluster alone").into())
}
