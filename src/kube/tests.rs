//! The client against servers that behave, and servers that do not.

mod addresses;
pub(super) mod certificates;
#[cfg(all(feature = "kubeconfig", unix))]
mod exec;
mod head;
mod http;
mod p521;
mod proxy;
mod rotation;
mod server;
mod stream;
mod tls;
mod trust;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{Client, Error, Method, Request, Response};

/// Far longer than anything takes: tests that wait this long have failed.
const LONG: Duration = Duration::from_secs(60);

fn get(client: &Client, timeout: Duration) -> Result<Response, Error> {
    client.request(Request { method: Method::Get, path: "/version", query: &[], body: None, timeout })
}

fn put(client: &Client, timeout: Duration) -> Result<Response, Error> {
    client.request(Request {
        method: Method::Put,
        path: "/version",
        query: &[],
        body: Some(&serde_json::json!({ "a": 1 })),
        timeout,
    })
}

/// A directory that goes with the test.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("leasehold-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
