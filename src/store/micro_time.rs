//! The times in a record and in its notes.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A time in the format of the Kubernetes API: RFC 3339 with six fraction digits and `Z`.
///
/// The type keeps the text of the store. People read the times in a record. The protocol only checks whether a time has
/// changed, so a malformed time cannot cause an error.
///
/// # Examples
///
/// ```
/// use leasehold::store::MicroTime;
///
/// let time = MicroTime::from_unix_micros(1_000_001);
/// assert_eq!(time.to_string(), "1970-01-01T00:00:01.000001Z");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct MicroTime(Box<str>);

impl MicroTime {
    /// The last microsecond that RFC 3339 can express, at the end of the year 9999.
    pub(crate) const LAST: u64 = 253_402_300_799_999_999;

    /// Returns the time `micros` microseconds after the start of 1970, at most the end of 9999.
    pub fn from_unix_micros(micros: u64) -> Self {
        let time = UNIX_EPOCH + Duration::from_micros(micros.min(Self::LAST));
        Self(humantime::format_rfc3339_micros(time).to_string().into())
    }

    /// Creates a time from the text of a store, in any format.
    pub fn from_text(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// Returns the microseconds since the start of 1970, or `None` if the text is not in the format of this type.
    pub(crate) fn unix_micros(&self) -> Option<u64> {
        humantime::parse_rfc3339(&self.0).ok().map(unix_micros)
    }

    /// Returns the text of the time.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<SystemTime> for MicroTime {
    /// Converts a system time.
    ///
    /// A time before 1970, from a clock that was never set, becomes the start of 1970.
    fn from(time: SystemTime) -> Self {
        Self::from_unix_micros(unix_micros(time))
    }
}

impl fmt::Display for MicroTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for MicroTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the microseconds since the start of 1970, or zero for an earlier time.
pub(crate) fn unix_micros(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(MicroTime::LAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_six_fraction_digits_and_a_z() {
        assert_eq!(MicroTime::from_unix_micros(0).as_str(), "1970-01-01T00:00:00.000000Z");
        assert_eq!(MicroTime::from_unix_micros(1_700_000_000_100_000).as_str(), "2023-11-14T22:13:20.100000Z");
    }

    #[test]
    fn formatting_survives_extreme_clocks() {
        assert_eq!(MicroTime::from(UNIX_EPOCH - Duration::from_secs(9)).as_str(), "1970-01-01T00:00:00.000000Z");
        assert_eq!(MicroTime::from_unix_micros(u64::MAX).as_str(), "9999-12-31T23:59:59.999999Z");
    }
}
