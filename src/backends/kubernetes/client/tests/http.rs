use std::collections::VecDeque;
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use std::{io, thread};

use crossbeam_channel::bounded;
use parking_lot::Mutex;

use super::server::{Script, Server, accepts, closes_after, ok, raw, script, serve, silent};
use super::{LONG, get, get_until, put, put_until, within};
use crate::backends::kubernetes::client::{Client, ClientConfig, ClientError, ErrorKind, Method, Request};
use crate::net::calls::CallError;
use crate::net::dial::{Dialer, System};
use crate::net::error::NetErrorKind;
use crate::net::http::{HttpConnector, Opening, from_ureq, new_agent};
use crate::net::interrupt::Interrupter;
use crate::net::pool::{CallConnection, PATIENCE};
use crate::net::tests::{Scratch, Slow, wait_until};
use crate::util::cancel::CancelToken;

#[test]
fn a_request_goes_out_as_asked_and_connections_are_reused() {
    let server = serve(vec![ok("{\"a\":[1]}")]);
    let config = server.config().with_token("sesame\n").with_user_agent("jobs/1.2").unwrap();
    let client = Client::new(config).unwrap();
    let query = &[("fieldSelector", "metadata.name=y"), ("z", "")];
    let request = Request { method: Method::Get, path: "/apis/x", query, body: None };
    let answer = client.request(request, &within(LONG)).unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json::<serde_json::Value>().unwrap()["a"][0], 1);
    let head = server.next().to_ascii_lowercase();
    assert!(head.starts_with("get /prefix/apis/x?fieldselector=metadata.name%3dy&z= http/1.1\r\n"), "{head}");
    for line in [
        format!("host: 127.0.0.1:{}", server.port),
        "user-agent: jobs/1.2\r\n".to_owned(),
        "accept: application/json".to_owned(),
        "authorization: bearer sesame".to_owned(),
    ] {
        assert!(head.contains(&line), "{line} not in {head}");
    }
    assert!(!head.contains("content-length") && !head.contains("content-type"), "{head}");
    // The server accepts only one connection, so these requests prove that the connection is reused.
    for _ in 0..3 {
        put(&client, LONG).unwrap();
        let text = server.next();
        assert!(text.contains("application/json") && text.ends_with("{\"a\":1}"), "{text}");
    }
}

#[test]
fn a_dripping_server_times_out() {
    for head in ["HTTP/1.1 200 OK\r\nX: ", "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"] {
        let server = serve(vec![script(move |c| {
            c.request();
            c.send(head);
            for _ in 0..2000 {
                c.send("x");
                thread::sleep(Duration::from_millis(10));
            }
        })]);
        let started = Instant::now();
        let error = get(&server.client(), Duration::from_millis(300)).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Timeout);
        assert!(started.elapsed() < Duration::from_secs(15));
    }
}

#[test]
fn no_time_is_a_timeout_and_endless_time_is_no_panic() {
    let server = serve(vec![ok("{}"), ok("{}")]);
    let client = server.client();
    assert_eq!(get(&client, Duration::ZERO).unwrap_err().kind(), &ErrorKind::Timeout);
    get(&client, Duration::MAX).unwrap();
}

#[test]
fn to_cancel_ends_the_one_request_and_nothing_else() {
    let server = serve(vec![silent(), silent(), ok("{}")]);
    let client = server.client();
    let cancels = [CancelToken::new(), CancelToken::new()];
    thread::scope(|scope| {
        let mut waiting: VecDeque<_> =
            cancels.iter().map(|cancel| scope.spawn(|| put_until(&client, LONG, cancel))).collect();
        server.next();
        server.next();
        for cancel in &cancels {
            assert!(!waiting[0].is_finished(), "another request was cancelled");
            cancel.clone().cancel();
            let error = waiting.pop_front().unwrap().join().unwrap().unwrap_err();
            assert_eq!(error.kind(), &ErrorKind::Interrupted);
            assert!(error.maybe_sent());
            thread::sleep(Duration::from_millis(50));
        }
    });
    get(&client, LONG).unwrap();
    let error = get_until(&client, LONG, &cancels[0]).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Interrupted, "the cancellation is permanent");
    assert!(!error.maybe_sent());
}

#[test]
fn idle_connection_is_closed_after_half_a_minute() {
    let server = serve(vec![ok("1"), ok("2")]);
    let client = server.client();
    for (idle_for, connection) in [(0, 1), (25, 1), (30, 2)] {
        client.idle().age(Duration::from_secs(idle_for));
        assert_eq!(get(&client, LONG).unwrap().json::<u8>().unwrap(), connection, "{idle_for} s");
    }
}

#[test]
fn connections_idle_at_a_cancel_or_time_out_are_not_reused() {
    for is_cancelled in [true, false] {
        // Each connection answers only after both requests have arrived. Otherwise, one connection could serve both
        // requests.
        let both = Arc::new(Barrier::new(2));
        let answers_once = || {
            let both = Arc::clone(&both);
            script(move |c| {
                c.request();
                both.wait();
                c.answer("200 OK", "{}");
                c.request();
                c.hang();
            })
        };
        // The first two connections stop answering, as behind a proxy that has dropped them.
        let server = serve((0..4).map(|_| answers_once()).collect());
        let client = server.client();
        let get_both = || {
            thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| get(&client, LONG).unwrap());
                }
            });
            server.next();
            server.next();
        };
        get_both();
        let (cancel, timeout) = (CancelToken::new(), if is_cancelled { LONG } else { Duration::from_secs(2) });
        let failed = thread::scope(|scope| {
            let hanging = scope.spawn(|| put_until(&client, timeout, &cancel));
            server.next();
            if is_cancelled {
                cancel.cancel();
            }
            hanging.join().unwrap().unwrap_err()
        });
        assert_eq!(failed.kind(), if is_cancelled { &ErrorKind::Interrupted } else { &ErrorKind::Timeout }, "{failed}");
        assert!(failed.maybe_sent() && failed.to_string().starts_with("PUT /version: "), "{failed}");
        get_both();
    }
}

#[test]
fn burst_after_the_server_closed_all_opens_eight_at_a_time() {
    // An answer takes longer than a caller prefers a connection that becomes idle to a new one.
    let answers_after = PATIENCE * 3;
    let [opening, most, opened] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
    let scripts = (0..1000).map(|_| {
        let (opening, most, opened) = (Arc::clone(&opening), Arc::clone(&most), Arc::clone(&opened));
        script(move |c| {
            most.fetch_max(opening.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            opened.fetch_add(1, Ordering::SeqCst);
            c.request();
            thread::sleep(answers_after);
            opening.fetch_sub(1, Ordering::SeqCst);
            c.answer("200 OK", "{}");
        })
    });
    let server = serve(scripts.collect());
    let client = server.client();
    // A caller that has waited for a quarter of its time opens one more connection, which must not happen here.
    let timeout = LONG * 60;
    for round in 1..=2 {
        thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| get(&client, timeout).unwrap());
            }
        });
        // Each connection is closed after one answer.
        assert_eq!(opened.load(Ordering::SeqCst), 16 * round);
        (0..16).for_each(|_| server.wait_for_close());
    }
    assert!(most.load(Ordering::SeqCst) <= 8, "{most:?} were opened at a time");
}

/// The server closes an idle connection after the pool has tested the connection.
///
/// Only the pool may open another connection, because the pool limits how many are opened at a time.
#[test]
fn agent_opens_no_second_connection_by_itself() {
    let server = serve(vec![raw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"), ok("{}")]);
    let connector = HttpConnector {
        target: server.config().endpoint,
        proxy: None,
        proxy_tls: None,
        tls: None,
        dialer: Dialer::new(System),
        call: Arc::default(),
        opening: Opening::default(),
    };
    let handle = new_agent(connector, [0, 0], "test", &Interrupter::default()).unwrap();
    let url = format!("http://127.0.0.1:{}/", server.port);
    let answer = handle.agent.get(&url).call().unwrap();
    assert_eq!(handle.read_body(answer).unwrap(), b"{}");
    server.wait_for_close();
    wait_until("the pool can see that the connection is closed", || !Arc::clone(&handle).is_quiet());
    let error = from_ureq(handle.agent.get(&url).call().unwrap_err());
    assert_eq!((error.kind, error.maybe_sent), (NetErrorKind::ConnectionClosed, false));
}

#[test]
fn a_client_outlives_any_number_of_cancelled_calls() {
    let scripts = (0..5000).map(|_| ok("{}")).collect();
    let server = serve(scripts);
    let client = server.client();
    let current: [Mutex<CancelToken>; 3] = Default::default();
    thread::scope(|scope| {
        for current in &current {
            let client = &client;
            scope.spawn(move || {
                for _ in 0..200 {
                    let cancel = CancelToken::new();
                    *current.lock() = cancel.clone();
                    if let Err(e) = put_until(client, LONG, &cancel) {
                        // On a busy machine, the threads of cancelled connects can reach the client's limit.
                        let expected = matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::Connect);
                        assert!(expected, "{e:?}");
                    }
                }
            });
        }
        for _ in 0..200 {
            current.iter().for_each(|cancel| cancel.lock().cancel());
            thread::yield_now();
        }
    });
    let started = Instant::now();
    while let Err(e) = put(&client, LONG) {
        assert!(e.kind() == &ErrorKind::Connect && started.elapsed() < LONG, "{e:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn to_cancel_ends_a_body_that_ends_with_the_connection() {
    let server = serve(vec![script(|c| {
        c.request();
        c.send("HTTP/1.1 200 OK\r\n\r\n{\"half\":");
        c.hang();
    })]);
    let client = server.client();
    let cancel = CancelToken::new();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| get_until(&client, LONG, &cancel));
        server.next();
        thread::sleep(Duration::from_millis(100));
        cancel.cancel();
        assert_eq!(waiting.join().unwrap().unwrap_err().kind(), &ErrorKind::Interrupted);
    });
}

#[test]
fn to_cancel_ends_a_hanging_connect_with_nothing_sent() {
    let (hold_open, hold) = bounded(0);
    let config = ClientConfig::new("http://api.invalid").unwrap();
    let client = Client::with_network(config, Slow { in_look_up: false, hold }).unwrap();
    let cancel = CancelToken::new();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| put_until(&client, LONG, &cancel));
        thread::sleep(Duration::from_millis(100));
        cancel.cancel();
        let error = waiting.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Interrupted);
        assert!(!error.maybe_sent());
    });
    drop(hold_open);
}

fn kind_of(answer: &str) -> ErrorKind {
    // The server has two scripts, because the client repeats a GET.
    let server = serve(vec![raw(answer), raw(answer)]);
    get(&server.client(), LONG).unwrap_err().kind().clone()
}

#[test]
fn garbage_is_malformed_or_a_broken_connection() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(kind_of(&format!("{chunked}zz\r\nhello\r\n")), ErrorKind::Malformed);
    assert_eq!(kind_of("SSH-2.0-OpenSSH_9.6\r\n\r\n"), ErrorKind::Malformed);
    assert_eq!(kind_of("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"), ErrorKind::Malformed);
    assert_eq!(kind_of(&format!("{chunked}5\r\nhe")), ErrorKind::Io);
    assert_eq!(kind_of("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort"), ErrorKind::Io);
    assert_eq!(kind_of(""), ErrorKind::Io);
    assert_eq!(
        kind_of("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx"),
        ErrorKind::Malformed
    );
    let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "y".repeat(200_000));
    assert_eq!(kind_of(&endless), ErrorKind::Malformed);
}

fn status_of(error: &ClientError) -> (u16, &str, &str) {
    let status = error.status().unwrap();
    (status.code, &status.reason, &status.message)
}

#[test]
fn answers_that_are_not_2xx_are_statuses() {
    let body = r#"{"kind":"Status","code":409,"reason":"AlreadyExists","message":"it is there"}"#;
    let html = "<html>\x07<b>Bad Gateway</b></html>";
    let server = serve(vec![script(move |c| {
        c.request();
        c.answer("409 Conflict", body);
        c.request();
        c.answer("502 Bad Gateway", html);
        c.request();
        c.send("HTTP/1.1 429 Too Many\r\nRetry-After: 4\r\nContent-Length: 0\r\n\r\n");
        c.request();
        // The body is incomplete, but the status code has arrived.
        c.send("HTTP/1.1 503 No\r\nContent-Length: 50\r\n\r\noverl");
    })]);
    let client = server.client();
    let error = put(&client, LONG).unwrap_err();
    assert_eq!(status_of(&error), (409, "AlreadyExists", "it is there"));
    let error = put(&client, LONG).unwrap_err();
    assert_eq!(status_of(&error), (502, "", "<html> <b>Bad Gateway</b></html>"));
    let error = put(&client, LONG).unwrap_err();
    assert_eq!(error.status().unwrap().retry_after, Some(Duration::from_secs(4)));
    let error = put(&client, LONG).unwrap_err();
    assert_eq!(status_of(&error).0, 503);
}

#[test]
fn a_redirect_is_not_followed() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    other.set_nonblocking(true).unwrap();
    let location = other.local_addr().unwrap();
    for code in ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"] {
        let answer = format!("HTTP/1.1 {code}\r\nLocation: http://{location}/\r\nContent-Length: 0\r\n\r\n");
        let server = serve(vec![raw(answer)]);
        let client = Client::new(server.config().with_token("sesame")).unwrap();
        let error = get(&client, LONG).unwrap_err();
        assert_eq!(status_of(&error).0.to_string(), code[..3]);
        assert_eq!(other.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}

#[test]
fn a_connection_the_server_has_closed_is_not_used_again() {
    let server = serve(vec![
        script(|c| {
            c.request();
            c.answer("200 OK", "{}");
        }),
        ok("{}"),
    ]);
    let client = server.client();
    put(&client, LONG).unwrap();
    server.wait_for_close();
    put(&client, LONG).unwrap();
}

#[test]
fn get_survives_a_stale_connection_and_a_write_is_sent_once() {
    let server = serve(vec![closes_after(1, "", false), ok("{}")]);
    let client = server.client();
    get(&client, LONG).unwrap();
    get(&client, LONG).unwrap();
    for _ in 0..3 {
        assert!(server.next().starts_with("GET"));
    }

    let server = serve(vec![closes_after(1, "", false), ok("{}")]);
    let client = server.client();
    put(&client, LONG).unwrap();
    let error = put(&client, LONG).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::ConnectionClosed);
    assert!(error.maybe_sent());
    server.next();
    server.next();
    assert!(server.no_more());
}

/// Points at which a server closes a connection, and the resulting error.
///
/// The server closes after a number of answers and the given part of the next answer.
const CLOSED: [(usize, &str, ErrorKind); 7] = [
    (1, "", ErrorKind::ConnectionClosed),
    (3, "", ErrorKind::ConnectionClosed),
    (0, "", ErrorKind::Io),
    (0, "HTTP/1.1 200 OK\r\nContent-Le", ErrorKind::Io),
    (1, "H", ErrorKind::Io),
    (1, "HTTP/1.1 200 OK\r\nContent-Le", ErrorKind::Io),
    (1, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", ErrorKind::Io),
];

pub(super) fn check_closed(goodbye: bool, start: impl Fn(Script) -> (Client, Server)) {
    for (answers, part, kind) in CLOSED {
        let (client, _server) = start(closes_after(answers, part, goodbye));
        for _ in 0..answers {
            put(&client, LONG).unwrap();
        }
        let error = put(&client, LONG).unwrap_err();
        assert_eq!(error.kind(), &kind, "goodbye {goodbye}, after {answers} answers and {part:?}: {error}");
        assert!(error.maybe_sent());
    }
}

#[test]
fn silent_close_of_a_used_connection_differs_from_a_break() {
    check_closed(false, |script| {
        let server = serve(vec![script]);
        (server.client(), server)
    });
}

#[test]
fn a_401_reads_the_token_again_and_repeats_once() {
    let scratch = Scratch::new();
    let token = scratch.file("token", "old");
    let server = serve(vec![accepts("Bearer new")]);
    let client = Client::new(server.config().with_token_file(&token)).unwrap();
    // The file has no newer token, so the client returns the rejection after one request.
    let error = put(&client, LONG).unwrap_err();
    assert_eq!(status_of(&error), (401, "Unauthorized", ""));
    server.next();
    assert!(server.no_more());
    std::fs::write(&token, "new").unwrap();
    put(&client, LONG).unwrap();
    assert!(server.next().contains("Bearer old"));
    assert!(server.next().contains("Bearer new"));
    // The client does not read the empty file, because the last read is less than a minute old.
    std::fs::write(&token, "").unwrap();
    put(&client, LONG).unwrap();
}
