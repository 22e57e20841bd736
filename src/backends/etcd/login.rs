//! Login with a user name and a password, which returns a token.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, select};
use parking_lot::Mutex;
use ureq::http::HeaderValue;

use super::config::EtcdUser;
use super::error::{Error, code};
use super::message;
use crate::net::echo;
use crate::net::error as net;
use crate::net::interrupt::{Interrupter, interrupted};
use crate::util::cancel::CancelToken;
use crate::util::log_fields::CLIENT;
use crate::util::on_drop::OnDrop;
use crate::util::panics::log_line;

/// Minimum length of a secret that is redacted, in bytes.
///
/// Redacting a shorter secret would also overwrite parts of other words.
const SHORTEST: usize = 4;

/// The shortest time between two tokens that are dropped because of closed connections: the default retry period.
///
/// A login is expensive for etcd, and a closed connection rarely has to do with the token.
pub(crate) const DROP_INTERVAL: Duration = Duration::from_secs(2);

/// A user, and the current token of the user.
pub(crate) struct EtcdLogin {
    user: EtcdUser,
    current: Mutex<CurrentToken>,
    /// A channel that is empty while a call logs in.
    turn: (Sender<()>, Receiver<()>),
}

#[derive(Default)]
struct CurrentToken {
    token: Option<Token>,
    /// `true` if the last request with the token ended without a byte of an answer.
    is_unanswered: bool,
    /// The time when a token was last dropped because of a closed connection.
    dropped_at: Option<Instant>,
}

/// A token in the form of the `Authorization` header.
///
/// The header contains no scheme such as `Bearer`, because etcd accepts none.
pub(crate) type Token = HeaderValue;

impl EtcdLogin {
    pub(crate) fn new(user: EtcdUser) -> Self {
        let turn = bounded(1);
        let _ = turn.0.send(());
        Self { user, current: Mutex::default(), turn }
    }

    /// Returns the current token, or logs in for a new token.
    ///
    /// Only one call logs in at a time. The other calls wait, and use the token of that call.
    ///
    /// `post` sends a body to the login of etcd, and returns the status and the body of the response.
    pub(crate) fn token(
        &self,
        deadline: Instant,
        cancel: &CancelToken,
        interrupter: &Interrupter,
        post: impl Fn(&[u8]) -> Result<(u16, Vec<u8>), net::Error>,
    ) -> Result<Token, Error> {
        if let Some(token) = self.current() {
            return Ok(token);
        }
        select! {
            recv(self.turn.1) -> _ => {}
            recv(interrupter.signal) -> _ => return Err(interrupted().into()),
            default(deadline.saturating_duration_since(Instant::now())) => {
                let detail = "another login took too long";
                return Err(net::Error::new(net::NetErrorKind::Timeout, detail).into());
            }
        }
        let _ended = OnDrop(|| _ = self.turn.0.try_send(()));
        if let Some(token) = self.current() {
            return Ok(token);
        }
        let log_in = |password: Option<&str>| {
            let body = message::authenticate(&self.user.name, password.unwrap_or_default());
            self.read_token(post(body.to_string().as_bytes())?)
        };
        let token = self.user.password.log_in(deadline, cancel, log_in, Error::is_of_the_password)?;
        self.current.lock().token = Some(token.clone());
        Ok(token)
    }

    fn current(&self) -> Option<Token> {
        self.current.lock().token.clone()
    }

    /// Notes that etcd has answered a request.
    pub(crate) fn answered(&self) {
        self.current.lock().is_unanswered = false;
    }

    /// Notes that a connection was closed without a byte of an answer to a request with `token`.
    ///
    /// Some gateways refuse a token in this way. If the connection was new, or if this happens a second time in a row,
    /// the function drops the token, but only once per [`DROP_INTERVAL`].
    pub(crate) fn unanswered(&self, token: &Token, is_new: bool) {
        let mut current = self.current.lock();
        let is_due = current.dropped_at.is_none_or(|at| at.elapsed() >= DROP_INTERVAL);
        if current.token.as_ref() != Some(token) || !is_due {
            return;
        }
        if std::mem::replace(&mut current.is_unanswered, !is_new) || is_new {
            *current = CurrentToken { dropped_at: Some(Instant::now()), ..CurrentToken::default() };
            // Releases the lock first, because every call takes the lock, and logging may block.
            drop(current);
            log_line!(debug, target: CLIENT, "etcd: connection closed without an answer, logging in again");
        }
    }

    /// Drops `token` if `token` is still the current token.
    pub(crate) fn forget(&self, token: &Token) {
        let mut current = self.current.lock();
        if current.token.as_ref() == Some(token) {
            current.token = None;
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
