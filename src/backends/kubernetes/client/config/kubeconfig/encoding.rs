//! Decoding of files in the encodings of YAML 1.2.2, section 5.2.
//!
//! PowerShell writes UTF-16 if a command's output is redirected to a file.

use std::borrow::Cow;

/// Decodes UTF-8, or UTF-16 with a byte order mark.
///
/// The error is the violated rule, and quotes none of the content.
pub(super) fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, &'static str> {
    match bytes {
        [0xFF, 0xFE, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => utf16(rest, u16::from_be_bytes),
        [0xEF, 0xBB, 0xBF, rest @ ..] => utf8(rest),
        _ => utf8(bytes),
    }
}

fn utf8(bytes: &[u8]) -> Result<Cow<'_, str>, &'static str> {
    std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| "is not UTF-8 text")
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<Cow<'static, str>, &'static str> {
    let (pairs, []) = bytes.as_chunks() else {
        return Err("is not UTF-16 text despite its byte order mark");
    };
    let text: Result<String, _> = char::decode_utf16(pairs.iter().map(|pair| unit(*pair))).collect();
    text.map(Cow::Owned).map_err(|_| "is not UTF-16 text despite its byte order mark")
}
