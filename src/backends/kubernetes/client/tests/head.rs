//! Request heads of any length, which the client sends whole or not at all.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;
use ureq::Agent;
use ureq::http::{self, HeaderName, HeaderValue};
use ureq::unversioned::transport::{ConnectionDetails, Connector, Transport};

use super::certificates::{config as tls_config, tls_server};
use super::server::{Script, Server, ok, serve};
use super::{LONG, get, within};
use crate::backends::kubernetes::client::auth::Impersonation;
use crate::backends::kubernetes::client::{Client, ClientConfig, ClientError, ErrorKind, Method, Request};
use crate::net::calls::CallError;
use crate::net::endpoint::MAX_TARGET;
use crate::net::http::{HttpTransport, NoResolver, Opening, from_ureq};
use crate::net::redact::{MAX_HEAD, Redacted};
use crate::net::socket::Socket;
use crate::net::tests::Scratch;
use crate::net::tests::certificates::authority;

/// A connector whose peer records the sent bytes, and answers each request.
#[derive(Debug)]
struct Recording(Arc<Mutex<Vec<u8>>>);

impl Connector<()> for Recording {
    type Out = Box<dyn Transport>;

    fn connect(&self, _: &ConnectionDetails, _: Option<()>) -> Result<Option<Self::Out>, ureq::Error> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let socket = Socket::tcp(TcpStream::connect(listener.local_addr()?)?);
        let ((mut peer, _), sent) = (listener.accept()?, Arc::clone(&self.0));
        thread::spawn(move || {
            let mut chunk = vec![0; 64 * 1024];
            while let Ok(count @ 1..) = peer.read(&mut chunk) {
                sent.lock().extend_from_slice(&chunk[..count]);
                if sent.lock().ends_with(b"\r\n\r\n") {
                    peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
                }
            }
        });
        Ok(Some(Box::new(HttpTransport::new(socket, 4096, None, Opening::default()))))
    }
}

/// Requests through the HTTP library to a peer that records them.
struct Recorded {
    agent: Agent,
    sent: Arc<Mutex<Vec<u8>>>,
}

impl Recorded {
    fn new() -> Self {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let config = Agent::config_builder().proxy(None).user_agent("tests").accept_encoding("identity").build();
        Self { agent: Agent::with_parts(config, Recording(Arc::clone(&sent)), NoResolver), sent }
    }

    /// Returns the sent bytes and the result.
    fn send(
        &self,
        path: &str,
        token: &[u8],
        groups: &[(HeaderName, HeaderValue)],
    ) -> (Vec<u8>, Result<(), ClientError>) {
        let value = HeaderValue::from_bytes(token).unwrap();
        let mut request = http::Request::new(());
        *request.uri_mut() = format!("http://localhost{path}").parse().unwrap();
        let _hidden = Redacted::new(Some(&value), groups);
        let result = self.agent.run(request).map(|_| ()).map_err(from_ureq);
        (std::mem::take(&mut *self.sent.lock()), result.map_err(ClientError::from))
    }

    /// Returns the bytes of a sent head before and after the value of the `Authorization` header.
    fn frame(&self, path: &str) -> (Vec<u8>, Vec<u8>) {
        let (sent, result) = self.send(path, b"?", &[]);
        result.unwrap();
        let line = b"\r\nauthorization: ?";
        let at = sent.windows(line.len()).position(|window| window == line).unwrap() + line.len();
        (sent[..at - 1].to_vec(), sent[at..].to_vec())
    }
}

fn groups(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{number:0>60}")).collect()
}

fn group_headers(count: usize) -> Vec<(HeaderName, HeaderValue)> {
    let name = HeaderName::from_static("impersonate-group");
    groups(count).iter().map(|group| (name.clone(), HeaderValue::from_str(group).unwrap())).collect()
}

#[test]
fn tokens_of_every_length_go_out_whole() {
    let recorded = Recorded::new();
    let (before, after) = recorded.frame("/");
    let token = "0123456789abcdef".repeat(5000);
    for length in 15_000..=70_000 {
        let token = &token.as_bytes()[..length];
        let (sent, result) = recorded.send("/", token, &[]);
        result.unwrap();
        assert!(sent == [&before, token, &after].concat(), "a token of {length} bytes");
    }
}

#[test]
fn any_number_of_groups_goes_out_whole() {
    let recorded = Recorded::new();
    let (before, after) = recorded.frame("/");
    let all = group_headers(1000);
    for count in 0..=all.len() {
        for length in [20, 16_200] {
            let token = vec![b't'; length];
            let (sent, result) = recorded.send("/", &token, &all[..count]);
            result.unwrap();
            let lines: String =
                all[..count].iter().map(|(name, value)| format!("{name}: {}\r\n", value.to_str().unwrap())).collect();
            let expected = [&before, &token[..], b"\r\n", lines.as_bytes(), &after[2..]].concat();
            assert!(sent == expected, "{count} groups beside a token of {length} bytes");
        }
    }
}

#[test]
fn long_path_still_leaves_room_for_credentials() {
    let recorded = Recorded::new();
    for length in (1..MAX_TARGET).step_by(501).chain([MAX_TARGET - 1]) {
        let path = format!("/{}", "p".repeat(length));
        let (before, after) = recorded.frame(&path);
        let (sent, result) = recorded.send(&path, b"Bearer x", &[]);
        result.unwrap();
        assert!(sent == [&before, &b"Bearer x"[..], &after].concat(), "a path of {length} bytes");
    }
}

#[test]
fn a_head_that_no_server_takes_is_not_sent() {
    let recorded = Recorded::new();
    let (before, after) = recorded.frame("/");
    let longest = MAX_HEAD - before.len() - after.len();
    let (sent, result) = recorded.send("/", &vec![b't'; longest], &[]);
    result.unwrap();
    assert_eq!(sent.len(), MAX_HEAD);
    let (sent, result) = recorded.send("/", &vec![b't'; longest + 1], &[]);
    let error = result.unwrap_err();
    assert_eq!((sent.len(), error.kind(), error.maybe_sent()), (0, &ErrorKind::Credentials, false));
    assert!(error.to_string().contains("1048577 bytes") && error.to_string().contains("shorter token"), "{error}");
    let (sent, result) = recorded.send("/", b"Bearer x", &group_headers(20_000));
    let error = result.unwrap_err();
    assert_eq!((sent.len(), error.kind(), error.maybe_sent()), (0, &ErrorKind::Config, false));
    assert!(error.to_string().contains("fewer groups"), "{error}");
}

/// Pairs of a token's length and a number of impersonated groups.
const HEADS: [(usize, usize); 12] = [
    (15_000, 0),
    (16_191, 0),
    (16_200, 0),
    (16_360, 0),
    (16_384, 0),
    (20, 169),
    (20, 170),
    (20, 172),
    (32_768, 1),
    (65_536, 100),
    (70_000, 0),
    (70_000, 1000),
];

fn scripts() -> Vec<Script> {
    HEADS.iter().map(|_| ok("{}")).collect()
}

fn assert_all_arrive(server: &Server, config: &ClientConfig) {
    // The body is longer than one output buffer.
    let body = serde_json::json!({ "text": "*".repeat(100_000) });
    for (length, count) in HEADS {
        let token = "t".repeat(length);
        let groups = groups(count);
        let mut config = config.clone().with_token(&token);
        let user = (count > 0).then(|| "jane".to_owned());
        config.impersonation = Impersonation { user, groups: groups.clone(), ..Impersonation::default() };
        let client = Client::new(config).unwrap();
        for method in [Method::Get, Method::Put] {
            let body = (method == Method::Put).then_some(&body);
            client.request(Request { method, path: "/version", query: &[], body }, &within(LONG)).unwrap();
            let request = server.next();
            let what = format!("{method} with a token of {length} bytes and {count} groups");
            let (head, sent) = request.split_once("\r\n\r\n").unwrap();
            assert_eq!(sent, body.map(ToString::to_string).unwrap_or_default(), "{what}");
            let line = format!("authorization: Bearer {token}");
            assert_eq!(head.lines().filter(|it| *it == line).count(), 1, "{what}");
            let lines = head.lines().filter_map(|line| line.strip_prefix("impersonate-group: "));
            assert!(lines.eq(groups.iter().map(String::as_str)), "{what}");
            assert!(!head.contains("**"), "{what}");
        }
    }
}

#[test]
fn long_heads_arrive_whole() {
    let server = serve(scripts());
    assert_all_arrive(&server, &server.config());
}

#[test]
fn long_heads_arrive_whole_under_tls() {
    let ours = authority();
    let server = tls_server(&ours.leaf("127.0.0.1"), scripts());
    assert_all_arrive(&server, &tls_config(&server, &ours.pem));
}

#[test]
fn groups_arrive_and_a_too_long_token_file_is_explained() {
    let server = serve(vec![ok("{}"), ok("{}")]);
    let mut config = server.config();
    config.impersonation = Impersonation { user: Some("jane".into()), groups: groups(300), ..Impersonation::default() };
    get(&Client::new(config).unwrap(), LONG).unwrap();
    let head = server.next();
    assert!(head.contains("\r\nimpersonate-user: jane\r\n") && !head.contains("**"), "{head:.300}");
    assert_eq!(head.matches("\r\nimpersonate-group: ").count(), 300);

    let scratch = Scratch::new();
    let token = scratch.file("token", "t".repeat(MAX_HEAD));
    let error = get(&Client::new(server.config().with_token_file(&token)).unwrap(), LONG).unwrap_err();
    assert_eq!((error.kind(), error.maybe_sent()), (&ErrorKind::Credentials, false));
    assert!(error.to_string().starts_with("GET /version: the head of the request has"), "{error}");
    assert!(server.no_more());
}
