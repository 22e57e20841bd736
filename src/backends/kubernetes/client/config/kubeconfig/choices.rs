//! Lists of the available names, for errors about a missing name.

/// Maximum number of names in an error, because a file may have ten thousand contexts.
const MAX_NAMES: usize = 10;

/// Maximum length of a shown name, in characters.
const MAX_NAME: usize = 200;

/// Returns a name or a path in quotes, printable and of limited length.
pub(super) fn quoted(name: &str) -> String {
    match name.char_indices().nth(MAX_NAME) {
        Some((end, _)) => format!("{:?}…", &name[..end]),
        None => format!("{name:?}"),
    }
}

/// Returns the first names, and the number of further names.
pub(super) fn list<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = names.len().saturating_sub(MAX_NAMES);
    let shown: Vec<_> = names.take(MAX_NAMES).map(quoted).collect();
    match more {
        0 => shown.join(", "),
        _ => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_and_printable() {
        assert_eq!(list(["a", "b\n"].into_iter()), r#""a", "b\n""#);
        let long = "c".repeat(100_000);
        let text = list(std::iter::repeat_n(long.as_str(), 100_000));
        assert!(text.len() < 5_000 && text.ends_with(" and 99990 more"), "{} bytes", text.len());
        assert_eq!(quoted(&"é".repeat(MAX_NAME)).chars().count(), MAX_NAME + 2);
    }
}
