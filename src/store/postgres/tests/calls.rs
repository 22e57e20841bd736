//! The end of calls, and the connections and passwords of the calls that follow.

use std::sync::Barrier;

use super::*;
use crate::net::error::ErrorKind;
use crate::net::tests::certificates::Files;

const INSERT: Statement<'_> = Statement { sql: "INSERT", parameters: &[] };

fn insert(server: &Server, call: &Call) -> (ErrorKind, bool) {
    let answer = server.store().client.run(request(&[INSERT], false, call), Ok);
    let Err(Error::Net(error)) = answer else { panic!("it must fail") };
    (error.kind, error.maybe_sent)
}

/// The rule "How a call ends" of docs/STORES.md.
#[test]
fn error_reports_if_the_statement_may_have_been_sent() {
    for (silent_at, sent) in [(0, false), (1, true)] {
        let server = Server::new(move |said| if said.number == silent_at { None } else { well(said) });
        let interrupted = server.cancel_at(|said| said.number == silent_at, |call| insert(&server, call));
        assert_eq!(interrupted, (ErrorKind::Interrupted, sent));
        let second = Call::new(Duration::from_secs(1), Cancel::new());
        assert_eq!(insert(&server, &second), (ErrorKind::Timeout, sent));
        let server = Server::new(move |said| if said.number == silent_at { Some(Vec::new()) } else { well(said) });
        assert_eq!(insert(&server, &call()), (ErrorKind::Io, sent));
    }
    let server = Server::new(|said| {
        assert!(!said.is("INSERT"));
        well(said)
    });
    assert_eq!(insert(&server, &Call::new(Duration::ZERO, Cancel::new())), (ErrorKind::Timeout, false));
    let cancelled = call();
    cancelled.cancel().cancel();
    assert_eq!(insert(&server, &cancelled), (ErrorKind::Interrupted, false));
    // The server answers while the call is being cancelled.
    let cancelled = call();
    let from_the_server = cancelled.cancel().clone();
    let server = Server::new(move |said| {
        if said.is("INSERT") {
            from_the_server.cancel();
        }
        well(said)
    });
    assert_eq!(insert(&server, &cancelled), (ErrorKind::Interrupted, true));
}

#[test]
fn connections_idle_at_a_cancel_or_time_out_are_not_reused() {
    for is_cancelled in [true, false] {
        let both = Barrier::new(2);
        let server = Server::new(move |said| {
            // Neither of the first two is answered before both are asked, or one connection would serve both.
            if said.number == 1 && said.connection < 2 {
                both.wait();
            }
            if said.is("UPDATE") { None } else { well(said) }
        });
        let store = server.store();
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| store.get("jobs", &call()).unwrap());
            }
        });
        let base = store.get("jobs", &call()).unwrap().unwrap();
        let update = |call: &Call| kind(store.update("jobs", &base, &base.record, call));
        let (failed, expected) = match is_cancelled {
            true => (server.cancel_at(|said| said.is("UPDATE"), update), StoreErrorKind::Interrupted),
            false => (update(&brief()), StoreErrorKind::Timeout),
        };
        assert_eq!((failed, server.connections()), (expected, 2));
        store.get("jobs", &call()).unwrap();
        assert_eq!(server.connections(), 3, "and not on the one beside it");
    }
}

#[test]
fn connection_of_an_older_certificate_is_not_reused() {
    Files::rotate(|tls, config| {
        let server = Server::with_tls(Some(config), well);
        let config = PostgresConfig::new(&format!("{}?sslmode=verify-full", server.url)).unwrap().with_tls(tls);
        let (store, calls) = (PostgresStore::new(config).unwrap(), AtomicUsize::new(0));
        Box::new(move || {
            store.get("jobs", &call()).unwrap();
            assert_eq!(server.connections(), [1, 1, 2][calls.fetch_add(1, Ordering::SeqCst)]);
        })
    });
}

#[test]
fn refused_login_asks_the_password_source_again() {
    for is_accepted in [true, false] {
        let server = Server::new(move |said| match said.number {
            0 => Some(message(b'R', &3_u32.to_be_bytes())),
            1 if is_accepted && said.is("secret-1") => logged_in(),
            1 => Some(message(b'E', b"SFATAL\0C28P01\0Mno: secret-0 secret-1\0\0")),
            _ => answer(&[row(&RECORD)]),
        });
        let asks = AtomicUsize::new(0);
        let source = move |_: &Call| Ok::<_, String>(format!("secret-{}", asks.fetch_add(1, Ordering::SeqCst)));
        let config = PostgresConfig::new(&server.url.replace(":hunter2", "")).unwrap().with_password_from(source);
        let store = PostgresStore::new(config).unwrap();
        match store.get("jobs", &call()) {
            Ok(found) => assert!(is_accepted && found.is_some()),
            Err(error) => {
                assert!(!is_accepted && error.kind() == StoreErrorKind::Unauthorized, "{error}");
                assert!(!format!("{error} {error:?} {store:?}").contains("secret"), "{error}");
            }
        }
        assert_eq!(server.connections(), 2);
        let twice = PostgresConfig::new(&server.url).unwrap().with_password_from(|_| Ok::<_, String>(String::new()));
        assert_eq!(PostgresStore::new(twice).unwrap_err().field(), "password");
    }
}
