//! Requests, as the caller makes them.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

/// The verbs of the API that this client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// Reads; the only one that is sent again by itself when a pooled connection turns out to be dead.
    Get,
    /// Creates.
    Post,
    /// Replaces.
    Put,
    /// Deletes.
    Delete,
}

/// One request.
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
    /// The path below the server's URL. Plain segments; names that need escaping are refused.
    pub path: &'a str,
    /// Query parameters, unescaped.
    pub query: &'a [(&'a str, &'a str)],
    /// The body, sent as JSON.
    pub body: Option<&'a Value>,
    /// The time for all of it: credentials, name look-up, connect, TLS, sending and receiving. At most a day.
    pub timeout: Duration,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
        })
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}
