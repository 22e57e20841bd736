//! Properties of every time, checked by fuzzing.

use std::time::UNIX_EPOCH;

use super::*;
use crate::fuzzing::target::Target;
use crate::store::record::{MicroTime, unix_micros};

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
    // `humantime` formats the years from 1970 to 9999.
    let last_day = UNIX_EPOCH + Duration::from_micros(MicroTime::LAST) - Duration::from_secs(86_400);
    let Some(time) = parse(text).filter(|time| (UNIX_EPOCH..last_day).contains(time)) else { return };
    let utc = |time| humantime::format_rfc3339_nanos(time).to_string();
    assert_eq!(parse(&utc(time)), Some(time), "{text:?}");
    let ahead = utc(time + Duration::from_secs(11 * 1800)).replace('Z', "+05:30");
    assert_eq!(parse(&ahead), Some(time), "{text:?}");
}

fn check_micros(micros: u64) {
    let time = MicroTime::from_unix_micros(micros);
    let text = time.as_str();
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
