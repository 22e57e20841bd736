//! Escaping of external text, such as identities, for one line of a log or terminal.

use std::fmt::{self, Display, Write};

/// Displays a text in one line. Invisible characters are escaped as in Rust.
pub struct OneLine<T>(pub T);

impl<T: Display> Display for OneLine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.to_string().chars().try_for_each(|one| match is_seen(one) {
            true => f.write_char(one),
            false => write!(f, "{}", one.escape_debug()),
        })
    }
}

/// Returns `true` if `one` is visible and neither hides nor reorders other characters.
///
/// Quotes and backslashes count as visible, because only quoted text must escape them.
pub fn is_seen(one: char) -> bool {
    matches!(one, '\\' | '\'' | '"') || one.escape_debug().len() == 1
}
