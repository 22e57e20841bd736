//! Requests and their answers, as the caller sees them.

use std::fmt;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::{Error, ErrorKind};
use super::json::{self, Unreadable};

/// What the values in an answer may take in memory. With the longest body it stays below 16 MiB.
const MAX_VALUES: usize = 11 * 1024 * 1024;

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
/// use leasehold::kube::{Method, Request};
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

/// A 2xx answer.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Response {
    /// The status code: 200, or 201 when something was created.
    pub status: u16,
    /// The body, at most 4 MiB.
    pub body: Vec<u8>,
}

impl Response {
    /// Reads the body as JSON.
    ///
    /// JSON can take a hundred times its size in memory: `{"a":{}}` is 8 bytes and a node of a B-tree. So what it would
    /// take as a [`Value`] is counted first, and more than 11 MiB is refused before any of it is built; with the body
    /// itself that is less than 16 MiB.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Malformed`] when it is something else. What it holds is not quoted. [`ErrorKind::BodyTooLarge`] when
    /// it would take more than 11 MiB; [`body`](Response::body) is still there for a parser that keeps less of it.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use leasehold::kube::{Client, ClientConfig, Method, Request};
    /// # let client = Client::new(ClientConfig::infer()?)?;
    /// # let timeout = Duration::from_secs(5);
    /// let request = Request { method: Method::Get, path: "/version", query: &[], body: None, timeout };
    /// let version: serde_json::Value = client.request(request)?.json()?;
    /// println!("{}", version["gitVersion"]);
    /// # Ok::<(), leasehold::kube::Error>(())
    /// ```
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let length = self.body.len();
        json::read(&self.body, MAX_VALUES).map_err(|unreadable| {
            let error = match unreadable {
                Unreadable::Malformed(e) => {
                    let (line, column) = (e.line(), e.column());
                    let detail = format!(
                        "the {length} bytes of the answer are not the JSON that was expected (line {line} column {column})"
                    );
                    Error::new(ErrorKind::Malformed, detail)
                }
                Unreadable::TooLarge => {
                    let detail = format!("the {length} bytes of the answer would take more than 11 MiB when read");
                    Error::new(ErrorKind::BodyTooLarge, detail)
                }
            };
            error.sent(true)
        })
    }
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

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An object may be a Secret.
        write!(f, "{} with {} bytes", self.status, self.body.len())
    }
}
