//! A plain client that shows exactly what the server sends.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use leasehold_testing::ApiServer;
use serde_json::{Value, json};

pub use crate::support::wait_until;

pub const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
pub const X: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases/x";
pub const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The longest wait.
///
/// Only a failing test waits that long, even on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(10);
/// The time without data after which a connection counts as silent.
pub const SILENCE: Duration = Duration::from_millis(300);

#[derive(Debug)]
pub struct Reply {
    pub code: u16,
    pub head: String,
    pub body: Vec<u8>,
}

#[derive(Debug, PartialEq)]
pub enum Next {
    Event(Value),
    /// The stream ended in order.
    End,
    /// The connection broke.
    Cut,
    /// No data arrived within [`SILENCE`].
    Silent,
}

pub struct WatchClient {
    stream: BufReader<TcpStream>,
    pub head: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }

    /// Checks that the reply is a Kubernetes Status with this code and reason.
    #[track_caller]
    pub fn assert_status(&self, code: u16, reason: &str) -> Value {
        let body = self.json();
        assert_eq!(self.code, code, "{body}");
        assert_eq!(body["kind"], "Status");
        assert_eq!(body["apiVersion"], "v1");
        assert_eq!(body["metadata"], json!({}));
        assert_eq!(body["status"], "Failure");
        assert_eq!(body["code"], code);
        assert_eq!(body["reason"].as_str().unwrap_or_default(), reason, "{body}");
        body
    }

    /// Checks the reply like [`Self::assert_status`], and a part of its message.
    #[track_caller]
    pub fn assert_says(&self, code: u16, reason: &str, message: &str) {
        let body = self.assert_status(code, reason);
        assert!(body["message"].as_str().unwrap().contains(message), "{body}");
    }
}

pub fn server() -> ApiServer {
    ApiServer::start().unwrap()
}

pub fn address(server: &ApiServer) -> String {
    server.url().split("//").nth(1).unwrap().to_owned()
}

pub fn connect(server: &ApiServer) -> TcpStream {
    let socket = TcpStream::connect(address(server)).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket
}

pub fn send(socket: &mut TcpStream, method: &str, path: &str, headers: &str, body: &[u8]) {
    let mut bytes =
        format!("{method} {path} HTTP/1.1\r\nhost: test\r\ncontent-length: {}\r\n{headers}\r\n", body.len())
            .into_bytes();
    bytes.extend_from_slice(body);
    socket.write_all(&bytes).unwrap();
}

/// Reads one response.
///
/// `Err` contains the bytes that arrived before the connection ended.
pub fn receive(socket: &mut TcpStream) -> Result<Reply, Vec<u8>> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let length = header(&head, "content-length")
                .and_then(|length| length.parse::<usize>().ok())
                .expect("a content length");
            if bytes.len() >= end + 4 + length {
                return Ok(Reply {
                    code: head[9..12].parse().unwrap(),
                    head,
                    body: bytes[end + 4..end + 4 + length].to_vec(),
                });
            }
        }
        match socket.read(&mut buffer) {
            Ok(0) | Err(_) => return Err(bytes),
            Ok(length) => bytes.extend_from_slice(&buffer[..length]),
        }
    }
}

pub fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .filter_map(|line| line.split_once(": "))
        .find(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
}

pub fn call_with(server: &ApiServer, method: &str, path: &str, headers: &str, body: Option<&Value>) -> Reply {
    receive(&mut request(server, method, path, headers, body)).expect("an answer")
}

pub fn call(server: &ApiServer, method: &str, path: &str, body: Option<&Value>) -> Reply {
    call_with(server, method, path, "", body)
}

pub fn get(server: &ApiServer, path: &str) -> Reply {
    call(server, "GET", path, None)
}

pub fn post(server: &ApiServer, path: &str, body: &Value) -> Reply {
    call(server, "POST", path, Some(body))
}

pub fn put(server: &ApiServer, path: &str, body: &Value) -> Reply {
    call(server, "PUT", path, Some(body))
}

/// Sends a request, and returns its connection.
pub fn request(server: &ApiServer, method: &str, path: &str, headers: &str, body: Option<&Value>) -> TcpStream {
    let mut socket = connect(server);
    let body = body.map(Value::to_string).unwrap_or_default();
    send(&mut socket, method, path, headers, body.as_bytes());
    socket
}

/// Checks that no response arrives within [`SILENCE`].
#[track_caller]
pub fn assert_silent(socket: &TcpStream) {
    socket.set_read_timeout(Some(SILENCE)).unwrap();
    assert!(socket.peek(&mut [0]).is_err_and(|error| is_silence(&error)), "answered");
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
}

/// Returns a lease named `x` with this spec.
pub fn lease(spec: Value) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "x"},
        "spec": spec,
    })
}

/// Creates the lease `x`, held by `a`.
pub fn create_x(server: &ApiServer) -> Value {
    let reply = post(server, LEASES, &lease(json!({"holderIdentity": "a"})));
    assert_eq!(reply.code, 201);
    reply.json()
}

pub fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok()).expect("a resource version")
}

impl WatchClient {
    /// Opens a watch on a collection.
    ///
    /// `query` has no leading `&`.
    pub fn open(server: &ApiServer, collection: &str, query: &str) -> WatchClient {
        let mut socket = connect(server);
        let path = format!("{collection}?watch=true&{query}");
        send(&mut socket, "GET", &path, "", b"");
        let mut stream = BufReader::new(socket);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(stream.read_line(&mut head).unwrap(), 0, "cut in the head");
        }
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        WatchClient { stream, head }
    }

    pub fn on_x(server: &ApiServer, query: &str) -> WatchClient {
        let query = format!("fieldSelector=metadata.name%3Dx&{query}");
        WatchClient::open(server, LEASES, &query)
    }

    pub fn next(&mut self) -> Next {
        self.chunk_within(TIMEOUT)
    }

    /// Returns the next event, or [`Next::Silent`] after [`SILENCE`].
    pub fn peek_silence(&mut self) -> Next {
        self.chunk_within(SILENCE)
    }

    /// Returns the type and the object of the next event.
    #[track_caller]
    pub fn event(&mut self) -> (String, Value) {
        match self.next() {
            Next::Event(event) => (event["type"].as_str().unwrap().to_owned(), event["object"].clone()),
            other => panic!("no event: {other:?}"),
        }
    }

    fn chunk_within(&mut self, timeout: Duration) -> Next {
        match self.chunk(timeout) {
            Ok(Some(bytes)) => Next::Event(serde_json::from_slice(&bytes).expect("one whole event a chunk")),
            Ok(None) => Next::End,
            Err(error) if is_silence(&error) => Next::Silent,
            Err(_) => Next::Cut,
        }
    }

    /// Returns the raw bytes of the next chunk, or `None` for the empty last chunk.
    pub fn chunk(&mut self, timeout: Duration) -> std::io::Result<Option<Vec<u8>>> {
        self.stream.get_ref().set_read_timeout(Some(timeout))?;
        let mut size = String::new();
        if self.stream.read_line(&mut size)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let size = usize::from_str_radix(size.trim(), 16).expect("a chunk size");
        let mut bytes = vec![0; size + 2];
        self.stream.read_exact(&mut bytes)?;
        assert_eq!(bytes.split_off(size), b"\r\n");
        Ok((size > 0).then_some(bytes))
    }
}

fn is_silence(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
