//! The `CONNECT` request to an HTTP proxy. Source: RFC 9110, section 9.3.6.

use std::io::{Read, Write};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::failure::{broken, early_bytes};
use super::login::ProxyLogin;
use crate::net::error::{Error, NetErrorKind};

/// The longest answer of a proxy in bytes.
const MAX_ANSWER: usize = 16 * 1024;

const END: &[u8] = b"\r\n\r\n";

/// Opens a tunnel to `target`, which has the form `host:port`.
pub(crate) fn connect(proxy: &mut (impl Read + Write), target: &str, login: Option<&ProxyLogin>) -> Result<(), Error> {
    let agent = crate::net::USER_AGENT;
    let mut head = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nUser-Agent: {agent}\r\n");
    if let Some(login) = login {
        let pair = [&login.name[..], b":", &login.password[..]].concat();
        head.push_str(&format!("Proxy-Authorization: Basic {}\r\n", BASE64_STANDARD.encode(pair)));
    }
    head.push_str("\r\n");
    proxy.write_all(head.as_bytes()).and_then(|()| proxy.flush()).map_err(broken)?;
    let no_answer = || Error::new(NetErrorKind::Connect, "the proxy gave no HTTP answer to CONNECT");
    let mut answer = Vec::new();
    let end = loop {
        let mut chunk = [0; 1024];
        let n = proxy.read(&mut chunk).map_err(broken)?;
        let from = answer.len().saturating_sub(END.len() - 1);
        answer.extend_from_slice(&chunk[..n]);
        if let Some(at) = answer[from..].windows(END.len()).position(|window| window == END) {
            break from + at + END.len();
        }
        if n == 0 || answer.len() > MAX_ANSWER {
            return Err(no_answer());
        }
    };
    match status_code(&answer) {
        Some(200..=299) if end == answer.len() => Ok(()),
        Some(200..=299) => Err(early_bytes()),
        Some(407) => Err(Error::new(
            NetErrorKind::Connect,
            "the proxy requires other credentials (407); set user:password@ in the proxy URL",
        )),
        Some(code) => Err(Error::new(NetErrorKind::Connect, format!("the proxy answered {code} to CONNECT {target}"))),
        None => Err(no_answer()),
    }
}

fn status_code(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|b| *b == b'\r').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let rest = line.strip_prefix("HTTP/1.")?.get(1..)?;
    rest.trim_start().get(..3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::tests::stand_in::StandIn;

    fn answered(answer: &str, piece: usize) -> Result<(), String> {
        let mut stand = StandIn::new(answer, piece);
        connect(&mut stand, "a:1", None).map_err(|e| e.to_string())
    }

    #[test]
    fn an_answer_is_read_to_its_end_and_no_further() {
        for piece in [1, 2, 3, 5, 1024] {
            for good in ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.0 200\r\nA: b\r\n\r\n", "HTTP/1.1 204 x\r\nA:\r\n\r\n"] {
                assert_eq!(answered(good, piece), Ok(()), "{good}");
            }
            for (bad, expected) in [
                ("HTTP/1.1 407 No\r\n\r\n", "user:password@"),
                ("HTTP/1.1 502 No\r\n\r\nbody", "502 to CONNECT a:1"),
                ("HTTP/1.1 200 OK\r\nA: b\r\n", "no HTTP answer"),
                ("HTTP/1.1\r\n\r\n", "no HTTP answer"),
                ("HTTP/2 200\r\n\r\n", "no HTTP answer"),
                ("\r\n\r\n", "no HTTP answer"),
                ("", "no HTTP answer"),
            ] {
                let error = answered(bad, piece).unwrap_err();
                assert!(error.contains(expected), "{bad}: {error}");
            }
        }
        let early = answered("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n", 1024).unwrap_err();
        assert!(early.contains("more than its answer"), "{early}");
    }

    #[test]
    fn an_answer_without_end_is_cut() {
        let mut stand = StandIn::new([&b"HTTP/1.1 200 OK\r\nA: "[..], &vec![b'x'; 10 * MAX_ANSWER]].concat(), 1024);
        assert!(connect(&mut stand, "a:1", None).is_err());
        assert!(stand.answer.position() <= (MAX_ANSWER + 2 * 1024) as u64, "read {}", stand.answer.position());
    }
}
