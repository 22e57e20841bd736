//! Test certificates of authorities, servers and clients.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned, SupportedProtocolVersion};

use super::Scratch;
use super::version_1::{pem, version_1};
use crate::net::tls::config::TlsConfig;
use crate::net::tls::{Clock, provider};
use crate::util::clock::Moment;

/// A certificate authority of a test.
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

    /// Issues a certificate of X.509 version 1.
    pub(crate) fn leaf_of_version_1(&self, name: &str) -> Leaf {
        let leaf = self.leaf(name);
        let der = version_1(&leaf.der, self.issuer.key());
        Leaf { pem: pem(&der), der: der.into(), ..leaf }
    }

    pub(crate) fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        Arc::new(roots)
    }
}

/// Returns the configuration of a server with the certificate `leaf`.
///
/// If `clients` is set, the server requires a client certificate of that authority.
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
    let mut config = builder.with_cert_resolver(resolver(leaf.der.clone(), &leaf.key));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}

/// Returns a resolver of a server's certificate, which need not match the key or have version 3.
pub(crate) fn resolver(certificate: CertificateDer<'static>, key: &KeyPair) -> Arc<SingleCertAndKey> {
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let key = provider().key_provider.load_private_key(key).unwrap();
    Arc::new(SingleCertAndKey::from(CertifiedKey::new(vec![certificate], key)))
}

/// The server's side of a connection.
pub(crate) trait Duplex: Read + Write + Send {}

impl<T: Read + Write + Send> Duplex for T {}

/// Accepts TLS on the server's side of a connection.
pub(crate) fn accept(config: &Arc<ServerConfig>, stream: Box<dyn Duplex>) -> Box<dyn Duplex> {
    Box::new(StreamOwned::new(ServerConnection::new(Arc::clone(config)).unwrap(), stream))
}

/// The certificate files of a client, and a clock that a test advances.
pub(crate) struct Files {
    pub(crate) scratch: Scratch,
    seconds: Arc<AtomicU64>,
}

impl Files {
    pub(crate) fn new() -> Self {
        Files { scratch: Scratch::new(), seconds: Arc::new(AtomicU64::new(1)) }
    }

    pub(crate) fn authority(&self, authority: &Authority) {
        self.scratch.file("ca.crt", &authority.pem);
    }

    pub(crate) fn identity(&self, leaf: &Leaf) {
        self.scratch.file("tls.crt", &leaf.pem);
        self.scratch.file("tls.key", leaf.key.serialize_pem());
    }

    pub(crate) fn clock(&self) -> Clock {
        let seconds = Arc::clone(&self.seconds);
        let now = move || Moment::from_nanos(0) + Duration::from_secs(seconds.load(Ordering::SeqCst));
        Clock(Some(Arc::new(now)))
    }

    pub(crate) fn wait(&self, seconds: u64) {
        self.seconds.fetch_add(seconds, Ordering::SeqCst);
    }

    /// Sends three requests with a client whose certificate files are read again.
    ///
    /// The files are unchanged for the second request, and contain a new client certificate for the third request.
    ///
    /// `connect` gets the TLS settings of the client and the configuration of the server. It returns a function that
    /// sends one request.
    pub(crate) fn rotate(connect: impl FnOnce(TlsConfig, Arc<ServerConfig>) -> Box<dyn Fn()>) {
        let (files, ours) = (Self::new(), authority());
        files.authority(&ours);
        files.identity(&ours.leaf("jane"));
        let path = |name: &str| files.scratch.path().join(name);
        let tls = TlsConfig::new().with_ca_file(path("ca.crt")).unwrap();
        let mut tls = tls.with_client_certificate_files(path("tls.crt"), path("tls.key")).unwrap();
        tls.settings.clock = files.clock();
        let get = connect(tls, server_config(&ours.leaf("127.0.0.1"), None));
        get();
        files.wait(60);
        get();
        files.identity(&ours.leaf("jane"));
        files.wait(60);
        get();
    }
}
