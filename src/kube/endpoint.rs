//! Where the server is: scheme, host, port and the path in front of every request.

use std::net::IpAddr;

use ureq::http::Uri;
use ureq::http::uri::{Authority, PathAndQuery, Scheme};

use super::error::Error;

/// A checked server URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    scheme: Scheme,
    authority: Authority,
    host: String,
    port: u16,
    prefix: String,
}

impl Endpoint {
    /// Checks a server URL; `place` names the field it comes from.
    pub(super) fn parse(url: &str, place: &str) -> Result<Self, Error> {
        // The URL itself is not quoted before it is known to hold no password.
        let uri: Uri = url.trim().parse().map_err(|_| Error::config(place, "is not a valid URL"))?;
        let parts = uri.into_parts();
        let Some(authority) = parts.authority else {
            return Err(Error::config(place, "must be a URL with a host, such as https://10.0.0.1:6443"));
        };
        if authority.as_str().contains('@') {
            return Err(Error::config(place, "must not hold a user name or password; put them under users"));
        }
        let rule = "must begin with https://, or with http:// for a server without TLS";
        let scheme = parts.scheme.ok_or_else(|| Error::config(place, rule))?;
        let default_port = match scheme.as_str() {
            "https" => 443,
            "http" => 80,
            _ => return Err(Error::config(place, rule)),
        };
        let port = match authority.as_str().rsplit_once(':') {
            Some((_, port)) if !port.contains(']') => authority
                .port_u16()
                .filter(|_| !port.is_empty())
                .ok_or_else(|| Error::config(place, "has a port that is no number up to 65535"))?,
            _ => default_port,
        };
        let host = authority.host();
        let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host).to_owned();
        let path = parts.path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/"));
        if path.query().is_some() {
            return Err(Error::config(place, "must not have a query"));
        }
        if host.is_empty() {
            return Err(Error::config(place, "has no host"));
        }
        Ok(Endpoint { scheme, authority, host, port, prefix: path.path().trim_end_matches('/').to_owned() })
    }

    /// A server URL that may lack a scheme: it is `https` if something else says that it is to be, as in client-go.
    #[cfg(feature = "kubeconfig")]
    pub(super) fn parse_by_tls(url: &str, place: &str, has_tls: bool) -> Result<Self, Error> {
        match has_tls && !url.trim().is_empty() && !url.contains("://") {
            true => Self::parse(&format!("https://{}", url.trim()), place),
            false => Self::parse(url, place),
        }
    }

    /// Whether it is this very machine.
    pub(super) fn is_loopback(&self) -> bool {
        let is_loopback = |address: IpAddr| address.to_canonical().is_loopback();
        self.host.eq_ignore_ascii_case("localhost") || self.host.parse().is_ok_and(is_loopback)
    }

    pub(super) fn is_https(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// The host without brackets.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// `host:port` as a proxy or a log line wants it.
    pub(super) fn host_and_port(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// The whole URL, for people and for credential plugins.
    pub(super) fn url(&self) -> String {
        format!("{}://{}{}", self.scheme, self.authority, self.prefix)
    }

    /// The URI of a request; an error if the path is not one.
    pub(super) fn uri(&self, path: &str, query: &[(&str, &str)]) -> Result<Uri, Error> {
        let rule = |rule: &str| Error::config("request path", rule.to_owned());
        if !path.starts_with('/') {
            return Err(rule("must begin with a slash"));
        }
        // A name that was pasted into a path must not be able to reach another resource.
        if path.contains(['?', '#', '%', '\\']) || path.split('/').any(|s| s == "." || s == "..") || path.contains("//")
        {
            return Err(rule("must be plain segments without ?, #, %, empty or dot segments"));
        }
        let mut target = format!("{}{path}", self.prefix);
        for (i, (name, value)) in query.iter().enumerate() {
            target.push(if i == 0 { '?' } else { '&' });
            push_encoded(&mut target, name);
            target.push('=');
            push_encoded(&mut target, value);
        }
        Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(target)
            .build()
            .map_err(|_| rule("holds characters that no path may have"))
    }
}

fn push_encoded(out: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Endpoint, Error> {
        Endpoint::parse(url, "server")
    }

    #[test]
    fn urls_are_taken_apart() {
        let e = parse("https://[fd00::1]:6443/k8s/clusters/c-1/").unwrap();
        assert_eq!((e.host(), e.port(), e.is_https()), ("fd00::1", 6443, true));
        assert_eq!(e.host_and_port(), "[fd00::1]:6443");
        let uri = e.uri("/api/v1", &[("fieldSelector", "metadata.name=a b&c")]).unwrap();
        assert_eq!(
            uri.to_string(),
            "https://[fd00::1]:6443/k8s/clusters/c-1/api/v1?fieldSelector=metadata.name%3Da%20b%26c"
        );
        assert_eq!(parse("https://a").unwrap().port(), 443);
        assert_eq!(parse("https://[::1]").unwrap().port(), 443);
        assert_eq!(parse("http://a/").unwrap().url(), "http://a");
    }

    #[test]
    fn a_url_without_a_scheme_is_https_or_an_error() {
        for url in ["10.0.0.1:6443", "api.test/prefix", "[fd00::1]", " api.test "] {
            let error = Endpoint::parse_by_tls(url, "server", false).unwrap_err().to_string();
            assert!(error.contains("server"), "{error}");
            assert!(Endpoint::parse_by_tls(url, "server", true).unwrap().is_https(), "{url}");
        }
        let error = parse("10.0.0.1:6443").unwrap_err().to_string();
        assert!(error.contains("https://"), "{error}");
        assert!(!Endpoint::parse_by_tls("http://a", "server", true).unwrap().is_https(), "it says what it is");
    }

    #[test]
    fn bad_urls_are_refused_without_quoting_them() {
        for url in [
            "",
            "/path",
            "ftp://a",
            "https://user:hunter2@a",
            "https://a:hunter2",
            "https://a:99999",
            "https://a:",
            "https://a/?hunter2",
            "https://",
            "https://:443",
            "https://a b",
        ] {
            let error = parse(url).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_path_cannot_leave_its_place() {
        let e = parse("https://a/x").unwrap();
        for path in ["api", "/a/../b", "/a?b", "/a#b", "/a%2e", "/a b", "/a//b", "/a\r\nb", "/."] {
            assert!(e.uri(path, &[]).is_err(), "{path}");
        }
    }
}
