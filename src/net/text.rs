//! Text of others, for people.

use crate::one_line::is_invisible;

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
