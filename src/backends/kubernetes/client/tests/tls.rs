use rcgen::KeyPair;

use super::certificates::{config, config_with, kind, tls_server, trusting};
use super::http::check_closed;
use super::server::{ok, raw, script, serve, serve_with};
use super::{LONG, get};
use crate::backends::kubernetes::client::{Client, ClientConfig, ErrorKind};
use crate::net::tests::certificates::{authority, server_config};
use crate::net::tls::Verification;

/// An RSA key only for this test, because no code in the tree can generate RSA keys.
const RSA_PKCS1: &str = include_str!("rsa_pkcs1.pem");

#[test]
fn an_address_in_the_certificate_and_a_bundle_of_authorities() {
    let (ours, other) = (authority(), authority());
    let server = tls_server(&ours.leaf("127.0.0.1"), vec![ok("{}"), ok("{}")]);
    assert_eq!(kind(config(&server, &ours.pem)), None);
    assert_eq!(kind(config(&server, &(other.pem + "\n# ours\n" + &ours.pem))), None);
}

/// The server sends surplus bytes in the last TLS record of a response.
///
/// If the client kept the connection, the next response would start with these bytes.
#[test]
fn leftover_of_a_session_is_no_response_to_the_next_request() {
    const BUFFER: usize = 32 * 1024;
    let ours = authority();
    let pushy = script(|c| {
        c.request();
        // Head and body fill the client's buffer exactly. The head ends in the third TLS record.
        let body = format!("{:<2000}", "{\"n\":1}");
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nX: ", body.len());
        let filling = "x".repeat(BUFFER - head.len() - 4 - body.len());
        let answer = format!("{head}{filling}\r\n\r\n{body}");
        assert_eq!(answer.len(), BUFFER);
        c.send(&answer[..BUFFER / 2]);
        c.send(&answer[BUFFER / 2..BUFFER - 2048]);
        // The surplus answer is in the same TLS record as the end of the body.
        let other = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{\"n\":2}";
        c.send(&(answer[BUFFER - 2048..].to_owned() + other));
        c.hang();
    });
    let server = tls_server(&ours.leaf("127.0.0.1"), vec![pushy, ok("{\"n\":3}")]);
    let client = Client::new(config(&server, &ours.pem)).unwrap();
    for number in [1, 3] {
        let answer: serde_json::Value = get(&client, LONG).unwrap().json().unwrap();
        assert_eq!(answer["n"], number);
    }
}

#[test]
fn silent_close_of_a_used_tls_connection_differs_from_a_break() {
    let ours = authority();
    let leaf = ours.leaf("127.0.0.1");
    for goodbye in [false, true] {
        check_closed(goodbye, |script| {
            let server = tls_server(&leaf, vec![script]);
            (Client::new(config(&server, &ours.pem)).unwrap(), server)
        });
    }
}

#[test]
fn a_wrong_authority_or_name_is_a_verification_failure() {
    let (ours, other) = (authority(), authority());
    let server = tls_server(&ours.leaf("127.0.0.1"), vec![ok("{}")]);
    assert_eq!(kind(config(&server, &other.pem)), Some(ErrorKind::TlsVerification));
    let server = tls_server(&ours.leaf("elsewhere"), vec![ok("{}")]);
    assert_eq!(kind(config(&server, &ours.pem)), Some(ErrorKind::TlsVerification));
    let server = tls_server(&ours.leaf("127.0.0.1"), vec![ok("{}")]);
    let system_roots = ClientConfig::new(&format!("https://127.0.0.1:{}", server.port)).unwrap();
    // On a machine without root certificates, the creation of the client fails, which is also correct.
    if let Ok(client) = Client::new(system_roots) {
        let error = get(&client, LONG).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::TlsVerification);
    }
}

#[test]
fn another_name_can_be_expected_and_anything_accepted() {
    let (ours, other) = (authority(), authority());
    let server = tls_server(&ours.leaf("kube.example"), vec![ok("{}"), ok("{}"), ok("{}")]);
    let named = |name: &str| config_with(&server, trusting(&ours.pem).with_server_name(name));
    assert_eq!(kind(named("kube.example")), None);
    assert_eq!(kind(named("kube2.example")), Some(ErrorKind::TlsVerification));
    let mut insecure = config(&server, &other.pem);
    insecure.tls.verification = Verification::Nothing;
    assert_eq!(kind(insecure), None);
    let odd = Client::new(named("a b")).unwrap_err();
    assert_eq!(odd.kind(), &ErrorKind::Config);
}

/// Returns the SEC1 form of an elliptic curve key, which is inside the PKCS#8 form.
fn sec1(pkcs8: &[u8]) -> String {
    // SEQUENCE { INTEGER 0, SEQUENCE { ... }, OCTET STRING { key } }: for P-256, all lengths except the outer one are
    // below 128.
    let at = |i: usize| usize::from(pkcs8[i]);
    let body = if pkcs8[1] & 0x80 != 0 { 3 } else { 2 };
    let algorithm = body + 3;
    let key = algorithm + 2 + at(algorithm + 1);
    assert_eq!(pkcs8[key], 4);
    let inner = &pkcs8[key + 2..key + 2 + at(key + 1)];
    use base64::Engine;
    let text = base64::prelude::BASE64_STANDARD.encode(inner);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(|l| std::str::from_utf8(l).unwrap()).collect();
    format!("-----BEGIN EC PRIVATE KEY-----\n{}\n-----END EC PRIVATE KEY-----\n", lines.join("\n"))
}

#[test]
fn client_certificates_with_keys_of_all_three_forms() {
    let (ours, users) = (authority(), authority());
    let plain = users.leaf("jane");
    let rsa_key = KeyPair::from_pem(RSA_PKCS1)
        .or_else(|_| KeyPair::from_pkcs8_pem_and_sign_algo(include_str!("rsa_pkcs8.pem"), &rcgen::PKCS_RSA_SHA256))
        .unwrap();
    let rsa = users.leaf_with("jane", rsa_key);
    let curve_parameters = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n";
    for (chain, key) in [
        (&plain.pem, plain.key.serialize_pem()),
        (&plain.pem, curve_parameters.to_owned() + &sec1(plain.key.serialized_der())),
        (&rsa.pem, RSA_PKCS1.to_owned()),
    ] {
        let tls = server_config(&ours.leaf("127.0.0.1"), Some(&users));
        let server = serve_with(Some(tls), vec![ok("{}")]);
        let tls = trusting(&ours.pem).with_client_certificate_pem(chain.as_str(), key).unwrap();
        let config = config_with(&server, tls);
        assert!(!format!("{config:?}").contains("PRIVATE"));
        get(&Client::new(config).unwrap(), LONG).unwrap();
    }
}

#[test]
fn missing_or_wrong_client_certificate_is_a_tls_error() {
    let (ours, users, strangers) = (authority(), authority(), authority());
    let tls = server_config(&ours.leaf("127.0.0.1"), Some(&users));
    let server = serve_with(Some(tls), vec![ok("{}"), ok("{}"), ok("{}"), ok("{}")]);
    let without = trusting(&ours.pem);
    let leaf = strangers.leaf("jane");
    let wrong = without.clone().with_client_certificate_pem(leaf.pem, leaf.key.serialize_pem()).unwrap();
    for tls in [without, wrong] {
        let error = get(&Client::new(config_with(&server, tls)).unwrap(), LONG).unwrap_err();
        // The TCP reset after the TLS alert may arrive before the client reads the alert.
        assert!(matches!(error.kind(), ErrorKind::Tls | ErrorKind::Io), "{error:?}");
    }
}

#[test]
fn mismatched_certificate_and_key_are_named_without_content() {
    let users = authority();
    let (one, two) = (users.leaf("a"), users.leaf("b"));
    let base = || trusting(&users.pem);
    let old = users.leaf_of_version_1("a");
    for (chain, key, is_match) in [(&one, &two, false), (&old, &two, false), (&old, &old, true), (&one, &one, true)] {
        let key = key.key.serialize_pem();
        let tls = base().with_client_certificate_pem(chain.pem.as_str(), key).unwrap();
        let config = ClientConfig::new("https://127.0.0.1:1").unwrap().with_tls(tls);
        let error = Client::new(config).err().map(|error| (error.kind().clone(), error.to_string()));
        assert_eq!(error.is_none(), is_match, "{error:?}");
        if let Some((kind, text)) = error {
            assert!(kind == ErrorKind::Config && text.contains("do not work together"), "{text}");
        }
    }
    for key in [
        "",
        "hunter2",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\naHVudGVyMg==\n-----END ENCRYPTED PRIVATE KEY-----\n",
        "-----BEGIN PRIVATE KEY-----\nhunter2",
    ] {
        let error = base().with_client_certificate_pem(one.pem.as_str(), key).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        if key.contains("ENCRYPTED") {
            assert!(error.to_string().contains("encrypted"), "{error}");
        }
    }
    assert!(base().with_ca_pem("").is_err() && base().with_ca_pem("-----BEGIN CERTIFICATE-----\n!").is_err());
}

#[test]
fn plain_http_on_a_tls_port_is_explained() {
    let server = serve(vec![script(|c| c.send("HTTP/1.1 400 Bad Request\r\n\r\n")), raw("")]);
    let ours = authority();
    assert_eq!(kind(config(&server, &ours.pem)), Some(ErrorKind::Tls));
}

#[test]
fn a_body_without_length_that_is_cut_off_under_tls_is_an_error() {
    let ours = authority();
    let cut = || raw("HTTP/1.1 200 OK\r\n\r\n{\"half\":");
    let server = tls_server(&ours.leaf("127.0.0.1"), vec![cut(), cut()]);
    let error = get(&Client::new(config(&server, &ours.pem)).unwrap(), LONG).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Io);
}
