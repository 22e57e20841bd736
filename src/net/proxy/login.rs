//! The credentials for a proxy.

use std::fmt;

use crate::net::percent;

/// A decoded user name and password.
#[derive(Clone)]
pub(crate) struct ProxyLogin {
    pub(crate) name: Vec<u8>,
    pub(crate) password: Vec<u8>,
}

impl ProxyLogin {
    pub(crate) fn parse(user: &str) -> Result<Self, &'static str> {
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        let decoded = percent::decode(name).zip(percent::decode(password));
        let (name, password) = decoded.ok_or("has a user or password with invalid percent-encoding")?;
        Ok(ProxyLogin { name, password })
    }

    /// Returns `true` if the name is not empty, and neither text is longer than `longest` bytes.
    pub(crate) fn fits(&self, longest: usize) -> bool {
        !self.name.is_empty() && self.name.len().max(self.password.len()) <= longest
    }
}

impl fmt::Debug for ProxyLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}
