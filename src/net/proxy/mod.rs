//! HTTP and SOCKS 5 proxies.
//!
//! A proxy URL has the same meaning as in Go's `net/http`, because users reuse configurations of client-go.

use std::time::Instant;

use super::endpoint::Endpoint;
use super::error::Error;
use super::socket::Socket;

mod connect;
mod failure;
mod login;
mod socks;

use login::ProxyLogin;

/// The protocol, address and credentials of a proxy.
#[derive(Clone, Debug)]
pub(crate) struct Proxy {
    protocol: Protocol,
    pub(crate) endpoint: Endpoint,
    login: Option<ProxyLogin>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// The `CONNECT` method of HTTP. The scheme of the endpoint selects plain text or TLS.
    Http,
    Socks5,
}

impl Proxy {
    pub(crate) fn parse(url: &str, place: &str) -> Result<Self, Error> {
        let url = url.trim();
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        let has_port = host.rsplit(']').next().is_some_and(|end| end.contains(':'));
        let (protocol, base) = match scheme.to_ascii_lowercase().as_str() {
            "http" => (Protocol::Http, format!("http://{host}")),
            "https" => (Protocol::Http, format!("https://{host}")),
            "socks5" | "socks5h" if has_port || host.is_empty() => (Protocol::Socks5, format!("http://{host}")),
            "socks5" | "socks5h" => (Protocol::Socks5, format!("http://{host}:{SOCKS_PORT}")),
            _ => {
                let rule = "must be a URL that begins with http://, https://, socks5:// or socks5h://";
                return Err(Error::config(place, rule));
            }
        };
        let endpoint = Endpoint::parse(&base, place)?;
        let login = user.map(ProxyLogin::parse).transpose().map_err(|rule| Error::config(place, rule))?;
        if protocol == Protocol::Socks5 && login.as_ref().is_some_and(|login| !login.fits(socks::MAX_TEXT)) {
            let rule = "has an empty user, or a user or password of more than 255 bytes, which SOCKS 5 does not allow (RFC 1929)";
            return Err(Error::config(place, rule));
        }
        Ok(Proxy { protocol, endpoint, login })
    }

    /// Returns the address of the proxy for errors, without credentials.
    pub(crate) fn place(&self) -> String {
        format!("proxy {}", self.endpoint.host_and_port())
    }

    /// Opens a tunnel to `target` on a new connection to the proxy.
    pub(crate) fn open_tunnel(&self, socket: &mut Socket, target: &Endpoint, deadline: Instant) -> Result<(), Error> {
        let mut connection = socket.until(deadline);
        let opened = match self.protocol {
            Protocol::Http => connect::connect(&mut connection, &target.host_and_port(), self.login.as_ref()),
            Protocol::Socks5 => socks::connect(&mut connection, target, self.login.as_ref()),
        };
        let opened = opened.and_then(|()| match socket.is_quiet() {
            true => Ok(()),
            false => Err(failure::early_bytes()),
        });
        opened.map_err(|e| e.at(self.place()))
    }
}

/// The default port of SOCKS 5, as in Go's `net/http` and RFC 1928.
const SOCKS_PORT: u16 = 1080;

#[cfg(test)]
mod tests {
    use super::*;

    fn login(url: &str) -> (String, String) {
        let proxy = Proxy::parse(url, "proxy-url").unwrap();
        assert_eq!(proxy.endpoint.host_and_port(), "proxy:3128");
        let login = proxy.login.unwrap();
        (String::from_utf8(login.name).unwrap(), String::from_utf8(login.password).unwrap())
    }

    #[test]
    fn credentials_are_decoded_and_hidden() {
        let pair = |name: &str, password: &str| (name.to_owned(), password.to_owned());
        assert_eq!(login("http://us%65r:p%40ss@proxy:3128/"), pair("user", "p@ss"));
        assert_eq!(login("http://user:p@ss@proxy:3128"), pair("user", "p@ss"), "as Go reads it");
        assert_eq!(login("socks5://user@proxy:3128"), pair("user", ""));
        assert_eq!(login("user:a:b@proxy:3128"), pair("user", "a:b"));
        let proxy = Proxy::parse("https://hunter1:hunter2@proxy", "proxy-url").unwrap();
        assert!(!format!("{proxy:?} {}", proxy.place()).contains("hunter"));
    }

    #[test]
    fn scheme_selects_protocol_and_port_of_the_proxy() {
        for (url, protocol, is_tls, to) in [
            ("http://p", Protocol::Http, false, "p:80"),
            ("p:3128", Protocol::Http, false, "p:3128"),
            ("HTTPS://p", Protocol::Http, true, "p:443"),
            ("https://[fd00::1]:8443/x?y", Protocol::Http, true, "[fd00::1]:8443"),
            ("socks5://p", Protocol::Socks5, false, "p:1080"),
            ("socks5h://[::1]", Protocol::Socks5, false, "[::1]:1080"),
            ("Socks5://[::1]:9", Protocol::Socks5, false, "[::1]:9"),
        ] {
            let proxy = Proxy::parse(url, "proxy-url").unwrap();
            let found = (proxy.protocol, proxy.endpoint.is_https(), proxy.endpoint.host_and_port());
            assert_eq!(found, (protocol, is_tls, to.to_owned()), "{url}");
        }
    }

    #[test]
    fn other_proxies_are_refused_clearly() {
        let error = Proxy::parse("socks4://hunter2@a:1080", "proxy-url").unwrap_err().to_string();
        assert!(error.contains("proxy-url") && error.contains("socks5://"), "{error}");
        let long = format!("socks5://{}@a", "hunter2".repeat(40));
        for url in [
            "gopher://a",
            "http://",
            "socks5://",
            "http://%zz:hunter2@a",
            "http://a:hunter2",
            "socks5://a:hunter2",
            "socks5://:hunter2@a",
            &long,
        ] {
            let error = Proxy::parse(url, "proxy-url").unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
