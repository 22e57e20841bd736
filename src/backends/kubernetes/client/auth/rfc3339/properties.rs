//! Properties of every time, checked by fuzzing against the in-memory API server's parser.

use std::time::UNIX_EPOCH;

use super::*;
use crate::fuzzing::target::Target;
use crate::store::record::{MicroTime, unix_micros};
use crate::testing::object::microtime::{Layout, normalize};

pub(crate) const TARGET: Target = Target { name: "times", base: 64 * 1024, read, check };

fn read(input: &[u8]) {
    let _ = parse(&String::from_utf8_lossy(input));
    let _ = MicroTime::from_unix_micros(micros(input));
}

fn check(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    check_text(&text);
    check_micros(micros(input));
}

fn micros(input: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let known = input.len().min(8);
    bytes[..known].copy_from_slice(&input[..known]);
    u64::from_be_bytes(bytes)
}

fn check_text(text: &str) {
    assert_eq!(MicroTime::from_text(text).as_str(), text, "the text in the store is kept");
    // RFC 3339 allows lowercase letters, and the API server writes uppercase letters.
    let capital = text.to_ascii_uppercase();
    let other = normalize(&capital, Layout::Seconds);
    let Some(time) = parse(text) else {
        // Unlike this parser, the API server accepts times before 1970 and offsets of a whole day.
        if let Ok(utc) = other {
            assert!(&text[..4] < "1970" || text[..text.len() - 3].ends_with("24"), "{text:?} is {utc}");
        }
        return;
    };
    if &text[17..19] == "60" {
        return;
    }
    let utc = other.unwrap_or_else(|e| panic!("{text:?}: {e}"));
    // With an offset, the time can fall outside the years that can be formatted.
    if !("1970".."9999").contains(&utc.split('-').next().unwrap_or_default()) || utc.starts_with("10000") {
        return;
    }
    assert_eq!(humantime::format_rfc3339_seconds(time).to_string(), utc, "{text:?}");
    assert_eq!(parse(&humantime::format_rfc3339_nanos(time).to_string()), Some(time), "{text:?}");
}

fn check_micros(micros: u64) {
    let time = MicroTime::from_unix_micros(micros);
    let text = time.as_str();
    assert_eq!(normalize(text, Layout::Micro).as_deref(), Ok(text), "the API server accepts the text unchanged");
    let parsed = parse(text).unwrap_or_else(|| panic!("{text}"));
    assert_eq!(MicroTime::from(parsed), time);
    if unix_micros(parsed) == micros {
        assert_eq!(parsed, UNIX_EPOCH + Duration::from_micros(micros));
    } else {
        assert!(micros > MicroTime::LAST && unix_micros(parsed) == MicroTime::LAST, "{micros} is {text}");
    }
    // A renewal a microsecond later has another text, which sorts later.
    if micros < MicroTime::LAST {
        assert!(MicroTime::from_unix_micros(micros + 1).as_str() > text);
    }
}
