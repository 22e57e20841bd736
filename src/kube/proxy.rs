//! Which proxy to go through, if any, and how to be let through it.

use std::fmt;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream};
use std::time::Instant;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::config::Env;
use super::endpoint::Endpoint;
use super::error::{Error, ErrorKind};
use super::secret::Secret;

/// No proxy says more than this before it lets us through.
const MAX_ANSWER: usize = 16 * 1024;

/// An HTTP proxy that takes `CONNECT`.
#[derive(Clone)]
pub(super) struct Proxy {
    endpoint: Endpoint,
    /// The value of `Proxy-Authorization`.
    authorization: Option<Secret>,
}

impl Proxy {
    pub(super) fn parse(url: &str, place: &str) -> Result<Self, Error> {
        let url = url.trim();
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        match scheme.to_ascii_lowercase().as_str() {
            "http" => {}
            "socks5" | "socks5h" | "https" => {
                let rule = format!("{scheme} proxies are not supported; use an http:// proxy");
                return Err(Error::config(place, rule));
            }
            _ => {
                return Err(Error::config(place, "must be a URL that begins with http://"));
            }
        }
        let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (user, host) = match rest[..authority_end].rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, &rest[..authority_end]),
        };
        let authorization = match user {
            Some(user) => {
                let (name, password) = user.split_once(':').unwrap_or((user, ""));
                let decoded = percent_decode(name).zip(percent_decode(password));
                let Some((name, password)) = decoded else {
                    return Err(Error::config(place, "has a user or password that is not valid percent-encoding"));
                };
                let pair = [&name[..], b":", &password[..]].concat();
                Some(Secret::new(format!("Basic {}", BASE64_STANDARD.encode(pair))))
            }
            None => None,
        };
        Ok(Proxy { endpoint: Endpoint::parse(&format!("http://{host}"), place)?, authorization })
    }

    /// What the environment asks for, by the rules of Go's `http.ProxyFromEnvironment`, which client-go uses.
    pub(super) fn from_env(env: Env<'_>, target: &Endpoint) -> Result<Option<Self>, Error> {
        let names: [&'static str; 2] = match target.is_https() {
            true => ["HTTPS_PROXY", "https_proxy"],
            false => ["HTTP_PROXY", "http_proxy"],
        };
        let lookup = |names: [&'static str; 2]| {
            names.into_iter().find_map(|name| {
                let value = env(name)?.into_string().ok()?;
                (!value.is_empty()).then_some((name, value))
            })
        };
        let Some((name, url)) = lookup(names) else {
            return Ok(None);
        };
        let exempt = lookup(["NO_PROXY", "no_proxy"]).is_some_and(|(_, list)| is_exempt(&list, target));
        if target.is_loopback() || exempt {
            return Ok(None);
        }
        Proxy::parse(&url, name).map(Some)
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Asks for a tunnel to `target` on a fresh connection to the proxy.
    pub(super) fn open_tunnel(
        &self,
        mut stream: &TcpStream,
        target: &Endpoint,
        deadline: Instant,
    ) -> Result<(), Error> {
        let place = format!("proxy {}", self.endpoint.host_and_port());
        let to = target.host_and_port();
        let mut head = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\nUser-Agent: {}\r\n", super::USER_AGENT);
        if let Some(authorization) = &self.authorization {
            head.push_str(&format!("Proxy-Authorization: {}\r\n", authorization.expose()));
        }
        head.push_str("\r\n");
        let broken = |e: std::io::Error| {
            let kind = match e.kind() {
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => ErrorKind::Timeout,
                _ => ErrorKind::Connect,
            };
            Error::new(kind, "the proxy broke off").at(place.clone()).caused_by(e)
        };
        let left = || {
            let left = deadline.saturating_duration_since(Instant::now());
            match left.is_zero() {
                true => Err(Error::new(ErrorKind::Timeout, "the proxy did not answer in time").at(place.clone())),
                false => Ok(Some(left)),
            }
        };
        stream.set_write_timeout(left()?).map_err(&broken)?;
        stream.write_all(head.as_bytes()).map_err(&broken)?;
        let mut answer = Vec::new();
        let end = loop {
            let mut chunk = [0; 1024];
            stream.set_read_timeout(left()?).map_err(&broken)?;
            let n = match stream.read(&mut chunk) {
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                other => other.map_err(&broken)?,
            };
            answer.extend_from_slice(&chunk[..n]);
            if let Some(at) = answer.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
            if n == 0 || answer.len() > MAX_ANSWER {
                return Err(Error::new(ErrorKind::Connect, "the proxy gave no HTTP answer to CONNECT").at(place));
            }
        };
        // The transport that takes over the socket starts out from sockets without time-outs.
        stream.set_read_timeout(None).map_err(&broken)?;
        stream.set_write_timeout(None).map_err(&broken)?;
        match status_code(&answer) {
            // The client speaks first on the far side, so early bytes can only be meant to confuse.
            Some(200..=299) if end == answer.len() => Ok(()),
            Some(407) => Err(Error::new(
                ErrorKind::Connect,
                "the proxy asks for (other) credentials (407); put user:password@ into its URL",
            )
            .at(place)),
            Some(code) => {
                Err(Error::new(ErrorKind::Connect, format!("the proxy answered {code} to CONNECT {to}")).at(place))
            }
            None => Err(Error::new(ErrorKind::Connect, "the proxy gave no HTTP answer to CONNECT").at(place)),
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy")
            .field("endpoint", &self.endpoint.host_and_port())
            .field("authorization", &self.authorization)
            .finish()
    }
}

fn status_code(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|b| *b == b'\r').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let rest = line.strip_prefix("HTTP/1.")?.get(1..)?;
    rest.trim_start().get(..3)?.parse().ok()
}

fn percent_decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digit = |b: Option<u8>| char::from(b?).to_digit(16);
        let value = digit(bytes.next())? * 16 + digit(bytes.next())?;
        out.push(u8::try_from(value).ok()?);
    }
    Some(out)
}

/// Whether `NO_PROXY` names the target: by `*`, address, network, domain (with its subdomains) or `.domain`.
fn is_exempt(list: &str, target: &Endpoint) -> bool {
    let host = target.host().trim_end_matches('.').to_ascii_lowercase();
    let address = host.parse::<IpAddr>().ok();
    list.split(',').map(str::trim).filter(|e| !e.is_empty()).any(|entry| {
        let entry = entry.to_ascii_lowercase();
        if entry == "*" {
            return true;
        }
        if let Some((net, bits)) = entry.split_once('/') {
            let network = net.parse::<IpAddr>().ok().zip(bits.parse::<u32>().ok());
            return network.zip(address).is_some_and(|((net, bits), ip)| contains(net, bits, ip));
        }
        let (name, port) = match entry.rsplit_once(':') {
            // A bare IPv6 address has colons but no port.
            Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name, port.parse::<u16>().ok()),
            _ => (entry.as_str(), None),
        };
        if port.is_some_and(|p| p != target.port()) {
            return false;
        }
        let name = name.trim_start_matches('[').trim_end_matches(']');
        if let Ok(ip) = name.parse::<IpAddr>() {
            return address == Some(ip);
        }
        let name = name.strip_prefix('*').unwrap_or(name);
        match name.strip_prefix('.') {
            Some(domain) => host.strip_suffix(domain).is_some_and(|h| h.ends_with('.')),
            None => host.strip_suffix(name).is_some_and(|h| h.is_empty() || h.ends_with('.')),
        }
    })
}

fn contains(net: IpAddr, bits: u32, ip: IpAddr) -> bool {
    // Shifting by the full width is an overflow, so the empty prefix is a case of its own.
    match (net, ip) {
        (IpAddr::V4(net), IpAddr::V4(ip)) if bits <= 32 => {
            bits == 0 || (net.to_bits() ^ ip.to_bits()) >> (32 - bits) == 0
        }
        (IpAddr::V6(net), IpAddr::V6(ip)) if bits <= 128 => {
            bits == 0 || (net.to_bits() ^ ip.to_bits()) >> (128 - bits) == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn target(url: &str) -> Endpoint {
        Endpoint::parse(url, "server").unwrap()
    }

    #[test]
    fn credentials_are_decoded_and_hidden() {
        let proxy = Proxy::parse("http://us%65r:p%40ss@proxy:3128/", "proxy-url").unwrap();
        let expected = format!("Basic {}", BASE64_STANDARD.encode("user:p@ss"));
        assert_eq!(proxy.authorization.as_ref().unwrap().expose(), expected);
        assert!(!format!("{proxy:?}").contains("Basic"));
        assert_eq!(proxy.endpoint().host_and_port(), "proxy:3128");
    }

    #[test]
    fn other_proxies_are_refused_clearly() {
        let error = Proxy::parse("socks5://hunter2@a:1080", "proxy-url").unwrap_err().to_string();
        assert!(error.contains("proxy-url") && error.contains("socks5"), "{error}");
        assert!(!error.contains("hunter2"));
        for url in ["https://a", "gopher://a", "http://", "http://%zz@a", "http://a:b"] {
            assert!(Proxy::parse(url, "proxy-url").is_err(), "{url}");
        }
    }

    #[test]
    fn the_environment_is_followed_as_go_does() {
        let env = |name: &str| {
            Some(OsString::from(match name {
                "https_proxy" => "proxy:3128",
                "NO_PROXY" => "10.0.0.0/8, .internal,example.com:8443,fd00::/8,[::2],192.0.2.1",
                _ => return None,
            }))
        };
        let proxied = |url: &str| Proxy::from_env(&env, &target(url)).unwrap().is_some();
        for url in [
            "https://10.1.2.3",
            "https://a.internal",
            "https://example.com:8443",
            "https://localhost",
            "https://a.example.com:8443",
            "https://127.0.0.2",
            "https://[::1]",
            "https://[fd12::1]",
            "https://[::2]",
            "https://192.0.2.1",
            "http://api.test",
        ] {
            assert!(!proxied(url), "{url}");
        }
        for url in [
            "https://11.1.2.3",
            "https://internal",
            "https://example.com",
            "https://notexample.com:8443",
            "https://192.0.2.10",
            "https://api.test",
        ] {
            assert!(proxied(url), "{url}");
        }
    }

    #[test]
    fn prefixes_of_any_length_compare() {
        let ip = |s: &str| s.parse::<IpAddr>().unwrap();
        assert!(contains(ip("0.0.0.0"), 0, ip("1.2.3.4")) && contains(ip("::"), 0, ip("::1")));
        assert!(contains(ip("1.2.3.4"), 32, ip("1.2.3.4")) && !contains(ip("1.2.3.4"), 32, ip("1.2.3.5")));
        assert!(!contains(ip("1.2.3.4"), 33, ip("1.2.3.4")) && !contains(ip("::"), 0, ip("1.2.3.4")));
    }
}
