//! The certificates that a server creates for itself and for its clients.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;

const NAMES: [&str; 4] = ["127.0.0.1", "localhost", "kubernetes.default", "kubernetes.default.svc"];

pub(crate) struct Tls {
    pub config: Arc<ServerConfig>,
    pub ca_pem: String,
    issuer: Issuer<'static, KeyPair>,
    /// The user of each issued client certificate, by the DER of the certificate. The map makes an X.509 parser
    /// unnecessary.
    clients: Mutex<HashMap<Vec<u8>, String>>,
}

impl Tls {
    pub fn new() -> io::Result<Tls> {
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let mut params = named("leasehold testing CA")?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let ca = params.self_signed(&key).map_err(io::Error::other)?;
        let issuer = Issuer::new(params, key);

        let key = KeyPair::generate().map_err(io::Error::other)?;
        let mut params = named("kube-apiserver")?;
        params.subject_alt_names =
            CertificateParams::new(NAMES.map(String::from)).map_err(io::Error::other)?.subject_alt_names;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &issuer).map_err(io::Error::other)?;

        // The provider is named because the process may have no default provider, or a different default.
        let provider = provider();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(ca.der().clone()).map_err(io::Error::other)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .allow_unauthenticated()
            .build()
            .map_err(io::Error::other)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![certificate.der().clone()], key)
            .map_err(io::Error::other)?;
        Ok(Tls { config: Arc::new(config), ca_pem: ca.pem(), issuer, clients: Mutex::default() })
    }

    /// Issues a client certificate with the user as common name.
    ///
    /// Returns the certificate and its key as PEM.
    pub fn issue(&self, user: &str) -> io::Result<(String, String)> {
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let mut params = named(user)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.issuer).map_err(io::Error::other)?;
        self.clients.lock().insert(certificate.der().to_vec(), user.to_owned());
        Ok((certificate.pem(), key.serialize_pem()))
    }

    /// Returns the user of a client certificate.
    pub fn user_of(&self, certificate: &[u8]) -> Option<String> {
        self.clients.lock().get(certificate).cloned()
    }
}

/// Returns the cryptography of the enabled feature.
fn provider() -> Arc<CryptoProvider> {
    #[cfg(feature = "aws-lc-rs")]
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    #[cfg(not(feature = "aws-lc-rs"))]
    let provider = rustls::crypto::ring::default_provider();
    Arc::new(provider)
}

fn named(common_name: &str) -> io::Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::new()).map_err(io::Error::other)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    Ok(params)
}
