//! Text of others in one line, for logs and people.

use std::fmt::{self, Write};

/// A text in which nobody else can begin a line, or change what a terminal shows: identities are what others wrote.
pub(crate) struct OneLine<'a>(pub(crate) fmt::Arguments<'a>);

struct Escaping<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Escaping(f).write_fmt(self.0)
    }
}

impl fmt::Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive(is_unseen) {
            let control = part.chars().next_back().filter(|last| is_unseen(*last));
            self.0.write_str(&part[..part.len() - control.map_or(0, char::len_utf8)])?;
            if let Some(control) = control {
                write!(self.0, "{}", control.escape_default())?;
            }
        }
        Ok(())
    }
}

/// What ends a line, changes a terminal, or is not seen.
fn is_unseen(one: char) -> bool {
    one.is_control() || is_invisible(one)
}

/// Characters that reorder or hide text in a terminal or a log viewer.
pub(crate) fn is_invisible(one: char) -> bool {
    matches!(one, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_else_begins_a_line() {
        let line = |identity: &str| OneLine(format_args!("{identity} leads")).to_string();
        assert_eq!(line("a"), "a leads");
        assert_eq!(line("x\u{202e}y\u{2028}"), r"x\u{202e}y\u{2028} leads");
        assert_eq!(line("x\n[INFO] \u{1b}[2Jé\u{85}"), "x\\n[INFO] \\u{1b}[2Jé\\u{85} leads");
    }
}
