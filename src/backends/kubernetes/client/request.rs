//! HTTP requests to the API server.

use std::fmt;

use serde_json::Value;
use ureq::http;

/// A verb of the API that this client supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Method {
    /// A read, which the client repeats after a broken connection.
    Get,
    /// A creation.
    Post,
    /// A replacement.
    Put,
}

/// One request.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
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
}

impl Method {
    pub(super) fn to_http(self) -> http::Method {
        match self {
            Self::Get => http::Method::GET,
            Self::Post => http::Method::POST,
            Self::Put => http::Method::PUT,
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
