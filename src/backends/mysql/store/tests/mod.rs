//! Tests of the store against a scripted server.

mod server;

use std::thread;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

use super::*;
use crate::backends::mysql::table::text;
use crate::backends::tests::{call, cancel_at, test_client};
use crate::store::StoreErrorKind;
use crate::store::record::LeaderElectionRecord;

use server::*;

test_client! { Server:
    error_reports_if_the_request_may_have_been_sent,
    stale_connections_are_not_reused,
    eight_connections_open_at_a_time,
    refused_login_asks_the_password_source_again,
    read_on_a_closed_connection_is_resent_and_a_write_is_not,
    idle_connection_that_is_not_quiet_is_not_used,
}

fn brief() -> CallContext {
    CallContext::new(Duration::from_millis(300), CancelToken::new())
}

fn base() -> VersionedRecord {
    let server = Server::well();
    server.store().get("jobs", &call()).unwrap().unwrap()
}

fn get(store: &MySqlStore, call: &CallContext) -> Result<Option<VersionedRecord>, StoreErrorKind> {
    store.get("jobs", call).map_err(|error| error.kind())
}

fn update(store: &MySqlStore, call: &CallContext) -> Result<VersionedRecord, StoreErrorKind> {
    store.update("jobs", &base(), LeaderElectionRecord::default().as_write(), call).map_err(|error| error.kind())
}

fn create(store: &MySqlStore, call: &CallContext) -> Result<VersionedRecord, StoreErrorKind> {
    store.create("jobs", LeaderElectionRecord::default().as_write(), call).map_err(|error| error.kind())
}

/// Takes the lease over.
fn acquire(store: &MySqlStore, call: &CallContext) -> Result<VersionedRecord, StoreErrorKind> {
    let record = LeaderElectionRecord { holder_identity: Some("b".to_owned()), ..Default::default() };
    store.update("jobs", &base(), record.as_write(), call).map_err(|error| error.kind())
}

/// The fence is locked before both rows are written, and the lock is waited for as long as the call lasts.
#[test]
fn acquisition_is_one_transaction_that_locks_the_fence_first() {
    let server = Server::new(|asked| {
        let is_first = asked.what.starts_with("SELECT acquired") && asked.connection == 0 && asked.repeats == 0;
        is_first.then(|| Say::Packets(in_transaction(rows(1, vec![]))))
    });
    let store = server.store();
    let minute = CallContext::new(Duration::from_millis(60_900), CancelToken::new());
    acquire(&store, &minute).unwrap();
    update(&store, &call()).unwrap();
    create(&store, &minute).unwrap();
    let asked = server.asked.lock();
    let starts = [
        "SET SESSION innodb_lock_wait_timeout = 60",
        "START TRANSACTION",
        "SELECT acquired FROM leasehold_fence WHERE name = X'6a6f6273' FOR UPDATE",
        "ROLLBACK",
        "INSERT IGNORE INTO leasehold_fence VALUES (X'6a6f6273', 18446744073709551615)",
        "START TRANSACTION",
        "SELECT acquired FROM leasehold_fence WHERE name = X'6a6f6273' FOR UPDATE",
        "UPDATE leasehold_fence AS f STRAIGHT_JOIN leasehold AS l SET f.acquired = 6442450949, ",
        "COMMIT",
        "SET SESSION innodb_lock_wait_timeout = 1",
        "UPDATE leasehold SET holder_identity = NULL, ",
        "SET SESSION innodb_lock_wait_timeout = 60",
        "START TRANSACTION",
        "SELECT acquired FROM leasehold_fence WHERE name = X'6a6f6273' FOR UPDATE",
        "INSERT INTO leasehold ",
        "UPDATE leasehold_fence SET acquired = 9 << 31 ",
        "COMMIT",
    ];
    let texts = asked.iter().map(|asked| &*asked.what);
    let texts: Vec<_> = texts.skip_while(|text| !text.contains("innodb_lock_wait_timeout = 60")).collect();
    assert_eq!(texts.len(), starts.len(), "{texts:#?}");
    assert!(texts.iter().zip(starts).all(|(text, start)| text.starts_with(start)), "{texts:#?}");
}

/// A timeout of a lock undoes the statement, and not the transaction, which may have locked the fence.
#[test]
fn failed_acquisition_leaves_no_transaction_open() {
    for (code, attempts) in [(1205, 1), (1213, 11), (1969, 1)] {
        for step in ["SELECT acquired", "UPDATE leasehold_fence"] {
            let server = but(step, move || error(code, "no"));
            let store = server.store();
            assert_eq!(acquire(&store, &call()).unwrap_err(), StoreErrorKind::Unavailable, "{code}");
            assert_eq!((server.count(step), server.count("ROLLBACK")), (attempts, attempts), "{code} {step}");
            get(&store, &call()).unwrap();
            // The error 1969 is unknown to the client, which then opens another connection.
            assert_eq!(server.connections().into_iter().max(), Some(usize::from(code == 1969)), "{code}");
        }
    }
    let server = Server::new(|asked| match asked.what.as_str() {
        what if what.starts_with("SELECT acquired") => Some(error(1205, "no")),
        "ROLLBACK" => Some(error(1105, "no")),
        _ => None,
    });
    let store = server.store();
    acquire(&store, &call()).unwrap_err();
    get(&store, &call()).unwrap();
    assert_eq!(server.connections(), [0, 1], "the transaction may still be open on the first connection");
}

/// The surplus bytes would be an answer to the next statement of the transaction.
#[test]
fn surplus_answer_within_a_transaction_is_refused() {
    let answers = [vec![ok(0, 0)], rows(1, vec![row(&[Some("5")])])];
    let both = answers.map(|answer| framed(&in_transaction(answer), 1)).concat();
    let server = but("START TRANSACTION", move || bytes(&both));
    assert_eq!(acquire(&server.store(), &call()).unwrap_err(), StoreErrorKind::Malformed);
    assert_eq!(server.count("UPDATE leasehold_fence"), 0);
}

/// Behind a proxy, only a new connection reaches the new primary.
#[test]
fn connection_is_kept_only_after_a_known_refusal() {
    for (codes, last) in [(&[1290, 1792, 1836, 1053, 1317, 1927][..], 1), (&[1062, 1205, 1213, 1467], 0)] {
        for code in codes {
            let server = but("UPDATE leasehold SET", move || error(*code, "no"));
            let store = server.store();
            update(&store, &call()).unwrap_err();
            get(&store, &call()).unwrap();
            assert_eq!(server.connections().pop(), Some(last), "{code}");
        }
    }
}

#[test]
fn every_session_gets_its_settings() {
    let server = Server::new(|asked| {
        (asked.connection == 0 && asked.what.starts_with("SELECT @@") && asked.repeats == 1).then_some(Say::Close)
    });
    let store = server.store();
    (0..2).for_each(|_| _ = get(&store, &call()).unwrap());
    assert_eq!((server.connections(), server.count(SET_UP), server.count("SET SESSION TRANS")), (vec![0, 0, 1], 2, 2));
}

#[test]
fn rows_are_records_and_a_row_without_one_is_none() {
    let server = Server::well();
    let store = server.store();
    let asked = call();
    let read = store.get("jobs", &asked).unwrap().unwrap();
    assert_eq!(asked.store_time(), Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)));
    assert_eq!((read.version, read.record.uid.as_deref(), read.record.holder()), ((3 << 31) + 4, Some("u"), Some("a")));
    assert_eq!((read.record.lease_duration_seconds, read.record.lease_transitions), (Some(15), Some(7)));
    assert_eq!((read.record.acquire_time.unwrap().as_str(), read.record.renew_time), ("t", None));
    assert_eq!(read.notes.step_down.as_deref(), Some("a"));
    assert_eq!(update(&store, &call()).unwrap().version, (3 << 31) + 5);
    assert_eq!(create(&store, &call()).unwrap().version, 9 << 31);
    let statements = server.statements();
    assert!(statements.iter().all(|(connection, _)| *connection == 0), "{statements:?}");
    let absent = but("SELECT @@", || {
        let alone = [&[Some("0"); 2][..], &[None; 11]].concat();
        Say::Packets(rows(13, vec![row(&alone)]))
    });
    assert!(absent.store().get("jobs", &call()).unwrap().is_none());
}

#[test]
fn no_text_can_end_its_literal() {
    let server = Server::well();
    let quote = "'); DROP TABLE leasehold; -- \\";
    let record = LeaderElectionRecord { holder_identity: Some(quote.to_owned()), ..Default::default() };
    server.store().create("it's", record.as_write(), &call()).unwrap();
    server.store().update("it's", &base(), record.as_write(), &call()).unwrap();
    let cancel = CancelToken::new();
    let watched = server.store().watch(WatchScope::Prefix("it's"), None, &cancel, &mut |_| cancel.cancel());
    watched.unwrap_err();
    for (_, statement) in server.statements() {
        assert!(!statement.contains("DROP") && !statement.contains("it's"), "{statement}");
        let quoted = statement.split('\'').skip(1).step_by(2);
        assert!(quoted.into_iter().all(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit())), "{statement}");
    }
    assert_eq!(text(Some("a'\u{e9}")), "X'6127c3a9'");
    assert_eq!((text(None), text(Some(""))), ("NULL".to_owned(), "X''".to_owned()));
}

#[test]
fn row_is_replaced_only_if_all_of_it_is_as_observed() {
    let server = Server::well();
    update(&server.store(), &call()).unwrap();
    let statements = server.statements();
    let (_, compared) = statements[0].1.split_once(" WHERE ").unwrap();
    let expected = [
        "name = X'6a6f6273'",
        "generation = 3",
        "writes = 4",
        "uid <=> X'75'",
        "holder_identity <=> X'61'",
        "lease_duration_seconds <=> 15",
        "acquire_time <=> X'74'",
        "renew_time <=> NULL",
        "lease_transitions <=> 7",
        "CAST(notes AS BINARY) <=> X'7b2273746570446f776e223a2261227d'",
    ];
    assert_eq!(compared.split(" AND ").collect::<Vec<_>>(), expected);
}

#[test]
fn a_statement_that_changed_no_row_was_certainly_not_applied() {
    let to_writes = |say: fn() -> Say| {
        Server::new(move |asked| match asked.what.as_str() {
            what if what.starts_with("INSERT") || what.starts_with("UPDATE") => Some(say()),
            // Another candidate has written.
            what if what.starts_with("SELECT @@") => Some(Say::Packets(found_with(4, Some("9")))),
            _ => None,
        })
    };
    let none = to_writes(|| Say::Packets(vec![ok(0, 0)]));
    assert_eq!(update(&none.store(), &call()).unwrap_err(), StoreErrorKind::NotApplied);
    let none = to_writes(|| Say::Packets(in_transaction(vec![ok(0, 0)])));
    assert_eq!(acquire(&none.store(), &call()).unwrap_err(), StoreErrorKind::NotApplied);
    assert!(none.count("ROLLBACK") == 1 && none.count("COMMIT") == 0);
    // A trigger can restore the row, which then is unchanged. The fence alone has changed.
    for (write, changed) in [("UPDATE leasehold SET", 0), ("UPDATE leasehold_fence", 1)] {
        let ignores = but(write, move || {
            let answer = vec![ok(changed, 0)];
            Say::Packets(if changed == 0 { answer } else { in_transaction(answer) })
        });
        let write = if changed == 0 { update } else { acquire };
        assert_eq!(write(&ignores.store(), &call()).unwrap_err(), StoreErrorKind::Rejected);
        assert_eq!(ignores.count("COMMIT"), 0);
    }
    // A response with rows does not report whether the write was applied.
    let rows = to_writes(|| Say::Packets(found()));
    assert_eq!(update(&rows.store(), &call()).unwrap_err(), StoreErrorKind::Malformed);
    assert_eq!(create(&rows.store(), &call()).unwrap_err(), StoreErrorKind::Malformed);
    let exists = but("INSERT", || error(1062, "Duplicate entry"));
    assert_eq!(create(&exists.store(), &call()).unwrap_err(), StoreErrorKind::NotApplied);
}

#[test]
fn only_a_write_rolled_back_by_a_deadlock_is_sent_again() {
    for code in [1213, 1467] {
        let server = Server::new(move |asked| {
            (asked.what.starts_with("UPDATE") && asked.repeats < 2).then(|| error(code, "Deadlock found"))
        });
        update(&server.store(), &call()).unwrap();
        assert_eq!(server.statements().len(), 3, "{code}");
    }
    let always = but("UPDATE", || error(1213, "Deadlock found"));
    assert_eq!(update(&always.store(), &call()).unwrap_err(), StoreErrorKind::Unavailable);
    for code in [1205, 1290, 1836, 1047, 3100, 1180] {
        let server = but("UPDATE", move || error(code, "no"));
        assert_eq!(update(&server.store(), &call()).unwrap_err(), StoreErrorKind::Unavailable, "{code}");
        assert_eq!(server.statements().len(), 1, "{code}");
    }
}

/// InnoDB returns writes that a crash could still revert.
///
/// The store must not return such a write of this process. Otherwise the candidate would lead before its record is
/// durable.
#[test]
fn own_unanswered_write_is_read_only_once_durable() {
    let later = || Say::Packets(found_with(4, Some("5")));
    let server = Server::new(move |asked| match asked.what.as_str() {
        what if what.contains("holder_identity = ") => Some(Say::Silence),
        what if what.starts_with("SELECT @@") => Some(later()),
        _ => None,
    });
    let store = server.store();
    store.get("jobs", &call()).unwrap();
    assert_eq!(server.statements().len(), 1, "the write is not ours");
    let interrupted = cancel_at(|| server.count("UPDATE"), |call| update(&store, call));
    assert_eq!(interrupted.unwrap_err(), StoreErrorKind::Interrupted);
    for _ in 0..2 {
        assert_eq!(get(&store, &call()).unwrap().unwrap().version, (3 << 31) + 5);
    }
    let statements: Vec<_> = server.statements().into_iter().map(|(_, statement)| statement).collect();
    let flushes = |statement: &String| statement.contains("SET writes = 1 - writes WHERE name = X''");
    assert_eq!(statements.iter().map(flushes).collect::<Vec<_>>(), [false, false, false, true, false]);
    // This server does not answer the flush, so the read must fail.
    let stalled = Server::new(move |asked| match asked.what.as_str() {
        what if what.starts_with("UPDATE") => Some(Say::Silence),
        what if what.starts_with("SELECT @@") => Some(later()),
        _ => None,
    });
    let store = stalled.store();
    let interrupted = cancel_at(|| stalled.count("UPDATE"), |call| update(&store, call));
    assert_eq!(interrupted.unwrap_err(), StoreErrorKind::Interrupted);
    assert_eq!(get(&store, &brief()).unwrap_err(), StoreErrorKind::Timeout);
}

/// The server crashes between the read and its flush, and starts without the last write.
#[test]
fn flush_on_another_connection_proves_no_read() {
    let server = Server::new(|asked| match asked.what.as_str() {
        what if what.contains("holder_identity = ") => Some(Say::Silence),
        what if what.starts_with("SELECT @@") && asked.connection == 1 => Some(Say::Last(found_with(4, Some("5")))),
        _ => None,
    });
    let store = server.store();
    let interrupted = cancel_at(|| server.count("UPDATE"), |call| update(&store, call));
    assert_eq!(interrupted.unwrap_err(), StoreErrorKind::Interrupted);
    let before = get(&Server::well().store(), &call()).unwrap().unwrap().version;
    assert_eq!(get(&store, &call()).unwrap().unwrap().version, before);
}

const FLUSH: &str = "UPDATE leasehold SET writes = 1 - writes WHERE name = X''";

/// Returns the statements that follow a write without an answer.
fn statements_after(server: &Server, write: &str) -> Vec<String> {
    let statements = server.statements().into_iter().map(|(_, statement)| statement);
    statements.skip_while(|statement| !statement.contains(write)).skip(1).collect()
}

/// A crash can also revert a create, and an acquisition whose commit is not answered. A watch reads such a write, too.
#[test]
fn own_unanswered_write_of_each_kind_is_flushed() {
    type Write = fn(&MySqlStore, &CallContext) -> Result<VersionedRecord, StoreErrorKind>;
    let writes: [(Write, _, _); 3] = [
        (update, "UPDATE leasehold SET holder", "UPDATE leasehold SET holder"),
        (acquire, "COMMIT", "UPDATE leasehold_fence AS f"),
        (create, "COMMIT", "UPDATE leasehold_fence SET acquired"),
    ];
    thread::scope(|scope| {
        for ((write, unanswered, last), is_silent) in writes.into_iter().flat_map(|it| [(it, true), (it, false)]) {
            scope.spawn(move || {
                let server = Server::new(move |asked| match asked.what.as_str() {
                    what if what.starts_with(unanswered) => Some(if is_silent { Say::Silence } else { Say::Close }),
                    what if what.starts_with("SELECT @@") => Some(Say::Packets(found_with(4, Some("5")))),
                    _ => None,
                });
                let store = server.store();
                let limit = Duration::from_secs(if is_silent { 3 } else { 30 });
                write(&store, &CallContext::new(limit, CancelToken::new())).unwrap_err();
                if is_silent {
                    let cancel = CancelToken::new();
                    let on_event = &mut |event| _ = matches!(event, WatchEvent::Synced).then(|| cancel.cancel());
                    store.watch(WatchScope::All, None, &cancel, on_event).unwrap_err();
                } else {
                    get(&store, &call()).unwrap();
                }
                assert_eq!(get(&store, &call()).unwrap().unwrap().version, (3 << 31) + 5);
                let after = statements_after(&server, last);
                assert!(after.len() == 3 && after[1] == FLUSH, "{last}: {after:?}");
            });
        }
    });
}

/// A flush that changes no row writes nothing to the disk.
#[test]
fn missing_row_of_the_flush_is_created_and_flushed() {
    for (flushed, inserted, expected) in [([0, 1], 0, Some(3)), ([0, 1], 1, Some(2)), ([0, 0], 0, None)] {
        let server = Server::new(move |asked| match asked.what.as_str() {
            what if what.contains("holder_identity = ") => Some(Say::Close),
            what if what.starts_with("SELECT @@") => Some(Say::Packets(found_with(4, Some("5")))),
            FLUSH => Some(Say::Packets(vec![ok(flushed[asked.repeats.min(1)], 0)])),
            what if what.starts_with("INSERT IGNORE") => Some(Say::Packets(vec![ok(inserted, 0)])),
            _ => None,
        });
        let store = server.store();
        update(&store, &call()).unwrap_err();
        let read = get(&store, &call());
        let Some(count) = expected else {
            assert_eq!(read.unwrap_err(), StoreErrorKind::Malformed);
            continue;
        };
        get(&store, &call()).unwrap();
        let after = statements_after(&server, "holder_identity = ");
        assert_eq!(after.len(), count + 2, "{after:?}");
        assert!(after[1] == FLUSH && after[2].starts_with("INSERT IGNORE INTO leasehold "), "{after:?}");
        assert!(after[3..=count].iter().all(|it| it == FLUSH), "{after:?}");
    }
}

/// The store logs the server's error after a deadlock, and the error may quote the password.
#[test]
fn deadlock_message_is_logged_without_the_password() {
    static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

    struct Listener;

    impl log::Log for Listener {
        fn enabled(&self, _: &log::Metadata<'_>) -> bool {
            true
        }

        fn log(&self, record: &log::Record<'_>) {
            let line = record.args().to_string();
            if line.contains("repeating") && line.contains("1213") {
                LINES.lock().push(line);
            }
        }

        fn flush(&self) {}
    }

    log::set_logger(&Listener).expect("the only logger");
    log::set_max_level(log::LevelFilter::Debug);
    let server = but("UPDATE", || error(1213, "Deadlock of hunter2\nnext line"));
    update(&server.store(), &call()).unwrap_err();
    let lines = LINES.lock().clone();
    assert!(lines.len() >= 10, "{lines:?}");
    assert!(lines.iter().all(|line| !line.contains("hunter2") && !line.contains('\n')), "{lines:?}");
}

#[test]
fn read_only_server_is_not_used_for_reads() {
    for at in [0, 1] {
        for value in [Some("OFF"), Some("1"), Some("ON"), Some("NO_LOCK"), None] {
            let server = but("SELECT @@", move || Say::Packets(found_with(at, value)));
            let store = server.store();
            match store.get("jobs", &call()) {
                Ok(found) => assert!(value == Some("OFF") && found.is_some()),
                Err(error) => {
                    let is_about_it = error.to_string().contains("primary");
                    assert!(error.kind() == StoreErrorKind::Unavailable && is_about_it, "{value:?}: {error}");
                }
            }
            // A proxy may lead the next connection to the primary.
            _ = store.get("jobs", &call());
            assert_eq!(server.connections(), [0, usize::from(value != Some("OFF"))], "{value:?}");
        }
    }
}

/// A read-only server executes the writes of a user with the privilege SUPER.
///
/// The client must therefore check before each write that the server is not read-only.
#[test]
fn user_exempt_from_read_only_checks_before_each_write() {
    for (value, is_ok) in [("0", true), ("1", false)] {
        let server = Server::new(move |asked| match asked.what.as_str() {
            "SELECT @@global.read_only, @@global.innodb_read_only" => {
                Some(Say::Packets(rows(2, vec![row(&[Some(value), Some("0")])])))
            }
            what if what.starts_with("SELECT TABLE_NAME, ENGINE") => {
                Some(Say::Packets(pairs(&[TABLES[0], TABLES[1], ("privilege", "SUPER")])))
            }
            _ => None,
        });
        assert_eq!(update(&server.store(), &call()).is_ok(), is_ok);
        assert_eq!(server.statements().len(), usize::from(is_ok));
    }
}

#[test]
fn servers_and_tables_that_keep_no_promise_are_refused() {
    for (variables, about, word) in [
        (&[("version", "5.7.44")][..], &TABLES[..], "5.7.44"),
        (&[("version", "10.1.48-MariaDB")], &[], "10.1.48"),
        (&[], &[], "fencing tokens"),
        (&[("version", "8.0.36")], &[("leasehold", "MyISAM")], "InnoDB"),
        (&[("version", "8.0.36")], &[TABLES[0], ("leasehold_fence", "MyISAM")], "InnoDB"),
        (&[("version", "8.0.36")], &[TABLES[0]], "run: CREATE TABLE IF NOT EXISTS leasehold_fence"),
        (&[("version", "8.0.11-TiDB-v7")], &[], "TiDB"),
    ] {
        let server = Server::new(move |asked| match asked.what.as_str() {
            what if what.starts_with("SHOW") => Some(Say::Packets(pairs(variables))),
            what if what.starts_with("SELECT TABLE_NAME, ENGINE") => Some(Say::Packets(pairs(about))),
            _ => None,
        });
        let error = server.store().get("jobs", &call()).unwrap_err();
        assert!(error.kind() == StoreErrorKind::Rejected && error.to_string().contains(word), "{error}");
        assert!(server.statements().is_empty());
    }
}

#[test]
fn cluster_member_waits_for_writes_of_other_members() {
    for (variable, value, set) in [
        ("wsrep_on", "ON", Some("wsrep_sync_wait = 15")),
        ("wsrep_on", "OFF", None),
        ("group_replication_group_name", "0a1b", Some("group_replication_consistency = 'BEFORE'")),
        ("group_replication_group_name", "", None),
    ] {
        let server = Server::new(move |asked| {
            let variables = [("version", "8.0.36"), (variable, value)];
            asked.what.starts_with("SHOW").then(|| Say::Packets(pairs(&variables)))
        });
        get(&server.store(), &call()).unwrap();
        for known in ["wsrep_sync_wait", "group_replication_consistency"] {
            assert_eq!(server.was_asked(known), set.is_some_and(|set| set.contains(known)), "{variable} {value}");
        }
        assert!(set.is_none_or(|set| server.was_asked(set)));
    }
}

fn bytes(bytes: &[u8]) -> Say {
    Say::Bytes(bytes.to_vec())
}

/// Tests responses that are neither a result nor an error, to reads and to writes.
#[test]
fn foreign_response_is_malformed_and_closes_the_connection() {
    let strange: [fn() -> Say; 17] = [
        // The server requests a file of this machine.
        || Say::Packets(vec![b"\xfb/etc/passwd".to_vec()]),
        // The first response has a wrong packet number. The next two responses declare packets that are too long.
        || bytes(&framed(&[ok(1, 1)], 2)),
        || bytes(&[0xff, 0xff, 0xff, 1]),
        || bytes(&[1, 0, 16, 1]),
        || Say::Packets(vec![vec![]]),
        || Say::Packets(vec![vec![0, 1]]),
        || Say::Packets(vec![vec![0xfe, 0, 0, 2, 0]]),
        || Say::Packets(vec![vec![0xff, 1]]),
        // The status flags of these responses mean: in a transaction, without autocommit, and with more results.
        || Say::Packets(vec![vec![0, 1, 1, 3, 0, 0, 0]]),
        || Say::Packets(vec![vec![0, 1, 1, 0, 0, 0, 0]]),
        || Say::Packets(vec![vec![0, 1, 1, 10, 0, 0, 0]]),
        // Two responses with too many columns, endless columns, two rows of a wrong length, and a truncated number.
        || Say::Packets(vec![vec![200]]),
        || Say::Packets(vec![vec![0xfe, 255, 255, 255, 255, 255, 255, 255, 255]]),
        || Say::Endless(vec![vec![2]], b"a column".to_vec()),
        || Say::Packets(rows(14, vec![row(&RECORD)])),
        || Say::Packets(rows(12, vec![row(&RECORD)])),
        || Say::Packets(vec![vec![0xfd, 1]]),
    ];
    for (number, say, is_read) in
        (0..).zip(strange).flat_map(|(number, say)| [(number, say, true), (number, say, false)])
    {
        let server = Server::new(move |asked| {
            let is_it = asked.what.starts_with("SELECT @@") || asked.what.starts_with("UPDATE");
            (is_it && asked.connection == 0).then(say)
        });
        let store = server.store();
        let kind = if is_read { get(&store, &call()).unwrap_err() } else { update(&store, &call()).unwrap_err() };
        assert_eq!(kind, StoreErrorKind::Malformed, "{number} {is_read}");
        get(&store, &call()).unwrap();
        assert_eq!(server.connections(), [0, 1], "{number} {is_read}");
    }
}

#[test]
fn rows_that_are_no_records_are_no_absent_record() {
    for answer in [
        rows(11, vec![]),
        rows(2, vec![row(&[Some("0"), Some("0")])]),
        found_with(2, Some("x")),
        found_with(2, Some("0")),
        found_with(3, None),
        found_with(3, Some("JOBS")),
        found_with(4, Some("-1")),
        found_with(5, None),
        found_with(7, Some("1.5")),
        vec![ok(0, 0)],
    ] {
        let server =
            Server::new(move |asked| asked.what.starts_with("SELECT @@").then(|| Say::Packets(answer.clone())));
        assert_eq!(get(&server.store(), &call()).unwrap_err(), StoreErrorKind::Malformed);
    }
}

const PHASES: [&str; 8] = [
    GREETING,
    LOGIN,
    SET_UP,
    "SET SESSION TRANS",
    "SHOW",
    "SELECT TABLE_NAME, E",
    "SELECT TABLE_NAME, C",
    "SELECT @@global",
];

#[test]
fn silence_or_an_end_in_any_phase_ends_the_call() {
    for phase in PHASES {
        let server = but(phase, || Say::Close);
        assert_eq!(get(&server.store(), &call()).unwrap_err(), StoreErrorKind::Unavailable, "{phase}");
        let server = but(phase, || Say::Silence);
        assert_eq!(get(&server.store(), &brief()).unwrap_err(), StoreErrorKind::Timeout, "{phase}");
        let began = Instant::now();
        let store = server.store();
        let interrupted = cancel_at(|| server.count(phase), |call| get(&store, call));
        assert_eq!(interrupted.unwrap_err(), StoreErrorKind::Interrupted, "{phase}");
        assert!(began.elapsed() < Duration::from_secs(30), "{phase}");
    }
}

fn switch(method: &str) -> Say {
    Say::Packets(vec![[&[0xfe], method.as_bytes(), b"\0ABCDEFGHIJKLMNOPQRST\0"].concat()])
}

/// Without TLS, any machine on the network path could read the password.
#[test]
fn a_password_is_never_sent_as_it_is_without_tls() {
    for method in ["mysql_clear_password", "client_ed25519", "parsec", "dialog", "sha256_password"] {
        let server = Server::new(move |asked| (asked.what == LOGIN).then(|| switch(method)));
        let error = server.store().get("jobs", &call()).unwrap_err();
        assert!(error.kind() == StoreErrorKind::Unauthorized && error.to_string().contains(method), "{error}");
        let has_remedy =
            error.to_string().contains("log in as \"jobs\"") && error.to_string().contains("ALTER USER 'jobs'@");
        assert_eq!(has_remedy, method != "mysql_clear_password", "{error}");
        assert!(!server.was_asked("answer"), "nothing was sent: {method}");
    }
    // The client uses no TLS, although the server offers it.
    let server = Server::new(|asked| match asked.what.as_str() {
        GREETING => {
            let mut packet = greeting("caching_sha2_password");
            offer_tls(&mut packet);
            Some(Say::Packets(vec![packet]))
        }
        LOGIN => Some(switch("caching_sha2_password")),
        what if what.starts_with("answer") => Some(Say::Packets(vec![vec![1, 4]])),
        _ => None,
    });
    let error = server.store().get("jobs", &call()).unwrap_err();
    assert!(error.kind() == StoreErrorKind::Unauthorized && error.to_string().contains("TLS"), "{error}");
    assert!(!server.was_asked("hunter2"));
    let old = Server::new(|asked| (asked.what == LOGIN).then(|| Say::Packets(vec![vec![0xfe]])));
    assert!(old.store().get("jobs", &call()).unwrap_err().to_string().contains("mysql_old_password"));
}

/// No other machine can read a Unix socket.
#[cfg(unix)]
#[test]
fn clear_password_is_sent_through_a_local_socket() {
    for method in ["caching_sha2_password", "mysql_clear_password"] {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("socket");
        let server = Server::on_socket(&path, move |asked| match asked.what.as_str() {
            LOGIN => Some(switch(method)),
            "answer hunter2\0" => None,
            what if what.starts_with("answer") => Some(Say::Packets(vec![vec![1, 4]])),
            _ => None,
        });
        let url = format!("mysql://jobs:hunter2@localhost/app?socket={}", path.display());
        let store = MySqlStore::new(MySqlConfig::new(&url).unwrap()).unwrap();
        assert!(store.get("jobs", &call()).unwrap().is_some(), "{method}");
        assert!(server.was_asked("answer hunter2\0"), "{method}");
    }
}

#[test]
fn cached_user_is_accepted_by_caching_sha2_password() {
    let server = Server::new(|asked| match asked.what.as_str() {
        GREETING => Some(Say::Packets(vec![greeting("caching_sha2_password")])),
        LOGIN => Some(Say::Packets(vec![vec![1, 3], ok(0, 0)])),
        _ => None,
    });
    get(&server.store(), &call()).unwrap();
}

#[test]
fn endless_login_ends() {
    let server = Server::new(|asked| match asked.what.as_str() {
        what if what == LOGIN || what.starts_with("answer") => Some(switch("mysql_native_password")),
        _ => None,
    });
    assert_eq!(get(&server.store(), &call()).unwrap_err(), StoreErrorKind::Malformed);
}

#[test]
fn where_tls_is_wanted_and_not_offered_nothing_is_sent() {
    let server = Server::well();
    let url = format!("mysql://jobs:hunter2@127.0.0.1:{}/app?ssl-mode=REQUIRED", server.port);
    let store = MySqlStore::new(MySqlConfig::new(&url).unwrap()).unwrap();
    let error = store.get("jobs", &call()).unwrap_err();
    assert!(error.kind() == StoreErrorKind::Untrusted && error.to_string().contains("no TLS"), "{error}");
    assert!(!server.was_asked(LOGIN));
}

#[test]
fn no_secret_is_in_an_error_or_shown() {
    let server = Server::new(|asked| (asked.what == LOGIN).then(|| error(1045, "Access denied (hunter2)")));
    let store = server.store();
    let error = store.get("jobs", &call()).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unauthorized);
    let shown = format!("{error} {error:?} {store:?} {:?} {:?}", store.location(), server.config());
    assert!(!shown.contains("hunter2") && shown.contains("/app"), "{shown}");
    let nobody = MySqlStore::new(MySqlConfig::new("mysql://127.0.0.1/app").unwrap()).unwrap_err();
    assert_eq!(nobody.field(), "user");
}

#[test]
fn refusal_of_the_server_names_a_remedy() {
    use StoreErrorKind::*;
    let of_the_login = [1045, 1130, 1131, 1132, 1133, 1251, 1275, 1524, 1698, 1820, 1862, 3118, 4151];
    for (code, kind, word) in [
        (&[1146][..], NotFound, "create_table"),
        (&[1049], NotFound, "database"),
        (&[1142, 1143, 1227, 1370], Forbidden, "grant"),
        (&[1044], Forbidden, "existing database"),
        (&[3159], Unauthorized, "ssl-mode"),
        (&of_the_login, Unauthorized, ""),
        (&[1040, 1203, 1226], Unavailable, "max_connections"),
        (&[1290, 1792, 1836], Unavailable, "primary"),
        (&[1054, 1064, 1136, 1193, 1231, 1364], Rejected, "documentation"),
        (&[1264, 1292, 1366, 1406, 3819, 4025], Rejected, "this record"),
        (&[1153], Rejected, "max_allowed_packet"),
        (&[1129], Unavailable, "FLUSH HOSTS"),
        (&[1205, 65_535], Unavailable, ""),
    ]
    .into_iter()
    .flat_map(|(codes, kind, word)| codes.iter().map(move |code| (*code, kind, word)))
    {
        let server = but("SELECT @@", move || error(code, "no"));
        let refused = server.store().get("jobs", &call()).unwrap_err();
        assert!(refused.kind() == kind && refused.to_string().contains(word), "{code}: {refused}");
    }
}

/// A server that has too many connections refuses the connection before its greeting, without an SQL state.
#[test]
fn refusal_instead_of_a_greeting_names_a_remedy() {
    let server = but(GREETING, || Say::Packets(vec![b"\xff\x10\x04Too many connections".to_vec()]));
    let refused = server.store().get("jobs", &call()).unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Unavailable);
    let text = refused.to_string();
    assert!(text.contains("Too many connections") && text.contains("max_connections"), "{text}");
}

#[test]
fn watch_ends_with_the_read_error_and_reports_lost_rows() {
    let server = Server::new(|asked| {
        (asked.what.starts_with("SELECT @@") && asked.repeats > 1).then(|| error(1146, "no table"))
    });
    let mut events = Vec::new();
    let ended =
        server.store().watch(WatchScope::Key("jobs"), None, &CancelToken::new(), &mut |event| events.push(event));
    assert_eq!(ended.unwrap_err().kind(), StoreErrorKind::NotFound);
    use WatchEvent::{Bookmark, Changed, Deleted, Opened, Synced};
    assert!(matches!(&events[..], [Opened, Changed { .. }, Synced, Bookmark(_), Deleted { .. }]), "{events:?}");
}
