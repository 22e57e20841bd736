//! The log lines of requests, and of the server's warnings.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use ureq::http::{self, HeaderValue, header};

use super::auth::Credentials;
use super::error::ClientError;
use crate::net::text::clean;
use crate::util::log_fields::CLIENT;
use crate::util::panics::log_line;

const MAX_ID: usize = 64;

const SELDOM: Duration = Duration::from_secs(60);

/// Maximum length of a logged warning in characters, as in the API server.
const MAX_WARNING: usize = 256;

/// Maximum number of distinct warnings that the client logs.
///
/// Further warnings probably differ only in details of their text.
const MAX_WARNINGS: usize = 64;

/// The log of one client.
#[derive(Default)]
pub(super) struct ApiRequestLog {
    warned: Mutex<Vec<String>>,
    /// The time of the last `warn` line about rejected credentials.
    rejected_at: Mutex<Option<Instant>>,
}

impl ApiRequestLog {
    /// Logs the outcome of a request. `place` is the request's verb and path.
    pub(super) fn note(
        &self,
        place: &str,
        began: Instant,
        answer: &Result<http::Response<ureq::Body>, ClientError>,
        credentials: &Credentials,
    ) {
        let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                log_line!(
                    debug, target: CLIENT, request = place, duration_ms = took, error = error.to_string().as_str();
                    "kubernetes: {place}: no answer in {took} ms: {error}"
                );
                return;
            }
        };
        let code = answer.status().as_u16();
        match answer.headers().get("audit-id") {
            Some(id) if log::log_enabled!(log::Level::Debug) => {
                let id = printable(id.as_bytes().to_vec(), credentials, MAX_ID);
                log_line!(
                    debug, target: CLIENT, request = place, status = code, duration_ms = took, audit_id = id.as_str();
                    "kubernetes: {place}: {code} in {took} ms, audit id {id}"
                );
            }
            _ => {
                log_line!(debug, target: CLIENT, request = place, status = code, duration_ms = took; "kubernetes: {place}: {code} in {took} ms")
            }
        }
        for header in answer.headers().get_all(header::WARNING) {
            self.warn(header, credentials);
        }
    }

    /// Logs why no newer credentials exist after the server has rejected the credentials.
    ///
    /// Logs at `warn` at most once a minute, because a rejected client retries.
    pub(super) fn rejected(&self, now: Instant, why: &ClientError) {
        let mut rejected_at = self.rejected_at.lock();
        let is_seldom = rejected_at.is_none_or(|at| now.saturating_duration_since(at) >= SELDOM);
        if is_seldom {
            *rejected_at = Some(now);
        }
        drop(rejected_at);
        let level = if is_seldom { log::Level::Warn } else { log::Level::Debug };
        log_line!(log, target: CLIENT, level, "kubernetes: credentials rejected, no newer ones available: {why}");
    }

    fn warn(&self, header: &HeaderValue, credentials: &Credentials) {
        let Some(text) = warning(header.as_bytes()) else { return };
        let text = printable(text, credentials, MAX_WARNING);
        let mut warned = self.warned.lock();
        if warned.len() == MAX_WARNINGS || warned.contains(&text) {
            return;
        }
        warned.push(text.clone());
        let is_last = warned.len() == MAX_WARNINGS;
        // Releases the lock first, because logging may block.
        drop(warned);
        log_line!(warn, target: CLIENT, "kubernetes: warning from the server: {text}");
        if is_last {
            log_line!(
                warn, target: CLIENT,
                "kubernetes: received {MAX_WARNINGS} different server warnings; further ones are not logged"
            );
        }
    }
}

/// Returns the text of a warning in the form `299 - "text"`, without the escapes in the text.
///
/// An API server sends each warning in a header of its own, with this code and without an agent.
fn warning(header: &[u8]) -> Option<Vec<u8>> {
    let mut text = header.strip_prefix(b"299 - \"")?.strip_suffix(b"\"")?.to_vec();
    let mut is_escaped = false;
    text.retain(|byte| {
        is_escaped = *byte == b'\\' && !is_escaped;
        !is_escaped
    });
    Some(text).filter(|text| !text.is_empty())
}

/// Returns the text in one line, without credentials.
fn printable(mut text: Vec<u8>, credentials: &Credentials, max: usize) -> String {
    credentials.redact(&mut text);
    clean(&String::from_utf8_lossy(&text), max)
}
