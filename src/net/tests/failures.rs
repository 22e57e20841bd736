//! Tests of the error kinds for failures of TLS, HTTP and sockets.

use std::io;
use std::sync::Arc;

use rustls::{AlertDescription, CertificateError, InvalidMessage, OtherError};

use crate::net::error::NetErrorKind;
use crate::net::http::from_ureq;
use crate::net::tls::tls_error;

#[test]
fn each_failure_of_tls_has_its_kind_and_its_advice() {
    use rustls::Error as E;
    let authority = OtherError(Arc::new(io::Error::other("CaUsedAsEndEntity")));
    for (error, kind, text) in [
        (
            E::InvalidCertificate(CertificateError::Other(authority)),
            NetErrorKind::TlsVerification,
            "certificate of an authority",
        ),
        (E::InvalidCertificate(CertificateError::UnknownIssuer), NetErrorKind::TlsVerification, "server name"),
        (E::NoCertificatesPresented, NetErrorKind::TlsVerification, "presented no certificate"),
        (E::AlertReceived(AlertDescription::BadCertificate), NetErrorKind::Tls, "client certificate"),
        (E::InvalidMessage(InvalidMessage::InvalidContentType), NetErrorKind::Tls, "does not speak TLS"),
        (E::DecryptError, NetErrorKind::Tls, "TLS failed"),
    ] {
        let explained = tls_error(&error);
        assert!(explained.kind == kind && explained.to_string().contains(text), "{explained:?}");
        let wrapped = from_ureq(io::Error::other(error).into());
        assert_eq!((wrapped.kind, wrapped.detail), (kind, explained.detail));
    }
}

#[test]
fn each_failure_of_a_connection_has_its_kind() {
    use io::ErrorKind::{ConnectionReset, UnexpectedEof};
    for (kind, text) in
        [(UnexpectedEof, "closed the connection before its response"), (ConnectionReset, "the connection broke")]
    {
        let explained = from_ureq(ureq::Error::Io(kind.into()));
        assert_eq!((explained.kind, explained.maybe_sent), (NetErrorKind::Io, true));
        assert!(explained.to_string().contains(text), "{explained}");
    }
    for (error, kind) in [
        (ureq::Error::Timeout(ureq::Timeout::Global), NetErrorKind::Timeout),
        (ureq::Error::Rustls(rustls::Error::DecryptError), NetErrorKind::Tls),
        (ureq::Error::Other("made up".into()), NetErrorKind::Io),
        (ureq::Error::BodyExceedsLimit(7), NetErrorKind::Malformed),
    ] {
        assert_eq!(from_ureq(error).kind, kind);
    }
}
