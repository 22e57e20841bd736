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

use super::der::{CertificateFields, Der, OBJECT_IDENTIFIER, SEQUENCE};

const OCTET_STRING: u8 = 0x04;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
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

/// Returns an error if a server must not use this certificate `now`.
pub(crate) fn check(certificate: &[u8], now: UnixTime) -> Result<(), CertificateError> {
    let (not_before, not_after, allows_servers) = terms(certificate).ok_or(CertificateError::BadEncoding)?;
    let now = digits(now).ok_or(CertificateError::Expired)?;
    if now < not_before {
        return Err(CertificateError::NotValidYet);
    }
    if now > not_after {
        return Err(CertificateError::Expired);
    }
    if !allows_servers {
        return Err(CertificateError::InvalidPurpose);
    }
    Ok(())
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
/// Returns `None` if the bytes are not a certificate with extensions.
fn is_authority(certificate: &[u8]) -> Option<bool> {
    let CertificateFields { version: 2.., extensions, .. } = CertificateFields::read(certificate)? else { return None };
    let Some(mut value) = extension(extensions, BASIC_CONSTRAINTS)? else { return Some(false) };
    let first = value.enter(SEQUENCE)?.next();
    Some(first.is_some_and(|(tag, content)| tag == BOOLEAN && content != [0]))
}

/// Returns the first and the last second of a certificate's validity, and `true` if its purposes include the use by a
/// server.
fn terms(certificate: &[u8]) -> Option<(Digits, Digits, bool)> {
    let CertificateFields { mut validity, extensions, .. } = CertificateFields::read(certificate)?;
    Some((validity.take_time()?, validity.take_time()?, allows_servers(extensions)?))
}

/// Returns `true` if the extensions allow the use by a server. Extensions without purposes allow every purpose.
///
/// Returns `None` if the extensions are unreadable.
fn allows_servers(extensions: Der<'_>) -> Option<bool> {
    let Some(mut value) = extension(extensions, EXTENDED_KEY_USAGE)? else { return Some(true) };
    let mut purposes = value.enter(SEQUENCE)?;
    let mut found = false;
    while !purposes.0.is_empty() {
        let purpose = purposes.take(OBJECT_IDENTIFIER)?;
        found |= purpose == SERVER_AUTH || purpose == ANY_PURPOSE;
    }
    Some(found)
}

/// Returns the value of the extension `wanted`.
///
/// Returns `None` if the fields are unreadable, and `Some(None)` if the extension is absent.
fn extension<'a>(mut fields: Der<'a>, wanted: &[u8]) -> Option<Option<Der<'a>>> {
    while !fields.0.is_empty() {
        let (EXTENSIONS, extensions) = fields.next()? else { continue };
        let mut extensions = Der(extensions).enter(SEQUENCE)?;
        while !extensions.0.is_empty() {
            let mut extension = extensions.enter(SEQUENCE)?;
            if extension.take(OBJECT_IDENTIFIER)? != wanted {
                continue;
            }
            // A `critical` flag may precede the value.
            loop {
                if let (OCTET_STRING, value) = extension.next()? {
                    return Some(Some(Der(value)));
                }
            }
        }
    }
    Some(None)
}

impl Der<'_> {
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
