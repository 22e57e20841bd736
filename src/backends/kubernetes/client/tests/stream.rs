use std::thread;
use std::time::Duration;

use super::LONG;
use super::server::{Script, raw, script, serve, silent};
use crate::backends::kubernetes::client::{Client, ClientError, ErrorKind, Method, Request, stream::Stream};
use crate::store::CallContext;
use crate::util::cancel::CancelToken;

fn open(client: &Client, timeout: Duration, silence: Duration, cancel: &CancelToken) -> Result<Stream, ClientError> {
    let request = Request { method: Method::Get, path: "/watch", query: &[("watch", "true")], body: None };
    client.stream(request, silence, &CallContext::new(timeout, cancel.clone()))
}

fn lines(parts: &'static [&'static str]) -> Script {
    script(move |c| {
        c.request();
        c.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        for part in parts {
            c.send(&format!("{:x}\r\n{part}\r\n", part.len()));
            thread::sleep(Duration::from_millis(5));
        }
    })
}

#[test]
fn echoed_credential_is_not_in_a_line() {
    let server = serve(vec![lines(&["{\"message\":\"no sesame-sesame\"}\n", ""])]);
    let client = Client::new(server.config().with_token("sesame-sesame")).unwrap();
    let mut stream = open(&client, LONG, LONG, &CancelToken::new()).unwrap();
    assert_eq!(stream.next_line().unwrap().unwrap(), b"{\"message\":\"no *************\"}");
}

#[test]
fn a_stream_that_ends_inside_a_line_or_breaks_is_an_error_once() {
    for (script, kind) in [(lines(&["{\"a\"", ""]), ErrorKind::Malformed), (lines(&["{\"a\""]), ErrorKind::Io)] {
        let server = serve(vec![script]);
        let mut stream = open(&server.client(), LONG, LONG, &CancelToken::new()).unwrap();
        assert_eq!(stream.next_line().unwrap_err().kind(), &kind);
        assert_eq!(stream.next_line().unwrap(), None);
    }
}

#[test]
fn silence_is_bounded_and_so_is_the_opening() {
    let quiet = || {
        script(|c| {
            c.request();
            c.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nx\n\n\r\n");
            c.hang();
        })
    };
    let server = serve(vec![quiet(), silent()]);
    let client = server.client();
    // `silence` also limits the wait for the head, so a shorter time would fail on a busy machine.
    let silence = Duration::from_secs(3);
    let mut stream = open(&client, LONG, silence, &CancelToken::new()).unwrap();
    assert_eq!(stream.next_line().unwrap().unwrap(), b"x");
    assert_eq!(stream.next_line().unwrap_err().kind(), &ErrorKind::Timeout);
    let error = open(&client, Duration::from_millis(200), LONG, &CancelToken::new()).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Timeout);
}

#[test]
fn stream_with_steady_lines_outlasts_its_limits() {
    let server = serve(vec![script(|c| {
        c.request();
        c.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        for _ in 0..12 {
            thread::sleep(Duration::from_millis(400));
            c.send("2\r\nx\n\r\n");
        }
    })]);
    let mut stream =
        open(&server.client(), Duration::from_secs(4), Duration::from_secs(2), &CancelToken::new()).unwrap();
    (0..12).for_each(|_| assert_eq!(stream.next_line().unwrap().unwrap(), b"x"));
}

#[test]
fn a_line_without_end_is_cut() {
    let server = serve(vec![script(|c| {
        c.request();
        c.send("HTTP/1.1 200 OK\r\n\r\n");
        let part = "x".repeat(0x10000);
        for _ in 0..80 {
            c.send(&part);
        }
    })]);
    let mut stream = open(&server.client(), LONG, LONG, &CancelToken::new()).unwrap();
    assert_eq!(stream.next_line().unwrap_err().kind(), &ErrorKind::BodyTooLarge);
}

#[test]
fn to_cancel_ends_its_own_stream_only() {
    for opened in [true, false] {
        let hanging = move || {
            script(move |c| {
                c.request();
                if opened {
                    c.send("HTTP/1.1 200 OK\r\n\r\n");
                }
                c.hang();
            })
        };
        let server = serve(vec![hanging(), hanging()]);
        let client = server.client();
        let (one, two) = (CancelToken::new(), CancelToken::new());
        let run = |cancel| match open(&client, LONG, LONG, cancel) {
            Ok(mut stream) => stream.next_line().unwrap_err(),
            Err(e) => e,
        };
        thread::scope(|scope| {
            let first = scope.spawn(|| run(&one));
            let second = scope.spawn(|| run(&two));
            server.next();
            server.next();
            one.cancel();
            assert_eq!(first.join().unwrap().kind(), &ErrorKind::Interrupted);
            thread::sleep(Duration::from_millis(50));
            assert!(!second.is_finished());
            two.cancel();
            assert_eq!(second.join().unwrap().kind(), &ErrorKind::Interrupted);
        });
        assert_eq!(run(&one).kind(), &ErrorKind::Interrupted);
    }
}

#[test]
fn a_refused_watch_is_a_status() {
    let server = serve(vec![raw(
        "HTTP/1.1 403 Forbidden\r\nContent-Length: 37\r\n\r\n{\"kind\":\"Status\",\"reason\":\"Forbidden\"}",
    )]);
    let error = open(&server.client(), LONG, LONG, &CancelToken::new()).unwrap_err();
    assert_eq!(error.status().unwrap().code, 403);
}
