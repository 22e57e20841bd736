//! Tests of the client against correct and incorrect servers.

mod addresses;
mod certificates;
#[cfg(all(feature = "kubeconfig", unix))]
mod exec;
mod far;
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

use super::{Client, ClientError, Method, Request, Response};
use crate::store::CallContext;
use crate::util::cancel::CancelToken;

/// A time far longer than any operation. A test that waits this long has failed.
const LONG: Duration = Duration::from_secs(60);

/// Returns the context of a call without cancellation.
fn within(timeout: Duration) -> CallContext {
    CallContext::new(timeout, CancelToken::new())
}

fn get(client: &Client, timeout: Duration) -> Result<Response, ClientError> {
    get_until(client, timeout, &CancelToken::new())
}

fn get_until(client: &Client, timeout: Duration, cancel: &CancelToken) -> Result<Response, ClientError> {
    let request = Request { method: Method::Get, path: "/version", query: &[], body: None };
    client.request(request, &CallContext::new(timeout, cancel.clone()))
}

fn put(client: &Client, timeout: Duration) -> Result<Response, ClientError> {
    put_until(client, timeout, &CancelToken::new())
}

fn put_until(client: &Client, timeout: Duration, cancel: &CancelToken) -> Result<Response, ClientError> {
    let body = &serde_json::json!({ "a": 1 });
    let request = Request { method: Method::Put, path: "/version", query: &[], body: Some(body) };
    client.request(request, &CallContext::new(timeout, cancel.clone()))
}
