//! Certificates of authorities, servers and clients, made as tests need them.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};

use crate::net::tls::provider;

/// Signs certificates.
pub(crate) struct Authority {
    pub(crate) issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
    pub(crate) der: CertificateDer<'static>,
}

/// A certificate of a server or a client, with its key.
pub(crate) struct Leaf {
    pub(crate) pem: String,
    pub(crate) der: CertificateDer<'static>,
    pub(crate) key: KeyPair,
}

pub(crate) fn authority() -> Authority {
    authority_with(KeyPair::generate().unwrap())
}

pub(crate) fn authority_with(key: KeyPair) -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let cert = params.self_signed(&key).unwrap();
    Authority { pem: cert.pem(), der: cert.der().clone(), issuer: Issuer::new(params, key) }
}

impl Authority {
    pub(crate) fn leaf(&self, name: &str) -> Leaf {
        self.leaf_with(name, KeyPair::generate().unwrap())
    }

    pub(crate) fn leaf_with(&self, name: &str, key: KeyPair) -> Leaf {
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        Leaf { pem: cert.pem(), der: cert.der().clone(), key }
    }

    pub(crate) fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        Arc::new(roots)
    }
}

/// Of a server that shows `leaf`, and wants certificates of `clients` if there are any.
pub(crate) fn server_config(leaf: &Leaf, clients: Option<&Authority>) -> Arc<ServerConfig> {
    server_config_with(leaf, clients, rustls::ALL_VERSIONS)
}

pub(crate) fn server_config_with(
    leaf: &Leaf,
    clients: Option<&Authority>,
    versions: &[&'static SupportedProtocolVersion],
) -> Arc<ServerConfig> {
    let provider = provider();
    let builder = ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(versions).unwrap();
    let builder = match clients {
        Some(authority) => builder.with_client_cert_verifier(
            WebPkiClientVerifier::builder_with_provider(authority.roots(), provider).build().unwrap(),
        ),
        None => builder.with_no_client_auth(),
    };
    let key = PrivateKeyDer::try_from(leaf.key.serialize_der()).unwrap();
    let mut config = builder.with_single_cert(vec![leaf.der.clone()], key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}
