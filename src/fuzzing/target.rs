//! The common parts of the parser properties.

/// A parser and its properties.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of the corpus and of the fuzz target.
    pub name: &'static str,
    /// The fixed part of the memory limit in bytes.
    ///
    /// The other part is proportional to the length of the input.
    pub base: usize,
    /// Parses the input without checks, so that a test can measure time and memory.
    pub read: fn(&[u8]),
    /// Parses the input and panics if a property does not hold.
    pub check: fn(&[u8]),
}

/// A secret that must not appear in any output. The text is valid in base64 and in a header.
pub(crate) const MARKER: &str = "hunter2hunter2x8";

/// Returns `true` if the input contains the marker. Fields that are not secret may then show the marker.
pub(crate) fn holds_marker(input: &[u8]) -> bool {
    input.windows(MARKER.len()).any(|window| window == MARKER.as_bytes())
}

/// Asserts that `text` is one line without control characters, and has at most `longest` bytes.
pub(crate) fn assert_loggable(text: &str, longest: usize) {
    assert!(text.len() <= longest, "{} bytes: {text:.200}", text.len());
    assert!(!text.chars().any(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')), "{text:?}");
}
