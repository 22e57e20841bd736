//! The errors of a request to etcd.

use std::fmt;

use serde::Deserialize;

use crate::net::error as net;
use crate::net::request_error::{RequestError, ServerRefusal};
use crate::net::text::clean;

/// The error of a failed request to etcd.
pub(crate) type Error = RequestError<EtcdRefusal>;

/// An error that etcd returned, with a gRPC code and a message.
///
/// The HTTP status is not kept, because etcd's versions send different statuses for the same error.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct EtcdRefusal {
    /// In a stream, etcd 3.4 names this field `grpc_code`.
    #[serde(alias = "grpc_code")]
    pub(crate) code: u32,
    #[serde(default)]
    pub(crate) message: String,
}

/// The gRPC codes in the errors of etcd's gateway.
pub(crate) mod code {
    pub(crate) const INVALID_ARGUMENT: u32 = 3;
    pub(crate) const DEADLINE_EXCEEDED: u32 = 4;
    pub(crate) const NOT_FOUND: u32 = 5;
    pub(crate) const PERMISSION_DENIED: u32 = 7;
    pub(crate) const FAILED_PRECONDITION: u32 = 9;
    pub(crate) const OUT_OF_RANGE: u32 = 11;
    pub(crate) const UNIMPLEMENTED: u32 = 12;
    pub(crate) const UNAVAILABLE: u32 = 14;
    pub(crate) const UNAUTHENTICATED: u32 = 16;
}

/// Maximum length of an error message in characters.
///
/// etcd sends one line, but a proxy in front of etcd may send a longer text.
const MAX_MESSAGE: usize = 300;

/// The remedy if the gateway of a member cannot connect to the member.
const GATEWAY_HINT: &str = "; the gateway of the member cannot connect to the member: if etcd runs with \
    --client-cert-auth, issue the server certificate for clientAuth as well as serverAuth";

impl Error {
    /// Creates an error from a gRPC code and a message, which is shortened to one line.
    pub(crate) fn refused(code: u32, message: &str) -> Self {
        Self::Refused(EtcdRefusal { code, message: clean(message, MAX_MESSAGE) })
    }

    pub(crate) fn malformed(what: impl fmt::Display) -> Self {
        let what = clean(&what.to_string(), MAX_MESSAGE);
        Self::Net(
            net::Error::new(net::NetErrorKind::Malformed, format!("unexpected response from etcd: {what}")).sent(true),
        )
    }

    /// Returns `true` if another member may accept the request.
    pub(crate) fn is_of_the_member(&self) -> bool {
        use net::NetErrorKind::{Connect, Dns, Io, Malformed, Timeout, Tls, TlsVerification};
        match self {
            Self::Net(error) => {
                matches!(error.kind, Timeout | Dns | Connect | Io | Tls | TlsVerification | Malformed)
            }
            Self::Refused(refusal) => matches!(refusal.code, code::UNAVAILABLE | code::DEADLINE_EXCEEDED),
        }
    }

    /// Returns `true` if etcd has refused a login because of the user or the password.
    pub(crate) fn is_of_the_password(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.message.contains("authentication failed"))
    }

    /// Returns `true` if etcd has refused the token and may accept another token.
    pub(crate) fn is_of_the_token(&self) -> bool {
        matches!(self, Self::Refused(EtcdRefusal { code, message }) if is_of_the_token(*code, message))
    }
}

/// Returns `true` if etcd has refused the token and may accept another token.
///
/// etcd refuses a token if it is revoked or expired, if users were enabled after the login, or if rights have changed.
fn is_of_the_token(code: u32, message: &str) -> bool {
    let is_about = |text: &str| message.contains(text);
    code == code::UNAUTHENTICATED
        || code == code::INVALID_ARGUMENT
            && (is_about("user name is empty") || is_about("auth token") || is_about("revision of auth store is old"))
}

/// Returns `true` if etcd has cancelled a watch because of the watch's token.
///
/// A cancelled watch has no gRPC code, only the text `reason`.
pub(crate) fn is_reason_of_the_token(reason: &str) -> bool {
    is_of_the_token(code::INVALID_ARGUMENT, reason) || reason.contains("code = Unauthenticated")
}

impl EtcdRefusal {
    /// Returns `true` if the HTTP gateway of a member could not connect to the gRPC server of the same member.
    ///
    /// The gateway then sends an error of its connection, in one of many forms. A message of the member has a prefix,
    /// and so do the messages that this crate makes for responses without one.
    fn is_of_the_gateway(&self) -> bool {
        let is_of_another =
            ["etcdserver: ", "HTTP ", "watch cancelled: "].iter().any(|it| self.message.starts_with(it));
        self.code == code::UNAVAILABLE && !is_of_another
    }
}

impl ServerRefusal for EtcdRefusal {
    /// Returns `true`, because HTTP requests to etcd share no session.
    fn leaves_session_unchanged(&self) -> bool {
        true
    }
}

impl fmt::Display for EtcdRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "etcd returned an error: {} (code {})", self.message, self.code)?;
        match self.is_of_the_gateway() {
            true => f.write_str(GATEWAY_HINT),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u32, message: &str) -> Error {
        Error::Refused(EtcdRefusal { code, message: message.to_owned() })
    }

    #[test]
    fn each_failure_is_of_the_member_of_the_token_or_final() {
        use net::NetErrorKind::*;
        // `expected` is `true` if another member may accept the request.
        for (kind, expected) in [
            (Timeout, true),
            (Interrupted, false),
            (Dns, true),
            (Connect, true),
            (Io, true),
            (ConnectionClosed, false),
            (Tls, true),
            (TlsVerification, true),
            (BodyTooLarge, false),
            (Malformed, true),
            (Credentials, false),
            (Config, false),
        ] {
            let error = Error::Net(net::Error::new(kind, ""));
            assert_eq!((error.is_of_the_member(), error.is_of_the_token()), (expected, false), "{kind:?}");
        }
        // The first flag is `true` if another member may accept the request, the second if etcd may accept another
        // token.
        for (code, message, is_of_the_member, is_of_the_token) in [
            (code::UNAVAILABLE, "no leader", true, false),
            (code::DEADLINE_EXCEEDED, "auth token", true, false),
            (code::UNAUTHENTICATED, "", false, true),
            (code::INVALID_ARGUMENT, "user name is empty", false, true),
            (code::INVALID_ARGUMENT, "invalid auth token", false, true),
            (code::INVALID_ARGUMENT, "revision of auth store is old", false, true),
            (code::INVALID_ARGUMENT, "key is not provided", false, false),
            (code::PERMISSION_DENIED, "permission denied", false, false),
        ] {
            let error = refused(code, message);
            assert_eq!(
                (error.is_of_the_member(), error.is_of_the_token()),
                (is_of_the_member, is_of_the_token),
                "{error}"
            );
            let is_reason = is_of_the_token && code == code::INVALID_ARGUMENT;
            assert_eq!(is_reason_of_the_token(message), is_reason || message == "auth token", "{message}");
        }
        assert!(is_reason_of_the_token("rpc error: code = Unauthenticated desc = x"));
    }

    #[test]
    fn hint_at_the_gateway_is_for_its_own_connection_only() {
        for (code, message, hints) in [
            (
                code::UNAVAILABLE,
                "connection error: desc = \"error reading server preface: read: connection reset\"",
                true,
            ),
            (code::UNAVAILABLE, "write tcp 127.0.0.1:1->127.0.0.1:2: write: broken pipe", true),
            (code::UNAVAILABLE, "remote error: tls: bad certificate", true),
            (code::UNAVAILABLE, "all SubConns are in TransientFailure", true),
            (code::UNAVAILABLE, "etcdserver: request timed out, possibly due to connection lost", false),
            (code::UNAVAILABLE, "HTTP 503 without an error message from the gateway", false),
            (code::UNAVAILABLE, "watch cancelled: no leader", false),
            (code::PERMISSION_DENIED, "tls: no", false),
        ] {
            assert_eq!(refused(code, message).to_string().contains("clientAuth"), hints, "{message}");
        }
    }
}
