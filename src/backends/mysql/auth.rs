//! Authentication by the method that the server requests.

use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::net::error::{Error, NetErrorKind};
use crate::net::text::clean;

/// The length of a server's challenge in bytes.
pub(super) const SCRAMBLE: usize = 20;

/// Maximum number of characters of a method's name in an error.
///
/// A server may send a name of any length.
const MAX_NAME: usize = 40;

/// A method by which a client proves that it knows the password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AuthMethod {
    Native,
    CachingSha2,
    /// Sends the password itself.
    Clear,
}

impl AuthMethod {
    pub(super) fn of(name: &[u8]) -> Option<Self> {
        [Self::Native, Self::CachingSha2, Self::Clear].into_iter().find(|method| method.name().as_bytes() == name)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Native => "mysql_native_password",
            Self::CachingSha2 => "caching_sha2_password",
            Self::Clear => "mysql_clear_password",
        }
    }

    /// Returns the proof that the client knows the password.
    ///
    /// `is_confidential` is `true` if no other machine can read the connection.
    pub(super) fn answer(self, password: &str, scramble: &[u8], is_confidential: bool) -> Result<Vec<u8>, Error> {
        match self {
            Self::Clear => self.full(password, is_confidential),
            _ if password.is_empty() => Ok(Vec::new()),
            Self::Native => Ok(native(password, scramble)),
            Self::CachingSha2 => Ok(caching_sha2(password, scramble)),
        }
    }

    /// Returns the password itself, or an error if another machine could read the password.
    ///
    /// A server that cannot verify a hash of the password requests the password itself.
    pub(super) fn full(self, password: &str, is_confidential: bool) -> Result<Vec<u8>, Error> {
        if is_confidential {
            return Ok([password.as_bytes(), &[0]].concat());
        }
        let rule = format!(
            "the server requests the password itself ({}), which requires TLS; use ssl-mode=VERIFY_IDENTITY or \
             REQUIRED, or a Unix socket",
            self.name()
        );
        Err(Error::new(NetErrorKind::Credentials, rule))
    }
}

/// Returns the error for an unsupported method, such as MariaDB's ed25519 and parsec.
pub(super) fn unknown(method: &[u8], user: &str) -> Error {
    let (method, user) = (clean(&String::from_utf8_lossy(method), MAX_NAME), clean(user, MAX_NAME));
    let rule = format!(
        "cannot log in as {user:?}: the account has the unsupported authentication method {method:?}; give the account \
         a supported method: ALTER USER '{user}'@'…' IDENTIFIED VIA mysql_native_password USING PASSWORD('…') on MariaDB, \
         or IDENTIFIED WITH caching_sha2_password BY '…' on MySQL"
    );
    Error::new(NetErrorKind::Credentials, rule)
}

/// Returns SHA1(password) XOR SHA1(scramble + SHA1(SHA1(password))).
fn native(password: &str, scramble: &[u8]) -> Vec<u8> {
    let once = Sha1::digest(password);
    let mask = Sha1::new().chain_update(scramble).chain_update(Sha1::digest(once)).finalize();
    xor(&once, &mask)
}

/// Returns SHA256(password) XOR SHA256(SHA256(SHA256(password)) + scramble).
fn caching_sha2(password: &str, scramble: &[u8]) -> Vec<u8> {
    let once = Sha256::digest(password);
    let mask = Sha256::new().chain_update(Sha256::digest(once)).chain_update(scramble).finalize();
    xor(&once, &mask)
}

fn xor(a: &[u8], b: &[u8]) -> Vec<u8> {
    a.iter().zip(b).map(|(a, b)| a ^ b).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The expected values were computed with Python's hashlib.
    #[test]
    fn scramble_matches_the_documentation() {
        let scramble = b"abcdefghijklmnopqrst";
        let sent = |method: AuthMethod| hex(&method.answer("sesame", scramble, false).unwrap());
        assert_eq!(sent(AuthMethod::Native), "613e55086a4cff7ee5e72155de2dc8f9a411472c");
        let expected = "1ec72bde06563fbbd3b7ca9429446f15fe7322aa5823c6f9ca21771ce4206c1e";
        assert_eq!(sent(AuthMethod::CachingSha2), expected);
    }

    #[test]
    fn an_empty_password_is_an_empty_answer() {
        for method in [AuthMethod::Native, AuthMethod::CachingSha2] {
            assert_eq!(method.answer("", &[7; SCRAMBLE], false).unwrap(), b"");
        }
    }

    #[test]
    fn clear_password_is_sent_only_on_a_private_channel() {
        assert_eq!(AuthMethod::Clear.answer("hunter2", &[], true).unwrap(), b"hunter2\0");
        assert_eq!(AuthMethod::CachingSha2.full("hunter2", true).unwrap(), b"hunter2\0");
        for refused in [AuthMethod::Clear.answer("hunter2", &[], false), AuthMethod::CachingSha2.full("hunter2", false)]
        {
            let error = refused.unwrap_err();
            assert_eq!(*error.kind(), NetErrorKind::Credentials);
            assert!(error.to_string().contains("TLS") && !error.to_string().contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn unknown_auth_plugin_is_named() {
        assert_eq!(AuthMethod::of(b"mysql_native_password"), Some(AuthMethod::Native));
        assert_eq!(AuthMethod::of(b"client_ed25519"), None);
        for method in ["client_ed25519", "parsec", "dialog"] {
            let error = unknown(method.as_bytes(), "jobs").to_string();
            assert!(error.contains(&format!("{method:?}")) && error.contains("ALTER USER 'jobs'@"), "{error}");
        }
        assert!(unknown(&[b'x'; 1000], &"y".repeat(1000)).to_string().len() < 500);
    }
}
