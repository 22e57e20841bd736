//! Certificates of authorities, servers and clients, made as tests need them.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};

use super::server::{Script, Server, serve_with};
use super::{LONG, get};
use crate::kube::{Client, ClientConfig, ErrorKind, cryptography};

/// Signs certificates.
pub(in crate::kube) struct Authority {
    pub(in crate::kube) issuer: Issuer<'static, KeyPair>,
    pub(in crate::kube) pem: String,
    pub(in crate::kube) der: CertificateDer<'static>,
}

/// A certificate of a server or a client, with its key.
pub(in crate::kube) struct Leaf {
    pub(in crate::kube) pem: String,
    pub(in crate::kube) der: CertificateDer<'static>,
    pub(in crate::kube) key: KeyPair,
}

pub(in crate::kube) fn authority() -> Authority {
    authority_with(KeyPair::generate().unwrap())
}

pub(in crate::kube) fn authority_with(key: KeyPair) -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let cert = params.self_signed(&key).unwrap();
    Authority { pem: cert.pem(), der: cert.der().clone(), issuer: Issuer::new(params, key) }
}

impl Authority {
    pub(in crate::kube) fn leaf(&self, name: &str) -> Leaf {
        self.leaf_with(name, KeyPair::generate().unwrap())
    }

    pub(in crate::kube) fn leaf_with(&self, name: &str, key: KeyPair) -> Leaf {
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        Leaf { pem: cert.pem(), der: cert.der().clone(), key }
    }

    pub(in crate::kube) fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        Arc::new(roots)
    }
}

/// Of a server that shows `leaf`, and wants certificates of `clients` if there are any.
pub(super) fn server_config(leaf: &Leaf, clients: Option<&Authority>) -> Arc<ServerConfig> {
    server_config_with(leaf, clients, rustls::ALL_VERSIONS)
}

pub(super) fn server_config_with(
    leaf: &Leaf,
    clients: Option<&Authority>,
    versions: &[&'static SupportedProtocolVersion],
) -> Arc<ServerConfig> {
    let provider = cryptography();
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

pub(super) fn tls_server(leaf: &Leaf, scripts: Vec<Script>) -> Server {
    serve_with(Some(server_config(leaf, None)), scripts)
}

pub(super) fn config(server: &Server, ca: &str) -> ClientConfig {
    ClientConfig::new(&format!("https://127.0.0.1:{}", server.port)).unwrap().with_ca_pem(ca.as_bytes()).unwrap()
}

/// What a request ends with; nothing if it succeeds.
pub(super) fn kind(config: ClientConfig) -> Option<ErrorKind> {
    let result = get(&Client::new(config).unwrap(), LONG);
    if let Err(e) = &result {
        assert!(!e.maybe_sent(), "{e:?}");
    }
    result.err().map(|e| e.kind().clone())
}
