//! What all parsers are checked with.

/// A parser, and what must hold of it.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of its corpus and of its fuzz target.
    pub name: &'static str,
    /// Memory that it may take, in bytes, over and above what each byte of the input may take.
    pub base: usize,
    /// Reads the input and nothing else, so that time and memory can be measured.
    pub read: fn(&[u8]),
    /// Reads it and panics where a property does not hold.
    pub check: fn(&[u8]),
}

/// Put into secrets, to see whether it comes out; valid in base64 and in a header.
pub(crate) const MARKER: &str = "hunter2hunter2x8";

/// Whether the input itself holds the marker, which would then come out of fields that are no secrets.
pub(crate) fn holds_marker(input: &[u8]) -> bool {
    input.windows(MARKER.len()).any(|window| window == MARKER.as_bytes())
}

/// One line for a log: no control characters, and of bounded length.
pub(crate) fn assert_loggable(text: &str, longest: usize) {
    assert!(text.len() <= longest, "{} bytes: {text:.200}", text.len());
    assert!(!text.chars().any(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')), "{text:?}");
}
