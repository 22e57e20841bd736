//! The text forms of times in Kubernetes.
//!
//! The server never computes with times, so times remain text. The server accepts exactly the texts that the real
//! server accepts.

/// The time layouts of the Kubernetes API, with Go's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// `metav1.MicroTime`: exactly six fraction digits.
    Micro,
    /// `metav1.Time`: whole seconds. A fraction is accepted and dropped.
    Seconds,
}

/// The elements from the year to the seconds, each as wide as its value. Both layouts have these elements.
const ELEMENTS: [&str; 11] = ["2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05"];

impl Layout {
    fn text(self) -> &'static str {
        match self {
            Layout::Micro => "2006-01-02T15:04:05.000000Z07:00",
            Layout::Seconds => "2006-01-02T15:04:05Z07:00",
        }
    }
}

/// Converts a time into the form in which the real server stores it, in UTC.
///
/// # Errors
///
/// Returns the message of the real server.
pub(crate) fn normalize(text: &str, layout: Layout) -> Result<String, String> {
    let cannot = |rest: &str, element: &str| {
        format!("parsing time {text:?} as {:?}: cannot parse {rest:?} as {element:?}", layout.text())
    };
    let out_of_range = |what: &str| format!("parsing time {text:?}: {what} out of range");

    let mut rest = text;
    let mut numbers = [0_i64; 6];
    let mut count = 0;
    for element in ELEMENTS {
        let field = rest.get(..element.len()).ok_or_else(|| cannot(rest, element))?;
        if element.len() == 1 {
            if field != element {
                return Err(cannot(rest, element));
            }
        } else {
            numbers[count] = digits(field).ok_or_else(|| cannot(rest, element))?;
            count += 1;
        }
        rest = &rest[element.len()..];
    }
    let fraction = match layout {
        Layout::Micro => {
            let field = rest
                .get(..7)
                .filter(|field| field.strip_prefix('.').and_then(digits).is_some())
                .ok_or_else(|| cannot(rest, ".000000"))?;
            rest = &rest[7..];
            field.to_owned()
        }
        Layout::Seconds => {
            let fraction = rest.strip_prefix('.').unwrap_or_default();
            let length = fraction.bytes().take_while(u8::is_ascii_digit).count();
            if length > 0 {
                rest = &fraction[length..];
            }
            String::new()
        }
    };

    let [year, month, day, hour, minute, second] = numbers;
    for (what, value, low, high) in [
        ("month", month, 1, 12),
        ("day", day, 1, days_in_month(year, month)),
        ("hour", hour, 0, 23),
        ("minute", minute, 0, 59),
        ("second", second, 0, 59),
    ] {
        if !(low..=high).contains(&value) {
            return Err(out_of_range(what));
        }
    }
    let offset = offset_minutes(rest).ok_or_else(|| cannot(rest, "Z07:00"))?;
    let minutes = hour * 60 + minute - offset;
    let (year, month, day) = later(year, month, day, minutes.div_euclid(24 * 60));
    let (hour, minute) = (minutes.div_euclid(60).rem_euclid(24), minutes.rem_euclid(60));
    Ok(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z"))
}

fn digits(text: &str) -> Option<i64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Parses an offset from UTC: `Z`, `+hh:mm` or `-hh:mm`.
fn offset_minutes(text: &str) -> Option<i64> {
    if text == "Z" {
        return Some(0);
    }
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = text[1..].split_once(':')?;
    if hours.len() != 2 || minutes.len() != 2 {
        return None;
    }
    let (hours, minutes) = (digits(hours)?, digits(minutes)?);
    (hours <= 24 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the date that is `days` later, or earlier if `days` is negative.
///
/// The absolute value of `days` must be less than 28.
fn later(year: i64, month: i64, day: i64, days: i64) -> (i64, i64, i64) {
    let neighbor = |by: i64| ((year * 12 + month - 1 + by).div_euclid(12), (month - 1 + by).rem_euclid(12) + 1);
    let (day, length) = (day + days, days_in_month(year, month));
    if day < 1 {
        let (year, month) = neighbor(-1);
        (year, month, day + days_in_month(year, month))
    } else if day > length {
        let (year, month) = neighbor(1);
        (year, month, day - length)
    } else {
        (year, month, day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micro(text: &str) -> Result<String, String> {
        normalize(text, Layout::Micro)
    }

    #[test]
    fn six_digits_and_z_pass_unchanged() {
        for text in [
            "2026-11-21T10:00:00.123456Z",
            "1970-01-01T00:00:00.000001Z",
            "0001-01-01T00:00:00.000000Z",
            "2024-02-29T23:59:59.999999Z",
            "9999-12-31T23:59:59.999999Z",
        ] {
            assert_eq!(micro(text).as_deref(), Ok(text));
        }
    }

    #[test]
    fn other_fractions_are_refused_with_the_servers_words() {
        assert_eq!(
            micro("2026-11-21T10:00:00Z").unwrap_err(),
            "parsing time \"2026-11-21T10:00:00Z\" as \"2006-01-02T15:04:05.000000Z07:00\": \
             cannot parse \"Z\" as \".000000\""
        );
        assert!(micro("2026-11-21T10:00:00.1Z").is_err());
        assert!(micro("2026-11-21T10:00:00.1234567Z").is_err());
        assert!(micro("2026-11-21T10:00:00.123456").is_err());
        assert!(micro("2026-11-21T10:00:00.12345éZ").is_err());
        assert!(micro("").is_err());
    }

    #[test]
    fn impossible_dates_are_out_of_range() {
        for text in [
            "2026-13-01T00:00:00.000000Z",
            "2025-02-29T00:00:00.000000Z",
            "2026-01-01T24:00:00.000000Z",
            "2026-01-01T00:00:60.000000Z",
        ] {
            assert!(micro(text).unwrap_err().contains("out of range"), "{text}");
        }
    }

    #[test]
    fn an_offset_is_carried_over_to_utc() {
        assert_eq!(micro("2026-01-01T00:30:00.000007+01:00").as_deref(), Ok("2025-12-31T23:30:00.000007Z"));
        assert_eq!(micro("1969-12-31T23:30:00.000007-01:00").as_deref(), Ok("1970-01-01T00:30:00.000007Z"));
    }

    #[test]
    fn whole_seconds_drop_a_fraction() {
        assert_eq!(normalize("2026-11-21T10:00:00.5Z", Layout::Seconds).as_deref(), Ok("2026-11-21T10:00:00Z"));
    }
}
