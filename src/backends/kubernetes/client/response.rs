//! Answers, as the caller sees them.

use std::fmt;

use serde::de::DeserializeOwned;
use ureq::http::{self, header};

use super::auth::Credentials;
use super::error::{ClientError, ErrorKind};
use super::status::ApiStatus;
use crate::net::http::{is_compressed, read_body};
use crate::net::json::{self, Unreadable};

/// What the values in an answer may take in memory. With the longest body it stays below 16 MiB.
const MAX_VALUES: usize = 11 * 1024 * 1024;

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
    /// take as a [`Value`](serde_json::Value) is counted first, and more than 11 MiB is refused before any of it is built; with the body
    /// itself that is less than 16 MiB.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Malformed`] when it is something else. What it holds is not quoted. [`ErrorKind::BodyTooLarge`] when
    /// it would take more than 11 MiB; [`body`](Response::body) is still there for a parser that keeps less of it.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use leasehold::kubernetes::{Client, ClientConfig, Method, Request};
    /// # let client = Client::new(ClientConfig::infer()?)?;
    /// # let timeout = Duration::from_secs(5);
    /// let request = Request { method: Method::Get, path: "/version", query: &[], body: None, timeout };
    /// let version: serde_json::Value = client.request(request)?.json()?;
    /// println!("{}", version["gitVersion"]);
    /// # Ok::<(), leasehold::kubernetes::ClientError>(())
    /// ```
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        json::read(&self.body, MAX_VALUES).map_err(|unreadable| {
            let (kind, fault) = match unreadable {
                Unreadable::Malformed(_) => (ErrorKind::Malformed, format!("are {unreadable}")),
                Unreadable::TooLarge => (ErrorKind::BodyTooLarge, "would take more than 11 MiB when read".to_owned()),
            };
            ClientError::new(kind, format!("the {} bytes of the answer {fault}", self.body.len())).sent(true)
        })
    }
}

/// Lets 2xx answers through and makes errors of all others, which do not quote what was sent to be answered.
pub(super) fn accept(
    answer: http::Response<ureq::Body>,
    credentials: &Credentials,
) -> Result<http::Response<ureq::Body>, ClientError> {
    if !answer.status().is_success() {
        let code = answer.status().as_u16();
        let retry_after = answer.headers().get(header::RETRY_AFTER).cloned();
        let retry_after = retry_after.as_ref().and_then(|v| v.to_str().ok());
        // The code alone is an answer: a body that breaks off takes nothing from it.
        let mut body = read_body(answer.into_body()).unwrap_or_default();
        // Some proxies show the request that they refuse.
        credentials.redact(&mut body);
        let status = ApiStatus::from_answer(code, retry_after, &body);
        let hint = match code {
            300..=399 => "redirects are not followed; put the right URL into the configuration",
            401 => "the credentials are missing, wrong or expired",
            431 => "a shorter token or fewer impersonated groups make the head of a request shorter",
            _ => "",
        };
        return Err(ClientError::new(ErrorKind::Status(status), hint).sent(true));
    }
    if is_compressed(answer.headers()) {
        return Err(
            ClientError::new(ErrorKind::Malformed, "the answer is compressed, which was not asked for").sent(true)
        );
    }
    Ok(answer)
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An object may be a Secret.
        write!(f, "{} with {} bytes", self.status, self.body.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16, encoding: &str) -> Result<http::Response<ureq::Body>, ClientError> {
        let answer = http::Response::builder().status(code).header(header::RETRY_AFTER, "7");
        let answer = answer.header(header::CONTENT_ENCODING, encoding).body(ureq::Body::builder().data("no")).unwrap();
        accept(answer, &Credentials::default())
    }

    #[test]
    fn each_refusal_has_its_status_and_its_hint() {
        for (code, hint) in [
            (301, "no), asking to wait 7 s; redirects are not followed"),
            (401, "; the credentials are missing"),
            (403, "403 (no), asking to wait 7 s"),
            (431, "; a shorter token"),
            (503, "503 (no), asking to wait 7 s"),
        ] {
            let error = answer(code, "identity").unwrap_err();
            assert!(error.maybe_sent() && error.status().is_some_and(|status| status.code == code), "{error}");
            assert!(
                error.to_string().contains(hint) && error.to_string().contains("; ") == (hint.contains("; ")),
                "{error}"
            );
        }
        assert!(answer(200, "identity").is_ok());
        let compressed = answer(200, "gzip").unwrap_err();
        assert!(compressed.maybe_sent() && *compressed.kind() == ErrorKind::Malformed, "{compressed}");
    }
}
