//! The end of calls, and the connections and passwords of the calls that follow.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::*;
use crate::mysql::client::{Client, Request};
use crate::mysql::error::Error;
use crate::net::error::ErrorKind;
use crate::net::tests::certificates::Files;

/// The rule "How a call ends" of docs/STORES.md.
#[test]
fn error_reports_if_the_statement_may_have_been_sent() {
    let sql = "UPDATE leasehold SET writes = 1";
    let query = |server: &Server, call: &Call| {
        let client = Client::new(server.config(), "leasehold").unwrap();
        let request = Request { sql, is_read: false, timeout: call.time_left(), cancel: call.cancel() };
        let Err(Error::Net(error)) = client.query(request) else { panic!("it must fail") };
        (error.kind, error.maybe_sent)
    };
    for (phase, sent) in [(GREETING, false), (LOGIN, false), (SET_UP, false), (sql, true)] {
        let server = but(phase, || Say::Silence);
        assert_eq!(server.cancel_at(phase, |call| query(&server, call)), (ErrorKind::Interrupted, sent), "{phase}");
        let server = but(phase, || Say::Close);
        assert_eq!(query(&server, &call()), (ErrorKind::Io, sent), "{phase}");
    }
    let server = but(sql, || Say::Silence);
    let second = Call::new(Duration::from_secs(1), Cancel::new());
    assert_eq!(query(&server, &second), (ErrorKind::Timeout, true));
    assert_eq!(query(&server, &Call::new(Duration::ZERO, Cancel::new())), (ErrorKind::Timeout, false));
    let cancelled = call();
    cancelled.cancel().cancel();
    assert_eq!(query(&server, &cancelled), (ErrorKind::Interrupted, false));
}

#[test]
fn connections_idle_at_a_cancel_or_time_out_are_not_reused() {
    for is_cancelled in [true, false] {
        let both = Barrier::new(2);
        let server = Server::new(move |asked| {
            let is_it = asked.what.starts_with("SELECT @@") && asked.connection < 2;
            match asked.repeats {
                _ if !is_it => None,
                // Neither is answered before both are asked, or one connection would serve both.
                0 => {
                    both.wait();
                    None
                }
                _ => Some(Say::Silence),
            }
        });
        let store = server.store();
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| store.get("jobs", &call()).unwrap());
            }
        });
        let (failed, expected) = match is_cancelled {
            true => (server.cancel_at("SELECT @@", |call| get(&store, call)), StoreErrorKind::Interrupted),
            false => (get(&store, &brief()), StoreErrorKind::Timeout),
        };
        assert_eq!(failed.unwrap_err(), expected);
        store.get("jobs", &call()).unwrap();
        assert!(server.connections().contains(&2), "{:?}", server.connections());
    }
}

#[test]
fn connection_of_an_older_certificate_is_not_reused() {
    Files::rotate(|tls, config| {
        let server = Server::with_tls(Some(config), |_| None);
        let store = MySqlStore::new(server.config().with_tls(tls)).unwrap();
        let calls = AtomicUsize::new(0);
        Box::new(move || {
            store.get("jobs", &call()).unwrap();
            let expected = [0, 0, 1];
            assert_eq!(server.connections(), expected[..=calls.fetch_add(1, Ordering::SeqCst)]);
        })
    });
}

#[test]
fn refused_login_asks_the_password_source_again() {
    for is_accepted in [true, false] {
        let server = Server::new(move |asked| {
            let is_refused = asked.what == LOGIN && (asked.connection == 0 || !is_accepted);
            is_refused.then(|| error(1045, "Access denied: secret-0 secret-1"))
        });
        let asks = AtomicUsize::new(0);
        let source = move |_: &Call| Ok::<_, String>(format!("secret-{}", asks.fetch_add(1, Ordering::SeqCst)));
        let config = MySqlConfig::new(&format!("mysql://jobs@127.0.0.1:{}/app", server.port)).unwrap();
        let store = MySqlStore::new(config.with_password_from(source)).unwrap();
        match store.get("jobs", &call()) {
            Ok(found) => assert!(is_accepted && found.is_some()),
            Err(error) => {
                assert!(!is_accepted && error.kind() == StoreErrorKind::Unauthorized, "{error}");
                assert!(!format!("{error} {error:?} {store:?}").contains("secret"), "{error}");
            }
        }
        assert_eq!(server.asked.lock().iter().filter(|asked| asked.what == LOGIN).count(), 2);
    }
    let twice = Server::well().config().with_password_from(|_| Ok::<_, String>(String::new()));
    assert_eq!(MySqlStore::new(twice).unwrap_err().field(), "password");
}
