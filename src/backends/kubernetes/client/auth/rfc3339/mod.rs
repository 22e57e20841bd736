//! Timestamps with any RFC 3339 offset, as in an `ExecCredential`.

use std::time::{Duration, SystemTime};

/// Parses an RFC 3339 date-time with `Z` or a numeric offset.
///
/// Returns `None` for any other text.
///
/// `humantime` supports only `Z`, so this function removes the offset and parses the rest with `humantime`.
pub(super) fn parse(text: &str) -> Option<SystemTime> {
    let bytes = text.as_bytes();
    // Every valid timestamp is ASCII. A slice of ASCII text is valid at any byte index.
    if !text.is_ascii() || bytes.len() < 20 || !matches!(bytes[10], b'T' | b't') {
        return None;
    }
    // RFC 3339 allows lowercase letters, which `humantime` rejects. `humantime` accepts a space instead of `T`, which
    // the API does not use.
    let local = |clock: &str| {
        // `humantime` ignores some trailing characters, so the text after the seconds is checked here.
        let fraction = &clock.as_bytes()[19..];
        let well_formed = match fraction {
            [] => true,
            [b'.', digits @ ..] => !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
            _ => false,
        };
        if !well_formed {
            return None;
        }
        let upper = format!("{}T{}Z", &clock[..10], &clock[11..]);
        humantime::parse_rfc3339(&upper).ok()
    };
    if matches!(bytes[bytes.len() - 1], b'Z' | b'z') {
        return local(&text[..text.len() - 1]);
    }
    if bytes.len() < 25 {
        return None;
    }
    let (clock, offset) = text.split_at(text.len() - 6);
    let (ahead, hours, minutes) = offset_parts(offset.as_bytes())?;
    let shift = Duration::from_secs((hours * 60 + minutes) * 60);
    let time = local(clock)?;
    if ahead { time.checked_sub(shift) } else { time.checked_add(shift) }
}

/// Splits `+hh:mm` into its sign (`true` for `+`), the hours and the minutes.
fn offset_parts(offset: &[u8]) -> Option<(bool, u64, u64)> {
    let &[sign, h1, h2, b':', m1, m2] = offset else { return None };
    let ahead = match sign {
        b'+' => true,
        b'-' => false,
        _ => return None,
    };
    let number = |a: u8, b: u8| {
        (a.is_ascii_digit() && b.is_ascii_digit()).then(|| u64::from(a - b'0') * 10 + u64::from(b - b'0'))
    };
    let (hours, minutes) = (number(h1, h2)?, number(m1, m2)?);
    (hours <= 23 && minutes <= 59).then_some((ahead, hours, minutes))
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
