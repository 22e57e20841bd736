//! Checks of a server certificate that is itself a trusted root: its dates and its purpose.
//!
//! webpki checks dates and purpose only while it builds a chain to a root. A certificate that is itself a root has no
//! chain. This module therefore reads the dates and the purpose from such a certificate, after webpki has parsed it.
//!
//! Source: RFC 5280, sections 4.1.2.5 and 4.2.1.12, and X.690 (DER). The checks are those of Go's `x509.Verify` for a
//! certificate in the pool of roots.

use std::time::{Duration, UNIX_EPOCH};

use rustls::CertificateError;
use rustls::pki_types::UnixTime;

const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;

const BOOLEAN: u8 = 0x01;
/// The object identifier 2.5.29.19.
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
/// The object identifier 2.5.29.37.
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
/// The object identifier 2.5.29.37.0.
const ANY_PURPOSE: &[u8] = &[0x55, 0x1d, 0x25, 0x00];
/// The object identifier 1.3.6.1.5.5.7.3.1.
const SERVER_AUTH: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];

/// The end of the year 9999 in seconds since 1970. A certificate cannot have a later end.
const END: u64 = 253_402_300_799;

/// A moment as `YYYYMMDDHHMMSS` in UTC. Comparing two texts compares their moments.
type Digits = String;

/// The dates and the purpose of a certificate.
struct Terms {
    not_before: Digits,
    not_after: Digits,
    /// `true` if the purposes include the use by a server.
    ///
    /// `None` if the certificate lists no purposes and may be used for every purpose.
    for_servers: Option<bool>,
}

/// Returns an error if a server must not use this certificate `now`.
pub(crate) fn check(certificate: &[u8], now: UnixTime) -> Result<(), CertificateError> {
    let terms = Terms::of(certificate).ok_or(CertificateError::BadEncoding)?;
    let now = digits(now).ok_or(CertificateError::Expired)?;
    if now < terms.not_before {
        return Err(CertificateError::NotValidYet);
    }
    if now > terms.not_after {
        return Err(CertificateError::Expired);
    }
    match terms.for_servers {
        Some(false) => Err(CertificateError::InvalidPurpose),
        _ => Ok(()),
    }
}

/// Returns `true` if the certificate may sign other certificates.
///
/// A server certificate must not sign. Source: RFC 5280, section 4.2.1.9. Go's `CheckSignatureFrom` has the same
/// check for every issuer with a certificate of version 3. webpki does not check a root.
pub(crate) fn may_sign(certificate: &[u8]) -> bool {
    // An unreadable certificate is harmless, because webpki cannot read the certificate either.
    is_authority(certificate).unwrap_or(true)
}

/// Returns `true` if the certificate is marked as an authority.
///
/// Returns `None` if the bytes are not a certificate of version 3.
fn is_authority(certificate: &[u8]) -> Option<bool> {
    let mut signed = Der(Der(certificate).take(SEQUENCE)?);
    let mut fields = Der(signed.take(SEQUENCE)?);
    fields.take(VERSION)?;
    while !fields.0.is_empty() {
        if let (EXTENSIONS, extensions) = fields.next()? {
            let Some(value) = extension(extensions, BASIC_CONSTRAINTS)? else { return Some(false) };
            let first = Der(Der(value).take(SEQUENCE)?).next();
            return Some(first.is_some_and(|(tag, content)| tag == BOOLEAN && content != [0]));
        }
    }
    Some(false)
}

impl Terms {
    fn of(certificate: &[u8]) -> Option<Self> {
        let mut signed = Der(Der(certificate).take(SEQUENCE)?);
        let mut fields = Der(signed.take(SEQUENCE)?);
        fields.take(VERSION)?;
        fields.take(INTEGER)?;
        let _algorithm = fields.take(SEQUENCE)?;
        let _issuer = fields.take(SEQUENCE)?;
        let mut validity = Der(fields.take(SEQUENCE)?);
        let (not_before, not_after) = (validity.take_time()?, validity.take_time()?);
        let mut for_servers = None;
        while !fields.0.is_empty() {
            if let (EXTENSIONS, extensions) = fields.next()? {
                for_servers = for_servers_of(extensions)?;
            }
        }
        Some(Terms { not_before, not_after, for_servers })
    }
}

/// Returns `true` if the purposes among the extensions include the use by a server.
///
/// Returns `None` if the bytes are not a list of extensions, and `Some(None)` for a list without purposes.
fn for_servers_of(extensions: &[u8]) -> Option<Option<bool>> {
    let Some(value) = extension(extensions, EXTENDED_KEY_USAGE)? else { return Some(None) };
    let mut purposes = Der(Der(value).take(SEQUENCE)?);
    let mut found = false;
    while !purposes.0.is_empty() {
        let purpose = purposes.take(OBJECT_IDENTIFIER)?;
        found |= purpose == SERVER_AUTH || purpose == ANY_PURPOSE;
    }
    Some(Some(found))
}

/// Returns the value of the extension `wanted`.
///
/// Returns `None` if the bytes are not a list of extensions, and `Some(None)` for a list without the extension.
fn extension<'a>(extensions: &'a [u8], wanted: &[u8]) -> Option<Option<&'a [u8]>> {
    let mut extensions = Der(Der(extensions).take(SEQUENCE)?);
    while !extensions.0.is_empty() {
        let mut extension = Der(extensions.take(SEQUENCE)?);
        if extension.take(OBJECT_IDENTIFIER)? != wanted {
            continue;
        }
        // A `critical` flag may precede the value.
        loop {
            if let (OCTET_STRING, value) = extension.next()? {
                return Some(Some(value));
            }
        }
    }
    Some(None)
}

/// The unread rest of DER-encoded bytes.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// Returns the tag and the content of the next value.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
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
    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }

    fn take_time(&mut self) -> Option<Digits> {
        let (tag, content) = self.next()?;
        let digits = content.strip_suffix(b"Z")?;
        if !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let digits = str::from_utf8(digits).ok()?;
        match (tag, digits.len()) {
            // In `UTC_TIME`, the two digits of the year stand for a year from 1950 to 2049.
            (UTC_TIME, 12) if digits >= "5" => Some(format!("19{digits}")),
            (UTC_TIME, 12) => Some(format!("20{digits}")),
            (GENERALIZED_TIME, 14) => Some(digits.to_owned()),
            _ => None,
        }
    }
}

fn digits(time: UnixTime) -> Option<Digits> {
    if time.as_secs() > END {
        return None;
    }
    let time = UNIX_EPOCH.checked_add(Duration::from_secs(time.as_secs()))?;
    let text = humantime::format_rfc3339_seconds(time).to_string();
    Some(text.chars().filter(char::is_ascii_digit).collect())
}

#[cfg(test)]
mod tests;
