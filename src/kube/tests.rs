//! The client against servers that behave, and servers that do not.

mod addresses;
mod certificates;
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
