//! Cleaning of external text, such as messages of servers.

use crate::util::one_line::is_seen;

/// Returns the text as one line. An ellipsis replaces the text after `max` characters.
///
/// Each run of white space and invisible characters becomes one space.
pub(crate) fn clean(text: &str, max: usize) -> String {
    let words = text.split(|one: char| one.is_whitespace() || !is_seen(one)).filter(|word| !word.is_empty());
    let mut line: String = words.flat_map(|word| [" ", word]).flat_map(str::chars).skip(1).take(max + 1).collect();
    if let Some((end, _)) = line.char_indices().nth(max) {
        line.truncate(line[..end].trim_end().len());
        line.push('…');
    }
    line
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
