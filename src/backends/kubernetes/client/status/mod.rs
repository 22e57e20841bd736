//! The `Status` object of the API, and a substitute for other responses.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::net::json;
use crate::net::text::clean;

/// Memory limit for a response that is parsed as a `Status`.
const MAX_VALUES: usize = 8 * 1024 * 1024;

const MAX_MESSAGE: usize = 2048;
const MAX_WORD: usize = 256;
const MAX_EXCERPT: usize = 200;

/// Maximum wait that a server can request.
///
/// A longer wait is a mistake of the server. The limit also prevents overflow when callers add the value to an
/// `Instant`.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60 * 60);

/// A response with a status other than 2xx, with the fields of the API's `Status` object.
///
/// Source: the API reference, `Status` in `meta/v1`. Texts have a limited length and no control characters, so they are
/// safe to log.
///
/// # Examples
///
/// ```
/// use leasehold::kubernetes::{ApiStatus, ClientError, ErrorKind};
///
/// fn status_of(error: &ClientError) -> Option<&ApiStatus> {
///     match error.kind() {
///         ErrorKind::Status(status) => Some(status),
///         _ => None,
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ApiStatus {
    /// The HTTP status code.
    pub code: u16,
    /// The machine-readable reason, such as `AlreadyExists` or `Conflict`.
    ///
    /// Empty if the response is not a `Status` object.
    pub reason: String,
    /// The message for people, or the start of a body that is not a `Status` object.
    pub message: String,
    /// The wait that the server requests, at most an hour.
    ///
    /// The wait comes from the `Retry-After` header or from `details.retryAfterSeconds`.
    pub retry_after: Option<Duration>,
    /// The kind of the affected resource, from `details.kind`.
    pub kind: Option<String>,
    /// The name of the affected resource, from `details.name`.
    pub name: Option<String>,
}

#[derive(Deserialize)]
struct StatusFields {
    kind: Option<String>,
    code: Option<i64>,
    reason: Option<String>,
    message: Option<String>,
    details: Option<Details>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Details {
    kind: Option<String>,
    name: Option<String>,
    retry_after_seconds: Option<i64>,
}

impl ApiStatus {
    /// Parses a `Status` object, such as the object of an `ERROR` event in a watch.
    ///
    /// Returns `None` for other objects.
    pub(crate) fn from_object(object: &Value) -> Option<ApiStatus> {
        let raw = StatusFields::deserialize(object).ok()?;
        if raw.kind.as_deref() != Some("Status") {
            return None;
        }
        let code = raw.code.and_then(|c| u16::try_from(c).ok()).unwrap_or(0);
        Some(raw.into_status(code))
    }

    /// Returns the `Status` object of a response, or else a status with an excerpt of the body.
    pub(super) fn from_answer(code: u16, retry_after: Option<&str>, body: &[u8]) -> ApiStatus {
        let parsed = json::read::<StatusFields>(body, MAX_VALUES).ok();
        let mut status = match parsed.filter(|raw| raw.kind.as_deref() == Some("Status")) {
            // The code of the status line takes precedence over the code in the body.
            Some(raw) => raw.into_status(code),
            None => ApiStatus { code, message: excerpt(body), ..ApiStatus::default() },
        };
        // Ignores a date in the header, because API servers send no dates and clocks may differ.
        if let Some(seconds) = retry_after.and_then(|v| v.trim().parse::<u64>().ok()) {
            status.retry_after = Some(Duration::from_secs(seconds).min(MAX_RETRY_AFTER));
        }
        status
    }
}

impl StatusFields {
    fn into_status(self, code: u16) -> ApiStatus {
        let Details { kind, name, retry_after_seconds } = self.details.unwrap_or_default();
        ApiStatus {
            code,
            reason: clean(&self.reason.unwrap_or_default(), MAX_WORD),
            message: clean(&self.message.unwrap_or_default(), MAX_MESSAGE),
            retry_after: retry_after_seconds
                .and_then(|s| u64::try_from(s).ok())
                .filter(|s| *s > 0)
                .map(|s| Duration::from_secs(s).min(MAX_RETRY_AFTER)),
            kind: kind.map(|k| clean(&k, MAX_WORD)),
            name: name.map(|n| clean(&n, MAX_WORD)),
        }
    }
}

impl fmt::Display for ApiStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        if !self.reason.is_empty() {
            write!(f, " {}", self.reason)?;
        }
        if !self.message.is_empty() {
            write!(f, " ({})", self.message)?;
        }
        if let Some(wait) = self.retry_after {
            write!(f, ", retry after {} s", wait.as_secs())?;
        }
        Ok(())
    }
}

fn excerpt(body: &[u8]) -> String {
    // Eight bytes for each character are enough in any encoding. Decoding the rest of a large page would be wasteful.
    let head = &body[..body.len().min(MAX_EXCERPT * 8)];
    clean(&String::from_utf8_lossy(head), MAX_EXCERPT)
}

#[cfg(feature = "_internals")]
pub(crate) mod properties;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_object_is_read() {
        let body = br#"{"kind":"Status","apiVersion":"v1","status":"Failure","code":999,"reason":"AlreadyExists",
            "message":"leases \"a\" already exists","details":{"name":"a","kind":"leases","retryAfterSeconds":3}}"#;
        let status = ApiStatus::from_answer(409, None, body);
        assert_eq!(status.code, 409);
        assert_eq!(status.reason, "AlreadyExists");
        assert_eq!(status.retry_after, Some(Duration::from_secs(3)));
        assert_eq!((status.kind.as_deref(), status.name.as_deref()), (Some("leases"), Some("a")));
    }

    #[test]
    fn the_header_wins_over_the_details() {
        let body = br#"{"kind":"Status","details":{"retryAfterSeconds":3}}"#;
        let status = ApiStatus::from_answer(429, Some(" 7 "), body);
        assert_eq!(status.retry_after, Some(Duration::from_secs(7)));
        let endless = ApiStatus::from_answer(429, Some("18446744073709551615"), b"");
        assert_eq!(endless.retry_after, Some(MAX_RETRY_AFTER));
        assert_eq!(ApiStatus::from_answer(429, Some("-1"), b"").retry_after, None);
        for (seconds, expected) in [(-1, None), (0, None), (1, Some(1)), (3_600, Some(3_600)), (i64::MAX, Some(3_600))]
        {
            let body = serde_json::json!({"kind": "Status", "details": {"retryAfterSeconds": seconds}});
            let status = ApiStatus::from_answer(429, None, body.to_string().as_bytes());
            assert_eq!(status.retry_after, expected.map(Duration::from_secs), "{seconds}");
            assert_eq!(
                ApiStatus::from_object(&body).map(|it| (it.code, it.retry_after)),
                Some((0, status.retry_after))
            );
        }
    }

    #[test]
    fn a_status_is_shown_with_its_parts_and_cut() {
        let long = "x".repeat(9_000);
        let status = |reason: &str, message: &str| {
            let details = serde_json::json!({"kind": long, "name": long});
            let body = serde_json::json!({"kind": "Status", "reason": reason, "message": message, "details": details});
            ApiStatus::from_answer(503, None, body.to_string().as_bytes())
        };
        for (reason, message, shown) in
            [("", "", "503"), ("A", "", "503 A"), ("", "b", "503 (b)"), ("A", "b", "503 A (b)")]
        {
            assert_eq!(status(reason, message).to_string(), shown);
        }
        let cut = status(&long, &long);
        let lengths = [Some(&cut.reason), Some(&cut.message), cut.kind.as_ref(), cut.name.as_ref()];
        let lengths = lengths.map(|text| text.map_or(0, |text| text.chars().count() - 1));
        assert_eq!(lengths, [MAX_WORD, MAX_MESSAGE, MAX_WORD, MAX_WORD]);
        let asking = ApiStatus { code: 429, retry_after: Some(Duration::from_secs(7)), ..ApiStatus::default() };
        assert_eq!(asking.to_string(), "429, retry after 7 s");
    }

    #[test]
    fn html_becomes_a_short_clean_excerpt() {
        let page = format!("<html>\x1b[31m\r\n\0bad\u{202e}gateway{}", "x".repeat(9000));
        let status = ApiStatus::from_answer(502, None, page.as_bytes());
        assert_eq!(status.reason, "");
        assert!(status.message.starts_with("<html> [31m bad gateway"));
        assert!(status.message.chars().count() <= MAX_EXCERPT + 1);
        assert!(!status.to_string().chars().any(char::is_control));
    }

    #[test]
    fn odd_bodies_still_give_the_code() {
        for body in [&b""[..], b"[]", b"null", b"{\"kind\":3}", b"\xff\xfe", b"{"] {
            assert_eq!(ApiStatus::from_answer(500, None, body).code, 500);
        }
        assert_eq!(ApiStatus::from_object(&serde_json::json!({"kind": "Lease"})), None);
    }
}
