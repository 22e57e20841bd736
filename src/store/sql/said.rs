//! What a server says of an error, for people.

use std::fmt::Display;

use crate::net::text::clean;
use crate::store::password::Password;

/// In characters: what a server says is a line.
pub(crate) const MAX_SAID: usize = 600;

/// Without the password, which is looked for before anything is cut off: a server may say anything.
pub(crate) fn said(error: &impl Display, password: &Password) -> String {
    let mut text = error.to_string().into_bytes();
    password.redact(&mut text, 1);
    clean(&String::from_utf8_lossy(&text), MAX_SAID)
}
