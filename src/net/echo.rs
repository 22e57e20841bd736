//! Masks a secret that a server or a proxy sends back.

/// Overwrites `secret` wherever it occurs literally in `text`.
pub(crate) fn redact(secret: &[u8], text: &mut [u8]) {
    let mut at = 0;
    // An empty secret would match at every position.
    while !secret.is_empty()
        && let Some(found) = text[at..].windows(secret.len()).position(|window| window == secret)
    {
        let begin = at + found;
        at = begin + secret.len();
        text[begin..at].fill(b'*');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_literal_secret_is_masked() {
        for (text, expected) in [
            ("", ""),
            ("a/b+", "a/b+"),
            ("<a/b+c>a/a/b+ca/b+c", "<*****>a/**********"),
            ("a/b+ A/b+c a%2Fb+c", "a/b+ A/b+c a%2Fb+c"),
        ] {
            let mut masked = text.as_bytes().to_vec();
            redact(b"a/b+c", &mut masked);
            assert_eq!(String::from_utf8(masked).unwrap(), expected);
            let mut same = text.as_bytes().to_vec();
            redact(b"", &mut same);
            assert_eq!(same, text.as_bytes());
        }
    }
}
