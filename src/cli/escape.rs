//! Text of others, such as identities and names: it must not begin a line, nor change what a terminal shows.

use std::fmt::{self, Write};

/// The text in one line, with what is not seen escaped as in Rust: `\n`, `\u{1b}`.
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|one| match is_seen(one) {
            true => f.write_char(one),
            false => write!(f, "{}", one.escape_debug()),
        })
    }
}

/// JSON with what is not seen in it escaped as in JSON, which reads the same.
pub fn json(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for one in text.chars() {
        match is_seen(one) {
            true => escaped.push(one),
            false => {
                let units =
                    one.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>();
                escaped.push_str(&units);
            }
        }
    }
    escaped
}

/// Not a control character, nor one that hides or reorders others. What only quotations escape is seen.
fn is_seen(one: char) -> bool {
    matches!(one, '\\' | '\'' | '"') || one.escape_debug().len() == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRANGE: &str = "a\n\u{1b}[2J\u{9b}\u{202e}\u{2028}\u{e0001}é \"c:\\d\" 東";

    #[test]
    fn nobody_else_begins_a_line_or_changes_a_terminal() {
        assert_eq!(
            Escaped(STRANGE).to_string(),
            r#"a\n\u{1b}[2J\u{9b}\u{202e}\u{2028}\u{e0001}é "c:\d" 東"#,
            "and what is seen is as it was"
        );
    }

    #[test]
    fn json_reads_the_same() {
        let text = serde_json::to_string(STRANGE).expect("a string");
        let escaped = json(&text);
        assert_eq!(serde_json::from_str::<String>(&escaped).expect("JSON"), STRANGE);
        assert!(escaped.contains(r"\u009b\u202e\u2028\udb40\udc01é") && escaped.chars().all(is_seen), "{escaped}");
    }
}
