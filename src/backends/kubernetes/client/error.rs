//! The errors of the Kubernetes client.

use std::{fmt, io};

use super::status::ApiStatus;
use crate::net::calls::CallError;
use crate::net::error::{self as net, Report};
use crate::util::debug_fields::debug_as_display;

/// The reason why a request, or the setup of a client, failed.
///
/// [`kind`](ClientError::kind) classifies the failure. [`Display`](fmt::Display) writes the failure, its place (method
/// and path, or file and field) and a remedy. An error never contains a token, a key, a password or the output of a
/// credential plugin.
///
/// [`Client::new`](crate::kubernetes::Client::new) and [`ClientConfig`](crate::kubernetes::ClientConfig) return this
/// error. The [`StoreError`](crate::store::StoreError) of a failed request has this error as its source.
///
/// # Examples
///
/// ```
/// use leasehold::kubernetes::{ClientConfig, ErrorKind};
///
/// let error = ClientConfig::new("ftp://example.com").unwrap_err();
/// assert!(matches!(error.kind(), ErrorKind::Config));
/// println!("{error}");
/// ```
pub struct ClientError(Box<Report<ErrorKind>>);

/// The kind of a [`ClientError`], by which a caller can choose a reaction.
///
/// # Examples
///
/// ```
/// use leasehold::kubernetes::ErrorKind;
///
/// /// Returns `true` if retrying is useless until a person changes something.
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
    /// The server, or a proxy in front of it, answered with a status other than 2xx.
    Status(ApiStatus),
    /// The timeout of the request elapsed, or a stream was silent for too long.
    Timeout,
    /// The [`CancelToken`](crate::store::CancelToken) of the call was cancelled.
    Interrupted,
    /// The host name did not resolve.
    Dns,
    /// No address of the server, or of the proxy, accepted the connection.
    Connect,
    /// The connection broke during a request.
    Io,
    /// The server closed a reused connection before the first byte of the response.
    ///
    /// The server may have executed the request.
    ConnectionClosed,
    /// The TLS session failed for a reason other than an untrusted server certificate.
    Tls,
    /// The server's certificate is untrusted, for another name, or out of date.
    ///
    /// Retrying does not help.
    TlsVerification,
    /// The body, or one line of a stream, exceeded the size limit or the memory limit.
    BodyTooLarge,
    /// The response is not HTTP, or violates the API.
    Malformed,
    /// No usable credentials exist. A token file is unreadable, or a credential plugin failed.
    Credentials,
    /// The configuration, or the request, breaks a rule.
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

    /// Returns the kind of the failure.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Returns the server's response if the server answered with a status other than 2xx.
    pub(crate) fn status(&self) -> Option<&ApiStatus> {
        match &self.0.kind {
            ErrorKind::Status(status) => Some(status),
            _ => None,
        }
    }
}

impl From<net::Error> for ClientError {
    fn from(error: net::Error) -> Self {
        let net::Error { kind, place, detail, source, maybe_sent } = error;
        ClientError(Box::new(Report { kind: kind.into(), place, detail, source, maybe_sent }))
    }
}

/// Implements the conversions between [`net::NetErrorKind`] and [`ErrorKind`] by name.
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

    /// Returns `true` after an HTTP response, because HTTP requests share no session state.
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

debug_as_display!(ClientError);

impl std::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|e| e as &(dyn std::error::Error + 'static))
    }
}

impl From<ClientError> for crate::leadership::error::Error {
    fn from(error: ClientError) -> Self {
        Self::Cluster(std::sync::Arc::new(error))
    }
}
