//! Tests of settings for a whole session, and of transactions that lack these settings.

use std::time::{Duration, Instant};

use super::*;
use crate::net::interrupt::Interrupter;

impl Said {
    /// Returns the number of statements in the message.
    fn statements(&self) -> usize {
        let (mut at, mut count) = (0, 0);
        while let Some(&[tag, a, b, c, d]) = self.bytes.get(at..at + 5) {
            count += usize::from(tag == b'E');
            at += 1 + u32::from_be_bytes([a, b, c, d]) as usize;
        }
        count
    }

    /// Returns `true` if the message limits the settings to one transaction.
    ///
    /// The searched bytes are the length of a parameter and the parameter.
    fn sets_for_a_transaction(&self) -> bool {
        self.is("\0\0\0\u{4}true")
    }

    fn sets_for_all_to_come(&self) -> bool {
        self.is("\0\0\0\u{5}false")
    }

    fn answer(&self, rows: &[Vec<u8>]) -> Option<Vec<u8>> {
        let settings = (1..self.statements()).map(|_| statement(&[row(&[None])])).collect::<Vec<_>>().concat();
        Some([settings, statement(rows), ready()].concat())
    }
}

const UNPROVED: Option<&str> = Some("f");

/// Returns the response to a message, with `proof` as the last column of each row.
fn with_proof(said: &Said, proof: Option<&str>) -> Option<Vec<u8>> {
    let mut record = RECORD;
    record[10] = proof;
    match said.number {
        0 => logged_in(),
        _ if said.is("INSERT") || said.is("UPDATE") => said.answer(&[row(&[Some("1"), proof])]),
        _ => said.answer(&[row(&record)]),
    }
}

fn base() -> VersionedRecord {
    VersionedRecord::new(LeaderElectionRecord::default(), 1 << 31, StoreData::none())
}

#[test]
fn session_settings_stay_until_a_call_has_another_timeout() {
    let (report, received) = crossbeam_channel::unbounded();
    let server = Server::new(move |said| {
        if said.number > 0 {
            report.send((said.statements(), said.sets_for_all_to_come())).unwrap();
        }
        with_proof(said, PROVED)
    });
    let store = server.store();
    store.get("jobs", &CallContext::new(Duration::from_secs(60), CancelToken::new())).unwrap();
    assert_eq!(received.recv().unwrap(), (2, false), "settings of one transaction");
    store.0.table.client.set_has_sessions(true);
    let (set, stands) = ((2, true), (1, false));
    for (seconds, expected) in [
        // The first three timeouts are typical of a watch's preparation, a takeover and a release.
        (10, set),
        (5, stands),
        (2, stands),
        (10, stands),
        (30, set),
        (36, stands),
        (90, set),
        (30, stands),
        (2, set),
        (1, stands),
        (3, set),
    ] {
        store.get("jobs", &CallContext::new(Duration::from_secs(seconds), CancelToken::new())).unwrap();
        assert_eq!(received.recv().unwrap(), expected, "{seconds} s");
    }
    assert_eq!(server.connections(), 1);
}

#[test]
fn settings_of_a_failed_transaction_are_applied_again() {
    let (report, received) = crossbeam_channel::unbounded();
    let server = Server::new(move |said| match said.number {
        0 => logged_in(),
        1 => Some([error("ERROR", "40001"), ready()].concat()),
        _ => {
            report.send(said.sets_for_all_to_come()).unwrap();
            with_proof(said, PROVED)
        }
    });
    let store = server.store();
    store.0.table.client.set_has_sessions(true);
    assert_eq!(kind(store.get("jobs", &call())), StoreErrorKind::Conflict);
    store.get("jobs", &call()).unwrap();
    assert!(received.recv().unwrap());
    assert_eq!(server.connections(), 1);
}

/// A pooler may run a transaction in another session, where `synchronous_commit` may be off.
///
/// The pooler may change the session again, even if a later watch detects that connections have sessions.
#[test]
fn write_without_settings_stays_in_doubt_and_settings_follow() {
    type Write = fn(&PostgresStore) -> Result<VersionedRecord, StoreError>;
    let writes: [Write; 2] = [
        |store| store.create("jobs", LeaderElectionRecord::default().as_write(), &call()),
        |store| store.update("jobs", &base(), LeaderElectionRecord::default().as_write(), &call()),
    ];
    for write in writes {
        let server = Server::new(move |said| match said.connection {
            0 if said.number == 1 => with_proof(said, PROVED),
            0 => {
                assert!(said.number == 0 || said.statements() == 1, "the session settings are still in use");
                with_proof(said, UNPROVED)
            }
            _ => {
                let makes_them = said.statements() == 2 && said.sets_for_a_transaction() && !said.is("leasehold_");
                with_proof(said, makes_them.then_some("t"))
            }
        });
        let store = server.store();
        store.0.table.client.set_has_sessions(true);
        store.get("jobs", &call()).unwrap();
        let error = write(&store).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        for _ in 0..2 {
            write(&store).expect("with settings of its own");
            assert_eq!(server.connections(), 2, "and not on the connection without the settings");
            store.0.table.client.set_has_sessions(true);
        }
    }
}

/// Every row must prove the settings, and the second row of the first response does not.
#[test]
fn read_without_settings_is_repeated_on_a_given_connection_too() {
    let server = Server::new(move |said| {
        let mut other = RECORD;
        other[2] = Some("other");
        if !said.sets_for_a_transaction() {
            (other[5], other[10]) = (Some("b"), UNPROVED);
        }
        match said.number {
            0 => logged_in(),
            _ => said.answer(&[row(&RECORD), row(&other)]),
        }
    });
    let all = [Statement { sql: table::SELECT_PREFIX, parameters: &[Some("")] }];
    for on_its_own in [false, true] {
        let store = server.store();
        store.0.table.client.set_has_sessions(true);
        let call = call();
        let request = request(&all, true, &call);
        let found = match on_its_own {
            true => {
                let (interrupter, _hook) = Interrupter::hooked(call.cancel());
                let deadline = Instant::now() + call.remaining();
                let mut connection = store.0.table.client.connect(deadline, call.cancel(), &interrupter).unwrap();
                store.0.table.client.run_on(&mut connection, &request, |rows| table::read(rows, true))
            }
            false => store.0.table.client.run(request, |rows| table::read(rows, true)),
        };
        assert_eq!(found.unwrap()["other"].record.holder(), Some("a"));
    }
    // If the retry fails too, the call returns an error instead of retrying forever.
    let server = Server::new(|said| with_proof(said, UNPROVED));
    let store = server.store();
    store.0.table.client.set_has_sessions(true);
    assert_eq!(kind(store.get("jobs", &call())), StoreErrorKind::Unavailable);
}

/// The rows of these statements have no proof, so each transaction applies its own settings.
#[test]
fn unproven_session_applies_settings_per_transaction() {
    let server = Server::new(|said| match said.number {
        0 => logged_in(),
        _ => {
            assert!(said.sets_for_a_transaction() && !said.sets_for_all_to_come());
            said.answer(&[row(&[Some("1")])])
        }
    });
    let store = server.store();
    store.0.table.client.set_has_sessions(true);
    store.create_table().unwrap();
    store.create_table().unwrap();
    assert_eq!(server.connections(), 1);
}

#[test]
fn read_without_settings_needs_no_other_connection() {
    let server = Server::new(|said| with_proof(said, UNPROVED));
    let error = server.store().get("jobs", &call()).unwrap_err();
    assert_eq!((error.kind(), server.connections()), (StoreErrorKind::Unavailable, 1), "{error}");
}
