//! Durations in Go's syntax, such as `15s`, `1m30s` and `1.5s`.

use std::time::Duration;

const UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    // The micro sign (U+00B5) and the Greek letter mu (U+03BC) look alike. Go accepts both.
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The longest duration of Go, 292 years.
const LONGEST: u64 = i64::MAX as u64;

const TOO_LONG: &str = "must be less than 292 years";

/// Parses a duration like Go's `time.ParseDuration`, or returns the broken rule.
pub(crate) fn parse(text: &str) -> Result<Duration, &'static str> {
    if text.starts_with('-') {
        return Err("must not be negative");
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err("must be a duration such as 15s, 1m30s or 1.5s");
    }
    let mut nanos = 0_u64;
    while !rest.is_empty() {
        let (part, after) = part(rest)?;
        nanos = nanos.checked_add(part).filter(|nanos| *nanos <= LONGEST).ok_or(TOO_LONG)?;
        rest = after;
    }
    Ok(Duration::from_nanos(nanos))
}

/// Parses one number with its unit. Returns nanoseconds and the rest of the text.
fn part(text: &str) -> Result<(u64, &str), &'static str> {
    let is_of_a_number = |c: char| c.is_ascii_digit() || c == '.';
    let (number, rest) = text.split_at(text.find(|c| !is_of_a_number(c)).unwrap_or(text.len()));
    let (unit, rest) = rest.split_at(rest.find(is_of_a_number).unwrap_or(rest.len()));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err("must be a duration such as 15s, 1m30s or 1.5s");
    }
    let Some((_, size)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err("each number needs a unit: ns, us, ms, s, m or h");
    };
    // Fractions of a nanosecond are cut off, as in Go. Eighteen digits suffice, because an hour is 3.6e12 ns.
    let fraction = &fraction[..fraction.len().min(18)];
    let digits: u128 = format!("{whole}{fraction}").parse().map_err(|_| TOO_LONG)?;
    let nanos = digits.checked_mul(*size).ok_or(TOO_LONG)? / 10_u128.pow(fraction.len() as u32);
    Ok((u64::try_from(nanos).map_err(|_| TOO_LONG)?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values come from Go's own `time.ParseDuration`.
    #[test]
    fn durations_are_read_as_go_does() {
        for (text, nanos) in [
            ("15s", 15_000_000_000),
            ("1m30s", 90_000_000_000),
            ("1.5s", 1_500_000_000),
            ("1h", 3_600_000_000_000),
            ("0", 0),
            ("+5s", 5_000_000_000),
            ("0s", 0),
            (".5s", 500_000_000),
            ("5.s", 5_000_000_000),
            ("1.9ns", 1),
            ("1500us", 1_500_000),
            ("3µs", 3_000),
            ("3μs5ns", 3_005),
            ("2h45m0.25s", 9_900_250_000_000),
            ("9223372036854775807ns", i64::MAX as u64),
            ("0.9223372036854775807h", 3_320_413_933_267),
        ] {
            let parsed = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(parsed, Duration::from_nanos(nanos), "{text}");
        }
    }

    #[test]
    fn negative_or_invalid_go_duration_is_refused() {
        for text in [
            "",
            "3",
            "s",
            ".s",
            ".",
            "1",
            "-5s",
            "-0s",
            "5 s",
            "1.2.3s",
            "5x",
            "1s3",
            "+",
            "9223372036854775808ns",
            "3000000h",
            "99999999999999999999s",
            "1sm",
            "１s",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
