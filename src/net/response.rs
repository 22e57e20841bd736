//! What the HTTP library brings back, in terms of ours.

use std::io::{self, Read};

use ureq::http::{self, header};

use super::error::{Error, ErrorKind};
use super::text::clean;
use super::tls::tls_error;

/// Larger answers are cut off, whatever the server says about their length.
pub(crate) const MAX_BODY: u64 = 4 * 1024 * 1024;

pub(crate) fn is_framed(headers: &http::HeaderMap) -> bool {
    headers.contains_key(header::CONTENT_LENGTH) || headers.contains_key(header::TRANSFER_ENCODING)
}

pub(crate) fn read_body(body: ureq::Body) -> Result<Vec<u8>, Error> {
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
pub(crate) fn from_ureq(error: ureq::Error) -> Error {
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
