//! The channel binding `tls-server-end-point`: a hash of the server's certificate.
//!
//! Source: RFC 5929, section 4.

use sha2::{Digest, Sha256, Sha384, Sha512};

use super::der::{CertificateFields, Der, OBJECT_IDENTIFIER};

/// The start of the identifiers of RSA signatures: 1.2.840.113549.1.1.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
/// The start of the identifiers of ECDSA signatures: 1.2.840.10045.4.
const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04];

/// Returns the hash of a certificate by the hash function of its RSA (PKCS #1) or ECDSA signature.
///
/// Returns `None` for other signatures. A signature by Ed25519, for example, has no hash function of its own.
pub(crate) fn server_end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let identifier = Der(CertificateFields::read(certificate)?.signature_algorithm).take(OBJECT_IDENTIFIER)?;
    match (identifier.strip_prefix(RSA), identifier.strip_prefix(ECDSA)) {
        // Binding replaces the weak functions MD5 and SHA-1 with SHA-256.
        (Some([4 | 5 | 11]), _) | (_, Some([1] | [3, 2])) => Some(Sha256::digest(certificate).to_vec()),
        (Some([12]), _) | (_, Some([3, 3])) => Some(Sha384::digest(certificate).to_vec()),
        (Some([13]), _) | (_, Some([3, 4])) => Some(Sha512::digest(certificate).to_vec()),
        _ => None,
    }
}
