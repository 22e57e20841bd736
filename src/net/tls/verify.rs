//! Verification of server certificates.

use std::sync::{Arc, Once};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::pinned;
use super::provider::provider;
use crate::net::error::Error;
use crate::util::log_fields::TLS;
use crate::util::panics::log_line;

pub(crate) const NO_AUTHORITY: &str =
    "contains no usable CA certificate; set certificate-authority to the CA of the cluster";

/// Trusts the certificates of these authorities, and all certificates that they have signed.
///
/// Returns `None` if no authority is usable.
pub(crate) fn trust_these(
    authorities: Vec<CertificateDer<'static>>,
) -> Result<Option<Arc<dyn ServerCertVerifier>>, Error> {
    let mut store = RootCertStore::empty();
    let (added, ignored) = store.add_parsable_certificates(authorities.iter().cloned());
    if added == 0 {
        return Ok(None);
    }
    let mut signers = RootCertStore::empty();
    signers.add_parsable_certificates(authorities.iter().filter(|authority| pinned::may_sign(authority)).cloned());
    // If no authority may sign, `store` is only a substitute, because webpki rejects an empty list of roots.
    let signs = !signers.is_empty();
    let store = if signs { signers } else { store };
    if ignored > 0 {
        log_line!(warn, target: TLS, "tls: ignoring {ignored} unusable CA certificates of the configuration");
    }
    let authorities = TheseAuthorities { signed: signed_by(store)?, signs, themselves: authorities };
    Ok(Some(Arc::new(ServerVerifier { authorities: Some(authorities), provider: provider() })))
}

/// Trusts certificates that the system's roots have signed.
pub(crate) fn trust_the_system() -> Result<Arc<dyn ServerCertVerifier>, Error> {
    let mut store = RootCertStore::empty();
    if store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs).0 == 0 {
        return Err(Error::config("system trust store", NO_AUTHORITY));
    }
    Ok(signed_by(store)?)
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
    Arc::new(ServerVerifier { authorities: None, provider: provider() })
}

fn signed_by(store: RootCertStore) -> Result<Arc<WebPkiServerVerifier>, Error> {
    WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider())
        .build()
        .map_err(|e| Error::config("TLS", e.to_string()))
}

/// A verifier with the configured authorities.
///
/// Without authorities, every certificate is accepted, but the server must own the key of its certificate.
#[derive(Debug)]
struct ServerVerifier {
    authorities: Option<TheseAuthorities>,
    provider: Arc<CryptoProvider>,
}

/// The configured authorities.
///
/// An authority may be the certificate of the server itself: a self-signed certificate, or a certificate that was
/// copied into the kubeconfig. Some manually created clusters use such a certificate. webpki rejects the certificate,
/// but Go accepts the certificate after a check of its name and dates.
#[derive(Debug)]
struct TheseAuthorities {
    signed: Arc<WebPkiServerVerifier>,
    /// `true` if an authority may sign certificates.
    ///
    /// webpki does not check if a trusted certificate may sign.
    signs: bool,
    themselves: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(TheseAuthorities { signed, signs, themselves }) = &self.authorities else {
            return Ok(ServerCertVerified::assertion());
        };
        if !themselves.iter().any(|authority| authority == certificate) {
            if !signs {
                return Err(CertificateError::UnknownIssuer.into());
            }
            return signed.verify_server_cert(certificate, intermediates, name, ocsp, now);
        }
        let parsed = ParsedCertificate::try_from(certificate)?;
        pinned::check(certificate, now)?;
        verify_server_name(&parsed, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
