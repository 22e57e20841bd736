//! What must hold of every parser, whatever it is given: for the targets in `fuzz/` and for `tests/corpora.rs`.
//!
//! The properties of a parser stand beside it, in a module `properties`: most of what they look at is private.

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

/// Several kubeconfig files, between lines of five equal signs, merged and resolved.
pub const KUBECONFIG: Target = crate::kube::properties::KUBECONFIG;
/// What a credential plugin prints.
pub const EXEC_CREDENTIAL: Target = crate::kube::properties::EXEC_CREDENTIAL;
/// An answer that is not 2xx: a line with the code and the `Retry-After` header, then the body.
pub const STATUS: Target = crate::kube::properties::STATUS;
/// A time: as RFC 3339 in the text, and as microseconds in the first eight bytes.
pub const TIMES: Target = crate::kube::properties::TIMES;
/// A lease as the API server answers it.
pub const LEASE: Target = crate::lock::lease::properties::LEASE;
/// The stream of a watch.
pub const WATCH: Target = crate::lock::lease::properties::WATCH;

/// All of them.
pub const TARGETS: [Target; 6] = [KUBECONFIG, EXEC_CREDENTIAL, STATUS, TIMES, LEASE, WATCH];

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
