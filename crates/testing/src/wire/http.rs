//! HTTP/1.1 on one connection: requests and responses.
//!
//! ureq-proto parses requests. This module formats responses itself, because faults must be able to corrupt every byte.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use ureq_proto::http::{HeaderMap, Request, StatusCode, Version, header};
use ureq_proto::server::{RecvRequestResult, Reply};

use crate::object::status::StatusObject;
use crate::wire::transport::{Disconnected, Transport};

/// The real server's limit for the body of a request, in bytes.
pub(crate) const BODY_LIMIT: usize = 3 * 1024 * 1024;
const HEAD_LIMIT: usize = 64 * 1024;

pub(crate) type ServedRequest = Request<Vec<u8>>;

pub(crate) enum ReadError {
    Disconnected,
    /// A request that is not HTTP or is too long. The server sends this status and closes the connection.
    Bad(StatusObject),
}

/// A response with a body of known length.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServedResponse {
    pub code: u16,
    pub content_type: String,
    pub body: Vec<u8>,
    /// The value of the header `Retry-After`, in seconds.
    pub retry_after: Option<u64>,
    pub warning: Option<&'static str>,
}

/// Reads the requests of a connection, one by one.
#[derive(Default)]
pub(crate) struct RequestReader {
    /// Bytes that were read but not parsed yet.
    pending: Vec<u8>,
}

impl From<Disconnected> for ReadError {
    fn from(_: Disconnected) -> ReadError {
        ReadError::Disconnected
    }
}

impl ServedResponse {
    pub fn new(code: u16, content_type: &str, body: impl Into<Vec<u8>>) -> ServedResponse {
        let content_type = content_type.to_owned();
        ServedResponse { code, content_type, body: body.into(), retry_after: None, warning: None }
    }

    pub fn json(code: u16, body: &Value) -> ServedResponse {
        ServedResponse::new(code, "application/json", body.to_string())
    }

    /// Returns the bytes of the status line and headers.
    pub fn head(&self, last: bool) -> Vec<u8> {
        let mut head = format!(
            "{}content-type: {}\r\ncontent-length: {}\r\n",
            status_line(self.code),
            self.content_type.replace(['\r', '\n'], " "),
            self.body.len()
        );
        if let Some(seconds) = self.retry_after {
            head.push_str(&format!("retry-after: {seconds}\r\n"));
        }
        head.push_str(&warning_line(self.warning));
        if last {
            head.push_str("connection: close\r\n");
        }
        head.push_str("\r\n");
        head.into_bytes()
    }
}

impl From<&StatusObject> for ServedResponse {
    fn from(status: &StatusObject) -> ServedResponse {
        ServedResponse {
            retry_after: status.details.get("retryAfterSeconds").and_then(Value::as_u64),
            ..ServedResponse::json(status.code, &status.to_json())
        }
    }
}

/// Returns the head of a response whose body is sent in [`chunk`]s.
pub(crate) fn chunked_head(code: u16, warning: Option<&str>) -> Vec<u8> {
    let (status, warning) = (status_line(code), warning_line(warning));
    format!("{status}content-type: application/json\r\n{warning}transfer-encoding: chunked\r\n\r\n").into_bytes()
}

/// Returns `data` as one chunk of a body. An empty chunk ends the body.
pub(crate) fn chunk(data: &[u8]) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", data.len()).into_bytes();
    chunk.extend_from_slice(data);
    chunk.extend_from_slice(b"\r\n");
    chunk
}

impl RequestReader {
    pub fn read(&mut self, transport: &mut Transport) -> Result<ServedRequest, ReadError> {
        let mut reply = Reply::new().map_err(malformed)?;
        let head = loop {
            let (used, head) = reply.try_request(&self.pending).map_err(malformed)?;
            self.pending.drain(..used);
            match head {
                Some(head) => break head,
                None if self.pending.len() >= HEAD_LIMIT => {
                    let message = "request header fields too large";
                    return Err(ReadError::Bad(StatusObject::new(431, "", message)));
                }
                None => self.fill(transport)?,
            }
        };
        let too_large = || {
            let message = format!("Request entity too large: limit is {BODY_LIMIT}");
            ReadError::Bad(StatusObject::new(413, "RequestEntityTooLarge", message))
        };
        let announced = header_text(head.headers(), header::CONTENT_LENGTH).and_then(|it| it.trim().parse().ok());
        if announced.is_some_and(|length: u64| length > BODY_LIMIT as u64) {
            return Err(too_large());
        }
        let mut body = Vec::new();
        // ureq-proto treats a POST without a length as chunked. The real server treats such a POST as a request without
        // a body.
        let has_body =
            [header::TRANSFER_ENCODING, header::CONTENT_LENGTH].iter().any(|name| head.headers().contains_key(name));
        let receive = match reply.proceed().filter(|_| has_body) {
            None | Some(RecvRequestResult::ProvideResponse(_)) => None,
            Some(RecvRequestResult::RecvBody(receive)) => Some(receive),
            Some(RecvRequestResult::Send100(ask)) => {
                let mut line = [0; 64];
                let (length, receive) = ask.accept(&mut line).map_err(malformed)?;
                transport.write(&line[..length])?;
                Some(receive)
            }
        };
        if let Some(mut receive) = receive {
            let mut buffer = [0; 4096];
            while !receive.is_ended() {
                let (used, length) = receive.read(&self.pending, &mut buffer).map_err(malformed)?;
                self.pending.drain(..used);
                body.extend_from_slice(&buffer[..length]);
                if body.len() > BODY_LIMIT {
                    return Err(too_large());
                }
                if used == 0 && !receive.is_ended() {
                    // The head and the trailer of a valid chunk are much shorter than this limit.
                    if self.pending.len() >= HEAD_LIMIT {
                        return Err(malformed("chunk without end"));
                    }
                    self.fill(transport)?;
                }
            }
        }
        Ok(head.map(|()| body))
    }

    fn fill(&mut self, transport: &mut Transport) -> Result<(), Disconnected> {
        let mut buffer = [0; 8192];
        match transport.read(&mut buffer)? {
            0 => Err(Disconnected),
            length => {
                self.pending.extend_from_slice(&buffer[..length]);
                Ok(())
            }
        }
    }
}

fn malformed(why: impl std::fmt::Display) -> ReadError {
    ReadError::Bad(StatusObject::bad_request(format!("malformed request: {why}")))
}

/// Returns the text of a header, or `None` if the header is absent or not ASCII.
pub(crate) fn header_text(headers: &HeaderMap, name: impl header::AsHeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// Returns `true` if the connection ends after the response.
pub(crate) fn wants_close(request: &ServedRequest) -> bool {
    let listed = |token: &str| {
        request
            .headers()
            .get_all(header::CONNECTION)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|item| item.trim().eq_ignore_ascii_case(token))
    };
    listed("close") || (request.version() == Version::HTTP_10 && !listed("keep-alive"))
}

fn warning_line(text: Option<&str>) -> String {
    text.map(|text| format!("warning: 299 - \"{text}\"\r\n")).unwrap_or_default()
}

fn status_line(code: u16) -> String {
    let reason = StatusCode::from_u16(code).ok().and_then(|status| status.canonical_reason()).unwrap_or("Unknown");
    format!("HTTP/1.1 {code} {reason}\r\nDate: {}\r\n", http_date(SystemTime::now()))
}

/// Returns the text of a time in a `Date` header (RFC 9110, section 5.6.7).
fn http_date(time: SystemTime) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let days = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / 86_400);
    let day = DAYS[usize::try_from(days % 7).unwrap_or_default()];
    // The text is like 2026-01-02T03:04:05Z.
    let text = humantime::format_rfc3339_seconds(time).to_string();
    let month = text[5..7].parse().map_or("Jan", |month: usize| MONTHS[(month + 11) % 12]);
    format!("{day}, {} {month} {} {} GMT", &text[8..10], &text[..4], &text[11..19])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn date_has_the_form_of_the_rfc() {
        let at = |seconds| http_date(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(at(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(at(0), "Thu, 01 Jan 1970 00:00:00 GMT");
    }
}
