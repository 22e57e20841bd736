//! The credentials of one request.

use std::time::Instant;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ureq::http::HeaderValue;

use crate::net::echo;
use crate::net::interrupt::Interrupter;
use crate::net::tls::Identity;

/// The credentials for one request.
#[derive(Clone, Default)]
pub(crate) struct Credentials {
    pub(crate) authorization: Option<HeaderValue>,
    /// A client certificate from a plugin, which replaces the configured certificate.
    pub(crate) identity: Option<Identity>,
    /// The number of changes of the identity.
    ///
    /// Connections with an older identity must not be used.
    pub(crate) identity_version: u64,
}

/// The deadline and the interrupt of a request that waits for credentials.
#[derive(Clone, Copy)]
#[cfg_attr(not(feature = "kubeconfig"), expect(dead_code, reason = "only plugins take time"))]
pub(crate) struct Limits<'a> {
    pub(crate) deadline: Instant,
    pub(crate) interrupter: &'a Interrupter,
}

impl Credentials {
    /// Overwrites the credentials in `text` with asterisks.
    ///
    /// The characters of the credentials may be escaped as in JSON, URLs or HTML.
    pub(crate) fn redact(&self, text: &mut [u8]) {
        let Some(value) = &self.authorization else { return };
        // Redacts the secret without its scheme, because a server may quote the secret alone.
        let secret = value.as_bytes().splitn(2, |&byte| byte == b' ').last().unwrap_or_default();
        let password = value.as_bytes().starts_with(b"Basic ").then(|| password_of(secret)).flatten();
        for secret in [Some(secret), password.as_deref()].into_iter().flatten() {
            // A shorter secret is not redacted, because the same characters occur in ordinary text.
            if secret.len() >= 8 {
                echo::redact(secret, text);
            }
        }
    }
}

fn password_of(pair: &[u8]) -> Option<Vec<u8>> {
    let pair = BASE64_STANDARD.decode(pair).ok()?;
    let colon = pair.iter().position(|&byte| byte == b':')?;
    Some(pair[colon + 1..].to_vec())
}

pub(crate) fn bearer(authorization: HeaderValue) -> Credentials {
    Credentials { authorization: Some(authorization), ..Credentials::default() }
}

pub(crate) fn bearer_header(token: &str) -> Option<HeaderValue> {
    header(&format!("Bearer {token}"))
}

pub(crate) fn header(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_echo_of_a_credential_is_struck_out() {
        let credentials = bearer(bearer_header("sesame-sesame").unwrap());
        let mut text = b"sesame-sesame, Bearer sesame-sesame: sesame-sesamesesame-sesame, sesame-sesam".to_vec();
        credentials.redact(&mut text);
        let struck = "*".repeat(13);
        let expected = format!("{struck}, Bearer {struck}: {struck}{struck}, sesame-sesam");
        assert_eq!(String::from_utf8(text).unwrap(), expected);
        // Secrets of fewer than eight bytes are not redacted, because they may be part of any word. The HTTP library
        // hides a header that is marked as sensitive.
        for (token, is_struck) in [("sesame", false), ("sesames", false), ("sesame-s", true)] {
            let header = bearer_header(token).unwrap();
            assert!(header.is_sensitive());
            let mut text = token.as_bytes().to_vec();
            bearer(header).redact(&mut text);
            assert_eq!(text != token.as_bytes(), is_struck, "{token}");
        }
    }

    #[test]
    fn a_password_is_struck_out_as_the_user_knows_it() {
        let pair = BASE64_STANDARD.encode("me:hunter2:hunter2");
        let credentials = bearer(header(&format!("Basic {pair}")).unwrap());
        let mut text = format!("me and hunter2:hunter2, or {pair}").into_bytes();
        credentials.redact(&mut text);
        let expected = format!("me and {}, or {}", "*".repeat(15), "*".repeat(pair.len()));
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
