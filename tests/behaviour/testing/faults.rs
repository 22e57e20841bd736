//! Faults, each seen from the wire.

use std::io::Read;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use leasehold::testing::{ApiServer, Fault, Resource, User, Verb};
use serde_json::json;

use crate::testing::support::*;

const SHORT: Duration = Duration::from_millis(50);

fn server() -> ApiServer {
    ApiServer::start().unwrap()
}

fn exists(server: &ApiServer) -> bool {
    server.get(Resource::Leases, "default", "x").is_some()
}

fn try_create(server: &ApiServer) -> TcpStream {
    request(server, "POST", LEASES, "", Some(&lease(json!({}))))
}

/// Checks that the connection ends before or in an answer, and returns the bytes before that.
#[track_caller]
fn cut(mut socket: TcpStream) -> Vec<u8> {
    receive(&mut socket).expect_err("a whole answer")
}

#[test]
fn a_delay_comes_before_applying() {
    let server = server();
    let fault = server.fault(Fault::delay(SHORT).verb(Verb::Create));
    let begun = Instant::now();
    create_x(&server);
    assert!(begun.elapsed() >= SHORT);
    assert_eq!(fault.hits(), 1);
}

#[test]
fn a_delayed_answer_comes_after_applying() {
    let server = server();
    server.fault(Fault::delay_answer(TIMEOUT).verb(Verb::Create));
    let _socket = try_create(&server);
    eventually("the write lands", || exists(&server));
    assert_eq!(server.requests()[0].status, None);
}

#[test]
fn delays_add_up_and_leave_room_for_one_more_fault() {
    let server = server();
    server.fault(Fault::delay(SHORT));
    server.fault(Fault::delay(SHORT));
    server.fault(Fault::status(500, "InternalError", "first"));
    let spare = server.fault(Fault::status(500, "InternalError", "second"));
    let begun = Instant::now();
    let body = get(&server, X).assert_status(500, "InternalError");
    assert!(begun.elapsed() >= 2 * SHORT);
    assert_eq!((&body["message"], spare.hits()), (&json!("first"), 0));
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
    eventually("the hanging write lands", || exists(&server));
    server.delete(Resource::Leases, "default", "x");
    server.fault(Fault::delay(TIMEOUT / 2));
    let socket = try_create(&server);
    assert_silent(&socket);
    drop(socket);
    assert!(!exists(&server));
    eventually("the delayed write lands", || exists(&server));
}

#[test]
fn hang_after_applies_first() {
    let server = server();
    let fault = server.fault(Fault::hang_after().verb(Verb::Create));
    let mut socket = try_create(&server);
    eventually("the write is applied", || exists(&server));
    assert_silent(&socket);
    fault.remove();
    assert_eq!(receive(&mut socket).unwrap().code, 201);
}

#[test]
fn a_status_is_answered_without_applying() {
    let server = server();
    let fault = Fault::status(429, "TooManyRequests", "slow down").retry_after(7);
    server.fault(fault);
    let reply = post(&server, LEASES, &lease(json!({})));
    let body = reply.assert_status(429, "TooManyRequests");
    assert_eq!(body["details"]["retryAfterSeconds"], 7);
    assert_eq!(header(&reply.head, "retry-after"), Some("7"));
    assert!(!exists(&server));
}

#[test]
fn apply_then_lies() {
    let server = server();
    server.fault(Fault::apply_then(504, "Timeout", "etcd").verb(Verb::Create));
    post(&server, LEASES, &lease(json!({}))).assert_status(504, "Timeout");
    assert!(exists(&server));
}

#[test]
fn drop_before_applies_nothing() {
    let server = server();
    server.fault(Fault::drop_before().verb(Verb::Create));
    assert_eq!(cut(try_create(&server)), b"");
    assert!(!exists(&server));
}

#[test]
fn drop_after_applies() {
    let server = server();
    server.fault(Fault::drop_after().verb(Verb::Create));
    assert_eq!(cut(try_create(&server)), b"");
    assert!(exists(&server));
    let path = format!("{LEASES}?watch=true");
    server.fault(Fault::drop_after().verb(Verb::Watch));
    assert_eq!(cut(request(&server, "GET", &path, "", None)), b"");
}

#[test]
fn garbage_is_sent_as_it_is() {
    let server = server();
    server.fault(Fault::garbage(b"SSH-2.0-surprise\r\n"));
    let mut socket = connect(&server);
    send(&mut socket, "GET", X, "", b"");
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, b"SSH-2.0-surprise\r\n");
}

#[test]
fn an_answer_is_truncated_in_its_body() {
    let server = server();
    create_x(&server);
    server.fault(Fault::truncate(5));
    let bytes = cut(request(&server, "GET", X, "", None));
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK"));
    assert_eq!(body.len(), 5);
}

#[test]
fn a_watch_is_truncated_in_its_events() {
    let server = server();
    create_x(&server);
    server.fault(Fault::truncate(10));
    let mut watch = WatchClient::on_x(&server, "");
    assert_eq!(watch.next(), Next::Cut);
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

#[test]
fn an_answer_is_replaced() {
    let server = server();
    server.fault(Fault::replace(200, &json!({"kind": "Lease"})).first(1));
    server.fault(Fault::replace_bytes(502, "text/html", "<html>"));
    assert_eq!(get(&server, X).json(), json!({"kind": "Lease"}));
    let reply = get(&server, X);
    assert_eq!((reply.code, reply.body.as_slice()), (502, b"<html>".as_slice()));
    assert_eq!(header(&reply.head, "content-type"), Some("text/html"));
}

#[test]
fn a_rule_hits_only_whom_it_means() {
    let server = server();
    let refuse = || Fault::status(500, "InternalError", "hit");
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
}

#[test]
fn a_rule_may_mean_one_user() {
    let server = ApiServer::builder().user(User::admin()).user(User::candidate()).start().unwrap();
    server.fault(Fault::status(503, "ServiceUnavailable", "you").user("candidate"));
    let code = |token: &str| {
        let headers = format!("authorization: Bearer {token}\r\n");
        call_with(&server, "GET", X, &headers, None).code
    };
    assert_eq!((code("admin-token"), code("candidate-token")), (404, 503));
}

#[test]
fn rules_count() {
    let codes = |fault: Fault| {
        let server = server();
        let handle = server.fault(fault);
        let codes = (0..6).map(|_| get(&server, "/healthz").code).collect::<Vec<_>>();
        let hits = codes.iter().filter(|code| **code == 500).count();
        assert_eq!(handle.hits(), hits as u64);
        codes
    };
    let refuse = || Fault::status(500, "InternalError", "hit");
    assert_eq!(codes(refuse().first(2)), [500, 500, 200, 200, 200, 200]);
    assert_eq!(codes(refuse().every(3)), [500, 200, 200, 500, 200, 200]);
    assert_eq!(codes(refuse().skip(1).first(1)), [200, 500, 200, 200, 200, 200]);
    assert_eq!(codes(refuse().probability(0.0)), [200; 6]);
    assert_eq!(codes(refuse().probability(1.0)), [500; 6]);
    assert_eq!(codes(refuse().every(0)), [500; 6]);
}

#[test]
fn a_rule_ends_when_removed_and_not_when_dropped() {
    let server = server();
    let refuse = || Fault::status(500, "InternalError", "hit");
    drop(server.fault(refuse()));
    assert_eq!(get(&server, "/healthz").code, 500);
    server.clear_faults();
    assert_eq!(get(&server, "/healthz").code, 200);
    let handle = server.fault(refuse());
    handle.remove();
    assert_eq!(get(&server, "/healthz").code, 200);
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
fn a_watch_can_stall_in_mid_stream() {
    let server = server();
    server.fault(Fault::stall_watch().after_events(1));
    let mut watch = WatchClient::on_x(&server, "");
    create_x(&server);
    call(&server, "DELETE", X, None);
    assert_eq!(watch.event().0, "ADDED");
    assert_eq!(watch.peek_silence(), Next::Silent);
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
fn a_watch_is_cut() {
    let server = server();
    create_x(&server);
    server.fault(Fault::cut_watch().after_events(1).name("x"));
    let mut watch = WatchClient::on_x(&server, "");
    assert_eq!(watch.event().0, "ADDED");
    assert_eq!(watch.next(), Next::Cut);
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
    assert_eq!(watch.event().0, "DELETED");
}
