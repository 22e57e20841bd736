//! Tests of each fault of the in-memory server, on the bytes of a connection.

use std::io::Read;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use leasehold_testing::{ApiServer, Fault, Resource, User, Verb};
use serde_json::json;

use crate::testing::support::*;

const SHORT: Duration = Duration::from_millis(50);

fn exists(server: &ApiServer) -> bool {
    server.get(Resource::Leases, "default", "x").is_some()
}

fn try_create(server: &ApiServer) -> TcpStream {
    request(server, "POST", LEASES, "", Some(&lease(json!({}))))
}

/// Checks that the connection ends before a whole response, and returns the bytes.
#[track_caller]
fn cut(mut socket: TcpStream) -> Vec<u8> {
    receive(&mut socket).expect_err("a whole answer")
}

#[test]
fn answer_of_a_fault_and_its_effect_on_a_create() {
    for (fault, answer, retry_after, is_applied) in [
        (Fault::status(429, "TooManyRequests", "later").retry_after(7), Some((429, "TooManyRequests")), Some(7), false),
        (Fault::apply_then(504, "Timeout", "etcd"), Some((504, "Timeout")), None, true),
        (Fault::drop_before(), None, None, false),
        (Fault::drop_after(), None, None, true),
    ] {
        let server = server();
        server.fault(fault.verb(Verb::Create));
        let mut socket = try_create(&server);
        if let Some((code, reason)) = answer {
            let reply = receive(&mut socket).unwrap();
            let body = reply.assert_status(code, reason);
            assert_eq!(body["details"]["retryAfterSeconds"].as_u64(), retry_after);
            assert_eq!(header(&reply.head, "retry-after").map(|text| text.parse().unwrap()), retry_after);
        } else {
            assert_eq!(cut(socket), b"");
        }
        assert_eq!(exists(&server), is_applied, "{answer:?}");
    }
}

/// Some responses are not HTTP or not complete, so the test reads until the connection ends.
#[test]
fn bytes_of_a_fault_are_sent_as_they_are() {
    let html = "HTTP/1.1 502 Bad Gateway\r\n";
    for (fault, begins, ends) in [
        (Fault::garbage(b"SSH-2.0-surprise\r\n"), "SSH-2.0-surprise\r\n", "SSH-2.0-surprise\r\n"),
        (Fault::truncate(5), "HTTP/1.1 200 OK\r\n", "\r\n\r\n{\"api"),
        (Fault::replace(200, &json!({"kind": "Lease"})), "HTTP/1.1 200 OK\r\n", "\r\n\r\n{\"kind\":\"Lease\"}"),
        (Fault::replace_bytes(502, "text/html", "<html>"), html, "\r\n\r\n<html>"),
    ] {
        let server = server();
        create_x(&server);
        server.fault(fault);
        let mut socket = request(&server, "GET", X, "connection: close\r\n", None);
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        assert!(text.starts_with(begins) && text.ends_with(ends), "{text}");
        assert_eq!(text.contains("content-type: text/html\r\n"), begins == html, "{text}");
    }
}

#[test]
fn delays_add_up_before_applying_and_allow_one_more_fault() {
    let server = server();
    let delays = [Verb::Create, Verb::Create].map(|verb| server.fault(Fault::delay(SHORT).verb(verb)));
    server.fault(Fault::status(500, "InternalError", "first"));
    let spare = server.fault(Fault::status(500, "InternalError", "second"));
    let begun = Instant::now();
    let body = receive(&mut try_create(&server)).unwrap().assert_status(500, "InternalError");
    assert!(begun.elapsed() >= 2 * SHORT);
    assert_eq!((&body["message"], spare.hits()), (&json!("first"), 0));
    assert_eq!(delays.map(|delay| delay.hits()), [1, 1]);
}

#[test]
fn a_delayed_answer_comes_after_applying() {
    let server = server();
    server.fault(Fault::delay_answer(TIMEOUT).verb(Verb::Create));
    let _socket = try_create(&server);
    wait_until("the write lands", || exists(&server));
    assert_eq!(server.requests()[0].status, None);
}

#[test]
fn a_hanging_request_is_applied_when_released() {
    let server = server();
    let fault = server.fault(Fault::hang().verb(Verb::Create));
    let mut socket = try_create(&server);
    assert!(fault.wait_for_hits(1, TIMEOUT));
    assert_silent(&socket);
    assert!(!exists(&server));
    fault.release();
    assert_eq!(receive(&mut socket).unwrap().code, 201);
    assert_silent(&try_create(&server));
}

#[test]
fn a_held_write_lands_after_its_client_has_left() {
    let server = server();
    let hang = server.fault(Fault::hang().verb(Verb::Create).first(1));
    let socket = try_create(&server);
    assert!(hang.wait_for_hits(1, TIMEOUT));
    assert_silent(&socket);
    drop(socket);
    server.disconnect_all();
    assert!(!exists(&server));
    hang.release();
    wait_until("the hanging write lands", || exists(&server));
    server.delete(Resource::Leases, "default", "x");
    server.fault(Fault::delay(TIMEOUT / 2));
    let socket = try_create(&server);
    assert_silent(&socket);
    drop(socket);
    assert!(!exists(&server));
    wait_until("the delayed write lands", || exists(&server));
}

#[test]
fn hang_after_applies_first() {
    let server = server();
    let fault = server.fault(Fault::hang_after().verb(Verb::Create));
    let mut socket = try_create(&server);
    wait_until("the write is applied", || exists(&server));
    assert_silent(&socket);
    fault.remove();
    assert_eq!(receive(&mut socket).unwrap().code, 201);
}

#[test]
fn an_endless_body_ends_when_released() {
    let server = server();
    let fault = server.fault(Fault::endless_body());
    let mut watch = WatchClient::on_x(&server, "");
    for _ in 0..10 {
        let chunk = watch.chunk(TIMEOUT).unwrap().unwrap();
        assert!(chunk.iter().all(|byte| *byte == b' '));
    }
    fault.release();
    while watch.chunk(TIMEOUT).unwrap().is_some() {}
}

/// Returns a fault that answers with a status of 500.
fn refuse() -> Fault {
    Fault::status(500, "InternalError", "hit")
}

#[test]
fn rule_matches_only_its_requests() {
    let server = server();
    server.fault(refuse().verb(Verb::Create).verb(Verb::Get).resource(Resource::Leases).namespace("default").name("x"));
    let code = |method: &str, path: &str, name: &str| {
        let body = json!({"metadata": {"name": name}});
        call(&server, method, path, (method != "GET").then_some(&body)).code
    };
    assert_eq!(code("GET", X, "x"), 500);
    assert_eq!(code("POST", LEASES, "x"), 500);
    assert_eq!(code("POST", LEASES, "y"), 201);
    assert_eq!(code("GET", LEASES, "x"), 200);
    assert_eq!(code("POST", CONFIG_MAPS, "x"), 201);
    assert_eq!(code("PUT", X, "x"), 201);
    assert_eq!(code("GET", &X.replace("default", "kube-system"), "x"), 404);
    assert_eq!(code("GET", "/healthz", "x"), 200);

    let server = ApiServer::builder().user(User::admin()).user(User::candidate()).start().unwrap();
    server.fault(refuse().user("candidate"));
    let code = |token: &str| call_with(&server, "GET", X, &format!("authorization: Bearer {token}\r\n"), None).code;
    assert_eq!((code("admin-token"), code("candidate-token")), (404, 500));
}

#[test]
fn rules_count_and_end_when_removed_and_not_when_dropped() {
    let codes = |fault: Fault| {
        let server = server();
        let handle = server.fault(fault);
        let codes = (0..6).map(|_| get(&server, "/healthz").code).collect::<Vec<_>>();
        let hits = codes.iter().filter(|code| **code == 500).count();
        assert_eq!(handle.hits(), hits as u64);
        codes
    };
    assert_eq!(codes(refuse().first(2)), [500, 500, 200, 200, 200, 200]);
    assert_eq!(codes(refuse().every(3)), [500, 200, 200, 500, 200, 200]);
    assert_eq!(codes(refuse().skip(1).first(1)), [200, 500, 200, 200, 200, 200]);
    assert_eq!(codes(refuse().probability(0.0)), [200; 6]);
    assert_eq!(codes(refuse().probability(1.0)), [500; 6]);
    assert_eq!(codes(refuse().every(0)), [500; 6]);

    let server = server();
    let code = || get(&server, "/healthz").code;
    drop(server.fault(refuse()));
    assert_eq!(code(), 500);
    server.clear_faults();
    assert_eq!(code(), 200);
    server.fault(refuse()).remove();
    assert_eq!(code(), 200);
}

#[test]
fn a_watch_is_cut_stalled_or_truncated_where_its_fault_begins() {
    for (fault, first, next) in [
        (Fault::stall_watch().after_events(1), Some("ADDED"), Next::Silent),
        (Fault::cut_watch().after_events(1).name("x"), Some("ADDED"), Next::Cut),
        (Fault::truncate(10).verb(Verb::Watch), None, Next::Cut),
    ] {
        let server = server();
        server.fault(fault);
        let mut watch = WatchClient::on_x(&server, "");
        create_x(&server);
        call(&server, "DELETE", X, None);
        if let Some(first) = first {
            assert_eq!(watch.event().0, first);
        }
        assert_eq!(watch.peek_silence(), next);
    }
    let server = server();
    server.fault(Fault::drop_after().verb(Verb::Watch));
    assert_eq!(cut(request(&server, "GET", &format!("{LEASES}?watch=true"), "", None)), b"");
}

#[test]
fn a_stalled_watch_is_silent_until_released() {
    let server = server();
    let mut watch = WatchClient::on_x(&server, "allowWatchBookmarks=true");
    let fault = server.fault(Fault::stall_watch());
    assert!(fault.wait_for_hits(1, TIMEOUT));
    let x = create_x(&server);
    server.send_bookmarks();
    assert_eq!(watch.peek_silence(), Next::Silent);
    fault.release();
    assert_eq!(watch.event().1, x);
    assert_eq!(watch.event().0, "BOOKMARK");
}

#[test]
fn a_watch_that_lags_too_far_behind_is_ended() {
    let server = server();
    let mut watch = WatchClient::on_x(&server, "");
    let fault = server.fault(Fault::stall_watch());
    assert!(fault.wait_for_hits(1, TIMEOUT));
    let changes = 12_000;
    for turn in 0..changes {
        server.put(Resource::Leases, "default", "x", json!({"spec": turn}));
    }
    fault.release();
    let mut seen = 0;
    loop {
        match watch.next() {
            Next::Event(event) => {
                assert_eq!(event["object"]["spec"], seen);
                seen += 1;
            }
            end => {
                assert_eq!(end, Next::End);
                break;
            }
        }
    }
    assert!((10_000..changes).contains(&seen), "{seen}");
}

#[test]
fn an_open_watch_is_closed_in_order() {
    let server = server();
    let mut watch = WatchClient::on_x(&server, "");
    let fault = server.fault(Fault::close_watch().first(1));
    assert_eq!(watch.next(), Next::End);
    assert_eq!(fault.hits(), 1);
    let mut watch = WatchClient::on_x(&server, "");
    create_x(&server);
    assert_eq!(watch.event().0, "ADDED");
}

#[test]
fn strange_lines_go_into_a_watch_once() {
    let server = server();
    let mut watch = WatchClient::on_x(&server, "");
    server.fault(Fault::watch_bytes("{\"type\":\"SURPRISE\"}\n"));
    assert_eq!(watch.next(), Next::Event(json!({"type": "SURPRISE"})));
    let x = create_x(&server);
    assert_eq!(watch.event(), ("ADDED".into(), x));
}

#[test]
fn events_are_delayed_in_order() {
    let server = server();
    server.fault(Fault::delay_events(2 * SHORT));
    let mut watch = WatchClient::on_x(&server, "");
    let begun = Instant::now();
    let first = create_x(&server);
    call(&server, "DELETE", X, None);
    assert_eq!(watch.event().1, first);
    assert!(begun.elapsed() >= 2 * SHORT);
    let (kind, deleted) = watch.event();
    assert_eq!((kind.as_str(), &deleted["spec"]), ("DELETED", &first["spec"]));
}
