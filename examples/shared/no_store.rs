//! In place of `store.rs` where the library is built for a cluster alone, as benches/compare builds it to weigh that.

use leasehold::Store;

pub fn open(url: &str) -> Result<Box<dyn Store>, Box<dyn std::error::Error>> {
    Err(format!("--store {url}: there is no such store; this program is built for a cluster alone").into())
}
