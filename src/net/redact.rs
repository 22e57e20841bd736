//! Hiding of credentials from the log of the HTTP library.
//!
//! The `trace` log of ureq 3.5 shows every byte that ureq writes, and ureq has no option to change this. ureq
//! therefore does not get the credentials and the impersonation headers. The transport adds these header lines to the
//! head when it sends the head. The head that ureq writes is thus short, even for a long token and many impersonated
//! groups.
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

thread_local! {
    static SENDING: RefCell<Option<Sending>> = const { RefCell::new(None) };
}

/// The head of the request that this thread sends.
struct Sending {
    /// The header lines that the HTTP library must not log. Empty once the lines are sent.
    lines: Vec<u8>,
    /// The number of bytes of the credentials in `lines`.
    credentials: usize,
}

/// A value that adds the headers of [`Redacted::new`] to the request of this thread.
///
/// Dropping the value ends the effect.
pub(crate) struct Redacted(());

impl Redacted {
    /// Hides headers of the next request of this thread from the HTTP library.
    pub(crate) fn new(authorization: Option<&HeaderValue>, others: &[(HeaderName, HeaderValue)]) -> Self {
        let mut lines = Vec::new();
        if let Some(value) = authorization {
            push_line(&mut lines, &header::AUTHORIZATION, value);
        }
        let credentials = lines.len();
        for (name, value) in others {
            push_line(&mut lines, name, value);
        }
        SENDING.set(Some(Sending { lines, credentials }));
        Self(())
    }
}

impl Drop for Redacted {
    fn drop(&mut self) {
        SENDING.set(None);
    }
}

/// Adds the hidden header lines to the end of the head in `output`, the first piece of a request.
///
/// # Errors
///
/// - Returns [`NetErrorKind::Credentials`] if the first piece does not contain the end of the head. A request without
///   its credentials must not be sent, because the server would report missing credentials.
/// - Returns [`NetErrorKind::Credentials`] or [`NetErrorKind::Config`] if the head is longer than servers accept.
pub(crate) fn add_hidden(output: &[u8]) -> Result<Cow<'_, [u8]>, Error> {
    SENDING.with_borrow_mut(|sending| {
        let Some(sending) = sending.as_mut().filter(|sending| !sending.lines.is_empty()) else {
            return Ok(Cow::Borrowed(output));
        };
        let what = "cannot add the credentials: the HTTP library wrote an unexpected request head, which was not sent";
        let end = output.windows(4).position(|window| window == b"\r\n\r\n");
        let end = end.ok_or_else(|| Error::new(NetErrorKind::Credentials, what))? + 2;
        let length = output.len() + sending.lines.len();
        if length > MAX_HEAD {
            return Err(too_long(length, sending));
        }
        let (head, rest) = output.split_at(end);
        Ok(Cow::Owned([head, &std::mem::take(&mut sending.lines), rest].concat()))
    })
}

fn push_line(head: &mut Vec<u8>, name: &HeaderName, value: &HeaderValue) {
    head.extend_from_slice(name.as_str().as_bytes());
    head.extend_from_slice(b": ");
    head.extend_from_slice(value.as_bytes());
    head.extend_from_slice(b"\r\n");
}

fn too_long(length: usize, sending: &Sending) -> Error {
    let Sending { lines, credentials } = sending;
    let others = lines.len() - credentials;
    let (kind, advice) = match *credentials > others {
        true => (NetErrorKind::Credentials, "use a shorter token"),
        false => (NetErrorKind::Config, "impersonate fewer groups, or groups with shorter names"),
    };
    let what = format!(
        "the head of the request has {length} bytes, more than the {MAX_HEAD} that an API server accepts: {credentials} \
         bytes of credentials, {others} bytes of impersonation headers; {advice}"
    );
    Error::new(kind, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] = b"PUT / HTTP/1.1\r\nhost: a\r\n\r\n";

    fn hide(value: &'static str) -> Redacted {
        Redacted::new(Some(&HeaderValue::from_static(value)), &[])
    }

    #[test]
    fn hidden_lines_end_the_first_head_alone() {
        let hidden = hide("Bearer x");
        let sent = add_hidden(&[HEAD, b"\r\n\r\n"].concat()).unwrap().into_owned();
        let expected = "PUT / HTTP/1.1\r\nhost: a\r\nauthorization: Bearer x\r\n\r\n\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(&sent), expected);
        assert_eq!(add_hidden(HEAD).unwrap(), HEAD, "a later piece, such as a body with empty lines");
        drop(hidden);
        let hidden = hide("Bearer x");
        drop(hidden);
        assert_eq!(add_hidden(HEAD).unwrap(), HEAD, "after the request the value is gone");
    }

    #[test]
    fn a_head_without_its_end_is_not_sent() {
        for end in 0..HEAD.len() {
            let _hidden = hide("Bearer x");
            let error = add_hidden(&HEAD[..end]).unwrap_err();
            assert_eq!((error.kind(), error.maybe_sent), (&NetErrorKind::Credentials, false), "cut at {end}");
        }
    }

    #[test]
    fn without_credentials_nothing_is_added() {
        let _hidden = Redacted::new(None, &[]);
        assert_eq!(add_hidden(HEAD).unwrap(), HEAD);
    }
}
