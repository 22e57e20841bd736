//! The `Status` object of the API, and what stands in for it when something else answers.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::net::json;
use crate::net::text::clean;

/// What the values of an answer may take in memory, to be read as a `Status`.
const MAX_VALUES: usize = 8 * 1024 * 1024;

const MAX_MESSAGE: usize = 2048;
const MAX_WORD: usize = 256;
const MAX_EXCERPT: usize = 200;

/// A server that asks for more than this is mistaken, and a caller that adds it to an `Instant` must not overflow.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60 * 60);

/// An answer that is not 2xx, as the API describes it.
///
/// Source: the API reference, `Status` in `meta/v1`. Texts are capped and free of control characters, so that they
/// can be logged as they are.
///
/// ```
/// use leasehold::kubernetes::ApiStatus;
///
/// let event = serde_json::json!({ "kind": "Status", "code": 410, "reason": "Expired", "message": "too old" });
/// let status = ApiStatus::from_object(&event).unwrap();
/// assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ApiStatus {
    /// The HTTP status code.
    pub code: u16,
    /// The machine-readable reason, such as `AlreadyExists` or `Conflict`; empty when the answer is no `Status` object.
    pub reason: String,
    /// The message for people, or the beginning of a body that is no `Status` object.
    pub message: String,
    /// How long the server asks to wait, from the `Retry-After` header or `details.retryAfterSeconds`; at most an hour.
    pub retry_after: Option<Duration>,
    /// What kind of resource it is about, from `details.kind`.
    pub kind: Option<String>,
    /// The name of the resource it is about, from `details.name`.
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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Details {
    kind: Option<String>,
    name: Option<String>,
    retry_after_seconds: Option<i64>,
}

impl ApiStatus {
    /// Reads a `Status` object, such as that of an `ERROR` event in a watch; `None` if it is another kind of object.
    pub fn from_object(object: &Value) -> Option<ApiStatus> {
        let raw = StatusFields::deserialize(object).ok()?;
        if raw.kind.as_deref() != Some("Status") {
            return None;
        }
        let code = raw.code.and_then(|c| u16::try_from(c).ok()).unwrap_or(0);
        Some(raw.into_status(code))
    }

    /// Makes the best of an answer: its `Status` object, or else an excerpt of whatever it is.
    pub(super) fn from_answer(code: u16, retry_after: Option<&str>, body: &[u8]) -> ApiStatus {
        let parsed = json::read::<StatusFields>(body, MAX_VALUES).ok();
        let mut status = match parsed.filter(|raw| raw.kind.as_deref() == Some("Status")) {
            // The line of the answer counts, not what the body says of it.
            Some(raw) => raw.into_status(code),
            None => ApiStatus { code, message: excerpt(body), ..ApiStatus::default() },
        };
        // The header also admits a date; nothing in a cluster sends one, and guessing at clocks is worse than a default.
        if let Some(seconds) = retry_after.and_then(|v| v.trim().parse::<u64>().ok()) {
            status.retry_after = Some(Duration::from_secs(seconds).min(MAX_RETRY_AFTER));
        }
        status
    }
}

impl StatusFields {
    fn into_status(self, code: u16) -> ApiStatus {
        let (kind, name, seconds) = match self.details {
            Some(d) => (d.kind, d.name, d.retry_after_seconds),
            None => (None, None, None),
        };
        ApiStatus {
            code,
            reason: clean(&self.reason.unwrap_or_default(), MAX_WORD),
            message: clean(&self.message.unwrap_or_default(), MAX_MESSAGE),
            retry_after: seconds
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
            write!(f, ", asking to wait {} s", wait.as_secs())?;
        }
        Ok(())
    }
}

fn excerpt(body: &[u8]) -> String {
    // Enough bytes for the excerpt whatever the encoding; the rest of a large page is not worth decoding.
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
        assert_eq!(asking.to_string(), "429, asking to wait 7 s");
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
