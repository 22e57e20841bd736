//! The text of an event: a line for people, or JSON.

use std::fmt::Write;
use std::time::Duration;

use leasehold::{LeaderElectionRecord, MicroTime};
use serde::Serialize;

use super::super::follow::leases::{EventKind, LeaseEvent};
use leasehold::util::one_line::{OneLine, is_seen};

#[derive(Serialize)]
struct EventLine<'a> {
    time: &'a str,
    lease: &'a str,
    event: EventKind,
    holder: Option<&'a str>,
    previous_holder: Option<&'a str>,
    address: Option<&'a str>,
    version: Option<u64>,
    transitions: Option<i32>,
    acquire_time: Option<&'a str>,
    renew_time: Option<&'a str>,
    lease_duration_seconds: Option<i32>,
    renewals: u64,
    seconds_left: Option<f64>,
}

pub fn json(event: &LeaseEvent) -> String {
    let LeaseEvent { at, key, what, previous_holder, lease } = event;
    let nothing = LeaderElectionRecord::default();
    let record = lease.record.as_ref().unwrap_or(&nothing);
    let time = MicroTime::from(at.wall);
    let line = EventLine {
        time: time.as_str(),
        lease: key,
        event: *what,
        holder: lease.holder(),
        previous_holder: previous_holder.as_deref(),
        address: lease.address.as_deref(),
        version: lease.version,
        transitions: record.lease_transitions,
        acquire_time: record.acquire_time.as_ref().map(MicroTime::as_str),
        renew_time: record.renew_time.as_ref().map(MicroTime::as_str),
        lease_duration_seconds: record.lease_duration_seconds,
        renewals: lease.renewals,
        seconds_left: lease.remaining(at.local).map(|left| left.as_secs_f64()),
    };
    let text = serde_json::to_string(&line).expect("a struct of texts and numbers");
    escaped(&text) + "\n"
}

/// Escapes the invisible characters of a JSON text. The value of the JSON stays the same.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for one in text.chars() {
        match is_seen(one) {
            true => escaped.push(one),
            false => one.encode_utf16(&mut [0; 2]).iter().for_each(|unit| escaped += &format!("\\u{unit:04x}")),
        }
    }
    escaped
}

pub fn plain(event: &LeaseEvent) -> String {
    let LeaseEvent { at, key, what, previous_holder, lease } = event;
    let mut line = format!("{} {}: ", MicroTime::from(at.wall), OneLine(key));
    let holder = OneLine(lease.holder().unwrap_or_default());
    let by = previous_holder.as_deref().map_or_else(String::new, |holder| format!(" by {}", OneLine(holder)));
    let address = lease.address.as_deref().map_or_else(String::new, |address| format!(" at {}", OneLine(address)));
    // Writing to a string cannot fail.
    let _ = match what {
        EventKind::NewLeader => write!(line, "{holder} leads{address}"),
        EventKind::NewAddress if lease.address.is_none() => write!(line, "{holder} has no address"),
        EventKind::NewAddress => write!(line, "{holder} is{address}"),
        EventKind::Renewed => write!(line, "renewed by {holder}"),
        EventKind::Released => write!(line, "released{by}"),
        EventKind::Expired => write!(line, "expired, held by {holder}"),
        EventKind::Deleted => write!(line, "deleted"),
        EventKind::Unheld => write!(line, "no holder"),
    };
    let Some(record) = lease.record.as_ref().filter(|_| lease.holder().is_some()) else { return line + "\n" };
    if let Some(time) = &record.acquire_time {
        let _ = write!(line, ", since {}", OneLine(time.as_str()));
    }
    if let Some(transitions) = record.lease_transitions {
        let _ = write!(line, ", transitions {transitions}");
    }
    let _ = write!(line, ", renewals {}", lease.renewals);
    if let Some(left) = lease.remaining(at.local).filter(|left| *left > Duration::ZERO) {
        let _ = write!(line, ", {} left", humantime::format_duration(left));
    }
    line + "\n"
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::super::super::follow::leases::{Leases, Update, Which};
    use super::*;
    use leasehold::util::clock::{Moment, Now};

    fn events(record: LeaderElectionRecord) -> Vec<LeaseEvent> {
        let mut leases = Leases::new(Which::All);
        let at = |seconds| {
            let local = Duration::from_secs(seconds);
            Now { local: Moment::from_nanos(0) + local, wall: SystemTime::UNIX_EPOCH + local }
        };
        let mut observed = leasehold::VersionedRecord::new(record, 7, leasehold::StoreData::none());
        observed.notes.address = Some("host\u{1b}:1".into());
        let mut events = leases.apply(Update::changed("jo\nbs", observed), at(1));
        events.extend(leases.expire(at(60)));
        events.extend(leases.apply(Update::deleted("jo\nbs", 8), at(61)));
        events
    }

    #[test]
    fn line_has_all_known_values_and_text_cannot_start_a_line() {
        let events = events(LeaderElectionRecord {
            uid: None,
            holder_identity: Some("a\u{1b}[2J\u{9b}\n".into()),
            lease_duration_seconds: Some(15),
            acquire_time: Some(MicroTime::from_text("long\nago")),
            renew_time: Some(MicroTime::from_unix_micros(5)),
            lease_transitions: Some(3),
        });
        assert_eq!(
            events.iter().map(plain).collect::<String>(),
            "1970-01-01T00:00:01.000000Z jo\\nbs: a\\u{1b}[2J\\u{9b}\\n leads at host\\u{1b}:1, since long\\nago, transitions 3, renewals 0, 15s left\n\
             1970-01-01T00:00:16.000000Z jo\\nbs: expired, held by a\\u{1b}[2J\\u{9b}\\n, since long\\nago, transitions 3, renewals 0\n\
             1970-01-01T00:01:01.000000Z jo\\nbs: deleted\n"
        );
        assert_eq!(
            events.iter().map(json).collect::<String>(),
            r#"{"time":"1970-01-01T00:00:01.000000Z","lease":"jo\nbs","event":"new_leader","holder":"a\u001b[2J\u009b\n","previous_holder":null,"address":"host\u001b:1","version":7,"transitions":3,"acquire_time":"long\nago","renew_time":"1970-01-01T00:00:00.000005Z","lease_duration_seconds":15,"renewals":0,"seconds_left":15.0}
{"time":"1970-01-01T00:00:16.000000Z","lease":"jo\nbs","event":"expired","holder":"a\u001b[2J\u009b\n","previous_holder":null,"address":"host\u001b:1","version":7,"transitions":3,"acquire_time":"long\nago","renew_time":"1970-01-01T00:00:00.000005Z","lease_duration_seconds":15,"renewals":0,"seconds_left":0.0}
{"time":"1970-01-01T00:01:01.000000Z","lease":"jo\nbs","event":"deleted","holder":null,"previous_holder":"a\u001b[2J\u009b\n","address":null,"version":8,"transitions":null,"acquire_time":null,"renew_time":null,"lease_duration_seconds":null,"renewals":0,"seconds_left":null}
"#
        );
    }

    #[test]
    fn line_of_a_record_without_fields_has_the_raw_value() {
        let events = events(LeaderElectionRecord { holder_identity: Some("a".into()), ..Default::default() });
        assert_eq!(plain(&events[0]), "1970-01-01T00:00:01.000000Z jo\\nbs: a leads at host\\u{1b}:1, renewals 0\n");
    }

    const STRANGE: &str = "a\n\u{1b}[2J\u{9b}\u{202e}\u{2028}\u{e0001}é \"c:\\d\" 東";

    #[test]
    fn escaped_json_reads_the_same() {
        let text = serde_json::to_string(STRANGE).expect("a string");
        let escaped = super::escaped(&text);
        assert_eq!(serde_json::from_str::<String>(&escaped).expect("JSON"), STRANGE);
        assert!(escaped.contains(r"\u009b\u202e\u2028\udb40\udc01é") && escaped.chars().all(is_seen), "{escaped}");
    }
}
