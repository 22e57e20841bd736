//! A reader of DER, and the fields of a certificate of any version.
//!
//! webpki reads certificates of version 3 alone.
//!
//! Source: RFC 5280, section 4.1, and X.690 (DER).

pub(super) const INTEGER: u8 = 0x02;
pub(super) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// The fields of a certificate of any version.
pub(super) struct CertificateFields<'a> {
    /// The version: 1, 2 or 3.
    pub(super) version: u8,
    /// The first and the last second of the validity.
    pub(super) validity: Der<'a>,
    /// The `SubjectPublicKeyInfo`, with its tag and length.
    pub(super) public_key: &'a [u8],
    /// The fields after the public key. Only a certificate of version 3 has extensions.
    pub(super) extensions: Der<'a>,
    /// The content of the `signatureAlgorithm`.
    #[cfg_attr(
        not(feature = "postgres"),
        expect(dead_code, reason = "only PostgreSQL binds its logins to certificates")
    )]
    pub(super) signature_algorithm: &'a [u8],
}

impl<'a> CertificateFields<'a> {
    /// Returns `None` if the bytes are not a certificate.
    pub(super) fn read(certificate: &'a [u8]) -> Option<Self> {
        let mut parts = Der(certificate).enter(SEQUENCE)?;
        let mut fields = parts.enter(SEQUENCE)?;
        let signature_algorithm = parts.take(SEQUENCE)?;
        let version = match fields.0.first() {
            Some(&VERSION) => match fields.enter(VERSION)?.take(INTEGER)? {
                [version @ 0..=2] => version + 1,
                _ => return None,
            },
            _ => 1,
        };
        let _serial = fields.take(INTEGER)?;
        let _algorithm = fields.take(SEQUENCE)?;
        let _issuer = fields.take(SEQUENCE)?;
        let validity = fields.enter(SEQUENCE)?;
        let _subject = fields.take(SEQUENCE)?;
        let rest = fields.0;
        fields.take(SEQUENCE)?;
        let public_key = &rest[..rest.len() - fields.0.len()];
        Some(Self { version, validity, public_key, extensions: fields, signature_algorithm })
    }
}

/// The unread rest of DER-encoded bytes.
pub(super) struct Der<'a>(pub(super) &'a [u8]);

impl<'a> Der<'a> {
    /// Returns the tag and the content of the next value.
    pub(super) fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let [tag, length, rest @ ..] = self.0 else { return None };
        let (length, rest) = match length {
            0..=0x7f => (usize::from(*length), rest),
            // The low seven bits are the number of length bytes. Four length bytes are enough for the size limit of
            // files.
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
                (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, content))
    }

    /// Returns the content of the next value if the value has this tag.
    pub(super) fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }

    /// Returns the values inside the next value if the next value has this tag.
    pub(super) fn enter(&mut self, tag: u8) -> Option<Self> {
        self.take(tag).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use rcgen::PublicKeyData;
    use rustls::pki_types::CertificateDer;
    use rustls::server::ParsedCertificate;

    use super::*;
    use crate::net::tests::certificates::authority;

    #[test]
    fn fields_are_those_of_webpki_in_every_version() {
        let authority = authority();
        let (new, old) = (authority.leaf("a"), authority.leaf_of_version_1("a"));
        let key = |leaf: &CertificateDer<'_>| CertificateFields::read(leaf).unwrap().public_key.to_vec();
        for certificate in [&new.der, &authority.der] {
            let expected = ParsedCertificate::try_from(certificate).unwrap().subject_public_key_info();
            assert_eq!(key(certificate), expected.as_ref());
            assert_eq!(CertificateFields::read(certificate).unwrap().version, 3);
        }
        assert!(ParsedCertificate::try_from(&old.der).is_err());
        assert_eq!(CertificateFields::read(&old.der).unwrap().version, 1);
        let public = old.key.subject_public_key_info();
        assert_eq!(key(&old.der), public);
        for end in 0..old.der.len() {
            assert!(CertificateFields::read(&old.der[..end]).is_none(), "the first {end} bytes");
        }
    }

    #[test]
    fn other_versions_are_not_read() {
        let mut der = authority().der.to_vec();
        let at = der.windows(5).position(|bytes| bytes == [VERSION, 3, INTEGER, 1, 2]).unwrap() + 4;
        for (encoded, version) in [(0, Some(1)), (1, Some(2)), (2, Some(3)), (3, None), (255, None)] {
            der[at] = encoded;
            assert_eq!(CertificateFields::read(&der).map(|fields| fields.version), version);
        }
    }
}
