//! A table of leases in a terminal, drawn over the previous table.

use std::fmt::Write as _;
use std::io::{self, IsTerminal};

use super::super::follow::Follower;
use super::super::follow::leases::LeaseView;
use super::super::say::write_stdout;
use crate::clock::Now;
use crate::one_line::OneLine;

/// The largest width of the name column, in characters.
const LONGEST_NAME: usize = 48;

const HEAD: [&str; 6] = ["LEASE", "LEFT", "TRANSITIONS", "RENEWALS", "SINCE", "HOLDER"];

pub struct LeaseTable {
    /// The number of lines that the table has on the terminal.
    lines: usize,
}

impl LeaseTable {
    /// Creates a table, or returns `None` if stdout is not a terminal that can redraw lines.
    pub fn in_terminal() -> Option<Self> {
        let is_dumb = std::env::var_os("TERM").is_none_or(|kind| kind == "dumb");
        (io::stdout().is_terminal() && !is_dumb && size().is_some()).then_some(Self { lines: 0 })
    }

    /// Erases the table, so that a message can be written to stderr.
    pub fn clear(&mut self) -> io::Result<()> {
        let mut text = String::new();
        self.go_back(&mut text);
        self.lines = 0;
        write_stdout(&text)
    }

    pub fn draw(&mut self, follower: &Follower, now: Now) -> io::Result<()> {
        let (height, width) = size().unwrap_or((24, 80));
        let mut lines = rows(follower.leases.iter(), now);
        if lines.len() == 1 {
            lines = vec![format!("no leases yet in {}", OneLine(&follower.location))];
        }
        // The cursor stays below the table, so the table must leave one line free.
        let room = height.saturating_sub(1).max(1);
        if lines.len() > room {
            let left_out = lines.len() - room + 1;
            lines.truncate(room - 1);
            lines.push(format!("… and {left_out} more"));
        }
        let mut text = String::new();
        self.go_back(&mut text);
        // Line wrapping is disabled, because wide characters may make a line wider than the terminal.
        text.push_str("\x1b[?7l");
        for line in &lines {
            text.extend(line.chars().take(width));
            text.push('\n');
        }
        text.push_str("\x1b[?7h");
        self.lines = lines.len();
        write_stdout(&text)
    }

    fn go_back(&self, text: &mut String) {
        if self.lines > 0 {
            // Writing to a string cannot fail.
            let _ = write!(text, "\x1b[{}A\x1b[J", self.lines);
        }
    }
}

/// Returns the height and width of the terminal.
#[cfg(unix)]
fn size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    // Some consoles report a size of zero.
    let or = |size: u16, otherwise| if size == 0 { otherwise } else { usize::from(size) };
    Some((or(size.ws_row, 24), or(size.ws_col, 80)))
}

#[cfg(not(unix))]
fn size() -> Option<(usize, usize)> {
    None
}

/// Returns the header and a line per lease, in columns.
///
/// The holder is the last column, because it is the longest text and may be cut.
fn rows<'a>(leases: impl Iterator<Item = (&'a str, &'a LeaseView)>, now: Now) -> Vec<String> {
    let cells = std::iter::once(HEAD.map(str::to_owned)).chain(leases.map(|(key, lease)| cells(key, lease, now)));
    let cells: Vec<_> = cells.collect();
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; HEAD.len()] = std::array::from_fn(width);
    let line = |row: &[String; HEAD.len()]| {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| match column {
            1..=3 => format!("{cell:>width$}"),
            _ => format!("{cell:<width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    cells.iter().map(line).collect()
}

fn cells(key: &str, lease: &LeaseView, now: Now) -> [String; HEAD.len()] {
    let absent = || "-".to_owned();
    let record = lease.record.as_ref().filter(|_| lease.holder().is_some());
    let left = match lease.remaining(now.local) {
        _ if lease.has_expired => "expired".to_owned(),
        // The time left is rounded up, so that `0s` appears only after the whole time has passed.
        Some(left) => format!("{}s", left.as_secs() + u64::from(left.subsec_nanos() > 0)),
        None => absent(),
    };
    let name = OneLine(key).to_string();
    let name = match name.chars().count() > LONGEST_NAME {
        true => name.chars().take(LONGEST_NAME - 1).chain(['…']).collect(),
        false => name,
    };
    let transitions = record.and_then(|record| record.lease_transitions);
    let since = record.and_then(|record| record.acquire_time.as_ref());
    [
        name,
        left,
        transitions.map_or_else(absent, |transitions| transitions.to_string()),
        lease.renewals.to_string(),
        since.map_or_else(absent, |since| OneLine(&without_fraction(since.as_str())).to_string()),
        match (lease.holder(), lease.address()) {
            (None, _) => absent(),
            (Some(_), _) if lease.leader().is_none() && !lease.has_expired => lease.standing(now),
            (Some(holder), Some(address)) => OneLine(format_args!("{holder} at {address}")).to_string(),
            (Some(holder), None) => OneLine(holder).to_string(),
        },
    ]
}

/// Removes the fraction of a second from a time such as `2026-01-01T00:00:00.000000Z`.
fn without_fraction(time: &str) -> String {
    match time.split_once('.') {
        Some((seconds, fraction)) if fraction.ends_with('Z') => format!("{seconds}Z"),
        _ => time.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use leasehold::store::{LeaderElectionRecord, MicroTime, StoreData, VersionedRecord};

    use crate::clock::Moment;

    use super::super::super::follow::leases::{Leases, Update, Which};
    use super::*;

    #[test]
    fn columns_are_aligned_and_absent_fields_are_shown_as_such() {
        let mut leases = Leases::new(Which::Named);
        let at = |millis| Now {
            local: Moment::default() + std::time::Duration::from_millis(millis),
            wall: std::time::SystemTime::UNIX_EPOCH,
        };
        let mut changed = |key: &str, record, millis| {
            let observed = VersionedRecord::new(record, millis, StoreData::none());
            leases.apply(Update::changed(key, observed), at(millis));
        };
        let record = |holder: &str, seconds| LeaderElectionRecord {
            holder_identity: Some(holder.into()),
            lease_duration_seconds: seconds,
            ..LeaderElectionRecord::default()
        };
        let jobs = LeaderElectionRecord {
            acquire_time: Some(MicroTime::from_unix_micros(1_700_000_000_100_000)),
            lease_transitions: Some(12),
            ..record("pod-1", Some(15))
        };
        changed("jobs", jobs.clone(), 900);
        changed("jobs", LeaderElectionRecord { renew_time: Some(MicroTime::from_unix_micros(1)), ..jobs }, 1_000);
        changed("dead", record("pod\n2", Some(1)), 1_000);
        changed("node", record("node-1", None), 1_000);
        changed("free", record("", Some(1)), 1_000);
        changed(&"x".repeat(60), record("y", Some(100)), 1_000);
        leases.apply(Update::Record { key: "none".into(), found: None, version: None }, at(1_000));
        leases.expire(at(3_500));
        assert_eq!(
            rows(leases.iter(), at(3_500)),
            [
                "LEASE                                                LEFT  TRANSITIONS  RENEWALS  SINCE                 HOLDER",
                r"dead                                              expired            -         0  -                     pod\n2",
                "free                                                    -            -         0  -                     -",
                "jobs                                                  13s           12         1  2023-11-14T22:13:20Z  pod-1",
                "node                                                    -            -         0  -                     held by node-1",
                "none                                                    -            -         0  -                     -",
                "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…      98s            -         0  -                     held by y; free in 1m38s unless it renews",
            ]
        );
    }
}
