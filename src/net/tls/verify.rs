//! Verification of server certificates.

use std::sync::{Arc, Once};
use std::{io, iter};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{
    CryptoProvider, verify_tls12_signature, verify_tls13_signature, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme};

use super::der::CertificateFields;
use super::pinned;
use super::provider::provider;
use crate::net::error::Error;
use crate::util::log_fields::TLS;
use crate::util::panics::log_line;

pub(crate) const NO_AUTHORITY: &str =
    "contains no usable CA certificate; configure the CA of the server, or install the system's CA certificates";

/// Trusts the certificates of these authorities, and all certificates that they have signed.
///
/// Returns `None` if no authority is usable.
pub(crate) fn trust_these(
    authorities: Vec<CertificateDer<'static>>,
    checks_name: bool,
) -> Option<Arc<dyn ServerCertVerifier>> {
    let (added, ignored) = RootCertStore::empty().add_parsable_certificates(authorities.iter().cloned());
    if added == 0 {
        return None;
    }
    let mut signers = RootCertStore::empty();
    signers.add_parsable_certificates(authorities.iter().filter(|authority| pinned::may_sign(authority)).cloned());
    if ignored > 0 {
        log_line!(warn, target: TLS, "tls: ignoring {ignored} unusable CA certificates of the configuration");
    }
    let trusted = Trusted { signers, themselves: authorities, checks_name };
    Some(Arc::new(ServerVerifier { trusted: Some(trusted), provider: provider() }))
}

/// Trusts certificates that the system's roots have signed.
pub(crate) fn trust_the_system(checks_name: bool) -> Result<Arc<dyn ServerCertVerifier>, Error> {
    let mut signers = RootCertStore::empty();
    if signers.add_parsable_certificates(rustls_native_certs::load_native_certs().certs).0 == 0 {
        return Err(Error::config("system trust store", NO_AUTHORITY));
    }
    let trusted = Trusted { signers, themselves: Vec::new(), checks_name };
    Ok(Arc::new(ServerVerifier { trusted: Some(trusted), provider: provider() }))
}

/// Trusts every certificate.
///
/// `insecure-skip-tls-verify`, `sslmode=require` and `ssl-mode=REQUIRED` request this.
pub(crate) fn trust_anyone() -> Arc<dyn ServerCertVerifier> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log_line!(
            warn, target: TLS,
            "tls: certificates are not verified (insecure-skip-tls-verify, sslmode=require or ssl-mode=REQUIRED): an attacker \
             on the network can read and change all traffic"
        );
    });
    Arc::new(ServerVerifier { trusted: None, provider: provider() })
}

/// A verifier with the configured authorities.
///
/// Without authorities, every certificate is accepted, but the server must own the key of its certificate.
#[derive(Debug)]
struct ServerVerifier {
    trusted: Option<Trusted>,
    provider: Arc<CryptoProvider>,
}

/// The configured authorities.
///
/// An authority may be the certificate of the server itself: a self-signed certificate, or a certificate that was
/// copied into the kubeconfig. Some manually created clusters use such a certificate. webpki rejects the certificate,
/// but Go accepts the certificate after a check of its name and dates.
#[derive(Debug)]
struct Trusted {
    /// The authorities that may sign certificates. webpki does not check if a trusted certificate may sign.
    signers: RootCertStore,
    themselves: Vec<CertificateDer<'static>>,
    checks_name: bool,
}

/// Replaces the error of webpki about the version of one of these certificates.
fn explain_version<'a>(
    error: rustls::Error,
    mut certificates: impl Iterator<Item = &'a CertificateDer<'a>>,
    rule: &'static str,
) -> rustls::Error {
    let version = |certificate| CertificateFields::read(certificate).map(|fields| fields.version);
    match certificates.find_map(|certificate| version(certificate).filter(|version| *version != 3)) {
        Some(version) if error.to_string().contains("UnsupportedCertVersion") => {
            let text = format!("the server presents a certificate of X.509 version {version}: {rule}");
            CertificateError::Other(OtherError(Arc::new(io::Error::other(text)))).into()
        }
        _ => error,
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(trusted) = &self.trusted else { return Ok(ServerCertVerified::assertion()) };
        let check = || -> Result<_, rustls::Error> {
            let parsed = ParsedCertificate::try_from(certificate)?;
            if trusted.themselves.iter().any(|authority| authority == certificate) {
                pinned::check(certificate, now)?;
            } else {
                let algorithms = self.provider.signature_verification_algorithms.all;
                verify_server_cert_signed_by_trust_anchor(&parsed, &trusted.signers, intermediates, now, algorithms)?;
            }
            if trusted.checks_name {
                verify_server_name(&parsed, name)?;
            }
            Ok(ServerCertVerified::assertion())
        };
        let chain = iter::once(certificate).chain(intermediates);
        let rule = "only version 3 can be verified; issue the certificate again in version 3, with the server's name as \
                    subjectAltName";
        check().map_err(|error| explain_version(error, chain, rule))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let rule = "the key of this version can be verified in TLS 1.3 alone; enable TLS 1.3 on the server, or issue the \
                    certificate again in version 3";
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
            .map_err(|error| explain_version(error, iter::once(certificate), rule))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        if self.trusted.is_some() {
            return verify_tls13_signature(message, certificate, signature, algorithms);
        }
        // An unverified certificate may be of any version, and have any extensions.
        let fields = CertificateFields::read(certificate).ok_or(CertificateError::BadEncoding)?;
        let key = SubjectPublicKeyInfoDer::from(fields.public_key);
        verify_tls13_signature_with_raw_key(message, &key, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
