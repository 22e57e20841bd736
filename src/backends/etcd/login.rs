//! The token that a user name and a password are good for.

use std::time::Instant;

use parking_lot::Mutex;
use ureq::http::HeaderValue;

use super::config::EtcdUser;
use super::error::{Error, code};
use super::message;
use crate::net::confidential::Post;
use crate::net::dial::Dialer;
use crate::net::echo;
use crate::net::endpoint::Endpoint;
use crate::net::interrupt::Interrupter;
use crate::net::tls::TlsParts;
use crate::util::cancel::CancelToken;

/// A shorter secret may be part of any word, so masking it would garble the text.
const SHORTEST: usize = 4;

/// A user, and the token that is in use.
pub(crate) struct EtcdLogin {
    user: EtcdUser,
    token: Mutex<Option<Token>>,
}

/// As it goes out: bare, for etcd takes no scheme before it.
#[derive(Clone)]
pub(crate) struct Token(HeaderValue);

/// Where to log in, until when, and what ends it sooner.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) tls: Option<&'a TlsParts>,
    pub(crate) dialer: &'a Dialer,
    pub(crate) deadline: Instant,
    pub(crate) cancel: &'a CancelToken,
    pub(crate) interrupter: &'a Interrupter,
}

impl EtcdLogin {
    pub(crate) fn new(user: EtcdUser) -> Self {
        Self { user, token: Mutex::default() }
    }

    /// The token in use, or else a new one. Two that ask at a time may get one each, and both are good.
    pub(crate) fn token(&self, at: At<'_>) -> Result<Token, Error> {
        let current = self.token.lock().clone();
        match current {
            Some(token) => Ok(token),
            None => {
                let log_in = |password: Option<&str>| self.authenticate(at, password.unwrap_or_default());
                let token = self.user.password.log_in(at.deadline, at.cancel, log_in, Error::is_of_the_password)?;
                *self.token.lock() = Some(token.clone());
                Ok(token)
            }
        }
    }

    /// Forgets a token, unless there is another by now.
    pub(crate) fn forget(&self, token: &Token) {
        let mut current = self.token.lock();
        if current.as_ref().is_some_and(|current| current.0 == token.0) {
            *current = None;
        }
    }

    fn authenticate(&self, at: At<'_>, password: &str) -> Result<Token, Error> {
        let At { endpoint, tls, dialer, deadline, interrupter, .. } = at;
        let body = message::authenticate(&self.user.name, password).to_string();
        let post = Post { endpoint, tls: tls.cloned(), path: "/v3/auth/authenticate", body: body.as_bytes(), deadline };
        let (status, mut answer) = post.send(dialer, interrupter)?;
        if status != 200 {
            self.redact(None, &mut answer);
            return Err(refusal(status, &answer));
        }
        let token = message::read_token(&answer)?;
        let mut token = HeaderValue::from_str(&token).map_err(|_| Error::malformed("its token fits no header"))?;
        token.set_sensitive(true);
        Ok(Token(token))
    }

    /// Overwrites the token and the password wherever they occur in `text`.
    pub(crate) fn redact(&self, token: Option<&Token>, text: &mut [u8]) {
        if let Some(Token(token)) = token.filter(|token| token.0.len() >= SHORTEST) {
            echo::redact(token.as_bytes(), text);
        }
        self.user.password.redact(text, SHORTEST);
    }
}

impl Token {
    pub(crate) fn header(&self) -> &HeaderValue {
        &self.0
    }
}

/// What an answer that is none of success says. What stands before etcd may answer in its place.
pub(crate) fn refusal(status: u16, body: &[u8]) -> Error {
    let said = |code| Error::refused(code, &format!("HTTP {status}, without a word of its gateway"));
    match (message::read_refusal(body), status) {
        (Some(refusal), _) => Error::refused(refusal.code, &refusal.message),
        (None, 404) => said(code::NOT_FOUND),
        (None, 429 | 500..) => said(code::UNAVAILABLE),
        (None, _) => {
            let body = String::from_utf8_lossy(body);
            // Source: etcd, server/embed/serve.go.
            if body.contains("CommonName of client") {
                return Error::refused(code::FAILED_PRECONDITION, &body);
            }
            Error::malformed(format_args!("HTTP {status} without a message of etcd's gateway, but {body}"))
        }
    }
}
