//! What ureq brings back, in terms of ours.

use std::io::{self, Read};

use ureq::http::{self, header};

use super::credentials::Credentials;
use super::error::{Error, ErrorKind};
use super::status::{Status, clean};
use super::transport::tls_error;

/// Larger answers are cut off, whatever the server says about their length.
pub(super) const MAX_BODY: u64 = 4 * 1024 * 1024;

/// Lets 2xx answers through and makes errors of all others, which do not quote what was sent to be answered.
pub(super) fn accept(
    answer: http::Response<ureq::Body>,
    credentials: &Credentials,
) -> Result<http::Response<ureq::Body>, Error> {
    if !answer.status().is_success() {
        let code = answer.status().as_u16();
        let retry_after = answer.headers().get(header::RETRY_AFTER).cloned();
        let retry_after = retry_after.as_ref().and_then(|v| v.to_str().ok());
        // The code alone is an answer: a body that breaks off takes nothing from it.
        let mut body = read_body(answer.into_body()).unwrap_or_default();
        // Some proxies show the request that they refuse.
        credentials.strike_out(&mut body);
        let status = Status::from_answer(code, retry_after, &body);
        let hint = match code {
            300..=399 => "redirects are not followed; put the right URL into the configuration",
            401 => "the credentials are missing, wrong or expired",
            431 => "a shorter token or fewer impersonated groups make the head of a request shorter",
            _ => "",
        };
        return Err(Error::new(ErrorKind::Status(status), hint).sent(true));
    }
    if let Some(encoding) = answer.headers().get(header::CONTENT_ENCODING)
        && encoding.as_bytes() != b"identity"
    {
        return Err(Error::new(ErrorKind::Malformed, "the answer is compressed, which was not asked for").sent(true));
    }
    Ok(answer)
}

pub(super) fn is_framed(headers: &http::HeaderMap) -> bool {
    headers.contains_key(header::CONTENT_LENGTH) || headers.contains_key(header::TRANSFER_ENCODING)
}

pub(super) fn read_body(body: ureq::Body) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let mut reader = body.into_reader().take(MAX_BODY + 1);
    reader.read_to_end(&mut bytes).map_err(|e| from_ureq(e.into()))?;
    match bytes.len() as u64 > MAX_BODY {
        true => Err(Error::new(ErrorKind::BodyTooLarge, "the answer is larger than 4 MiB")),
        false => {
            // It has grown by doubling.
            bytes.shrink_to_fit();
            Ok(bytes)
        }
    }
}

/// Everything that does not come from our own connector happened after the request had started to go out.
pub(super) fn from_ureq(error: ureq::Error) -> Error {
    let error = match error {
        ureq::Error::Other(other) => match other.downcast::<Error>() {
            Ok(ours) => return *ours,
            Err(other) => Error::new(ErrorKind::Io, clean(&other.to_string(), MAX_TEXT)),
        },
        ureq::Error::Timeout(_) => Error::new(ErrorKind::Timeout, "the server did not answer in the given time"),
        ureq::Error::Rustls(e) => tls_error(&e),
        ureq::Error::Io(e) => match e.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>()) {
            Some(tls) => tls_error(tls),
            None if e.kind() == io::ErrorKind::UnexpectedEof => {
                Error::new(ErrorKind::Io, "the server closed the connection before it had answered")
            }
            None => Error::new(ErrorKind::Io, "the connection broke").caused_by(e),
        },
        other => Error::new(
            ErrorKind::Malformed,
            format!("what came back is not HTTP as expected: {}", clean(&other.to_string(), MAX_TEXT)),
        ),
    };
    error.sent(true)
}

const MAX_TEXT: usize = 300;
