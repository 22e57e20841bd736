//! The curve P-521, which only one of the two cryptography libraries supports.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::certificates::{config, trusting};
use super::server::{ok, serve_with};
use super::{LONG, get};
use crate::backends::kubernetes::client::{Client, ClientConfig, ErrorKind};
use crate::net::tls::provider;

/// An authority on P-521, only for these tests.
///
/// Without the feature `aws-lc-rs`, no code in the tree can generate certificates on P-521.
const CA: &str = include_str!("p521_ca.pem");
/// A certificate of the P-521 authority, for a key on a curve that both libraries support.
const SERVER: (&str, &str) = (include_str!("p521_server.pem"), include_str!("p521_server_key.pem"));
const CLIENT: (&str, &str) = (include_str!("p521_client.pem"), include_str!("p521_client_key.pem"));

#[test]
fn p_521_authority_is_supported_or_the_feature_is_named() {
    let chain = vec![CertificateDer::from_pem_slice(SERVER.0.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(SERVER.1.as_bytes()).unwrap();
    let tls = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let server = serve_with(Some(Arc::new(tls)), vec![ok("{}")]);
    let result = get(&Client::new(config(&server, CA)).unwrap(), LONG);
    assert_eq!(result.is_ok(), cfg!(feature = "aws-lc-rs"), "{:?}", result.err());
    if let Err(error) = result {
        assert_eq!(error.kind(), &ErrorKind::TlsVerification);
        assert!(error.to_string().contains("`aws-lc-rs`"), "{error}");
    }
}

#[test]
fn p_521_client_key_is_supported_or_the_feature_is_named() {
    let tls = trusting(CA).with_client_certificate_pem(CLIENT.0, CLIENT.1).unwrap();
    let client = Client::new(ClientConfig::new("https://127.0.0.1:1").unwrap().with_tls(tls));
    assert_eq!(client.is_ok(), cfg!(feature = "aws-lc-rs"), "{:?}", client.err());
    if let Err(error) = client {
        assert!(error.to_string().contains("`aws-lc-rs`"), "{error}");
    }
}

#[cfg(feature = "aws-lc-rs")]
#[test]
fn authority_server_and_client_may_all_be_on_p_521() {
    use super::certificates::{config_with, kind};
    use crate::net::tests::certificates::{authority_with, server_config};
    use rcgen::{KeyPair, PKCS_ECDSA_P521_SHA512};

    let key = || KeyPair::generate_for(&PKCS_ECDSA_P521_SHA512).unwrap();
    let ours = authority_with(key());
    let (leaf, jane) = (ours.leaf_with("127.0.0.1", key()), ours.leaf_with("jane", key()));
    let server = serve_with(Some(server_config(&leaf, Some(&ours))), vec![ok("{}")]);
    let tls = trusting(&ours.pem).with_client_certificate_pem(jane.pem, jane.key.serialize_pem()).unwrap();
    assert_eq!(kind(config_with(&server, tls)), None);
    // The library `ring` cannot even parse the key.
    #[cfg(feature = "ring")]
    let key = PrivateKeyDer::try_from(jane.key.serialize_der()).unwrap();
    #[cfg(feature = "ring")]
    assert!(rustls::crypto::ring::sign::any_supported_type(&key).is_err());
}
