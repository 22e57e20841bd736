//! Percent-encoding of URLs. Source: RFC 3986, section 2.1.

/// Appends `text` to `out`, and encodes each byte for which `is_plain` returns `false`.
///
/// Bytes that are not ASCII are always encoded. An encoded byte is `%` and two hexadecimal digits.
pub(crate) fn encode(out: &mut String, text: &str, is_plain: impl Fn(u8) -> bool) {
    for byte in text.bytes() {
        if byte.is_ascii() && is_plain(byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
}

/// Returns `true` for letters, digits and `-._~`, which need no encoding anywhere in a URL.
pub(crate) fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// Decodes percent-encoded text. Returns `None` if the encoding is invalid.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digit = |b: Option<u8>| char::from(b?).to_digit(16);
        let value = digit(bytes.next())? * 16 + digit(bytes.next())?;
        out.push(u8::try_from(value).ok()?);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_text_decodes_to_itself() {
        for text in ["", "a-b.c_d~e", "a b&c=d%", "%41", "ä/\0\u{10ffff}"] {
            let mut encoded = String::new();
            encode(&mut encoded, text, is_unreserved);
            assert!(encoded.bytes().all(|byte| is_unreserved(byte) || byte == b'%'), "{encoded}");
            assert_eq!(decode(&encoded).as_deref(), Some(text.as_bytes()), "{encoded}");
        }
        let mut after = String::from("x=");
        encode(&mut after, "a b", is_unreserved);
        assert_eq!(after, "x=a%20b");
    }

    #[test]
    fn digits_are_of_either_case_and_there_are_two() {
        assert_eq!(decode("%2f%2F").as_deref(), Some(&b"//"[..]));
        for bad in ["%", "%4", "%zz", "%+1", "a%4ä"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
