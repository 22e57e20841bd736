//! A scripted server, with one script for each connection.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::LONG;
use crate::backends::kubernetes::client::{Client, ClientConfig};

pub(super) type Script = Box<dyn FnOnce(&mut Connection) + Send>;

pub(super) trait Duplex: Read + Write + Send {
    /// Announces the end of the connection if the protocol has such a message.
    fn say_goodbye(&mut self) {}

    /// Returns the certificate that the client has presented.
    fn certificate(&self) -> Option<Vec<u8>> {
        None
    }
}

impl Duplex for TcpStream {}

impl<T: Read + Write + Send> Duplex for rustls::StreamOwned<rustls::ServerConnection, T> {
    fn say_goodbye(&mut self) {
        self.conn.send_close_notify();
        let _ = self.flush();
    }

    fn certificate(&self) -> Option<Vec<u8>> {
        self.conn.peer_certificates().map(|chain| chain[0].to_vec())
    }
}

/// The placeholder for a stream that is moved into a TLS session.
impl Duplex for std::io::Empty {}

pub(super) struct Connection {
    io: Box<dyn Duplex>,
    seen: Sender<String>,
}

pub(super) struct Server {
    pub(super) port: u16,
    seen: Receiver<String>,
    closed: Receiver<()>,
}

/// Boxes a closure as a script.
pub(super) fn script(f: impl FnOnce(&mut Connection) + Send + 'static) -> Script {
    Box::new(f)
}

/// Starts a server that accepts one connection for each script, all at the same time.
pub(super) fn serve(scripts: Vec<Script>) -> Server {
    serve_with(None, scripts)
}

pub(super) fn serve_with(tls: Option<Arc<rustls::ServerConfig>>, scripts: Vec<Script>) -> Server {
    serve_on(TcpListener::bind("127.0.0.1:0").unwrap(), tls, scripts)
}

pub(super) fn serve_on(listener: TcpListener, tls: Option<Arc<rustls::ServerConfig>>, scripts: Vec<Script>) -> Server {
    let port = listener.local_addr().unwrap().port();
    let (tx, seen) = unbounded();
    let (closing, closed) = unbounded();
    thread::spawn(move || {
        for script in scripts {
            let (stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(LONG)).unwrap();
            let (tls, tx, closing) = (tls.clone(), tx.clone(), closing.clone());
            thread::spawn(move || {
                run(stream, tls, tx, script);
                let _ = closing.send(());
            });
        }
    });
    Server { port, seen, closed }
}

fn run(stream: TcpStream, tls: Option<Arc<rustls::ServerConfig>>, seen: Sender<String>, script: Script) {
    let io: Box<dyn Duplex> = match tls {
        None => Box::new(stream),
        Some(config) => {
            let conn = rustls::ServerConnection::new(config).unwrap();
            Box::new(rustls::StreamOwned::new(conn, stream))
        }
    };
    script(&mut Connection { io, seen });
}

impl Connection {
    /// Reads one request with its body.
    ///
    /// Returns `None` if the client has closed the connection or the TLS handshake failed.
    pub(super) fn request(&mut self) -> Option<String> {
        let mut text = Vec::new();
        let mut byte = [0];
        while !text.ends_with(b"\r\n\r\n") {
            if self.io.read(&mut byte).ok()? == 0 {
                return None;
            }
            text.push(byte[0]);
        }
        let head = String::from_utf8(text).unwrap();
        let length = head
            .lines()
            .find_map(|l| l.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned))
            .map_or(0, |n| n.parse().unwrap());
        let mut body = vec![0; length];
        self.io.read_exact(&mut body).ok()?;
        let request = head + &String::from_utf8(body).unwrap();
        let _ = self.seen.send(request.clone());
        Some(request)
    }

    pub(super) fn send(&mut self, text: &str) {
        self.send_bytes(text.as_bytes());
    }

    /// Reads `n` bytes, or fewer if the client closes.
    pub(super) fn bytes(&mut self, n: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let _ = (&mut self.io).take(n as u64).read_to_end(&mut bytes);
        bytes
    }

    pub(super) fn send_bytes(&mut self, bytes: &[u8]) {
        // Ignores errors, because the client may already have closed the connection.
        let _ = self.io.write_all(bytes);
        let _ = self.io.flush();
    }

    /// Sends a text to the test, in addition to the requests.
    pub(super) fn note(&mut self, text: String) {
        let _ = self.seen.send(text);
    }

    /// Starts TLS inside the current stream.
    pub(super) fn start_tls(&mut self, config: Arc<rustls::ServerConfig>) {
        let outer = std::mem::replace(&mut self.io, Box::new(std::io::empty()));
        let conn = rustls::ServerConnection::new(config).unwrap();
        self.io = Box::new(rustls::StreamOwned::new(conn, outer));
    }

    pub(super) fn answer(&mut self, status: &str, body: &str) {
        self.send(&format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
    }

    /// Returns the client's certificate, or `None` before the first request.
    pub(super) fn certificate(&self) -> Option<Vec<u8>> {
        self.io.certificate()
    }

    pub(super) fn say_goodbye(&mut self) {
        self.io.say_goodbye();
    }

    /// Waits until the client closes the connection.
    pub(super) fn hang(&mut self) {
        let _ = std::io::copy(&mut self.io, &mut std::io::sink());
    }
}

impl Server {
    pub(super) fn config(&self) -> ClientConfig {
        ClientConfig::new(&format!("http://127.0.0.1:{}/prefix", self.port)).unwrap()
    }

    pub(super) fn client(&self) -> Client {
        Client::new(self.config()).unwrap()
    }

    /// Returns the next request or note.
    pub(super) fn next(&self) -> String {
        self.seen.recv_timeout(LONG).unwrap()
    }

    /// Waits until the server has closed a connection.
    pub(super) fn wait_for_close(&self) {
        self.closed.recv_timeout(LONG).unwrap();
    }

    pub(super) fn no_more(&self) -> bool {
        self.seen.recv_timeout(Duration::from_millis(50)).is_err()
    }
}

/// Returns a script that answers every request with 200 and `body`.
pub(super) fn ok(body: &'static str) -> Script {
    script(move |c| {
        while c.request().is_some() {
            c.answer("200 OK", body);
        }
    })
}

/// Returns a script that answers 200 to requests with this text, and 401 to others.
pub(super) fn accepts(text: &'static str) -> Script {
    script(move |c| {
        while let Some(request) = c.request() {
            match request.contains(text) {
                true => c.answer("200 OK", "{}"),
                false => c.answer("401 Unauthorized", "{\"kind\":\"Status\",\"reason\":\"Unauthorized\"}"),
            }
        }
    })
}

/// Returns a script that reads a request and sends this text.
pub(super) fn raw(text: impl Into<String>) -> Script {
    let text = text.into();
    script(move |c| {
        c.request();
        c.send(&text);
    })
}

/// Returns a script that closes the connection in the middle of an answer.
///
/// The script first answers `answers` requests, and then sends `part`. With `goodbye`, the script announces the close.
pub(super) fn closes_after(answers: usize, part: &'static str, goodbye: bool) -> Script {
    script(move |c| {
        for _ in 0..answers {
            c.request();
            c.answer("200 OK", "{}");
        }
        c.request();
        c.send(part);
        if goodbye {
            c.say_goodbye();
        }
    })
}

/// Returns a script that reads a request and never answers.
pub(super) fn silent() -> Script {
    script(|c| {
        c.request();
        c.hang();
    })
}
