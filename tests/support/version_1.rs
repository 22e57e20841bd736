//! Certificates of X.509 version 1, which rcgen does not create.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{KeyPair, SigningKey};

const BIT_STRING: u8 = 0x03;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;

/// Returns the certificate in version 1, signed again with the key of its issuer.
pub fn version_1(certificate: &[u8], issuer: &KeyPair) -> Vec<u8> {
    let outer = parts(parts(certificate)[0].1);
    let mut fields = parts(outer[0].1);
    fields.retain(|(whole, _)| whole[0] != VERSION && whole[0] != EXTENSIONS);
    let fields: Vec<_> = fields.into_iter().map(|(whole, _)| whole).collect();
    let signed = value(SEQUENCE, &fields.concat());
    let signature = issuer.sign(&signed).expect("a signature");
    let signature = value(BIT_STRING, &[&[0], &signature[..]].concat());
    value(SEQUENCE, &[&signed[..], outer[1].0, &signature].concat())
}

/// Returns the PEM form of a certificate.
pub fn pem(certificate: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(certificate);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

/// Returns the DER values in `bytes`, each as a whole and as its content.
fn parts(mut bytes: &[u8]) -> Vec<(&[u8], &[u8])> {
    let mut parts = Vec::new();
    while !bytes.is_empty() {
        let long = usize::from(bytes[1]).saturating_sub(0x80);
        let length = match long {
            0 => usize::from(bytes[1]),
            _ => bytes[2..2 + long].iter().fold(0, |length, byte| length << 8 | usize::from(*byte)),
        };
        let (part, rest) = bytes.split_at(2 + long + length);
        parts.push((part, &part[2 + long..]));
        bytes = rest;
    }
    parts
}

fn value(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).expect("a short value").to_be_bytes();
    let head = match length {
        [0, short @ 0..0x80] => vec![tag, short],
        [0, byte] => vec![tag, 0x81, byte],
        [high, low] => vec![tag, 0x82, high, low],
    };
    [head, content.to_vec()].concat()
}
