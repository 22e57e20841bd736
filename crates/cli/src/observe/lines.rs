//! The text of an event: a line for people, or JSON.

use std::fmt::Write;
use std::time::Duration;

use leasehold::store::{JobNotes, LeaderElectionRecord, MicroTime, RecordNotes, RequestAcceptance};
use serde::Serialize;

use super::super::follow::leases::{EventKind, LeaseEvent};
use crate::job;
use crate::one_line::{OneLine, is_seen};

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
    leads: bool,
    owner: Option<&'a str>,
    seconds_since_renewal: Option<f64>,
    notes: NotesLine<'a>,
    /// Only in the line of a status.
    #[serde(skip_serializing_if = "Option::is_none")]
    may_campaign: Option<&'static str>,
}

/// The notes beside a record, except the address. An absent note is null.
#[derive(Serialize)]
struct NotesLine<'a> {
    accepts_requests: Option<bool>,
    accepts_requests_after_seconds: Option<u64>,
    step_down: Option<&'a str>,
    shards: Option<u32>,
    max_shards: Option<u32>,
    job_period_seconds: Option<u64>,
    first_attempt_start: Option<&'a str>,
    attempts: Option<u32>,
    last_attempt_host: Option<&'a str>,
    last_attempt_start: Option<&'a str>,
    last_attempt_exit_code: Option<i32>,
    last_success_host: Option<&'a str>,
    last_success_start: Option<&'a str>,
    last_success_end: Option<&'a str>,
}

impl<'a> NotesLine<'a> {
    fn new(RecordNotes { term, step_down, job, .. }: &'a RecordNotes) -> Self {
        let job = job.as_deref();
        let time = |time: fn(&'a JobNotes) -> &'a Option<MicroTime>| time(job?).as_ref().map(MicroTime::as_str);
        let after = match term.accepts_requests {
            Some(RequestAcceptance::After(after)) => Some(after.as_secs()),
            _ => None,
        };
        Self {
            accepts_requests: term.accepts_requests.map(|acceptance| acceptance != RequestAcceptance::Never),
            accepts_requests_after_seconds: after,
            step_down: step_down.as_deref(),
            shards: term.shards,
            max_shards: term.max_shards,
            job_period_seconds: job.and_then(|job| job.period).map(|period| period.as_secs()),
            first_attempt_start: time(|job| &job.first_attempt_start),
            attempts: job.and_then(|job| job.attempts),
            last_attempt_host: job.and_then(|job| job.last_attempt_host.as_deref()),
            last_attempt_start: time(|job| &job.last_attempt_start),
            last_attempt_exit_code: job.and_then(|job| job.last_attempt_exit_code),
            last_success_host: job.and_then(|job| job.last_success_host.as_deref()),
            last_success_start: time(|job| &job.last_success_start),
            last_success_end: time(|job| &job.last_success_end),
        }
    }
}

pub fn json(event: &LeaseEvent) -> String {
    json_with(event, None)
}

/// Returns the line of a lease that was read once.
pub fn status_json(event: &LeaseEvent, may_campaign: Option<bool>) -> String {
    let right = may_campaign.map_or("unknown", |may_campaign| if may_campaign { "yes" } else { "no" });
    json_with(event, Some(right))
}

fn json_with(event: &LeaseEvent, may_campaign: Option<&'static str>) -> String {
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
        address: lease.address(),
        version: lease.version,
        transitions: record.lease_transitions,
        acquire_time: record.acquire_time.as_ref().map(MicroTime::as_str),
        renew_time: record.renew_time.as_ref().map(MicroTime::as_str),
        lease_duration_seconds: record.lease_duration_seconds,
        renewals: lease.renewals,
        seconds_left: lease.remaining(at.local).map(|left| left.as_secs_f64()),
        leads: lease.leader().is_some(),
        owner: lease.owner(),
        seconds_since_renewal: lease.seconds_since_renewal(*at),
        notes: NotesLine::new(&lease.notes),
        may_campaign,
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

/// Returns the lines of a lease that was read once. `name` is the name of the record.
pub fn status_plain(LeaseEvent { at, lease, .. }: &LeaseEvent, may_campaign: Option<bool>, name: &str) -> String {
    let record = lease.record.as_ref().filter(|_| lease.holder().is_some());
    let since = record.and_then(|record| record.acquire_time.as_ref());
    let transitions = record.and_then(|record| record.lease_transitions);
    let requests = match lease.notes.term.accepts_requests {
        None => "unknown whether the holder accepts them",
        Some(RequestAcceptance::Never) => "not accepted by the holder",
        Some(_) => "accepted by the holder",
    };
    let job = lease.notes.job.as_deref().map(job::plain).unwrap_or_default();
    let right = match may_campaign {
        Some(true) => "yes",
        Some(false) => "no, a right is missing",
        None => "unknown, this store does not show the rights",
    };
    let lines = [
        Some(format!("{}: {}", OneLine(name), lease.standing(*at))),
        since.map(|since| format!("acquired: {}", OneLine(since.as_str()))),
        transitions.map(|transitions| format!("transitions: {transitions}")),
        lease
            .version
            .filter(|_| record.is_some())
            .map(|version| format!("version: {version} (the fencing token of the term is at most this number)")),
        record.map(|_| format!("requests to step down: {requests}")),
        lease.notes.step_down.as_deref().map(|asked| format!("asked to step down: {}", OneLine(asked))),
    ];
    let right = format!("this user may campaign: {right}");
    lines.into_iter().flatten().chain(job).chain([right]).map(|line| line + "\n").collect()
}

pub fn plain(event: &LeaseEvent) -> String {
    let LeaseEvent { at, key, what, previous_holder, lease } = event;
    let mut line = format!("{} {}: ", MicroTime::from(at.wall), OneLine(key));
    let holder = OneLine(lease.holder().unwrap_or_default());
    let by = previous_holder.as_deref().map_or_else(String::new, |holder| format!(" by {}", OneLine(holder)));
    // Writing to a string cannot fail.
    let _ = match what {
        EventKind::NewLeader | EventKind::Expired => write!(line, "{}", lease.standing(*at)),
        EventKind::NewAddress => match lease.address() {
            Some(address) => write!(line, "{holder} is at {}", OneLine(address)),
            None => write!(line, "{holder} has no address"),
        },
        EventKind::Renewed => write!(line, "renewed by {holder}"),
        EventKind::Released => write!(line, "released{by}"),
        EventKind::Deleted => write!(line, "deleted"),
        EventKind::Unheld => write!(line, "no holder"),
    };
    let Some(record) = lease.record.as_ref().filter(|_| lease.holder().is_some()) else { return line + "\n" };
    let since = record.acquire_time.as_ref().map(|time| format!("since {}", OneLine(time.as_str())));
    let transitions = record.lease_transitions.map(|transitions| format!("transitions {transitions}"));
    let renewals = Some(format!("renewals {}", lease.renewals));
    let left = lease.leader().and_then(|_| lease.remaining(at.local)).filter(|left| *left > Duration::ZERO);
    let left = left.map(|left| format!("{} left", humantime::format_duration(left)));
    let details: Vec<_> = [since, transitions, renewals, left].into_iter().flatten().collect();
    let details = details.join(", ");
    // The text about a holder without an observed renewal is a sentence of its own.
    match *what == EventKind::NewLeader && lease.leader().is_none() && !lease.is_shard() {
        true => format!("{line} ({details})\n"),
        false => format!("{line}, {details}\n"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::super::super::follow::leases::{Leases, Update, Which};
    use super::*;
    use crate::clock::{Moment, Now};

    /// Returns the events of a record that is read, renewed, expired and deleted.
    fn events(record: LeaderElectionRecord) -> Vec<LeaseEvent> {
        let mut leases = Leases::new(Which::All);
        let at = |seconds| {
            let local = Duration::from_secs(seconds);
            Now { local: Moment::default() + local, wall: SystemTime::UNIX_EPOCH + local }
        };
        let observed = |record, version| {
            let mut observed =
                leasehold::store::VersionedRecord::new(record, version, leasehold::store::StoreData::none());
            observed.notes.term.address = Some("host\u{1b}:1".into());
            Update::changed("jo\nbs", observed)
        };
        let renewed =
            LeaderElectionRecord { renew_time: Some(MicroTime::from_unix_micros(2_000_000)), ..record.clone() };
        let mut events = leases.apply(observed(record, 7), at(1));
        events.extend(leases.apply(observed(renewed, 8), at(2)));
        events.extend(leases.expire(at(60)));
        events.extend(leases.apply(Update::deleted("jo\nbs", 9), at(61)));
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
            "1970-01-01T00:00:01.000000Z jo\\nbs: held by a\\u{1b}[2J\\u{9b}\\n at host\\u{1b}:1, renewed 0s ago by its clock; free in 15s unless it renews (since long\\nago, transitions 3, renewals 0)\n\
             1970-01-01T00:00:02.000000Z jo\\nbs: renewed by a\\u{1b}[2J\\u{9b}\\n, since long\\nago, transitions 3, renewals 1, 15s left\n\
             1970-01-01T00:00:17.000000Z jo\\nbs: expired, held by a\\u{1b}[2J\\u{9b}\\n, since long\\nago, transitions 3, renewals 1\n\
             1970-01-01T00:01:01.000000Z jo\\nbs: deleted\n"
        );
        assert_eq!(
            events.iter().map(json).collect::<String>(),
            r#"{"time":"1970-01-01T00:00:01.000000Z","lease":"jo\nbs","event":"new_leader","holder":"a\u001b[2J\u009b\n","previous_holder":null,"address":"host\u001b:1","version":7,"transitions":3,"acquire_time":"long\nago","renew_time":"1970-01-01T00:00:00.000005Z","lease_duration_seconds":15,"renewals":0,"seconds_left":15.0,"leads":false,"owner":null,"seconds_since_renewal":0.999995,"notes":{"accepts_requests":null,"accepts_requests_after_seconds":null,"step_down":null,"shards":null,"max_shards":null,"job_period_seconds":null,"first_attempt_start":null,"attempts":null,"last_attempt_host":null,"last_attempt_start":null,"last_attempt_exit_code":null,"last_success_host":null,"last_success_start":null,"last_success_end":null}}
{"time":"1970-01-01T00:00:02.000000Z","lease":"jo\nbs","event":"renewed","holder":"a\u001b[2J\u009b\n","previous_holder":null,"address":"host\u001b:1","version":8,"transitions":3,"acquire_time":"long\nago","renew_time":"1970-01-01T00:00:02.000000Z","lease_duration_seconds":15,"renewals":1,"seconds_left":15.0,"leads":true,"owner":null,"seconds_since_renewal":0.0,"notes":{"accepts_requests":null,"accepts_requests_after_seconds":null,"step_down":null,"shards":null,"max_shards":null,"job_period_seconds":null,"first_attempt_start":null,"attempts":null,"last_attempt_host":null,"last_attempt_start":null,"last_attempt_exit_code":null,"last_success_host":null,"last_success_start":null,"last_success_end":null}}
{"time":"1970-01-01T00:00:17.000000Z","lease":"jo\nbs","event":"expired","holder":"a\u001b[2J\u009b\n","previous_holder":null,"address":"host\u001b:1","version":8,"transitions":3,"acquire_time":"long\nago","renew_time":"1970-01-01T00:00:02.000000Z","lease_duration_seconds":15,"renewals":1,"seconds_left":0.0,"leads":false,"owner":null,"seconds_since_renewal":15.0,"notes":{"accepts_requests":null,"accepts_requests_after_seconds":null,"step_down":null,"shards":null,"max_shards":null,"job_period_seconds":null,"first_attempt_start":null,"attempts":null,"last_attempt_host":null,"last_attempt_start":null,"last_attempt_exit_code":null,"last_success_host":null,"last_success_start":null,"last_success_end":null}}
{"time":"1970-01-01T00:01:01.000000Z","lease":"jo\nbs","event":"deleted","holder":null,"previous_holder":"a\u001b[2J\u009b\n","address":null,"version":9,"transitions":null,"acquire_time":null,"renew_time":null,"lease_duration_seconds":null,"renewals":1,"seconds_left":null,"leads":false,"owner":null,"seconds_since_renewal":null,"notes":{"accepts_requests":null,"accepts_requests_after_seconds":null,"step_down":null,"shards":null,"max_shards":null,"job_period_seconds":null,"first_attempt_start":null,"attempts":null,"last_attempt_host":null,"last_attempt_start":null,"last_attempt_exit_code":null,"last_success_host":null,"last_success_start":null,"last_success_end":null}}
"#
        );
    }

    #[test]
    fn status_shows_the_right_to_campaign() {
        let events = events(LeaderElectionRecord::default());
        for (right, json, plain) in
            [(None, "unknown", "unknown, "), (Some(true), "yes", "yes"), (Some(false), "no", "no, ")]
        {
            assert!(status_json(&events[0], right).contains(&format!(r#""may_campaign":"{json}"}}"#)), "{right:?}");
            assert!(status_plain(&events[0], right, "x").contains(&format!("may campaign: {plain}")), "{right:?}");
        }
    }

    #[test]
    fn line_of_a_record_without_fields_has_the_raw_value() {
        let events = events(LeaderElectionRecord { holder_identity: Some("a".into()), ..Default::default() });
        assert_eq!(plain(&events[0]), "1970-01-01T00:00:01.000000Z jo\\nbs: held by a at host\\u{1b}:1 (renewals 0)\n");
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
