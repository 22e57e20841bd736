//! What can go wrong, told apart as far as a caller can act on it.

use std::fmt;
use std::io;

use super::status::Status;

/// Why a request, or the set-up of a client, failed.
///
/// [`kind`](Error::kind) says what to do about it, [`Display`](fmt::Display) says what happened, where (method and
/// path, or file and field) and what would help. Neither ever holds a token, a key, a password or the output of a
/// credential plugin.
///
/// ```
/// use leasehold::kube::{ClientConfig, ErrorKind};
///
/// let error = ClientConfig::new("ftp://example.com").unwrap_err();
/// assert!(matches!(error.kind(), ErrorKind::Config));
/// println!("{error}");
/// ```
pub struct Error {
    inner: Box<Inner>,
}

struct Inner {
    kind: ErrorKind,
    place: String,
    detail: String,
    source: Option<io::Error>,
    maybe_sent: bool,
}

/// What a failure means to the caller.
///
/// ```
/// use leasehold::kube::ErrorKind;
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
    Status(Status),
    /// The time given to the request ran out, or a stream was silent for too long.
    Timeout,
    /// [`Client::interrupt`](super::Client::interrupt) or [`Interrupter::interrupt`](super::Interrupter::interrupt)
    /// ended it.
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

impl Error {
    pub(super) fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Error {
            inner: Box::new(Inner {
                kind,
                place: String::new(),
                detail: detail.into(),
                source: None,
                maybe_sent: false,
            }),
        }
    }

    pub(super) fn config(place: impl Into<String>, rule: impl Into<String>) -> Self {
        Error::new(ErrorKind::Config, rule).at(place)
    }

    /// Names the place of an error; the innermost one stays, for it is the most exact.
    pub(super) fn at(mut self, place: impl Into<String>) -> Self {
        if self.inner.place.is_empty() {
            self.inner.place = place.into();
        }
        self
    }

    /// Puts the request in front of a place that is already named (a token file, say).
    pub(super) fn during(mut self, request: &str) -> Self {
        self.inner.place = match self.inner.place.as_str() {
            "" => request.to_owned(),
            place => format!("{request}: {place}"),
        };
        self
    }

    pub(super) fn caused_by(mut self, source: io::Error) -> Self {
        self.inner.source = Some(source);
        self
    }

    pub(super) fn sent(mut self, maybe: bool) -> Self {
        self.inner.maybe_sent = maybe;
        self
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> &ErrorKind {
        &self.inner.kind
    }

    /// The server's answer, if the failure is one.
    pub fn status(&self) -> Option<&Status> {
        match &self.inner.kind {
            ErrorKind::Status(status) => Some(status),
            _ => None,
        }
    }

    /// Whether the server may have received the request.
    ///
    /// `false` is certain: nothing of the request left this process, so a write did not happen and will not. `true`
    /// means that the outcome of a write is open unless [`status`](Error::status) settles it.
    pub fn maybe_sent(&self) -> bool {
        self.inner.maybe_sent
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.inner.place.is_empty() {
            write!(f, "{}: ", self.inner.place)?;
        }
        if let ErrorKind::Status(status) = &self.inner.kind {
            write!(f, "the server answered {status}")?;
            if !self.inner.detail.is_empty() {
                write!(f, "; {}", self.inner.detail)?;
            }
            return Ok(());
        }
        f.write_str(&self.inner.detail)?;
        if let Some(source) = &self.inner.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.inner.kind)
            .field("place", &self.inner.place)
            .field("detail", &self.inner.detail)
            .field("source", &self.inner.source)
            .field("maybe_sent", &self.inner.maybe_sent)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.inner.source.as_ref().map(|e| e as &(dyn std::error::Error + 'static))
    }
}
