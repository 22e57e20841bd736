//! Keeps credentials out of the HTTP library, whose log shows every byte that it writes when it is turned up: ureq 3.5 has
//! no switch against that.
//!
//! It is given one short header in their place, the mask, which is replaced when the head goes out. So what it writes is
//! short, however long a token is and however many groups are impersonated. The lines reach the connection by the
//! thread: a request runs on the thread that makes it, from its first byte to its answer.

use std::borrow::Cow;
use std::cell::RefCell;

use ureq::http::{HeaderName, HeaderValue, header};

use super::error::{Error, NetErrorKind};

/// The longest head of a request. Source: `DefaultMaxHeaderBytes` of Go's net/http, with which the API server runs.
pub(crate) const MAX_HEAD: usize = 1024 * 1024;

/// Room for what the HTTP library writes, beside the parts whose length is not bounded here.
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

/// The lines that the HTTP library is not given.
struct Hidden {
    /// The line that it is given instead, with the end of the line before it.
    mask: Vec<u8>,
    lines: Vec<u8>,
    /// How many bytes of the lines are the credentials.
    credentials: usize,
    replaced: bool,
}

/// While this lives, requests of this thread go out with what was given to [`Redacted::new`].
pub(crate) struct Redacted(());

impl Redacted {
    /// What to give to the HTTP library instead of these headers; nothing when there are none. `target` is the length of
    /// what else in the head can be long.
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

/// How many bytes of a head, the mask among them, the HTTP library must be able to write in one piece.
pub(crate) fn room() -> usize {
    SENDING.with_borrow(|sending| sending.as_ref().map_or(ROOM, |sending| sending.room))
}

/// Puts the lines in the place of their mask.
///
/// # Errors
///
/// When the mask is not where it must be: in the first piece of a request, and nowhere after it. What is not replaced must
/// not go out, for a server would refuse it as wrong credentials. When the head is longer than servers take.
pub(crate) fn unmask(output: &[u8]) -> Result<Cow<'_, [u8]>, Error> {
    SENDING.with_borrow_mut(|sending| {
        let Some(hidden) = sending.as_mut().and_then(|sending| sending.hidden.as_mut()) else {
            return Ok(Cow::Borrowed(output));
        };
        let Some((before, after)) = split(output, &hidden.mask) else {
            // A part of the mask is as wrong as all of it.
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

/// What stands before the line of the mask, and what stands after it; each with the line ends that are its own.
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
    let what = "the HTTP library did not write the head of the request as expected, so the credentials could not be put \
                in; what it wrote was not sent";
    Error::new(NetErrorKind::Credentials, what)
}

fn too_long(length: usize, hidden: &Hidden) -> Error {
    let others = hidden.lines.len() - hidden.credentials;
    let (kind, advice) = match hidden.credentials > others {
        true => (NetErrorKind::Credentials, "take a shorter token"),
        false => (NetErrorKind::Config, "impersonate fewer groups or with shorter names"),
    };
    let what = format!(
        "the head of the request has {length} bytes, and an API server takes {MAX_HEAD}: {} are the credentials, and \
         {others} say who is impersonated; {advice}",
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
        // In two pieces, wherever the first one ends before the mask does; also between two lines.
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
