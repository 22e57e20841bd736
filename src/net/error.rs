//! The errors of the network layer, and the common form of all request errors.

use std::{fmt, io};

use crate::store::StoreErrorKind;

/// The error of a connection.
pub(crate) type Error = Report<NetErrorKind>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NetErrorKind {
    Timeout,
    Interrupted,
    Dns,
    Connect,
    Io,
    ConnectionClosed,
    Tls,
    TlsVerification,
    BodyTooLarge,
    Malformed,
    /// The credentials cannot be inserted into the request head.
    Credentials,
    Config,
}

impl From<NetErrorKind> for StoreErrorKind {
    fn from(kind: NetErrorKind) -> Self {
        match kind {
            NetErrorKind::Timeout => Self::Timeout,
            NetErrorKind::Interrupted => Self::Interrupted,
            NetErrorKind::ConnectionClosed => Self::ConnectionClosed,
            NetErrorKind::TlsVerification => Self::Untrusted,
            NetErrorKind::BodyTooLarge | NetErrorKind::Malformed => Self::Malformed,
            NetErrorKind::Config => Self::Rejected,
            NetErrorKind::Credentials => Self::Unauthorized,
            NetErrorKind::Dns | NetErrorKind::Connect | NetErrorKind::Io | NetErrorKind::Tls => Self::Unavailable,
        }
    }
}

/// An error with its kind, place, detail and cause.
///
/// `maybe_sent` is `true` if the server may have received the request.
#[derive(Debug)]
pub(crate) struct Report<K> {
    pub(crate) kind: K,
    pub(crate) place: String,
    pub(crate) detail: String,
    pub(crate) source: Option<io::Error>,
    pub(crate) maybe_sent: bool,
}

impl<K> Report<K> {
    pub(crate) fn new(kind: K, detail: impl Into<String>) -> Self {
        Self { kind, place: String::new(), detail: detail.into(), source: None, maybe_sent: false }
    }

    /// Sets the place of the error, unless a place is already set.
    ///
    /// The place that is set first is the most exact.
    pub(crate) fn at(mut self, place: impl Into<String>) -> Self {
        if self.place.is_empty() {
            self.place = place.into();
        }
        self
    }

    /// Prefixes the place of the error, such as a token file, with the request that failed.
    pub(crate) fn during(mut self, request: &str) -> Self {
        self.place = match self.place.as_str() {
            "" => request.to_owned(),
            place => format!("{request}: {place}"),
        };
        self
    }

    pub(crate) fn caused_by(mut self, source: impl Into<Option<io::Error>>) -> Self {
        self.source = source.into();
        self
    }

    pub(crate) fn sent(mut self, maybe: bool) -> Self {
        self.maybe_sent = maybe;
        self
    }

    pub(crate) fn write_place(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place.as_str() {
            "" => Ok(()),
            place => write!(f, "{place}: "),
        }
    }

    pub(crate) fn write_detail(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl Error {
    pub(crate) fn config(place: impl Into<String>, rule: impl Into<String>) -> Self {
        Error::new(NetErrorKind::Config, rule).at(place)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_place(f)?;
        self.write_detail(f)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    impl Error {
        pub(crate) fn kind(&self) -> &NetErrorKind {
            &self.kind
        }
    }

    #[test]
    fn each_failure_on_the_way_is_of_a_kind() {
        use NetErrorKind as E;
        use StoreErrorKind::*;
        for (on_the_way, kind) in [
            (E::Timeout, Timeout),
            (E::Interrupted, Interrupted),
            (E::Dns, Unavailable),
            (E::Connect, Unavailable),
            (E::Io, Unavailable),
            (E::ConnectionClosed, ConnectionClosed),
            (E::Tls, Unavailable),
            (E::TlsVerification, Untrusted),
            (E::BodyTooLarge, Malformed),
            (E::Malformed, Malformed),
            (E::Credentials, Unauthorized),
            (E::Config, Rejected),
        ] {
            assert_eq!(StoreErrorKind::from(on_the_way), kind);
        }
    }
}
