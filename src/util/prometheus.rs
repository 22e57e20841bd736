//! The text format of Prometheus (exposition format 0.0.4).

use crate::util::one_line::OneLine;

/// Escapes `text` for the quoted value of a label.
///
/// Invisible characters are escaped like in a log line, because the format allows them unescaped.
pub(crate) fn escaped(text: &str) -> String {
    OneLine(text).to_string().replace('\\', r"\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_value_is_escaped() {
        assert_eq!(escaped("a\"b\\c\nd\u{1b}[2J"), r#"a\"b\\c\\nd\\u{1b}[2J"#);
    }
}
