//! HTTP responses of the API server.

use std::fmt;

use serde::de::DeserializeOwned;
use ureq::http::{self, header};

use super::auth::Credentials;
use super::error::{ClientError, ErrorKind};
use super::status::ApiStatus;
use crate::net::http::{is_compressed, read_body};
use crate::net::json::{self, Unreadable};

/// Memory limit for a parsed response.
///
/// Together with the longest body, the total stays below 16 MiB.
const MAX_VALUES: usize = 11 * 1024 * 1024;

/// A 2xx response.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Response {
    /// The status code: 200, or 201 after a creation.
    pub status: u16,
    /// The body, at most 4 MiB.
    pub body: Vec<u8>,
}

impl Response {
    /// Parses the body as JSON.
    ///
    /// Parsed JSON can need a hundred times the memory of its text. An example is `{"a":{}}`, whose 8 bytes become a
    /// node of a B-tree. This method therefore first computes the memory that a [`Value`](serde_json::Value) of the
    /// body needs. The limit is 11 MiB, so that the values and the body together stay below 16 MiB.
    ///
    /// # Errors
    ///
    /// - Returns [`ErrorKind::Malformed`] if the body is not JSON for a `T`. The error does not quote the body.
    /// - Returns [`ErrorKind::BodyTooLarge`] if the values would need more than 11 MiB. [`body`](Response::body)
    ///   remains available for a parser that needs less memory.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        json::read(&self.body, MAX_VALUES).map_err(|unreadable| {
            let (kind, fault) = match unreadable {
                Unreadable::Malformed(_) => (ErrorKind::Malformed, format!("are {unreadable}")),
                Unreadable::TooLarge => (ErrorKind::BodyTooLarge, "need more than 11 MiB when parsed".to_owned()),
            };
            ClientError::new(kind, format!("the {} bytes of the answer {fault}", self.body.len())).sent(true)
        })
    }
}

/// Returns a 2xx response, and converts any other into an error without credentials.
pub(super) fn accept(
    answer: http::Response<ureq::Body>,
    credentials: &Credentials,
) -> Result<http::Response<ureq::Body>, ClientError> {
    if !answer.status().is_success() {
        let code = answer.status().as_u16();
        let retry_after = answer.headers().get(header::RETRY_AFTER).cloned();
        let retry_after = retry_after.as_ref().and_then(|v| v.to_str().ok());
        // The status code is valid even if the body is incomplete.
        let mut body = read_body(answer.into_body()).unwrap_or_default();
        // Some proxies quote a rejected request with its credentials.
        credentials.redact(&mut body);
        let status = ApiStatus::from_answer(code, retry_after, &body);
        let hint = match code {
            300..=399 => "redirects are not followed; put the right URL into the configuration",
            401 => "the credentials are missing, wrong or expired",
            431 => "use a shorter token or fewer impersonated groups",
            _ => "",
        };
        return Err(ClientError::new(ErrorKind::Status(status), hint).sent(true));
    }
    if is_compressed(answer.headers()) {
        return Err(ClientError::new(ErrorKind::Malformed, "the answer is compressed, but must not be").sent(true));
    }
    Ok(answer)
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Omits the body, which may contain a Kubernetes Secret.
        write!(f, "{} with {} bytes", self.status, self.body.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::calls::CallError;

    fn answer(code: u16, encoding: &str) -> Result<http::Response<ureq::Body>, ClientError> {
        let answer = http::Response::builder().status(code).header(header::RETRY_AFTER, "7");
        let answer = answer.header(header::CONTENT_ENCODING, encoding).body(ureq::Body::builder().data("no")).unwrap();
        accept(answer, &Credentials::default())
    }

    #[test]
    fn each_refusal_has_its_status_and_its_hint() {
        for (code, hint) in [
            (301, "no), retry after 7 s; redirects are not followed"),
            (401, "; the credentials are missing"),
            (403, "403 (no), retry after 7 s"),
            (431, "; use a shorter token or fewer impersonated groups"),
            (503, "503 (no), retry after 7 s"),
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
