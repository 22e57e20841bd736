//! Timestamps with any RFC 3339 offset, as in an `ExecCredential`.

use std::time::{Duration, SystemTime};

/// Parses an RFC 3339 date-time with `Z` or a numeric offset.
///
/// Returns `None` for any other text.
///
/// `humantime` supports only `Z`, so this function removes the offset and parses the rest with `humantime`.
pub(super) fn parse(text: &str) -> Option<SystemTime> {
    // RFC 3339 allows lowercase letters, which `humantime` rejects.
    let text = text.to_ascii_uppercase();
    let (clock, offset) = match text.strip_suffix('Z') {
        Some(clock) => (clock, "+00:00"),
        None => text.split_at_checked(text.len().checked_sub(6)?)?,
    };
    // `humantime` ignores some trailing characters, so the text after the seconds is checked here.
    let is_whole = match clock.get(19..)?.as_bytes() {
        [] => true,
        [b'.', digits @ ..] => !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    let &[sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] = offset.as_bytes() else { return None };
    if !is_whole || ![h1, h2, m1, m2].iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |tens: u8, ones: u8| u64::from(tens - b'0') * 10 + u64::from(ones - b'0');
    let (hours, minutes) = (number(h1, h2), number(m1, m2));
    if hours > 23 || minutes > 59 {
        return None;
    }
    let time = humantime::parse_rfc3339(&format!("{clock}Z")).ok()?;
    let shift = Duration::from_secs((hours * 60 + minutes) * 60);
    if sign == b'+' { time.checked_sub(shift) } else { time.checked_add(shift) }
}

#[cfg(feature = "_internals")]
pub(crate) mod properties;

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &str) -> Option<u64> {
        parse(text).map(|t| t.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs())
    }

    #[test]
    fn offsets_name_the_same_moment() {
        let noon = seconds("2026-11-21T12:00:00Z");
        assert!(noon.is_some());
        for same in [
            "2026-11-21T12:00:00z",
            "2026-11-21t12:00:00+00:00",
            "2026-11-21T12:00:00-00:00",
            "2026-11-21T14:00:00+02:00",
            "2026-11-21T06:30:00-05:30",
            "2026-11-22T11:59:00+23:59",
            "2026-11-21T12:00:00.000000+00:00",
        ] {
            assert_eq!(seconds(same), noon, "{same}");
        }
    }

    #[test]
    fn fractions_are_kept() {
        let time = parse("1970-01-01T01:00:00.5+01:00").unwrap();
        assert_eq!(time.duration_since(SystemTime::UNIX_EPOCH).unwrap(), Duration::from_millis(500));
    }

    #[test]
    fn anything_else_is_refused() {
        for bad in [
            "",
            "Z",
            "2026-11-21",
            "2026-11-21T12:00:00",
            "2026-11-21 12:00:00Z",
            "2026-11-21T12:00:00+24:00",
            "2026-11-21T12:00:00+02:60",
            "2026-11-21T12:00:00+0200",
            "2026-11-21T12:00:00*02:00",
            "2026-11-21T12:00:00+0a:00",
            "2026-13-21T12:00:00Z",
            "2026-11-21T25:00:00+01:00",
            "2026-11-21T12:00:00.+01:00",
            "2026-11-21T12:00:00Z+01:00",
            "2026-11-21T12:00:00ZZ",
            "2026-11-21T12:00:00Zabc+01:00",
            "2026-11-21T12:00:00+00:00Z",
            "2026-11-21T12:00+01:00:00",
            "é026-11-21T12:00:00Z",
            "2026-11-21T12:00:00é:00",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
