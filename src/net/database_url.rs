//! The URL and address of a database.
//!
//! Example: `postgres://user:password@host:5432/database?name=value`.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::time::Instant;

use super::dial::{Dialer, Route};
use super::error::Error;
use super::interrupt::Interrupter;
use super::is_loopback;
use super::secret::Secret;
use super::socket::Socket;
use super::url::{UrlParts, decode};

/// The parts of a database URL. `Debug` does not show the password.
#[derive(Clone, Debug, Default)]
pub(crate) struct DatabaseUrl {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
    /// The host without brackets. Empty if the URL has no host.
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
    pub(crate) database: Option<String>,
    pub(crate) parameters: Vec<(String, String)>,
}

/// The address of a database server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp {
        host: String,
        port: u16,
    },
    /// A Unix socket.
    Unix(PathBuf),
}

impl DatabaseUrl {
    /// Parses a URL whose scheme is in `schemes`.
    ///
    /// The error states the violated rule without the URL, because the URL may contain a password.
    pub(crate) fn parse(url: &str, schemes: &[&str]) -> Result<Self, &'static str> {
        let UrlParts { user, password, place, path, parameters, .. } = UrlParts::parse(url, schemes)?;
        let (host, port) = split_port(place)?;
        Ok(Self { user, password, host: decode(host)?.unwrap_or_default(), port, database: path, parameters })
    }
}

impl Address {
    /// Returns `true` if the address is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp { host, .. } => is_loopback(host),
        }
    }

    /// Returns the host without its IPv6 zone, because a server certificate names no zone.
    pub(crate) fn host(&self) -> &str {
        match self {
            Self::Tcp { host, .. } => host.split('%').next().unwrap_or_default(),
            Self::Unix(_) => "localhost",
        }
    }

    /// Opens a connection, which `interrupter` shuts down on an interrupt.
    pub(crate) fn open(
        &self,
        dialer: &Dialer,
        deadline: Instant,
        interrupter: &Interrupter,
    ) -> Result<(Socket, Option<Route>), Error> {
        let (socket, route) = match self {
            Self::Tcp { host, port } => {
                let (stream, route) = dialer.dial(host, *port, deadline, interrupter)?;
                (Socket::tcp(stream), Some(route))
            }
            Self::Unix(path) => (Socket::unix(path)?, None),
        };
        socket.use_for(interrupter)?;
        Ok((socket, route))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

fn split_port(place: &str) -> Result<(&str, Option<u16>), &'static str> {
    let port = |port: &str| {
        let number = port.parse().ok().filter(|port| *port != 0);
        number.map(Some).ok_or("has a port that is not a number from 1 to 65535")
    };
    if let Some((address, rest)) = place.strip_prefix('[').and_then(|place| place.split_once(']')) {
        // An IPv6 zone may be written as `%25zone` or `%zone`.
        if address.split('%').next().unwrap_or_default().parse::<Ipv6Addr>().is_err() {
            return Err("has brackets around text that is not an IPv6 address");
        }
        return match rest.strip_prefix(':') {
            Some(number) => Ok((address, port(number)?)),
            None if rest.is_empty() => Ok((address, None)),
            None => Err("has unexpected text between the host and the port"),
        };
    }
    if place.contains(',') {
        return Err("must name one host; a list of hosts is not supported");
    }
    match place.split_once(':') {
        Some((_, number)) if number.contains(':') => Err("must put an IPv6 address in brackets"),
        Some((host, number)) => Ok((host, port(number)?)),
        None => Ok((place, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<DatabaseUrl, &'static str> {
        DatabaseUrl::parse(url, &["postgres", "postgresql"])
    }

    #[test]
    fn a_url_is_taken_apart() {
        let url = parse("postgres://jo%40b:p%3Aw%2f@db.test:5433/elections?sslmode=disable&a=b%20c").unwrap();
        assert_eq!((url.user.as_deref(), url.host.as_str(), url.port), (Some("jo@b"), "db.test", Some(5433)));
        assert_eq!(url.password.as_ref().map(Secret::expose), Some("p:w/"));
        assert_eq!(url.database.as_deref(), Some("elections"));
        let of = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(url.parameters, [of("sslmode", "disable"), of("a", "b c")]);
        assert!(!format!("{url:?}").contains("p:w/"));
        let url = parse("postgresql://").unwrap();
        assert!(url.user.is_none() && url.host.is_empty() && url.port.is_none() && url.database.is_none());
        assert_eq!(parse("postgres://[fe80::1%25eth0]:1/").unwrap().host, "fe80::1%eth0");
        assert_eq!(parse("postgres://%2Frun%2Fpg/x").unwrap().host, "/run/pg");
        assert_eq!(parse("postgres://a@b@c/").unwrap().user.as_deref(), Some("a@b"));
    }

    #[test]
    fn invalid_url_is_refused_without_being_quoted() {
        for url in [
            "",
            "hunter2",
            "mysql://hunter2",
            "postgres://a:hunter2@b#c",
            "postgres://a:hunter2@b:0",
            "postgres://a:hunter2@b:99999",
            "postgres://a:hunter2@::1/",
            "postgres://a:hunter2@[b]/",
            "postgres://a:hunter2@[::1]x/",
            "postgres://a:hunter2%@b/",
            "postgres://a:hunter2%ff@b/",
            "postgres://a:hunter2%00@b/",
            "postgres://a:hunter2@b,c/",
            "postgres://a:hunter2@b:1,c:2/",
            "postgres://b/?hunter2",
        ] {
            let rule = parse(url).unwrap_err();
            assert!(!rule.contains("hunter2"), "{rule}");
        }
    }

    #[test]
    fn address_reports_if_it_is_local() {
        let tcp = |host: &str| Address::Tcp { host: host.to_owned(), port: 5432 };
        for (address, is_local, shown) in [
            (tcp("LOCALHOST"), true, "LOCALHOST:5432"),
            (tcp("127.1.2.3"), true, "127.1.2.3:5432"),
            (tcp("::1"), true, "[::1]:5432"),
            (tcp("db.test"), false, "db.test:5432"),
            (tcp("fe80::1%eth0"), false, "[fe80::1%eth0]:5432"),
            (Address::Unix("/run/a".into()), true, "/run/a"),
        ] {
            assert_eq!((address.is_local(), address.to_string().as_str()), (is_local, shown));
        }
        assert_eq!(tcp("fe80::1%eth0").host(), "fe80::1");
    }
}
