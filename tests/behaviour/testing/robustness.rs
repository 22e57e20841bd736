//! The in-memory server keeps serving other clients, whatever one client sends.

use std::io::{Read, Write};

use leasehold_testing::{ApiServer, User};
use serde_json::json;

use crate::testing::support::*;

/// Sends raw bytes, closes the sending side, and returns the response.
fn raw(server: &ApiServer, bytes: &[u8]) -> String {
    let mut socket = connect(server);
    // The server may close the connection before the client has sent everything.
    let _ = socket.write_all(bytes);
    let _ = socket.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn nonsense_is_refused_and_does_no_harm() {
    let server = server();
    let long_header = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(100_000));
    let many_headers = format!("GET / HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(1000));
    for bytes in [
        b"\0\0\0\0\r\n\r\n".as_slice(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET http://[::1 HTTP/1.1\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        long_header.as_bytes(),
        many_headers.as_bytes(),
    ] {
        let answer = raw(&server, bytes);
        assert!(answer.starts_with("HTTP/1.1 4"), "{bytes:?}: {answer}");
    }
    for bytes in [b"".as_slice(), b"GET", b"POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nx"] {
        assert_eq!(raw(&server, bytes), "");
    }
    assert_eq!(get(&server, "/healthz").code, 200);
}

#[test]
fn strange_paths_are_not_found() {
    let server = server();
    for path in ["*", "/%", "/%zz/%00", "//", "/apis//v1/leases", "/?&&=&", "/api/v1/namespaces"] {
        let reply = get(&server, path);
        assert!(matches!(reply.code, 404 | 400), "{path}: {}", reply.code);
    }
    create_x(&server);
    for invalid in ["%zz", "%4", "%+1"] {
        get(&server, &format!("{LEASES}/{invalid}")).assert_status(400, "BadRequest");
        let selected = format!("{LEASES}?fieldSelector=metadata.name%3Dy{invalid}");
        assert_eq!(get(&server, &selected).json()["items"].as_array().map(Vec::len), Some(1), "{selected}");
    }
    for method in ["OPTIONS", "PATCH"] {
        call(&server, method, X, None).assert_status(405, "MethodNotAllowed");
    }
}

#[test]
fn strange_bodies_are_refused() {
    let server = server();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for body in ["", "{", "[]", "null", "\u{0}", "{\"metadata\":", deep.as_str()] {
        let mut socket = connect(&server);
        send(&mut socket, "POST", LEASES, "", body.as_bytes());
        receive(&mut socket).unwrap().assert_status(400, "BadRequest");
    }
    for query in ["resourceVersion=x", "resourceVersion=-1", "timeoutSeconds=x"] {
        get(&server, &format!("{LEASES}?watch=1&{query}")).assert_status(400, "BadRequest");
    }
    let yaml = "content-type: text/yaml\r\n";
    call_with(&server, "POST", LEASES, yaml, Some(&json!({}))).assert_status(415, "UnsupportedMediaType");
}

#[test]
fn a_body_over_three_mebibytes_is_too_large() {
    let server = server();
    let limit = 3 * 1024 * 1024;
    let announced = format!("POST {LEASES} HTTP/1.1\r\ncontent-length: {}\r\n\r\n", limit + 1);
    let mut chunked = format!("POST {LEASES} HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n");
    for _ in 0..5 {
        chunked.push_str(&format!("{:x}\r\n{}\r\n", 1 << 20, " ".repeat(1 << 20)));
    }
    for request in [announced, chunked] {
        let answer = raw(&server, request.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
        assert!(answer.contains("RequestEntityTooLarge"));
    }
    let mut socket = connect(&server);
    let mut body = lease(json!({})).to_string().into_bytes();
    body.resize(limit, b' ');
    send(&mut socket, "POST", LEASES, "", &body);
    assert_eq!(receive(&mut socket).unwrap().code, 201);
}

#[test]
fn requests_may_come_in_any_portions() {
    let server = server();
    let body = lease(json!({})).to_string();
    let mut socket = connect(&server);
    socket.set_nodelay(true).unwrap();
    let request = format!(
        "POST {LEASES} HTTP/1.1\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    );
    for byte in request.as_bytes() {
        socket.write_all(&[*byte]).unwrap();
    }
    let mut line = vec![0; b"HTTP/1.1 100 Continue\r\n\r\n".len()];
    socket.read_exact(&mut line).unwrap();
    assert_eq!(line, b"HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(receive(&mut socket).unwrap().code, 201);
}

#[test]
fn requests_may_be_pipelined_and_have_no_body() {
    let server = server();
    let get = "GET /healthz HTTP/1.1\r\n\r\nGET /version HTTP/1.1\r\nconnection: close\r\n\r\n";
    let answers = raw(&server, get.as_bytes());
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 2);
    assert!(answers.contains("connection: close"));
    let answers = raw(&server, get.replace("GET", "HEAD").replace("/version", "/x").as_bytes());
    assert!(answers.starts_with("HTTP/1.1 200 OK\r\n") && answers.ends_with("\r\n\r\n"), "{answers}");
    assert_eq!(answers.matches("\r\n\r\nHTTP/1.1 404").count(), 1, "HEAD has a head alone");
    let answer = raw(&server, format!("POST {LEASES} HTTP/1.1\r\n\r\n").as_bytes());
    assert!(answer.starts_with("HTTP/1.1 400 "), "no length is no body: {answer}");
}

#[test]
fn plain_http_to_a_tls_port_is_cut() {
    let server = ApiServer::builder().tls(true).user(User::admin()).start().unwrap();
    let answer = raw(&server, b"GET / HTTP/1.1\r\n\r\n");
    assert!(!answer.starts_with("HTTP"));
}
