//! Tests of the etcd, MySQL and PostgreSQL clients: timeouts, lost connections and logins.

use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use rustls::ServerConfig;

use crate::backends::password::Password;
use crate::net::error::{self as net, NetErrorKind};
use crate::net::tests::certificates::Files;
use crate::net::tls::config::TlsConfig;
use crate::store::record::VersionedRecord;
use crate::store::{CallContext, Store, StoreErrorKind};
use crate::util::cancel::CancelToken;
use crate::util::config_error::ConfigError;

/// A step of a connection, for which a script chooses an [`Act`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    Login,
    Request,
}

/// The reaction of a scripted server to one step of a connection.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Act {
    Answer,
    Silence,
    Close,
    /// Answers, and then closes the connection.
    AnswerAndClose,
    /// Answers, and sends bytes that belong to no request.
    Surplus,
    /// Refuses a login with the text [`REFUSAL`].
    Refuse,
}

pub(super) const REFUSAL: &str = "authentication failed: secret-0 secret-1";

/// A function that returns the server's act for one step of a connection.
///
/// The arguments are the number of the connection, the step, and how often the connection has already reached this
/// step.
pub(super) type Script = dyn Fn(usize, Step, usize) -> Act + Send + Sync;

/// The login settings with which a test opens a store.
pub(super) enum Login {
    Plain,
    Tls(TlsConfig),
    From(Password),
}

/// A test server for one of the clients, which reacts to each step as its [`Script`] demands.
pub(super) trait Scripted: Sync + Sized + 'static {
    fn scripted(tls: Option<Arc<ServerConfig>>, script: Box<Script>) -> Self;

    /// Returns all steps for which the script has run, each with the number of its connection.
    fn steps(&self) -> Vec<(usize, Step)>;

    fn open(&self, login: Login) -> Result<Box<dyn Store>, ConfigError>;

    /// Writes a record, and returns the error of the network, without which the test fails.
    fn write(&self, call: &CallContext) -> net::Error;

    fn connections(&self, step: Step) -> Vec<usize> {
        self.steps().into_iter().filter(|(_, it)| *it == step).map(|(connection, _)| connection).collect()
    }
}

/// Runs these tests with the client of a server.
macro_rules! test_client {
    ($server:ty: $($test:ident),* $(,)?) => {
        $(#[test] fn $test() { $crate::backends::tests::$test::<$server>(); })*
    };
}
pub(super) use test_client;

/// Calls `serve` for each connection, on a separate thread.
///
/// `serve` receives the number of the connection. Returns the port, and a counter of the accepted connections.
pub(super) fn listen(serve: impl Fn(usize, TcpStream) + Send + Sync + 'static) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (serve, count) = (Arc::new(serve), Arc::<AtomicUsize>::default());
    let connections = Arc::clone(&count);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (serve, connection) = (Arc::clone(&serve), count.fetch_add(1, Ordering::SeqCst));
            thread::spawn(move || serve(connection, stream));
        }
    });
    (port, connections)
}

/// Returns a call with a longer timeout than a scripted server needs.
pub(super) fn call() -> CallContext {
    call_within(Duration::from_secs(30))
}

/// Calls `run` on another thread, and cancels the call as soon as `count` has increased.
pub(super) fn cancel_at<T: Send>(count: impl Fn() -> usize, run: impl FnOnce(&CallContext) -> T + Send) -> T {
    let (call, before) = (CallContext::new(Duration::from_secs(60), CancelToken::new()), count());
    thread::scope(|scope| {
        let running = scope.spawn(|| run(&call));
        while count() == before && !running.is_finished() {
            thread::yield_now();
        }
        call.cancel().cancel();
        let (cancelled_at, result) = (Instant::now(), running.join().unwrap());
        assert!(cancelled_at.elapsed() < Duration::from_secs(30), "the call ends at its timeout");
        result
    })
}

fn call_within(timeout: Duration) -> CallContext {
    CallContext::new(timeout, CancelToken::new())
}

/// A timeout that is long enough for a request to arrive on a busy machine.
const BRIEF: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(30);

fn get(store: &dyn Store, call: &CallContext) -> Result<Option<VersionedRecord>, StoreErrorKind> {
    store.get("jobs", call).map_err(|error| error.kind())
}

/// Checks the errors of calls that time out, are cancelled, or lose the connection.
///
/// The error of each call must also report whether the server may have received the request.
pub(super) fn error_reports_if_the_request_may_have_been_sent<S: Scripted>() {
    let write = |server: &S, call: &CallContext| {
        let error = server.write(call);
        (error.kind, error.maybe_sent)
    };
    for (at, sent) in [(Step::Login, false), (Step::Request, true)] {
        let stops = |act| S::scripted(None, Box::new(move |_, step, _| if step == at { act } else { Act::Answer }));
        let silent = stops(Act::Silence);
        let interrupted = cancel_at(|| silent.connections(at).len(), |call| write(&silent, call));
        assert_eq!(interrupted, (NetErrorKind::Interrupted, sent), "{at:?}");
        assert_eq!(write(&silent, &call_within(BRIEF)), (NetErrorKind::Timeout, sent), "{at:?}");
        assert_eq!(write(&stops(Act::Close), &call_within(LONG)).1, sent, "{at:?}");
    }
    let well = S::scripted(None, Box::new(|_, _, _| Act::Answer));
    assert_eq!(write(&well, &call_within(Duration::ZERO)), (NetErrorKind::Timeout, false));
    let cancelled = call_within(LONG);
    cancelled.cancel().cancel();
    assert_eq!(write(&well, &cancelled), (NetErrorKind::Interrupted, false));
    assert!(well.connections(Step::Request).is_empty());
    let answered = call_within(LONG);
    let cancel = answered.cancel().clone();
    let during = S::scripted(
        None,
        Box::new(move |_, step, _| {
            if step == Step::Request {
                cancel.cancel();
            }
            Act::Answer
        }),
    );
    assert_eq!(write(&during, &answered), (NetErrorKind::Interrupted, true), "the answer came with the cancellation");
}

/// Checks that calls open at most eight connections at a time, and otherwise wait.
pub(super) fn eight_connections_open_at_a_time<S: Scripted>() {
    let (opened, (answer, is_answered)) = (Arc::<AtomicUsize>::default(), bounded::<()>(0));
    let counter = Arc::clone(&opened);
    let server = S::scripted(
        None,
        Box::new(move |_, _, _| {
            counter.fetch_add(1, Ordering::SeqCst);
            let _ = is_answered.recv();
            Act::Answer
        }),
    );
    let store = server.open(Login::Plain).unwrap();
    thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| get(&store, &call_within(2 * LONG)).unwrap());
        }
        while opened.load(Ordering::SeqCst) < 8 {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(300));
        assert_eq!(opened.load(Ordering::SeqCst), 8);
        drop(answer);
    });
}

pub(super) fn stale_connections_are_not_reused<S: Scripted>() {
    for is_cancelled in [true, false] {
        let both = Barrier::new(2);
        let server = S::scripted(
            None,
            Box::new(move |connection, step, number| match (connection, step, number) {
                (0 | 1, Step::Request, 0) => {
                    // The server answers only after both connections have sent a request. Otherwise one connection
                    // could serve both requests.
                    both.wait();
                    Act::Answer
                }
                (0 | 1, Step::Request, _) => Act::Silence,
                _ => Act::Answer,
            }),
        );
        let store = server.open(Login::Plain).unwrap();
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| get(&store, &call_within(LONG)).unwrap());
            }
        });
        let (failed, expected) = match is_cancelled {
            true => (cancel_at(|| server.steps().len(), |call| get(&store, call)), StoreErrorKind::Interrupted),
            false => (get(&store, &call_within(BRIEF)), StoreErrorKind::Timeout),
        };
        assert_eq!(failed.unwrap_err(), expected);
        get(&store, &call_within(LONG)).unwrap();
        assert!(server.connections(Step::Request).contains(&2), "the idle connection is not used again");
    }
    Files::rotate(|tls, config| {
        let server = S::scripted(Some(config), Box::new(|_, _, _| Act::Answer));
        let (store, calls) = (server.open(Login::Tls(tls)).unwrap(), AtomicUsize::new(0));
        Box::new(move || {
            get(&store, &call_within(LONG)).unwrap();
            let expected = &[0, 0, 1][..=calls.fetch_add(1, Ordering::SeqCst)];
            assert_eq!(server.connections(Step::Request), expected);
        })
    });
}

/// Checks calls on an idle connection that the server has closed.
///
/// The client repeats a read on another connection. The client does not repeat a write, because the server may have
/// executed the write.
#[cfg(feature = "_sql_server")]
pub(super) fn read_on_a_closed_connection_is_resent_and_a_write_is_not<S: Scripted>() {
    let open = || {
        let is_last = |connection, step, number| (connection, step, number) == (0, Step::Request, 1);
        let act = move |connection, step, number| match is_last(connection, step, number) {
            true => Act::Close,
            false => Act::Answer,
        };
        let server = S::scripted(None, Box::new(act));
        let store = server.open(Login::Plain).unwrap();
        (server, store)
    };
    let (server, store) = open();
    let base = get(&store, &call_within(LONG)).unwrap().unwrap();
    get(&store, &call_within(LONG)).unwrap();
    assert_eq!(server.connections(Step::Request), [0, 0, 1]);
    let (server, store) = open();
    let update =
        || store.update("jobs", &base, base.record.as_write(), &call_within(LONG)).map_err(|error| error.kind());
    update().unwrap();
    assert_eq!(update().unwrap_err(), StoreErrorKind::ConnectionClosed);
    assert_eq!(server.connections(Step::Request), [0, 0]);
    update().unwrap();
}

/// Checks that an idle connection with unread bytes, or that the server has closed, serves no later call.
///
/// The call would take the bytes for its own answer. On a closed connection, a write would be in doubt.
pub(super) fn idle_connection_that_is_not_quiet_is_not_used<S: Scripted>() {
    for (first, is_write) in [(Act::Surplus, false), (Act::Surplus, true), (Act::AnswerAndClose, true)] {
        let is_first = |connection, step, number| (connection, step, number) == (0, Step::Request, 0);
        let act = move |connection, step, number| if is_first(connection, step, number) { first } else { Act::Answer };
        let server = S::scripted(None, Box::new(act));
        let store = server.open(Login::Plain).unwrap();
        let base = get(&store, &call_within(LONG)).unwrap().unwrap();
        // The end of the connection arrives after the answer.
        thread::sleep(Duration::from_millis(500));
        match is_write {
            true => drop(store.update("jobs", &base, base.record.as_write(), &call_within(LONG)).unwrap()),
            false => drop(get(&store, &call_within(LONG)).unwrap()),
        }
        assert_eq!(server.connections(Step::Request), [0, 1]);
    }
}

pub(super) fn refused_login_asks_the_password_source_again<S: Scripted>() {
    for is_accepted in [true, false] {
        let server = S::scripted(
            None,
            Box::new(move |connection, step, _| {
                let is_refused = step == Step::Login && (connection == 0 || !is_accepted);
                if is_refused { Act::Refuse } else { Act::Answer }
            }),
        );
        let asks = AtomicUsize::new(0);
        let next =
            Password::from_source(move |_| Ok::<_, String>(format!("secret-{}", asks.fetch_add(1, Ordering::SeqCst))));
        match server.open(Login::From(next)).unwrap().get("jobs", &call_within(LONG)) {
            Ok(found) => assert!(is_accepted && found.is_some()),
            Err(error) => {
                assert!(!is_accepted && error.kind() == StoreErrorKind::Unauthorized, "{error}");
                assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
            }
        }
        assert_eq!(server.connections(Step::Login).len(), 2);
    }
}

#[test]
fn source_is_asked_for_each_login_and_after_a_refusal() {
    let from = |source: fn(usize) -> Result<String, String>| {
        let asks = AtomicUsize::new(0);
        Password::from_source(move |_| source(asks.fetch_add(1, Ordering::SeqCst)))
    };
    // `try_all` returns the tried passwords and the error.
    let try_all = |password: &Password, accepted: &str| {
        let tried = parking_lot::Mutex::new(String::new());
        let log_in = |password: Option<&str>| {
            tried.lock().push_str(password.unwrap_or_default());
            if password == Some(accepted) { Ok(()) } else { Err(net::Error::new(NetErrorKind::Config, "refused")) }
        };
        let is_refused = |error: &net::Error| error.kind == NetErrorKind::Config;
        let error = password.log_in(Instant::now() + LONG, &CancelToken::new(), log_in, is_refused).err();
        (tried.into_inner(), error.map(|error| error.to_string()).unwrap_or_default())
    };
    let changing = from(|ask| Ok(format!("<{ask:02}>")));
    for (accepted, tried, error) in [("<00>", "<00>", ""), ("<02>", "<01><02>", ""), ("", "<03><04>", "refused")] {
        assert_eq!(try_all(&changing, accepted), (tried.to_owned(), error.to_owned()));
    }
    // The client does not try the same wrong password twice, because a server may lock the user.
    assert_eq!(try_all(&from(|_| Ok("<p>".to_owned())), ""), ("<p>".to_owned(), "refused".to_owned()));
    let failing = from(|ask| if ask == 0 { Ok("<p>".to_owned()) } else { Err("no file".to_owned()) });
    assert_eq!(try_all(&failing, ""), ("<p>".to_owned(), "cannot get the password: no file".to_owned()));
    let panicking = from(|_| panic!("made up"));
    assert_eq!(
        try_all(&panicking, ""),
        (String::new(), "cannot get the password: the password source panicked".to_owned())
    );
    // The client remembers only the newest 16 passwords, so it no longer redacts `<04>`.
    (5..=20).for_each(|number| drop(try_all(&changing, &format!("<{number:02}>"))));
    let mut text = *b"<04><05><20>";
    changing.redact(&mut text, 4);
    assert_eq!((&text, format!("{changing:?}").contains("<20>")), (b"<04>********", false));
}
