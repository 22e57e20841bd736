//! Watches of etcd, where each watch is an endless response on its own connection.

use std::time::Duration;

use serde_json::Value;

use super::client::{EtcdClient, EtcdRequest};
use super::error::{Error, EtcdRefusal, code, is_reason_of_the_token};
use super::login::Token;
use super::message::{self, EtcdWatchLine};
use crate::net::calls::CallError;
use crate::net::error::NetErrorKind;
use crate::net::http::Opening;
use crate::net::stream::LineStream;
use crate::store::CallContext;

/// An open watch, which closes its connection when dropped.
pub(crate) struct EtcdWatch<'a> {
    client: &'a EtcdClient,
    token: Option<Token>,
    lines: LineStream,
    /// The revision of the etcd member when the watch was created.
    pub(crate) revision: u64,
}

impl EtcdClient {
    /// Opens a watch within the time of `call`.
    ///
    /// The watch ends after `silence` without data.
    pub(crate) fn watch(&self, body: &Value, call: &CallContext, silence: Duration) -> Result<EtcdWatch<'_>, Error> {
        let request = EtcdRequest { path: "/v3/watch", body, is_read: true, call };
        for _ in 0..2 {
            let (mut lines, opening, token) = self.open(request, silence)?;
            // The gateway of etcd 3.4 sends the last line without a line feed. `takes_rest` therefore makes the rest
            // of the body a line.
            lines.takes_rest = true;
            if let Some(revision) = self.begin(&mut lines, &opening, token.as_ref())? {
                return Ok(EtcdWatch { client: self, token, lines, revision });
            }
        }
        Err(Error::refused(code::UNAUTHENTICATED, "every new token is refused"))
    }

    /// Reads the first line of a watch, and returns the revision of the member.
    ///
    /// Returns `None` if etcd refuses the token and may accept another token.
    fn begin(&self, lines: &mut LineStream, opening: &Opening, token: Option<&Token>) -> Result<Option<u64>, Error> {
        let line = self.next_line(lines, token).inspect_err(|error| self.forget_after(error, token));
        opening.finish();
        match line? {
            Some(EtcdWatchLine::Created(revision)) => Ok(Some(revision)),
            Some(EtcdWatchLine::Canceled { reason, .. }) if is_reason_of_the_token(&reason) && self.forget(token) => {
                Ok(None)
            }
            Some(EtcdWatchLine::Canceled { is_compacted, reason }) => Err(canceled(is_compacted, &reason)),
            Some(EtcdWatchLine::Failed(refusal)) => Err(Error::refused(refusal.code, &refusal.message)),
            Some(EtcdWatchLine::Events(_)) => Err(Error::malformed("the watch started with an event")),
            None => Err(Error::malformed("the watch ended before it was created")),
        }
    }

    /// Reads the next line, and redacts secrets in the text of a cancellation or a failure.
    fn next_line(&self, lines: &mut LineStream, token: Option<&Token>) -> Result<Option<EtcdWatchLine>, Error> {
        let Some(line) = lines.next_line()? else { return Ok(None) };
        let mut line = message::read_line(&line)?;
        if let EtcdWatchLine::Canceled { reason: text, .. } | EtcdWatchLine::Failed(EtcdRefusal { message: text, .. }) =
            &mut line
        {
            let mut masked = std::mem::take(text).into_bytes();
            self.redact(token, &mut masked);
            *text = String::from_utf8_lossy(&masked).into_owned();
        }
        Ok(Some(line))
    }
}

impl EtcdWatch<'_> {
    /// Blocks until the next events arrive.
    ///
    /// Returns `None` once the watch has ended normally or was silent for too long.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<message::EtcdEvent>>, Error> {
        match self.client.next_line(&mut self.lines, self.token.as_ref()) {
            Ok(Some(EtcdWatchLine::Events(events))) => Ok(Some(events)),
            Ok(Some(EtcdWatchLine::Created(_))) => Err(Error::malformed("the watch was created twice")),
            Ok(Some(EtcdWatchLine::Canceled { is_compacted, reason })) => Err(canceled(is_compacted, &reason)),
            Ok(Some(EtcdWatchLine::Failed(refusal))) => Err(Error::refused(refusal.code, &refusal.message)),
            Ok(None) => Ok(None),
            // A connection may be lost without an error, so a silent watch ends, and the caller starts a new watch. If
            // the connection still works, the new watch costs only one request.
            Err(error) if error.net_kind() == Some(NetErrorKind::Timeout) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Converts the text that explains a cancelled watch to an error with a gRPC code.
fn canceled(is_compacted: bool, reason: &str) -> Error {
    use code::{INVALID_ARGUMENT, OUT_OF_RANGE, PERMISSION_DENIED, UNAUTHENTICATED, UNAVAILABLE};
    let code = match reason {
        _ if is_compacted => OUT_OF_RANGE,
        _ if reason.contains("permission denied") => PERMISSION_DENIED,
        _ if reason.contains("user name is empty") => INVALID_ARGUMENT,
        _ if reason.contains("code = Unauthenticated") => UNAUTHENTICATED,
        _ => UNAVAILABLE,
    };
    let message = match is_compacted {
        true => "the start revision of the watch is compacted".to_owned(),
        false => format!("watch cancelled: {reason}"),
    };
    Error::refused(code, &message)
}
