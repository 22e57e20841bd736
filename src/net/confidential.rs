//! A request whose body and answer are secret.
//!
//! The request does not use the HTTP library, because the `trace` log of the HTTP library shows every byte.

use std::io;
use std::time::Instant;

use super::dial::Dialer;
use super::endpoint::Endpoint;
use super::error::{Error, NetErrorKind};
use super::interrupt::{Interrupter, interrupted};
use super::socket::{Socket, explain};
use super::tls::TlsParts;

/// The longest answer in bytes. A login and its answer are much shorter.
const MAX_ANSWER: usize = 64 * 1024;

/// A `POST` request with a JSON body.
pub(crate) struct Post<'a> {
    pub(crate) endpoint: &'a Endpoint,
    /// `None` for plain HTTP.
    pub(crate) tls: Option<TlsParts>,
    pub(crate) path: &'a str,
    pub(crate) body: &'a [u8],
    pub(crate) deadline: Instant,
}

impl Post<'_> {
    /// Sends the request on a new connection. Returns the status code and the body of the answer.
    pub(crate) fn send(self, dialer: &Dialer, interrupter: &Interrupter) -> Result<(u16, Vec<u8>), Error> {
        let Self { endpoint, deadline, .. } = &self;
        let (stream, mut route) = dialer.dial(&endpoint.host_in_zone(), endpoint.port, *deadline, interrupter)?;
        let mut socket = Socket::tcp(stream);
        socket.use_for(interrupter)?;
        let answer = self.exchange(&mut socket).and_then(|bytes| parse(&bytes));
        match answer {
            _ if interrupter.is_interrupted() => Err(interrupted().sent(true)),
            Ok(answer) => {
                route.answered();
                Ok(answer)
            }
            Err(e) => Err(e.sent(true)),
        }
    }

    /// Exchanges one request by HTTP/1.0.
    ///
    /// HTTP/1.0 has no chunks and closes the connection after the answer.
    fn exchange(&self, socket: &mut Socket) -> Result<Vec<u8>, Error> {
        if let Some(parts) = &self.tls {
            socket.start_tls(parts, self.deadline)?;
        }
        let target = self.endpoint.uri(self.path, &[])?;
        let mut request = format!(
            "POST {} HTTP/1.0\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            target.path(),
            self.endpoint.host_and_port(),
            self.body.len(),
        )
        .into_bytes();
        request.extend_from_slice(self.body);
        socket.write_all(&request, self.deadline).map_err(explain)?;
        let mut answer = Vec::new();
        let mut chunk = [0; 4096];
        loop {
            match socket.read(&mut chunk, self.deadline) {
                Ok(0) => return Ok(answer),
                Ok(n) => answer.extend_from_slice(&chunk[..n]),
                // The peer closed the connection without a TLS close_notify. The Content-Length shows if the answer
                // is complete.
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(answer),
                Err(e) => return Err(explain(e)),
            }
            if answer.len() > MAX_ANSWER {
                return Err(Error::new(NetErrorKind::BodyTooLarge, "the answer is larger than 64 KiB"));
            }
            // Some servers keep the connection open after their answer, so the end of the stream may never come.
            if is_whole(&answer) {
                return Ok(answer);
            }
        }
    }
}

/// Splits an HTTP answer into its head and its body, without the empty line between them.
fn split(answer: &[u8]) -> Option<(&str, &[u8])> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    Some((str::from_utf8(&answer[..end]).ok()?, &answer[end + 4..]))
}

fn length(head: &str) -> Option<usize> {
    let mut fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    let (_, length) = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"))?;
    length.trim().parse().ok()
}

fn is_whole(answer: &[u8]) -> bool {
    split(answer).is_some_and(|(head, body)| length(head).is_some_and(|length| body.len() >= length))
}

/// Returns the status code and the body of a complete answer.
fn parse(answer: &[u8]) -> Result<(u16, Vec<u8>), Error> {
    let malformed = |what: &str| Error::new(NetErrorKind::Malformed, what);
    let (head, body) = split(answer).ok_or_else(|| malformed("invalid HTTP response"))?;
    let code = head.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)).and_then(|code| code.parse().ok());
    let code = code.ok_or_else(|| malformed("invalid HTTP response"))?;
    // etcd 3.4 sends refusals without a Content-Length. A truncated refusal is still detected, because it is not
    // valid JSON.
    let length = length(head).unwrap_or(body.len());
    let body = body.get(..length).ok_or_else(|| malformed("the server closed the connection within its response"))?;
    Ok((code, body.to_vec()))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;
    use crate::net::dial::System;
    use crate::util::cancel::CancelToken;

    #[test]
    fn an_answer_is_taken_apart() {
        let (code, body) = parse(b"HTTP/1.0 400 Bad Request\r\ncontent-length: 2\r\nA: b\r\n\r\n{}x").unwrap();
        assert_eq!((code, &body[..]), (400, &b"{}"[..]));
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        // The end of the connection ends an answer without a Content-Length, such as a refusal of etcd 3.4.
        assert_eq!(parse(b"HTTP/1.0 401 No\r\n\r\n{}").unwrap(), (401, b"{}".to_vec()));
        for end in 0..whole.len() {
            assert!(parse(&whole[..end]).is_err() && !is_whole(&whole[..end]), "cut at {end}");
        }
        assert!(is_whole(whole));
        for bad in ["HTTP/1.\r\ncontent-length: 0\r\n\r\n", "x\r\n\r\n", "HTTP/1.1 2é0\r\n\r\n"] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn endless_answer_is_cut_at_64_kib() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = Endpoint::parse(&format!("http://{}", listener.local_addr().unwrap()), "endpoint").unwrap();
        let server = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            (0..).find(|_| stream.write_all(&[b'x'; 4096]).is_err())
        });
        let deadline = Instant::now() + Duration::from_secs(30);
        let post = Post { endpoint: &endpoint, tls: None, path: "/a", body: b"{}", deadline };
        let error = post.send(&Dialer::new(System), &Interrupter::default()).unwrap_err();
        assert_eq!(error.kind, NetErrorKind::BodyTooLarge);
        assert!(server.join().unwrap() < Some(16_000), "the buffers of the system have some megabytes");
    }

    #[test]
    fn silent_server_is_left_in_time_and_at_once_on_cancel() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let endpoint = Endpoint::parse(&url, "endpoint").unwrap();
        let dialer = Dialer::new(System);
        let send = |timeout: Duration, cancel: &CancelToken| {
            let (interrupter, _hook) = Interrupter::hooked(cancel);
            let deadline = Instant::now() + timeout;
            Post { endpoint: &endpoint, tls: None, path: "/a", body: b"{}", deadline }
                .send(&dialer, &interrupter)
                .unwrap_err()
                .kind
        };
        assert_eq!(send(Duration::from_millis(100), &CancelToken::new()), NetErrorKind::Timeout);
        let cancel = CancelToken::new();
        let later = cancel.clone();
        let other = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            later.cancel();
        });
        let began = Instant::now();
        assert_eq!(send(Duration::from_secs(60), &cancel), NetErrorKind::Interrupted);
        assert!(began.elapsed() < Duration::from_secs(30));
        other.join().unwrap();
    }
}
