//! Finds a secret in what a server or a proxy says, who may not write it as it was sent.

/// Overwrites `secret` wherever it occurs in `text`.
pub(crate) fn redact(secret: &[u8], text: &mut [u8]) {
    let mut at = 0;
    // Nothing is everywhere.
    while at < text.len() && !secret.is_empty() {
        match length_of(secret, &text[at..]) {
            Some(length) => {
                text[at..at + length].fill(b'*');
                at += length;
            }
            None => at += 1,
        }
    }
}

/// How long the secret is that `text` begins with, if it does.
fn length_of(secret: &[u8], text: &[u8]) -> Option<usize> {
    secret.iter().try_fold(0, |at, &byte| Some(at + width_of(byte, &text[at..])?))
}

/// How long the character is that `text` begins with, if it is this one: as it is, or as `\/` or `\u002f` in JSON, `%2F` in a
/// URL, `&#47;` or `&#x2f;` in HTML.
fn width_of(byte: u8, text: &[u8]) -> Option<usize> {
    match text {
        [first, ..] if *first == byte => Some(1),
        [b'\\', escaped, ..] if *escaped == byte => Some(2),
        [b'\\', b'u', b'0', b'0', high, low, ..] => (number(&[*high, *low], 16)? == u32::from(byte)).then_some(6),
        [b'%', high, low, ..] => (number(&[*high, *low], 16)? == u32::from(byte)).then_some(3),
        [b'&', b'#', rest @ ..] => {
            let length = rest.iter().take(LONGEST_NUMBER).position(|&byte| byte == b';')?;
            let value = match &rest[..length] {
                [b'x' | b'X', digits @ ..] => number(digits, 16)?,
                digits => number(digits, 10)?,
            };
            (value == u32::from(byte)).then_some(length + 3)
        }
        _ => None,
    }
}

/// Of a character in HTML, with its leading zeros and its semicolon.
const LONGEST_NUMBER: usize = 8;

fn number(digits: &[u8], radix: u32) -> Option<u32> {
    let is_digit = |byte: &u8| char::from(*byte).is_digit(radix);
    if !digits.iter().all(is_digit) {
        return None;
    }
    u32::from_str_radix(str::from_utf8(digits).ok()?, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_password_is_nowhere() {
        let mut text = *b"user and password";
        redact(b"", &mut text);
        assert_eq!(&text, b"user and password");
    }

    fn struck(text: &str) -> String {
        let mut text = text.as_bytes().to_vec();
        redact(b"a/b+c==", &mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn however_it_is_written_it_is_struck_out() {
        for echo in [
            "a/b+c==",
            "a\\/b+c==",
            "a/b\\u002bc\\u003d\\u003D",
            "a%2Fb%2bc%3D%3d",
            "a&#47;b&#x2B;c&#61;&#0061;",
            "\\u0061/b+c==",
        ] {
            let stars = "*".repeat(echo.len());
            assert_eq!(struck(echo), stars);
            assert_eq!(struck(&format!("<{echo}>a/{echo}{echo}")), format!("<{stars}>a/{stars}{stars}"));
        }
    }

    #[test]
    fn what_only_looks_like_it_stays() {
        for text in [
            "",
            "a",
            "a/b+c=",
            "a/b+c=%3",
            "a/b+c=%+d",
            "a\\",
            "a\\u002",
            "a&#",
            "a&#47",
            "a&#;",
            "a&#x;b+c==",
            "A/b+c==",
        ] {
            assert_eq!(struck(text), text);
        }
    }
}
