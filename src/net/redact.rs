//! Masking of credentials in the log of the HTTP library.
//!
//! The `trace` log of ureq 3.5 shows every byte that ureq writes, and ureq has no option to change this. ureq
//! therefore gets one short header, the mask, instead of the credentials and the impersonation headers. The transport
//! replaces the mask by the hidden header lines when it sends the head. The head that ureq writes is thus short, even
//! for a long token and many impersonated groups.
//!
//! A thread-local variable passes the hidden lines to the transport. This works because a request runs on one thread
//! from its first byte to its answer.

use std::borrow::Cow;
use std::cell::RefCell;

use ureq::http::{HeaderName, HeaderValue, header};

use super::error::{Error, NetErrorKind};

/// The longest head of a request in bytes.
///
/// The limit is `DefaultMaxHeaderBytes` of Go's net/http, which the API server uses.
pub(crate) const MAX_HEAD: usize = 1024 * 1024;

/// The number of bytes that are enough for all parts of a head with a bounded length.
const ROOM: usize = 16 * 1024;

const ASTERISKS: &str = "****************";

thread_local! {
    static SENDING: RefCell<Option<Sending>> = const { RefCell::new(None) };
}

/// The head of the request that this thread sends.
struct Sending {
    room: usize,
    hidden: Option<Hidden>,
}

/// The header lines that the HTTP library must not log.
struct Hidden {
    /// The header line that the HTTP library gets instead of `lines`.
    ///
    /// The mask starts with the line break that ends the previous line.
    mask: Vec<u8>,
    lines: Vec<u8>,
    /// The number of bytes of the credentials in `lines`.
    credentials: usize,
    replaced: bool,
}

/// A value that adds the headers of [`Redacted::new`] to the requests of this thread.
///
/// Dropping the value ends the effect.
pub(crate) struct Redacted(());

impl Redacted {
    /// Hides headers from the HTTP library, and returns the mask header to use instead.
    ///
    /// The mask is `None` if there are no headers. `target` is the length of all other parts of the head that have no
    /// bounded length, such as the path.
    pub(crate) fn new(
        target: usize,
        authorization: Option<&HeaderValue>,
        others: &[(HeaderName, HeaderValue)],
    ) -> (Self, Option<(HeaderName, HeaderValue)>) {
        let mut lines = Vec::new();
        if let Some(value) = authorization {
            push_line(&mut lines, &header::AUTHORIZATION, value);
        }
        let credentials = lines.len();
        for (name, value) in others {
            push_line(&mut lines, name, value);
        }
        let name = match authorization {
            Some(_) => Some(header::AUTHORIZATION),
            None => others.first().map(|(name, _)| name.clone()),
        };
        let hidden = name.as_ref().map(|name| {
            let mut mask = b"\r\n".to_vec();
            push_line(&mut mask, name, &HeaderValue::from_static(ASTERISKS));
            Hidden { mask, lines, credentials, replaced: false }
        });
        SENDING.set(Some(Sending { room: ROOM + target, hidden }));
        (Self(()), name.map(|name| (name, HeaderValue::from_static(ASTERISKS))))
    }
}

impl Drop for Redacted {
    fn drop(&mut self) {
        SENDING.set(None);
    }
}

/// Returns the buffer size that lets ureq write the masked request head in one piece.
pub(crate) fn room() -> usize {
    SENDING.with_borrow(|sending| sending.as_ref().map_or(ROOM, |sending| sending.room))
}

/// Replaces the mask in `output` by the hidden header lines.
///
/// # Errors
///
/// - Returns [`NetErrorKind::Credentials`] if the first piece of a request does not contain the mask exactly once. A
///   mask must not be sent, because the server would report wrong credentials.
/// - Returns [`NetErrorKind::Credentials`] or [`NetErrorKind::Config`] if the head is longer than servers accept.
pub(crate) fn unmask(output: &[u8]) -> Result<Cow<'_, [u8]>, Error> {
    SENDING.with_borrow_mut(|sending| {
        let Some(hidden) = sending.as_mut().and_then(|sending| sending.hidden.as_mut()) else {
            return Ok(Cow::Borrowed(output));
        };
        let Some((before, after)) = split(output, &hidden.mask) else {
            // The first piece may end within the mask. A part of the mask must not be sent.
            return match hidden.replaced {
                true => Ok(Cow::Borrowed(output)),
                false => Err(misplaced()),
            };
        };
        if hidden.replaced || split(after, &hidden.mask).is_some() {
            return Err(misplaced().sent(hidden.replaced));
        }
        let length = before.len() + hidden.lines.len() + after.len();
        if length > MAX_HEAD {
            return Err(too_long(length, hidden));
        }
        hidden.replaced = true;
        Ok(Cow::Owned([before, &hidden.lines, after].concat()))
    })
}

/// Returns the bytes before and after the mask line.
///
/// The line break before the mask stays in the first part.
fn split<'a>(output: &'a [u8], mask: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = output.windows(mask.len()).position(|window| window == mask)?;
    Some((&output[..at + 2], &output[at + mask.len()..]))
}

fn push_line(head: &mut Vec<u8>, name: &HeaderName, value: &HeaderValue) {
    head.extend_from_slice(name.as_str().as_bytes());
    head.extend_from_slice(b": ");
    head.extend_from_slice(value.as_bytes());
    head.extend_from_slice(b"\r\n");
}

fn misplaced() -> Error {
    let what = "cannot insert the credentials: the HTTP library wrote an unexpected request head, which was not sent";
    Error::new(NetErrorKind::Credentials, what)
}

fn too_long(length: usize, hidden: &Hidden) -> Error {
    let others = hidden.lines.len() - hidden.credentials;
    let (kind, advice) = match hidden.credentials > others {
        true => (NetErrorKind::Credentials, "use a shorter token"),
        false => (NetErrorKind::Config, "impersonate fewer groups, or groups with shorter names"),
    };
    let what = format!(
        "the head of the request has {length} bytes, more than the {MAX_HEAD} that an API server accepts: {} bytes of \
         credentials, {others} bytes of impersonation headers; {advice}",
        hidden.credentials
    );
    Error::new(kind, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] =
        b"PUT / HTTP/1.1\r\nx: authorization: ****************\r\nauthorization: ****************\r\n\r\n";

    fn masked(value: &'static str) -> Redacted {
        let (masked, mask) = Redacted::new(0, Some(&HeaderValue::from_static(value)), &[]);
        assert_eq!(mask, Some((header::AUTHORIZATION, HeaderValue::from_static("****************"))));
        masked
    }

    #[test]
    fn a_mask_is_replaced_where_the_header_is() {
        let masked = masked("Bearer x");
        let expected = "PUT / HTTP/1.1\r\nx: authorization: ****************\r\nauthorization: Bearer x\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(&unmask(HEAD).unwrap()), expected);
        assert_eq!(unmask(b"{\"a\":\"****************\"}").unwrap(), &b"{\"a\":\"****************\"}"[..]);
        drop(masked);
        assert_eq!(unmask(HEAD).unwrap(), HEAD, "after the request the value is gone");
    }

    #[test]
    fn a_mask_that_cannot_be_replaced_is_not_sent() {
        let start = HEAD.windows(15).position(|window| window == b"\r\nauthorization").unwrap();
        // The first piece is cut at every position before the end of the mask, even between two lines.
        for end in 0..HEAD.len() - 3 {
            let _masked = masked("Bearer x");
            let error = unmask(&HEAD[..end]).unwrap_err();
            assert_eq!((error.kind(), error.maybe_sent), (&NetErrorKind::Credentials, false), "cut at {end}");
        }
        {
            let _masked = masked("Bearer x");
            assert!(unmask(&[HEAD, &HEAD[start..]].concat()).is_err(), "two masks");
        }
        let _masked = masked("Bearer x");
        unmask(HEAD).unwrap();
        let error = unmask(HEAD).unwrap_err();
        assert!(error.maybe_sent, "something has gone out before: {error}");
    }

    #[test]
    fn without_credentials_nothing_is_masked() {
        let (_masked, mask) = Redacted::new(7, None, &[]);
        assert_eq!((mask, room()), (None, ROOM + 7));
        assert_eq!(unmask(HEAD).unwrap(), HEAD);
    }
}
