//! Which proxy to go through, if any, and how to be let through it.
//!
//! By Go's rules, for what is written for client-go is to mean the same here: `net/http`'s for what a URL means,
//! `golang.org/x/net/http/httpproxy`'s for the environment.

use std::ffi::OsString;
use std::fmt;
use std::io;

use ureq::unversioned::transport::{Transport, TransportAdapter};

use super::config::Env;
use super::endpoint::{Endpoint, percent_decode};
use super::error::{Error, ErrorKind};

mod connect;
mod exempt;
mod socks;
#[cfg(test)]
mod stand_in;

/// A proxy, and who we are to it.
#[derive(Clone)]
pub(super) struct Proxy {
    protocol: Protocol,
    endpoint: Endpoint,
    login: Option<Login>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// `CONNECT`, in the clear or in TLS as the endpoint's scheme says.
    Http,
    Socks5,
}

/// A user name and a password as they go out, decoded.
#[derive(Clone)]
struct Login {
    name: Vec<u8>,
    password: Vec<u8>,
}

impl Proxy {
    pub(super) fn parse(url: &str, place: &str) -> Result<Self, Error> {
        let url = url.trim();
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (user, host) = match rest[..authority_end].rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, &rest[..authority_end]),
        };
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
        let login = user.map(|user| Login::parse(user, protocol)).transpose();
        let login = login.map_err(|rule| Error::config(place, rule))?;
        Ok(Proxy { protocol, endpoint, login })
    }

    /// What the environment asks for. A value that is of no use is an error only for a target that would go through it.
    pub(super) fn from_env(env: Env<'_>, target: &Endpoint) -> Result<Option<Self>, Error> {
        let names: [&'static str; 2] = match target.is_https() {
            true => ["HTTPS_PROXY", "https_proxy"],
            false => ["HTTP_PROXY", "http_proxy"],
        };
        let lookup = |names: [&'static str; 2]| {
            names.into_iter().find_map(|name| Some((name, env(name).filter(|value| !value.is_empty())?)))
        };
        let Some((name, url)) = lookup(names) else {
            return Ok(None);
        };
        let is_exempt = |list: OsString| exempt::is_exempt(&list.to_string_lossy(), target);
        if target.is_loopback() || lookup(["NO_PROXY", "no_proxy"]).is_some_and(|(_, list)| is_exempt(list)) {
            return Ok(None);
        }
        // The variable is mostly set for others, and often by others.
        let place = format!("{name} in the environment (NO_PROXY does not exempt {})", target.host_and_port());
        let url = url.into_string().map_err(|_| Error::config(place.clone(), "is not UTF-8 text"))?;
        Proxy::parse(&url, &place).map(Some)
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// For errors: never with its password.
    pub(super) fn place(&self) -> String {
        format!("proxy {}", self.endpoint.host_and_port())
    }

    /// Has the proxy connect to `target`, on a fresh connection to it.
    pub(super) fn open_tunnel(
        &self,
        connection: &mut TransportAdapter<impl Transport>,
        target: &Endpoint,
    ) -> Result<(), Error> {
        let opened = match self.protocol {
            Protocol::Http => connect::connect(connection, &target.host_and_port(), self.login.as_ref()),
            Protocol::Socks5 => socks::connect(connection, target, self.login.as_ref()),
        };
        let opened = opened.and_then(|()| match connection.get_mut().buffers().input().is_empty() {
            true => Ok(()),
            false => Err(early_bytes()),
        });
        opened.map_err(|e| e.at(self.place()))
    }
}

/// Source: Go's `net/http`, which takes it from RFC 1928.
const SOCKS_PORT: u16 = 1080;

impl Login {
    fn parse(user: &str, protocol: Protocol) -> Result<Self, &'static str> {
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        let decoded = percent_decode(name).zip(percent_decode(password));
        let (name, password) = decoded.ok_or("has a user or password that is not valid percent-encoding")?;
        let lengths = (name.len(), password.len());
        if protocol == Protocol::Socks5 && !matches!(lengths, (1..=socks::MAX_TEXT, 0..=socks::MAX_TEXT)) {
            return Err("has a user or password of a length that SOCKS 5 has no room for (RFC 1929)");
        }
        Ok(Login { name, password })
    }
}

/// The client speaks first on the far side, so these can only be meant to pass for an answer of the server.
fn early_bytes() -> Error {
    Error::new(ErrorKind::Connect, "the proxy sent more than its answer before anything was asked of the server")
}

/// What it means when the connection to the proxy fails before the tunnel is there.
fn broken(e: io::Error) -> Error {
    if let Some(tls) = e.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>()) {
        return super::transport::tls_error(tls);
    }
    match ureq::Error::from(e) {
        ureq::Error::Timeout(_) => Error::new(ErrorKind::Timeout, "the proxy did not answer in time"),
        ureq::Error::Io(e) => Error::new(ErrorKind::Connect, "the proxy broke off").caused_by(e),
        _ => Error::new(ErrorKind::Connect, "the proxy broke off"),
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy")
            .field("protocol", &self.protocol)
            .field("endpoint", &self.endpoint.host_and_port())
            .field("login", &self.login)
            .finish()
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Endpoint {
        Endpoint::parse(url, "server").unwrap()
    }

    fn login(url: &str) -> (String, String) {
        let proxy = Proxy::parse(url, "proxy-url").unwrap();
        assert_eq!(proxy.endpoint().host_and_port(), "proxy:3128");
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
    fn the_scheme_says_how_to_talk_to_the_proxy_and_on_which_port() {
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
            let found = (proxy.protocol, proxy.endpoint().is_https(), proxy.endpoint().host_and_port());
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

    #[test]
    fn an_unusable_value_in_the_environment_is_an_error_only_for_who_would_use_it() {
        for unusable in
            ["gopher://hunter2@a", "http://hunter2:hunter2", "\u{0}"].map(OsString::from).into_iter().chain(not_text())
        {
            let env = |name: &str| match name {
                "HTTPS_PROXY" => Some(unusable.clone()),
                "NO_PROXY" => Some(OsString::from("10.0.0.0/8")),
                _ => None,
            };
            for url in
                ["https://10.0.0.1", "https://localhost", "https://127.0.0.1", "https://[::1]", "http://api.test"]
            {
                assert!(Proxy::from_env(&env, &target(url)).unwrap().is_none(), "{url}");
            }
            let error = Proxy::from_env(&env, &target("https://api.test")).unwrap_err();
            assert_eq!(error.kind(), &ErrorKind::Config);
            let error = error.to_string();
            let names_all = ["HTTPS_PROXY", "NO_PROXY", "api.test:443"].iter().all(|name| error.contains(name));
            assert!(names_all && !error.contains("hunter2"), "{error}");
        }
    }

    #[cfg(unix)]
    fn not_text() -> Option<OsString> {
        Some(std::os::unix::ffi::OsStringExt::from_vec(vec![b'p', 0xFF]))
    }

    #[cfg(not(unix))]
    fn not_text() -> Option<OsString> {
        None
    }

    #[test]
    fn the_environment_is_followed_as_go_does() {
        let env = |name: &str| {
            Some(OsString::from(match name {
                "https_proxy" => "proxy:3128",
                "NO_PROXY" => {
                    "10.0.0.0/8, .internal,example.com:8443,fd00::/8,[::2],192.0.2.1,*.wild.test,*tame.test,\
                     named.test:https,.51.100.7,::ffff:203.0.113.1"
                }
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
            "https://a.wild.test",
            "https://203.0.113.1",
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
            "https://wild.test",
            "https://tame.test",
            "https://a.tame.test",
            "https://named.test",
            "https://198.51.100.7",
            "https://api.test",
        ] {
            assert!(proxied(url), "{url}");
        }
    }
}
