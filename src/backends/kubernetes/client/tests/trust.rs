//! Trust in a server whose own certificate is configured, and in no other server.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedProtocolVersion};

use super::certificates::{config, config_with, kind, trusting};
use super::server::{ok, serve_with};
use super::{LONG, get};
use crate::backends::kubernetes::client::{Client, ClientError, ErrorKind};
use crate::net::tests::certificates::{Authority, Leaf, authority, resolver, server_config};
use crate::net::tls::{Verification, provider};

const UNTRUSTED: Option<ErrorKind> = Some(ErrorKind::TlsVerification);

/// Returns a certificate that is signed only by itself.
fn self_signed(change: impl FnOnce(&mut CertificateParams)) -> Leaf {
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let cert = params.self_signed(&key).unwrap();
    Leaf { pem: cert.pem(), der: cert.der().clone(), key }
}

/// Makes a certificate its own authority, as `openssl req -x509` does.
fn authority_of_its_own(params: &mut CertificateParams) {
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
}

/// Returns the error of a client that trusts `ca`, at a server with this certificate.
fn verdict(server: &Leaf, ca: &str) -> Option<ErrorKind> {
    let server = serve_with(Some(server_config(server, None)), vec![ok("{}")]);
    kind(config(&server, ca))
}

#[test]
fn a_server_whose_certificate_is_configured_is_trusted() {
    let plain = self_signed(|_| {});
    let its_own_authority = self_signed(authority_of_its_own);
    let signed = authority().leaf("127.0.0.1");
    for leaf in [&plain, &its_own_authority, &signed] {
        assert_eq!(verdict(leaf, &leaf.pem), None);
        assert_eq!(verdict(leaf, &(authority().pem + &leaf.pem)), None, "beside another");
    }
}

#[test]
fn lookalike_of_a_configured_certificate_is_not_trusted() {
    for change in [|_: &mut CertificateParams| {}, authority_of_its_own] {
        assert_eq!(verdict(&self_signed(change), &self_signed(change).pem), UNTRUSTED);
    }
}

#[test]
fn a_configured_certificate_that_is_no_authority_signs_no_other() {
    for is_authority in [false, true] {
        let mut params = CertificateParams::new(vec!["elsewhere".to_owned()]).unwrap();
        if is_authority {
            authority_of_its_own(&mut params);
        }
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let owner = Authority { issuer: Issuer::new(params, key), ..authority() };
        let signed = owner.leaf("127.0.0.1");
        let expected = if is_authority { None } else { UNTRUSTED };
        assert_eq!(verdict(&signed, &pem), expected);
        assert_eq!(verdict(&signed, &(authority().pem + &pem)), expected, "beside an authority");
    }
}

#[test]
fn configured_certificate_is_bound_to_name_time_and_purpose() {
    let other_name = |params: &mut CertificateParams| {
        params.subject_alt_names = CertificateParams::new(vec!["elsewhere".to_owned()]).unwrap().subject_alt_names;
    };
    let too_late = |params: &mut CertificateParams| params.not_after = date_time_ymd(2020, 1, 1);
    let too_early = |params: &mut CertificateParams| params.not_before = date_time_ymd(4000, 1, 1);
    let for_clients =
        |params: &mut CertificateParams| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let wrong: [&dyn Fn(&mut CertificateParams); 4] = [&other_name, &too_late, &too_early, &for_clients];
    for (i, wrong) in wrong.into_iter().enumerate() {
        for is_authority in [false, true] {
            let leaf = self_signed(|params| {
                wrong(params);
                if is_authority {
                    authority_of_its_own(params);
                }
            });
            assert_eq!(verdict(&leaf, &leaf.pem), UNTRUSTED, "mistake {i}, authority {is_authority}");
        }
    }
    let elsewhere = self_signed(other_name);
    let server = serve_with(Some(server_config(&elsewhere, None)), vec![ok("{}")]);
    assert_eq!(kind(config_with(&server, trusting(&elsewhere.pem).with_server_name("elsewhere"))), None);
}

/// Returns the error of a request to a server with this certificate and this key.
fn refusal(
    shown: &CertificateDer<'static>,
    key: &KeyPair,
    version: &'static SupportedProtocolVersion,
    ca: &str,
    insecure: bool,
) -> Option<ClientError> {
    let tls = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[version])
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(resolver(shown.clone(), key));
    let server = serve_with(Some(Arc::new(tls)), vec![ok("{}")]);
    let mut config = config(&server, ca);
    if insecure {
        config.tls.verification = Verification::Nothing;
    }
    get(&Client::new(config).unwrap(), LONG).err()
}

#[test]
fn unverified_server_of_version_1_must_own_its_key() {
    let (ours, thief) = (authority(), KeyPair::generate().unwrap());
    let leaf = ours.leaf_of_version_1("127.0.0.1");
    let error = |key, version| refusal(&leaf.der, key, version, &ours.pem, true);
    assert!(error(&leaf.key, &TLS13).is_none());
    for (key, version) in [(&thief, &TLS13), (&thief, &TLS12), (&leaf.key, &TLS12)] {
        let error = error(key, version).expect("a refusal");
        assert_eq!(Some(error.kind().clone()), UNTRUSTED);
        let is_explained = error.to_string().contains("version 1: ") && error.to_string().contains("enable TLS 1.3");
        assert_eq!(is_explained, *version == TLS12, "{error}");
    }
}

/// Such certificates have an extension that webpki does not read.
#[test]
fn unverified_server_may_have_unknown_extensions() {
    let odd = self_signed(|params| {
        let mut extension = CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99_999, 1], vec![5, 0]);
        extension.set_criticality(true);
        params.custom_extensions.push(extension);
    });
    assert!(refusal(&odd.der, &odd.key, &TLS13, &odd.pem, true).is_none());
    assert_eq!(verdict(&odd, &odd.pem), UNTRUSTED);
}

#[test]
fn verified_server_of_version_1_is_refused_with_the_remedy() {
    let ours = authority();
    let leaf = ours.leaf_of_version_1("127.0.0.1");
    for version in [&TLS12, &TLS13] {
        for ca in [&ours.pem, &leaf.pem] {
            let error = refusal(&leaf.der, &leaf.key, version, ca, false).expect("a refusal");
            assert_eq!(Some(error.kind().clone()), UNTRUSTED);
            assert!(
                error.to_string().contains("version 1: only version 3") && error.to_string().contains("subjectAltName"),
                "{error}"
            );
        }
    }
}

#[test]
fn server_without_the_key_of_its_certificate_is_not_trusted() {
    let (ours, thief) = (authority(), KeyPair::generate().unwrap());
    let pinned = self_signed(authority_of_its_own);
    for (shown, ca, insecure) in [
        (ours.leaf("127.0.0.1"), ours.pem.clone(), false),
        (ours.leaf("127.0.0.1"), ours.pem.clone(), true),
        (Leaf { pem: pinned.pem.clone(), ..pinned }, pinned.pem, false),
    ] {
        for version in [&TLS12, &TLS13] {
            for steals in [false, true] {
                let key = if steals { &thief } else { &shown.key };
                let expected = if steals { UNTRUSTED } else { None };
                let error = refusal(&shown.der, key, version, &ca, insecure);
                assert_eq!(error.map(|error| error.kind().clone()), expected, "{version:?}, insecure {insecure}");
            }
        }
    }
}
