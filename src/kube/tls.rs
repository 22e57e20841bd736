//! Whom to trust, whom to expect, and what to show of ourselves.
//!
//! The rustls configuration is built here rather than by ureq, so that the trust roots, the expected name and the
//! client certificate are exactly what the configuration says, and no process-wide default has a say in it.

use std::fmt;
use std::sync::{Arc, Once};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::error::Error;

/// The TLS part of a configuration.
#[derive(Clone, Default)]
pub(super) struct TlsSettings {
    /// The cluster's authorities; without any, the system's roots.
    pub(super) ca: Option<Vec<CertificateDer<'static>>>,
    pub(super) insecure: bool,
    pub(super) server_name: Option<String>,
    pub(super) identity: Option<Identity>,
}

/// A client certificate with its key.
#[derive(Clone)]
pub(super) struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: Arc<PrivateKeyDer<'static>>,
}

/// What a connection needs to start TLS.
#[derive(Clone, Debug)]
pub(super) struct TlsParts {
    pub(super) config: Arc<ClientConfig>,
    pub(super) name: ServerName<'static>,
}

impl TlsSettings {
    /// Builds the configuration for `host`, with `identity` in place of the configured one if there is any.
    pub(super) fn parts(&self, host: &str, identity: Option<&Identity>) -> Result<TlsParts, Error> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|e| Error::config("TLS", e.to_string()))?;
        let builder = if self.insecure {
            warn_once();
            builder.dangerous().with_custom_certificate_verifier(Arc::new(TrustAnyone { provider }))
        } else {
            builder.with_root_certificates(self.roots()?)
        };
        let mut config = match identity.or(self.identity.as_ref()) {
            Some(identity) => {
                builder.with_client_auth_cert(identity.chain.clone(), identity.key.clone_key()).map_err(|e| {
                    Error::config("client certificate", format!("its certificate and key do not work together: {e}"))
                })?
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let name = self.server_name.as_deref().unwrap_or(host);
        let name = ServerName::try_from(name.to_owned()).map_err(|_| {
            Error::config("tls-server-name", format!("{name:?} is neither a DNS name nor an IP address"))
        })?;
        Ok(TlsParts { config: Arc::new(config), name })
    }

    /// For the proxy on the way to the cluster. It is no part of the cluster: its own name is expected, it is not shown who
    /// we are, and besides the cluster's authorities it may have its certificate from any of the system's.
    pub(super) fn for_proxy(&self) -> Self {
        let ca = self.ca.as_ref().map(|ca| {
            let system = rustls_native_certs::load_native_certs().certs.into_iter();
            let usable = system.filter(|certificate| RootCertStore::empty().add(certificate.clone()).is_ok());
            ca.iter().cloned().chain(usable).collect()
        });
        TlsSettings { ca, insecure: self.insecure, server_name: None, identity: None }
    }

    fn roots(&self) -> Result<RootCertStore, Error> {
        let mut store = RootCertStore::empty();
        let (certificates, place) = match &self.ca {
            Some(ca) => (ca.clone(), "certificate-authority"),
            None => (rustls_native_certs::load_native_certs().certs, "system trust store"),
        };
        let (added, ignored) = store.add_parsable_certificates(certificates);
        if added == 0 {
            return Err(Error::config(
                place,
                "holds no usable CA certificate; name the cluster's own with certificate-authority",
            ));
        }
        if ignored > 0 && self.ca.is_some() {
            log::warn!("kube: {ignored} of the cluster's CA certificates cannot be used and are ignored");
        }
        Ok(store)
    }
}

impl Identity {
    /// From PEM: a chain with the client's own certificate first, and a PKCS#8, PKCS#1 or SEC1 key.
    pub(super) fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, Error> {
        let chain = certificates(chain).map_err(|rule| Error::config("client certificate", rule))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| {
            let rule = match e {
                PemError::NoItemsFound if is_encrypted(key) => {
                    "the key is encrypted, which is not supported; store it decrypted"
                }
                PemError::NoItemsFound => "holds no private key in PKCS#8, PKCS#1 or SEC1 form",
                _ => "is not valid PEM",
            };
            Error::config("client key", rule)
        })?;
        Ok(Identity { chain, key: Arc::new(key) })
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("certificates", &self.chain.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for TlsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSettings")
            .field("ca", &self.ca.as_ref().map(Vec::len))
            .field("insecure", &self.insecure)
            .field("server_name", &self.server_name)
            .field("identity", &self.identity)
            .finish()
    }
}

/// All certificates of a PEM bundle; the error is a rule without the content, for a key may have been put there.
pub(super) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, &'static str> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err("holds no PEM certificate"),
        Ok(found) => Ok(found),
        Err(_) => Err("is not valid PEM"),
    }
}

fn is_encrypted(pem: &[u8]) -> bool {
    String::from_utf8_lossy(pem).contains("ENCRYPTED PRIVATE KEY-----")
}

/// What a TLS failure means, in words of ours.
pub(super) enum TlsFailure {
    Untrusted(String),
    Refused(String),
    Other(String),
}

impl TlsFailure {
    pub(super) fn of(error: &rustls::Error) -> Self {
        use rustls::Error as E;
        match error {
            E::InvalidCertificate(e) => TlsFailure::Untrusted(format!(
                "the server's certificate is not accepted ({e}); check certificate-authority and tls-server-name"
            )),
            E::NoCertificatesPresented => TlsFailure::Untrusted("the server presented no certificate".to_owned()),
            E::AlertReceived(alert) => TlsFailure::Refused(format!(
                "the server ended the TLS session with the alert {alert:?}; it may not accept the client certificate"
            )),
            E::InvalidMessage(_) => TlsFailure::Other(
                "what answered does not speak TLS; check the scheme and the port of the server".to_owned(),
            ),
            other => TlsFailure::Other(format!("TLS failed: {other}")),
        }
    }
}

fn warn_once() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::warn!(
            "kube: insecure-skip-tls-verify is set: anybody on the way to the API server can read and change requests"
        );
    });
}

/// `insecure-skip-tls-verify`: any certificate will do, but the server must still own its key.
#[derive(Debug)]
struct TrustAnyone {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for TrustAnyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
