//! Login with a user name and a password, which returns a token.

use std::time::Instant;

use parking_lot::Mutex;
use ureq::http::HeaderValue;

use super::config::EtcdUser;
use super::error::{Error, code};
use super::message;
use crate::net::echo;
use crate::net::error as net;
use crate::util::cancel::CancelToken;

/// Minimum length of a secret that is redacted, in bytes.
///
/// Redacting a shorter secret would also overwrite parts of other words.
const SHORTEST: usize = 4;

/// A user, and the current token of the user.
pub(crate) struct EtcdLogin {
    user: EtcdUser,
    token: Mutex<Option<Token>>,
}

/// A token in the form of the `Authorization` header.
///
/// The header contains no scheme such as `Bearer`, because etcd accepts none.
pub(crate) type Token = HeaderValue;

impl EtcdLogin {
    pub(crate) fn new(user: EtcdUser) -> Self {
        Self { user, token: Mutex::default() }
    }

    /// Returns the current token, or logs in for a new token.
    ///
    /// Two concurrent calls may both log in. Both tokens are then valid.
    ///
    /// `post` sends a body to the login of etcd, and returns the status and the body of the response.
    pub(crate) fn token(
        &self,
        deadline: Instant,
        cancel: &CancelToken,
        post: impl Fn(&[u8]) -> Result<(u16, Vec<u8>), net::Error>,
    ) -> Result<Token, Error> {
        let current = self.token.lock().clone();
        match current {
            Some(token) => Ok(token),
            None => {
                let log_in = |password: Option<&str>| {
                    let body = message::authenticate(&self.user.name, password.unwrap_or_default());
                    self.read_token(post(body.to_string().as_bytes())?)
                };
                let token = self.user.password.log_in(deadline, cancel, log_in, Error::is_of_the_password)?;
                *self.token.lock() = Some(token.clone());
                Ok(token)
            }
        }
    }

    /// Drops `token` if `token` is still the current token.
    pub(crate) fn forget(&self, token: &Token) {
        let mut current = self.token.lock();
        if current.as_ref().is_some_and(|current| current == token) {
            *current = None;
        }
    }

    fn read_token(&self, (status, mut answer): (u16, Vec<u8>)) -> Result<Token, Error> {
        if status != 200 {
            self.redact(None, &mut answer);
            return Err(refusal(status, &answer));
        }
        let token = message::read_token(&answer)?;
        let mut token = HeaderValue::from_str(&token).map_err(|_| Error::malformed("invalid token"))?;
        token.set_sensitive(true);
        Ok(token)
    }

    /// Overwrites the token and the password wherever they occur in `text`.
    pub(crate) fn redact(&self, token: Option<&Token>, text: &mut [u8]) {
        if let Some(token) = token.filter(|token| token.len() >= SHORTEST) {
            echo::redact(token.as_bytes(), text);
        }
        self.user.password.redact(text, SHORTEST);
    }
}

/// Converts an unsuccessful response to an error.
///
/// A proxy in front of etcd may have sent the response.
pub(crate) fn refusal(status: u16, body: &[u8]) -> Error {
    let said = |code| Error::refused(code, &format!("HTTP {status} without an error message from the gateway"));
    match (message::read_refusal(body), status) {
        (Some(refusal), _) => Error::refused(refusal.code, &refusal.message),
        (None, 404) => said(code::NOT_FOUND),
        (None, 429 | 500..) => said(code::UNAVAILABLE),
        (None, _) => {
            let body = String::from_utf8_lossy(body);
            // The gateway sends the message about a CommonName as plain text (server/embed/serve.go in etcd).
            if body.contains("CommonName of client") {
                return Error::refused(code::FAILED_PRECONDITION, &body);
            }
            Error::malformed(format_args!("HTTP {status} without an error message from the gateway: {body}"))
        }
    }
}
