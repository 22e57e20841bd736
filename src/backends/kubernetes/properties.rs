//! What must hold of every answer with an object in it, and of every watch: with Leases.

use std::io::BufReader;
use std::sync::OnceLock;
use std::time::Instant;

use super::*;
use crate::backends::kubernetes::client::ClientConfig;
use crate::backends::kubernetes::lease::LeaseKind;
use crate::fuzzing::target::{Target, assert_loggable};
use crate::net::lines::{ReadLine, read_line};
use crate::net::stream::MAX_LINE;
use crate::store::record::MicroTime;

pub(crate) const LEASE: Target = Target { name: "lease", base: 64 * 1024, read: read_lease, check: check_lease };

pub(crate) const WATCH: Target = Target { name: "watch", base: 64 * 1024, read: read_watch, check: check_watch };

/// Short, so that short inputs reach it.
const LONGEST: usize = 2048;

/// No message quotes more of a server than this.
const LONGEST_MESSAGE: usize = 16 * 1024;

const NAME: &str = "my-controller";

/// Nothing is sent through it, so one is enough.
fn leases() -> &'static ObjectStore<LeaseKind> {
    static LEASES: OnceLock<ObjectStore<LeaseKind>> = OnceLock::new();
    LEASES.get_or_init(|| {
        let config = ClientConfig::new("http://127.0.0.1:1").expect("a URL");
        ObjectStore::new(Client::new(config).expect("a client"), "default").expect("a name")
    })
}

fn respond(body: &[u8]) -> Response {
    Response { status: 200, body: body.to_vec() }
}

fn read_lease(input: &[u8]) {
    let _ = leases().read(NAME, &respond(input));
}

fn check_lease(input: &[u8]) {
    let leases = leases();
    match leases.read(NAME, &respond(input)) {
        Ok(observed) => check_observed(leases, &observed),
        Err(error) => {
            assert_eq!(error.kind(), StoreErrorKind::Malformed);
            assert_loggable(&error.to_string(), LONGEST_MESSAGE);
        }
    }
}

/// A record is written back as it was read, beside all else that the object holds.
fn check_observed(leases: &ObjectStore<LeaseKind>, observed: &VersionedRecord) {
    let VersionedRecord { record, version, opaque } = observed;
    assert!(*version > 0);
    assert!(record.uid.as_ref().is_some_and(|uid| !uid.is_empty()));
    let wait = record.lease_duration_or(Duration::from_secs(15));
    assert!(Instant::now().checked_add(wait).is_some());
    let next = LeaderElectionRecord {
        uid: record.uid.clone(),
        holder_identity: Some("somebody".to_owned()),
        lease_duration_seconds: Some(15),
        acquire_time: Some(MicroTime::from_unix_micros(1)),
        renew_time: Some(MicroTime::from_unix_micros(2)),
        lease_transitions: Some(record.lease_transitions.unwrap_or_default().saturating_add(1)),
    };
    for record in [record, &next] {
        let written = leases.replacement(observed, record);
        assert_eq!(others(&written), others(opaque.get().expect("the object")));
        let again =
            leases.read(NAME, &respond(written.to_string().as_bytes())).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((&again.record, again.version), (record, *version));
    }
}

/// All that an update leaves alone.
fn others(object: &Value) -> Value {
    let mut object = object.clone();
    LeaseKind::write(&mut object, &LeaderElectionRecord::default());
    object
}

/// How a stream ends.
#[derive(Debug, PartialEq, Eq)]
enum StreamEnd {
    AfterALine,
    InsideALine,
    TooLong,
}

fn lines(input: &[u8], chunk: usize) -> (Vec<Vec<u8>>, StreamEnd) {
    let mut reader = BufReader::with_capacity(chunk, input);
    let mut all = Vec::new();
    loop {
        match read_line(&mut reader, LONGEST).expect("bytes in memory") {
            ReadLine::Whole(line) => all.push(line),
            ReadLine::TooLong => return (all, StreamEnd::TooLong),
            ReadLine::Rest(rest) if rest.is_empty() => return (all, StreamEnd::AfterALine),
            ReadLine::Rest(_) => return (all, StreamEnd::InsideALine),
        }
    }
}

/// The same with all of the input at hand.
fn lines_at_once(input: &[u8]) -> (Vec<Vec<u8>>, StreamEnd) {
    let mut all = Vec::new();
    let mut rest = input;
    while let Some(end) = rest.iter().position(|b| *b == b'\n') {
        let line = &rest[..end];
        if line.len() > LONGEST {
            return (all, StreamEnd::TooLong);
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !line.is_empty() {
            all.push(line.to_vec());
        }
        rest = &rest[end + 1..];
    }
    let end = match rest.len() {
        0 => StreamEnd::AfterALine,
        1..=LONGEST => StreamEnd::InsideALine,
        _ => StreamEnd::TooLong,
    };
    (all, end)
}

fn read_watch(input: &[u8]) {
    let leases = leases();
    let mut input = input;
    while let Ok(ReadLine::Whole(line)) = read_line(&mut input, MAX_LINE) {
        if leases.event(WatchScope::Key(NAME), &line).is_err() {
            return;
        }
    }
}

fn check_watch(input: &[u8]) {
    let expected = lines_at_once(input);
    for chunk in [1, 7, 16 * 1024] {
        assert_eq!(lines(input, chunk), expected, "in chunks of {chunk}");
    }
    let leases = leases();
    for line in expected.0 {
        match leases.event(WatchScope::Key(NAME), &line) {
            Ok(WatchLine { version, is_bookmark, event }) => {
                assert!(!is_bookmark || event.is_none());
                assert_ne!(version, Some(0));
                match event {
                    None => {}
                    Some(WatchEvent::Changed { observed, .. }) => check_observed(leases, &observed),
                    Some(WatchEvent::Deleted { version, .. }) => assert!(version > 0),
                    Some(event) => panic!("no line says {event:?}"),
                }
            }
            Err(error) => {
                use StoreErrorKind::*;
                assert!(matches!(error.kind(), Malformed | Expired | Unavailable), "{error}");
                assert!(error.retry_after().is_none_or(|wait| wait <= Duration::from_secs(3600)));
                // The watch is over.
                return assert_loggable(&error.to_string(), LONGEST_MESSAGE);
            }
        }
    }
}
