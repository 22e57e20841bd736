//! The client of a SOCKS 5 proxy. Source: RFC 1928; user names and passwords: RFC 1929.

use std::io::{Read, Write};
use std::iter::once;
use std::net::IpAddr;

use super::failure::broken;
use super::login::ProxyLogin;
use crate::net::endpoint::Endpoint;
use crate::net::error::{Error, NetErrorKind};

const VERSION: u8 = 5;
const LOGIN_VERSION: u8 = 1;

const NO_LOGIN: u8 = 0;
const LOGIN: u8 = 2;
const NO_METHOD: u8 = 0xFF;

const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// The longest name, user or password in bytes. SOCKS 5 encodes the length in one byte.
pub(crate) const MAX_TEXT: usize = 255;

/// Opens a tunnel to `target`.
///
/// The proxy looks up the name of the target, as in Go's `net/http` for both `socks5` and `socks5h`.
pub(crate) fn connect(
    proxy: &mut (impl Read + Write),
    target: &Endpoint,
    login: Option<&ProxyLogin>,
) -> Result<(), Error> {
    let methods: &[u8] = if login.is_some() { &[NO_LOGIN, LOGIN] } else { &[NO_LOGIN] };
    let mut greeting = vec![VERSION];
    push(&mut greeting, methods)?;
    send(proxy, &greeting)?;
    let [version, method] = receive(proxy)?;
    if version != VERSION {
        return Err(failed("the peer is not a SOCKS 5 proxy; use http:// or https:// in the URL of an HTTP proxy"));
    }
    match (method, login) {
        (NO_LOGIN, _) => {}
        (LOGIN, Some(login)) => log_in(proxy, login)?,
        (NO_METHOD, Some(_)) => return Err(failed("the proxy does not accept a user name and password")),
        (NO_METHOD, None) => {
            return Err(failed("the proxy requires credentials; set user:password@ in the proxy URL"));
        }
        _ => return Err(failed("the proxy chose a login method that was not offered")),
    }
    let mut request = vec![VERSION, CONNECT, 0];
    match target.host.parse() {
        Ok(IpAddr::V4(ip)) => request.extend(once(IPV4).chain(ip.octets())),
        Ok(IpAddr::V6(ip)) => request.extend(once(IPV6).chain(ip.octets())),
        Err(_) => {
            request.push(NAME);
            push(&mut request, target.host.as_bytes())?;
        }
    }
    request.extend(target.port.to_be_bytes());
    send(proxy, &request)?;
    let [version, reply, _, kind] = receive(proxy)?;
    if version != VERSION {
        return Err(failed("the proxy violated the SOCKS 5 protocol"));
    }
    if reply != 0 {
        let to = target.host_and_port();
        return Err(failed(format!("the proxy did not connect to {to}: {} (SOCKS reply {reply})", meaning(reply))));
    }
    // The reply ends with the address and the port from which the proxy connected. Both are ignored.
    let length = match kind {
        IPV4 => 4,
        IPV6 => 16,
        NAME => usize::from(receive::<1>(proxy)?[0]),
        _ => return Err(failed("the proxy violated the SOCKS 5 protocol")),
    };
    proxy.read_exact(&mut vec![0; length + size_of::<u16>()]).map_err(broken)
}

fn log_in(proxy: &mut (impl Read + Write), login: &ProxyLogin) -> Result<(), Error> {
    let mut request = vec![LOGIN_VERSION];
    push(&mut request, &login.name)?;
    push(&mut request, &login.password)?;
    send(proxy, &request)?;
    let [version, status] = receive(proxy)?;
    match (version, status) {
        (LOGIN_VERSION, 0) => Ok(()),
        (LOGIN_VERSION, _) => Err(failed("the proxy rejected the user and password of the proxy URL")),
        _ => Err(failed("the proxy violated the SOCKS 5 protocol")),
    }
}

/// Appends the length of a text, and then the text.
fn push(request: &mut Vec<u8>, text: &[u8]) -> Result<(), Error> {
    let length = u8::try_from(text.len())
        .map_err(|_| failed(format!("the name has more than {MAX_TEXT} bytes, which SOCKS 5 does not allow")))?;
    request.push(length);
    request.extend(text);
    Ok(())
}

fn send(proxy: &mut (impl Read + Write), bytes: &[u8]) -> Result<(), Error> {
    proxy.write_all(bytes).and_then(|()| proxy.flush()).map_err(broken)
}

fn receive<const N: usize>(proxy: &mut impl Read) -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    proxy.read_exact(&mut bytes).map_err(broken)?;
    Ok(bytes)
}

fn failed(what: impl Into<String>) -> Error {
    Error::new(NetErrorKind::Connect, what)
}

/// Returns the meaning of a reply code. Source: RFC 1928, section 6.
fn meaning(reply: u8) -> &'static str {
    match reply {
        1 => "general failure",
        2 => "not allowed by the rules of the proxy",
        3 => "network unreachable",
        4 => "host unreachable",
        5 => "connection refused",
        6 => "time to live expired",
        7 => "CONNECT not supported",
        8 => "address type not supported",
        _ => "unknown reason",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::tests::stand_in::StandIn;

    fn login() -> ProxyLogin {
        ProxyLogin { name: b"me".to_vec(), password: b"hunter2".to_vec() }
    }

    /// Runs [`connect`] with a proxy that sends `answer`.
    ///
    /// Returns the result, the bytes that the client wrote, and the number of unread bytes of the answer.
    fn run(target: &str, login: Option<&ProxyLogin>, answer: &[u8]) -> (Result<(), Error>, Vec<u8>, usize) {
        // The proxy sends one byte at a time.
        let mut stand = StandIn::new(answer, 1);
        let target = Endpoint::parse(target, "server").unwrap();
        let result = connect(&mut stand, &target, login);
        let left = answer.len() - usize::try_from(stand.answer.position()).unwrap();
        (result, stand.written, left)
    }

    const DONE: &[u8] = &[5, 0, 0, 1, 10, 0, 0, 1, 4, 56];

    #[test]
    fn a_name_goes_to_the_proxy_and_an_address_as_one() {
        let port = 6443_u16.to_be_bytes();
        for (target, address) in [
            ("https://api.test:6443", [&[3, 8][..], b"api.test"].concat()),
            ("https://10.1.2.3:6443", vec![1, 10, 1, 2, 3]),
            ("https://[fd00::1]:6443", [&[4, 0xfd, 0][..], &[0; 13], &[1]].concat()),
            ("https://[fe80::1%25eth0]:6443", [&[4, 0xfe, 0x80][..], &[0; 13], &[1]].concat()),
        ] {
            let (result, written, left) = run(target, None, &[&[5, 0], DONE].concat());
            result.unwrap();
            assert_eq!(written, [&[5, 1, 0, 5, 1, 0], &address[..], &port].concat(), "{target}");
            assert_eq!(left, 0);
        }
    }

    #[test]
    fn the_user_logs_in_when_the_proxy_asks() {
        let (result, written, _) = run("http://1.2.3.4", Some(&login()), &[&[5, 2, 1, 0], DONE].concat());
        result.unwrap();
        let logged_in = [&[5, 2, 0, 2, 1, 2][..], b"me", &[7], b"hunter2", &[5, 1, 0, 1, 1, 2, 3, 4, 0, 80]].concat();
        assert_eq!(written, logged_in);
        let (result, written, _) = run("http://1.2.3.4", Some(&login()), &[&[5, 0], DONE].concat());
        result.unwrap();
        assert_eq!(written, [5, 2, 0, 2, 5, 1, 0, 1, 1, 2, 3, 4, 0, 80], "it did not ask");
    }

    #[test]
    fn address_in_the_reply_is_read_and_nothing_after_it() {
        for address in [vec![1, 1, 2, 3, 4], [&[4][..], &[0; 16]].concat(), [&[3, 5][..], b"a.b.c"].concat()] {
            let answer = [&[5, 0, 5, 0, 0], &address[..], &[0, 1], b"HTTP"].concat();
            let (result, _, left) = run("http://a", None, &answer);
            result.unwrap();
            assert_eq!(left, 4);
        }
    }

    #[test]
    fn each_failure_on_the_way_to_the_proxy_has_its_kind() {
        let tls = std::io::Error::other(rustls::Error::DecryptError);
        assert_eq!(broken(tls).kind, NetErrorKind::Tls);
        assert_eq!(broken(std::io::ErrorKind::ConnectionReset.into()).kind, NetErrorKind::Connect);
    }

    #[test]
    fn error_is_reported_without_the_password() {
        for (login, answer, expected) in [
            (None, &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "not a SOCKS 5 proxy"),
            (None, &[4, 90], "not a SOCKS 5 proxy"),
            (None, &[5, 0xFF], "set user:password@"),
            (None, &[5, 2], "not offered"),
            (Some(login()), &[5, 0xFF], "does not accept a user name"),
            (Some(login()), &[5, 1], "not offered"),
            (Some(login()), &[5, 2, 1, 1], "rejected the user"),
            (Some(login()), &[5, 2, 5, 0], "violated the SOCKS 5"),
            (None, &[5, 0, 5, 1, 0, 1], "general failure"),
            (None, &[5, 0, 5, 2, 0, 1], "not allowed"),
            (None, &[5, 0, 5, 3, 0, 1], "network unreachable"),
            (None, &[5, 0, 5, 4, 0, 1], "host unreachable"),
            (None, &[5, 0, 5, 5, 0, 1], "did not connect to a:80: connection refused"),
            (None, &[5, 0, 5, 6, 0, 1], "time to live"),
            (None, &[5, 0, 5, 7, 0, 1], "CONNECT not supported"),
            (None, &[5, 0, 5, 8, 0, 1], "address type"),
            (None, &[5, 0, 5, 200, 0, 1], "SOCKS reply 200"),
            (None, &[5, 0, 4, 0, 0, 1, 0, 0, 0, 0, 0, 0], "violated the SOCKS 5"),
            (None, &[5, 0, 5, 0, 0, 9, 0, 0, 0, 0, 0, 0], "violated the SOCKS 5"),
            (None, &[5, 0, 5, 0, 0, 3, 200, b'a'], "proxy broke"),
            (None, &[5], "proxy broke"),
            (None, &[], "proxy broke"),
        ] {
            let (result, _, _) = run("http://a", login.as_ref(), answer);
            let error = result.unwrap_err();
            assert_eq!(error.kind(), &NetErrorKind::Connect, "{error}");
            let text = format!("{error} {error:?}");
            assert!(text.contains(expected) && !text.contains("hunter2"), "{expected}: {text}");
        }
        let long = format!("http://{}", vec!["a".repeat(60); 5].join("."));
        let (result, _, _) = run(&long, None, &[&[5, 0], DONE].concat());
        assert!(result.unwrap_err().to_string().contains("255"));
    }
}
