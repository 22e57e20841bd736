use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{Error, RootCertStore};

use super::*;
use crate::net::tls::der::{CertificateFields, INTEGER};
use crate::net::tls::provider::provider;

const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn certificate(change: impl FnOnce(&mut CertificateParams)) -> CertificateDer<'static> {
    let mut params = CertificateParams::new(vec![ADDRESS.to_string()]).unwrap();
    change(&mut params);
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
}

fn seconds(seconds: u64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(seconds))
}

/// Returns the kind of a verdict without the details of its error.
fn kind(verdict: Result<(), CertificateError>) -> &'static str {
    match verdict {
        Ok(()) => "good",
        Err(CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. }) => "too early",
        Err(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => "too late",
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn dates_are_read_as_webpki_reads_them() {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let mut roots = RootCertStore::empty();
    roots.add(params.self_signed(&key).unwrap().der().clone()).unwrap();
    let issuer = Issuer::new(params, key);
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build().unwrap();
    // webpki rejects years before 1970, so the comparison starts there.
    let years = [(1970, 1979), (1970, 1999), (1999, 2000), (2020, 2049), (2020, 2050), (2049, 2050), (2050, 9999)];
    let mut seen = std::collections::BTreeMap::new();
    for (from, to) in years {
        let mut params = CertificateParams::new(vec![ADDRESS.to_string()]).unwrap();
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(to, 12, 31);
        let leaf = params.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap();
        let ends = [params.not_before, params.not_after].map(|time| time.unix_timestamp());
        let around = ends.iter().flat_map(|end| [end - 86_400, end - 1, *end, end + 1, end + 86_400]);
        for now in around.filter_map(|now| u64::try_from(now).ok()) {
            let name = ServerName::from(ADDRESS);
            let theirs = verifier.verify_server_cert(leaf.der(), &[], &name, &[], seconds(now));
            let theirs = match theirs {
                Ok(_) => Ok(()),
                Err(Error::InvalidCertificate(e)) => Err(e),
                Err(other) => panic!("{other:?}"),
            };
            let (ours, theirs) = (kind(check(leaf.der(), seconds(now))), kind(theirs));
            assert_eq!(ours, theirs, "{from} to {to}, at {now}");
            *seen.entry(ours).or_insert(0) += 1;
        }
    }
    assert!(seen.len() == 3 && seen.values().all(|times| *times > 5), "{seen:?}");
}

#[test]
fn a_certificate_may_be_older_than_the_clocks_origin() {
    let leaf = certificate(|params| {
        params.not_before = date_time_ymd(1950, 1, 1);
        params.not_after = date_time_ymd(1969, 12, 31);
    });
    assert_eq!(kind(check(&leaf, seconds(0))), "too late");
    let leaf = certificate(|params| params.not_before = date_time_ymd(1950, 1, 1));
    assert_eq!(kind(check(&leaf, seconds(0))), "good");
}

#[test]
fn a_time_that_no_certificate_reaches_is_too_late() {
    let leaf = certificate(|params| params.not_after = date_time_ymd(9999, 12, 31));
    for now in [END + 1, u64::MAX] {
        assert_eq!(kind(check(&leaf, seconds(now))), "too late");
    }
}

#[test]
fn a_purpose_other_than_a_servers_is_refused() {
    use ExtendedKeyUsagePurpose::{Any, ClientAuth, OcspSigning, ServerAuth};
    let now = UnixTime::now();
    let check = |purposes: &[ExtendedKeyUsagePurpose]| {
        check(&certificate(|params| params.extended_key_usages = purposes.to_vec()), now)
    };
    for good in [&[][..], &[ServerAuth], &[Any], &[ClientAuth, ServerAuth], &[OcspSigning, ClientAuth, Any]] {
        assert_eq!(check(good), Ok(()), "{good:?}");
    }
    for bad in [&[ClientAuth][..], &[OcspSigning, ClientAuth]] {
        assert_eq!(check(bad), Err(CertificateError::InvalidPurpose), "{bad:?}");
    }
}

#[test]
fn invalid_certificate_is_refused() {
    let now = UnixTime::now();
    let whole = certificate(|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]);
    assert_eq!(check(&whole, now), Ok(()));
    for end in 0..whole.len() {
        assert_eq!(check(&whole[..end], now), Err(CertificateError::BadEncoding), "the first {end} bytes");
    }
    // With one changed byte, the readers may return any result, but must not panic.
    let mut bytes = whole.to_vec();
    for at in 0..whole.len() {
        for value in 0..=255 {
            bytes[at] = value;
            let _ = check(&bytes, now);
            let _ = CertificateFields::read(&bytes);
        }
        bytes[at] = whole[at];
    }
    let mut random = fastrand::Rng::with_seed(9);
    for _ in 0..20_000 {
        let length = random.usize(..64);
        // The bytes are common tags and lengths, so that some inputs are nested deeply.
        let bytes: Vec<_> = (0..length)
            .map(|_| *random.choice(b"\x30\xa0\xa3\x02\x17\x18\x04\x06\x84\x80\xff\x01\x00Z9").unwrap())
            .collect();
        assert_ne!(check(&bytes, now), Ok(()), "{bytes:x?}");
        assert!(CertificateFields::read(&bytes).is_none(), "{bytes:x?}");
    }
}

#[test]
fn times_are_digits() {
    let time = |tag, content: &[u8]| {
        let bytes = [&[tag, u8::try_from(content.len()).unwrap()], content].concat();
        Der(&bytes).take_time()
    };
    assert_eq!(time(UTC_TIME, b"491231235959Z").as_deref(), Some("20491231235959"));
    assert_eq!(time(UTC_TIME, b"500101000000Z").as_deref(), Some("19500101000000"));
    assert_eq!(time(GENERALIZED_TIME, b"20500101000000Z").as_deref(), Some("20500101000000"));
    for (tag, content) in [
        (UTC_TIME, &b"4912312359Z"[..]),
        (UTC_TIME, b"491231235959"),
        (UTC_TIME, b"49123123595\xc3Z"),
        (UTC_TIME, b"+91231235959Z"),
        (UTC_TIME, b"20491231235959Z"),
        (GENERALIZED_TIME, b"491231235959Z"),
        (GENERALIZED_TIME, b"20500101000000.5Z"),
        (GENERALIZED_TIME, b"20500101000000+0100"),
        (INTEGER, b"491231235959Z"),
        (UTC_TIME, b""),
    ] {
        assert_eq!(time(tag, content), None, "{tag} {content:?}");
    }
}
