//! `Warning` headers, which an API server sends for deprecated versions and dubious fields.

/// Maximum number of texts from one header.
const MAX_TEXTS: usize = 16;

/// Returns the texts of the warnings with the code 299 in one header.
///
/// A Kubernetes server uses no other code, and client-go accepts no other code. Parsing stops at the first part that
/// does not have the form `code agent "text" ["date"], …`. Source: RFC 7234, section 5.5.
pub(super) fn texts(header: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = header;
    let mut texts = Vec::new();
    while let Some((code, text, after)) = next(rest) {
        if code == b"299" && !text.is_empty() {
            texts.push(text);
        }
        if texts.len() == MAX_TEXTS {
            break;
        }
        rest = after;
    }
    texts
}

/// Returns the code and the text of the first warning, and the rest after the next comma.
fn next(header: &[u8]) -> Option<(&[u8], Vec<u8>, &[u8])> {
    let (code, rest) = word(header.trim_ascii_start())?;
    if code.len() != 3 || !code.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let (_agent, rest) = word(rest)?;
    let (text, rest) = quoted(rest)?;
    let rest = match rest.strip_prefix(b" ").and_then(quoted) {
        Some((_date, rest)) => rest,
        None => rest,
    };
    match rest.trim_ascii_start() {
        [] => Some((code, text, &[])),
        [b',', rest @ ..] => Some((code, text, rest)),
        _ => None,
    }
}

/// Returns the word before the first space, and the text after the space.
///
/// Returns `None` if the word is empty or there is no space.
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|&byte| byte == b' ').filter(|&end| end > 0)?;
    Some((&text[..end], &text[end + 1..]))
}

/// Returns the content of a quoted string, and the rest after it.
fn quoted(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = text.strip_prefix(b"\"")?;
    let mut content = Vec::new();
    loop {
        match rest {
            [b'"', after @ ..] => return Some((content, after)),
            [b'\\', byte, after @ ..] | [byte, after @ ..] => {
                content.push(*byte);
                rest = after;
            }
            [] => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(header: &str) -> Vec<String> {
        texts(header.as_bytes()).into_iter().map(|text| String::from_utf8(text).unwrap()).collect()
    }

    #[test]
    fn texts_are_taken_out_of_their_quotes() {
        assert_eq!(said("299 - \"v1beta1 is deprecated\""), ["v1beta1 is deprecated"]);
        assert_eq!(
            said("299 kube:6443 \"say \\\"x, y\\\" \\\\\" \"Sat, 21 Nov 2026 00:00:00 GMT\""),
            ["say \"x, y\" \\"]
        );
        assert_eq!(said("299 - \"one\", 299 - \"two\",299 - \"three\""), ["one", "two", "three"]);
        assert_eq!(said("110 - \"stale\", 299 - \"two\""), ["two"], "other codes are other people's");
    }

    #[test]
    fn invalid_warning_is_skipped_and_an_endless_one_is_cut() {
        for header in [
            "",
            " ",
            "299",
            "299 ",
            "299 -",
            "299 - ",
            "299 - text",
            "299 - \"",
            "299 - \"open",
            "299 - \"open\\\"",
            "299 - \"open\\",
            "299  \"no agent\"",
            "29 - \"short\"",
            "2 9 - \"gap\"",
            "2999 - \"long\"",
            "x99 - \"no digit\"",
            "299 - \"\"",
            "299 - \"x\" y",
            "299 - \"x\" \"open",
        ] {
            assert!(said(header).is_empty(), "{header}");
        }
        assert_eq!(said("299 - \"one\", nonsense, 299 - \"two\""), ["one"]);
        assert_eq!(said(&vec!["299 - \"x\""; 1000].join(",")).len(), MAX_TEXTS);
        assert_eq!(texts(b"299 - \"\xff\\\xff\""), [b"\xff\xff"]);
    }
}
