//! HTTP requests to the API server.

use std::fmt;
use std::time::Duration;

use serde_json::Value;
use ureq::http;

/// A verb of the API that this client supports.
///
/// # Examples
///
/// ```
/// use leasehold::kubernetes::Method;
///
/// assert_eq!(Method::Put.to_string(), "PUT");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// A read, which the client repeats after a broken connection.
    Get,
    /// A creation.
    Post,
    /// A replacement.
    Put,
    /// A deletion.
    Delete,
}

/// One request.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use leasehold::kubernetes::{Method, Request};
///
/// let body = serde_json::json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease" });
/// let request = Request {
///     method: Method::Post,
///     path: "/apis/coordination.k8s.io/v1/namespaces/default/leases",
///     query: &[],
///     body: Some(&body),
///     timeout: Duration::from_secs(5),
/// };
/// assert_eq!(format!("{request:?}"), "POST /apis/coordination.k8s.io/v1/namespaces/default/leases");
/// ```
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The verb.
    pub method: Method,
    /// The path below the server's URL, made of plain segments.
    ///
    /// The client rejects a path that needs escaping.
    pub path: &'a str,
    /// The query parameters, which the client escapes.
    ///
    /// The path of the server URL, `path` and the query must have at most 16 KiB together.
    pub query: &'a [(&'a str, &'a str)],
    /// The body, sent as JSON.
    pub body: Option<&'a Value>,
    /// The time limit of the whole request, at most a day.
    ///
    /// The limit includes credentials, name lookup, connect, TLS, sending and receiving.
    pub timeout: Duration,
}

impl Method {
    pub(super) fn to_http(self) -> http::Method {
        match self {
            Self::Get => http::Method::GET,
            Self::Post => http::Method::POST,
            Self::Put => http::Method::PUT,
            Self::Delete => http::Method::DELETE,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_http().fmt(f)
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}
