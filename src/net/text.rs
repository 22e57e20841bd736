//! Text of others, for people.

/// One line of at most `max` characters, and an ellipsis where there were more, with runs of white space and control characters made one space.
pub(crate) fn clean(text: &str, max: usize) -> String {
    let mut out = String::new();
    let mut count = 0;
    let mut gap = false;
    for c in text.chars() {
        if c.is_control() || c.is_whitespace() || is_invisible(c) {
            gap = count > 0;
            continue;
        }
        let width = if gap { 2 } else { 1 };
        if count + width > max {
            out.push('…');
            break;
        }
        if gap {
            out.push(' ');
        }
        gap = false;
        out.push(c);
        count += width;
    }
    out
}

/// Characters that reorder or hide text in a terminal or a log viewer.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cut_counts_the_spaces() {
        assert_eq!(clean(" ab\tcd ", 5), "ab cd");
        assert_eq!(clean("ab cd", 4), "ab c…");
        assert_eq!(clean("ab cd", 3), "ab…");
        assert_eq!(clean("ab\n\n", 2), "ab");
    }
}
