//! Properties that every response with an error status must have, checked by fuzzing.

use serde_json::{Value, json};

use super::*;
use crate::fuzzing::target::{Target, assert_loggable};

pub(crate) const TARGET: Target = Target { name: "status", base: 64 * 1024, read, check };

fn split(input: &[u8]) -> (u16, Option<String>, &[u8]) {
    let end = input.iter().position(|b| *b == b'\n').unwrap_or(input.len());
    let head = String::from_utf8_lossy(&input[..end]).into_owned();
    let (code, retry_after) = match head.split_once(' ') {
        Some((code, rest)) => (code, Some(rest.to_owned())),
        None => (head.as_str(), None),
    };
    (code.parse().unwrap_or(500), retry_after, input.get(end + 1..).unwrap_or_default())
}

fn read(input: &[u8]) {
    let (code, retry_after, body) = split(input);
    let _ = ApiStatus::from_answer(code, retry_after.as_deref(), body);
}

fn check(input: &[u8]) {
    let (code, retry_after, body) = split(input);
    let status = ApiStatus::from_answer(code, retry_after.as_deref(), body);
    assert_eq!(status.code, code, "the status line decides");
    assert_tidy(&status);
    assert_eq!(again(&status), status);
    if let Some(status) = serde_json::from_slice(body).ok().and_then(|object: Value| ApiStatus::from_object(&object)) {
        assert_tidy(&status);
        assert_eq!(again(&status), status);
    }
}

/// Returns the status after a round trip through a `Status` object.
fn again(status: &ApiStatus) -> ApiStatus {
    let object = json!({
        "kind": "Status",
        "reason": status.reason,
        "message": status.message,
        "details": { "kind": status.kind, "name": status.name },
    });
    let seconds = status.retry_after.map(|wait| wait.as_secs().to_string());
    ApiStatus::from_answer(status.code, seconds.as_deref(), object.to_string().as_bytes())
}

fn assert_tidy(status: &ApiStatus) {
    let texts = [
        (Some(&status.reason), MAX_WORD),
        (Some(&status.message), MAX_MESSAGE),
        (status.kind.as_ref(), MAX_WORD),
        (status.name.as_ref(), MAX_WORD),
    ];
    for (text, max) in texts {
        let text = text.map(String::as_str).unwrap_or_default();
        assert!(text.chars().count() <= max + 1, "more than {max} characters and an ellipsis: {text:?}");
        assert!(text.chars().all(crate::util::one_line::is_seen), "{text:?}");
    }
    assert!(status.retry_after.is_none_or(|wait| wait <= MAX_RETRY_AFTER));
    assert_loggable(&status.to_string(), 4 * (MAX_WORD + MAX_MESSAGE) + 64);
}
