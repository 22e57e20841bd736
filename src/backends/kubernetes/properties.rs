//! Properties that every response and every watch must have, checked by fuzzing with Leases.

use std::sync::OnceLock;
use std::time::Instant;

use super::*;
use crate::backends::kubernetes::annotation::properties::next_record;
use crate::backends::kubernetes::client::ClientConfig;
use crate::backends::kubernetes::lease::LeaseKind;
use crate::fuzzing::target::{Target, assert_loggable};
use crate::net::lines::{ReadLine, read_line};
use crate::net::stream::MAX_LINE;

pub(crate) const LEASE: Target = Target { name: "lease", base: 64 * 1024, read: read_lease, check: check_lease };

pub(crate) const WATCH: Target = Target { name: "watch", base: 64 * 1024, read: read_watch, check: check_watch };

/// Maximum length of an error message that quotes a server.
const LONGEST_MESSAGE: usize = 16 * 1024;

const NAME: &str = "my-controller";

/// Returns a store that all checks share, because no check sends a request.
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

/// Checks that a record is read back unchanged, and that an update changes nothing else.
fn check_observed(leases: &ObjectStore<LeaseKind>, observed: &VersionedRecord) {
    let VersionedRecord { record, version, data, .. } = observed;
    assert!(*version > 0);
    assert!(record.uid.as_ref().is_some_and(|uid| !uid.is_empty()));
    let wait = record.lease_duration_or(Duration::from_secs(15));
    assert!(Instant::now().checked_add(wait).is_some());
    let next = next_record(record);
    for record in [record, &next] {
        let written = leases.replacement(NAME, observed, record.as_write());
        assert_eq!(others(&written), others(data.get().expect("the object")));
        let again =
            leases.read(NAME, &respond(written.to_string().as_bytes())).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((&again.record, again.version), (record, *version));
    }
}

/// Returns the object with an empty record. An update must not change the rest of the object.
fn others(object: &Value) -> Value {
    let mut object = object.clone();
    LeaseKind::write(&mut object, &LeaderElectionRecord::default());
    object
}

/// Returns the lines of a watch, up to the first invalid one.
fn lines(mut input: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    std::iter::from_fn(move || match read_line(&mut input, MAX_LINE) {
        Ok(ReadLine::Whole(line)) => Some(line),
        _ => None,
    })
}

fn read_watch(input: &[u8]) {
    let _ = lines(input).try_for_each(|line| leases().event(WatchScope::Key(NAME), &line).map(drop));
}

fn check_watch(input: &[u8]) {
    let leases = leases();
    for line in lines(input) {
        match leases.event(WatchScope::Key(NAME), &line) {
            Ok((version, event)) => {
                assert_ne!(version, Some(0));
                match event {
                    None => {}
                    Some(WatchEvent::Changed { observed, .. }) => check_observed(leases, &observed),
                    Some(WatchEvent::Deleted { version, .. }) => assert!(version > 0),
                    Some(event) => panic!("no line has {event:?}"),
                }
            }
            Err(error) => {
                use StoreErrorKind::*;
                assert!(matches!(error.kind(), Malformed | Expired | Unavailable), "{error}");
                assert!(error.retry_after().is_none_or(|wait| wait <= Duration::from_secs(3600)));
                // An error ends the watch, so the check ignores further lines.
                return assert_loggable(&error.to_string(), LONGEST_MESSAGE);
            }
        }
    }
}
