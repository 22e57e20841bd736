//! Normalization of a candidate's `Debug` text, so that equivalent states have equal texts.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use crate::clock::Clock;

/// The moments that the candidate only compares with the current time.
const APPOINTMENTS: [&str; 6] = [
    "read_at: Moment(",
    "write_at: Moment(",
    "renew_at: Moment(",
    "paused_until: Moment(",
    "reclaim_at: Moment(",
    "release_by: Some(Moment(",
];

/// Rewrites the `Debug` text of a candidate as of `tick`.
///
/// Two candidates get the same text if they behave alike from now on. Moments become ticks, and all past moments of the
/// fields in `APPOINTMENTS` become equal. Acquisitions before the latest become equal, as do requests except `pending`.
/// The settings and the state of the random generator are left out.
pub fn normalise(text: &str, clock: Clock, tick: u8, pending: Option<u64>) -> String {
    let text = text.split_once(", observed: ").map_or(text, |(_, rest)| rest);
    let latest = number_after(text, "last_acquisition: ");
    let mut normal = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(at);
        let end = from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len());
        let (number, after) = from.split_at(end);
        normal.push_str(before);
        let value: u64 = number.parse().unwrap_or(u64::MAX);
        if before.ends_with("Moment(") {
            let at = clock.tick_of(value);
            let kept = at <= u64::from(tick) && APPOINTMENTS.iter().any(|appointment| before.ends_with(appointment));
            normal.push_str(&if kept { "kept".into() } else { at.to_string() });
        } else if before.ends_with(" id: ") {
            normal.push_str(if Some(value) == pending { "pending" } else { "gone" });
        } else if before.ends_with("Campaign { id: ")
            || before.ends_with(" campaign: ")
            || before.ends_with(" campaign: Some(")
        {
            // Each campaign has its own number, and the number decides nothing else.
            normal.push_str("campaign");
        } else if [" acquisition: ", " acquisition: Some("].iter().any(|counted| before.ends_with(counted)) {
            normal.push_str(match value {
                0 => "none",
                _ if value == latest => "latest",
                _ => "earlier",
            });
        } else if !before.ends_with("last_request: ") && !before.ends_with("last_acquisition: ") {
            normal.push_str(number);
        }
        rest = after;
    }
    normal.push_str(rest);
    normal
}

fn number_after(text: &str, name: &str) -> u64 {
    let digits = text.split_once(name).map(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next());
    digits.flatten().and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("no {name:?} in {text}"))
}

/// Removes the text from `from` up to the next `to`, and keeps that `to`.
pub fn without(text: &str, from: &str, to: &str) -> String {
    let cut = |(before, rest): (&str, &str)| Some(format!("{before}{}", &rest[rest.find(to)?..]));
    text.split_once(from).and_then(cut).unwrap_or_else(|| panic!("no {from:?} with {to:?} in {text}"))
}

/// Returns a hash of `text` with 128 bits.
pub fn fingerprint(text: &str) -> u128 {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, text).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}
