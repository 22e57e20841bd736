//! What can go wrong, told apart as far as a caller can act on it.

use std::fmt;
use std::io;

use super::status::ApiStatus;
use crate::net::calls::CallError;
use crate::net::error::{self as net, Report};

/// Why a request, or the set-up of a client, failed.
///
/// [`kind`](ClientError::kind) says what to do about it, [`Display`](fmt::Display) says what happened, where (method and
/// path, or file and field) and what would help. Neither ever holds a token, a key, a password or the output of a
/// credential plugin.
///
/// ```
/// use leasehold::kubernetes::{ClientConfig, ErrorKind};
///
/// let error = ClientConfig::new("ftp://example.com").unwrap_err();
/// assert!(matches!(error.kind(), ErrorKind::Config));
/// println!("{error}");
/// ```
#[derive(Debug)]
pub struct ClientError(Box<Report<ErrorKind>>);

/// What a failure means to the caller.
///
/// ```
/// use leasehold::kubernetes::ErrorKind;
///
/// /// Trying again is of no use before somebody changes something.
/// fn needs_a_person(kind: &ErrorKind) -> bool {
///     match kind {
///         ErrorKind::Status(status) => status.code == 403,
///         ErrorKind::TlsVerification | ErrorKind::Config => true,
///         _ => false,
///     }
/// }
/// # assert!(needs_a_person(&ErrorKind::Config));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The server, or something in front of it, answered with anything but 2xx.
    Status(ApiStatus),
    /// The time given to the request ran out, or a stream was silent for too long.
    Timeout,
    /// The [`CancelToken`](crate::CancelToken) that it was given ended it.
    Interrupted,
    /// The host name did not resolve.
    Dns,
    /// No address of the server, or of the proxy on the way, took the connection.
    Connect,
    /// The connection broke while a request was under way.
    Io,
    /// A connection that had carried requests before was closed under this one, before a single byte of the answer. The
    /// server may have carried it out.
    ConnectionClosed,
    /// The TLS session failed for another reason than an untrusted server certificate.
    Tls,
    /// The server's certificate is not trusted, not for this name, or out of date. Retrying does not help.
    TlsVerification,
    /// The body, or one line of a stream, was larger than this client reads, or would take more memory than it gives to
    /// reading it.
    BodyTooLarge,
    /// What came back is not HTTP, or not what the API promises.
    Malformed,
    /// No usable credentials: a token file that cannot be read, or a credential plugin that failed.
    Credentials,
    /// The configuration, or the request as it was asked for, breaks a rule.
    Config,
}

impl ClientError {
    pub(crate) fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        ClientError(Box::new(Report::new(kind, detail)))
    }

    pub(crate) fn config(place: impl Into<String>, rule: impl Into<String>) -> Self {
        ClientError::new(ErrorKind::Config, rule).at(place)
    }

    pub(crate) fn at(self, place: impl Into<String>) -> Self {
        ClientError(Box::new(self.0.at(place)))
    }

    pub(crate) fn during(self, request: &str) -> Self {
        ClientError(Box::new(self.0.during(request)))
    }

    pub(crate) fn caused_by(self, source: impl Into<Option<io::Error>>) -> Self {
        ClientError(Box::new(self.0.caused_by(source)))
    }

    pub(crate) fn sent(self, maybe: bool) -> Self {
        ClientError(Box::new(self.0.sent(maybe)))
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The server's answer, if the failure is one.
    pub fn status(&self) -> Option<&ApiStatus> {
        match &self.0.kind {
            ErrorKind::Status(status) => Some(status),
            _ => None,
        }
    }

    /// Whether the server may have received the request.
    ///
    /// `false` is certain: nothing of the request left this process, so a write did not happen and will not. `true`
    /// means that the outcome of a write is open unless [`status`](ClientError::status) tells.
    pub fn maybe_sent(&self) -> bool {
        self.0.maybe_sent
    }
}

impl From<net::Error> for ClientError {
    fn from(error: net::Error) -> Self {
        ClientError(Box::new(error.map_kind(ErrorKind::from)))
    }
}

/// Takes each kind of failure below HTTP over into [`ErrorKind`] under the same name.
macro_rules! take_over {
    ($($kind:ident)*) => {
        impl From<net::NetErrorKind> for ErrorKind {
            fn from(kind: net::NetErrorKind) -> Self {
                match kind {
                    $(net::NetErrorKind::$kind => Self::$kind,)*
                }
            }
        }

        impl ErrorKind {
            fn below_http(&self) -> Option<net::NetErrorKind> {
                match self {
                    Self::Status(_) => None,
                    $(Self::$kind => Some(net::NetErrorKind::$kind),)*
                }
            }
        }
    };
}

take_over! {
    Timeout Interrupted Dns Connect Io ConnectionClosed Tls TlsVerification BodyTooLarge Malformed Credentials Config
}

impl CallError for ClientError {
    const ANSWER_OUTLIVES_CANCEL: bool = true;

    fn net_kind(&self) -> Option<net::NetErrorKind> {
        self.0.kind.below_http()
    }

    fn maybe_sent(&self) -> bool {
        self.0.maybe_sent
    }

    /// An HTTP answer is complete, and HTTP has no session.
    fn leaves_session_unchanged(&self) -> bool {
        self.status().is_some()
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write_place(f)?;
        let ErrorKind::Status(status) = &self.0.kind else { return self.0.write_detail(f) };
        write!(f, "the server answered {status}")?;
        match self.0.detail.as_str() {
            "" => Ok(()),
            hint => write!(f, "; {hint}"),
        }
    }
}

impl std::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|e| e as &(dyn std::error::Error + 'static))
    }
}

impl From<ClientError> for crate::leadership::error::Error {
    fn from(error: ClientError) -> Self {
        Self::Cluster(Box::new(error))
    }
}
