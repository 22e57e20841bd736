//! A server URL: scheme, host, port, and the path prefix of every request.

use std::borrow::Cow;
use std::net::Ipv6Addr;

use ureq::http::Uri;
use ureq::http::uri::{Authority, PathAndQuery, Scheme};

use super::error::Error;
use super::percent;

/// A checked server URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    scheme: Scheme,
    authority: Authority,
    pub(crate) host: String,
    zone: Option<String>,
    pub(crate) port: u16,
    prefix: String,
}

impl Endpoint {
    /// Parses a server URL. Errors name the configuration field `place`.
    pub(crate) fn parse(url: &str, place: &str) -> Result<Self, Error> {
        // The errors do not quote the URL, because the URL may contain a password.
        let (url, zone) = take_zone(url.trim()).map_err(|rule| Error::config(place, rule))?;
        let uri: Uri = url.parse().map_err(|_| Error::config(place, "is not a valid URL"))?;
        let parts = uri.into_parts();
        let Some(authority) = parts.authority else {
            return Err(Error::config(place, "must be a URL with a host, such as https://10.0.0.1:6443"));
        };
        if authority.as_str().contains('@') {
            return Err(Error::config(place, "must not contain a user name or password; set them separately"));
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
                .ok_or_else(|| Error::config(place, "has a port that is not a number up to 65535"))?,
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
        Ok(Endpoint { scheme, authority, host, zone, port, prefix: path.path().trim_end_matches('/').to_owned() })
    }

    /// Parses a server URL that may lack a scheme.
    ///
    /// If other fields require TLS (`has_tls`), the scheme defaults to `https`, as in client-go's `rest.Config`.
    /// client-go's `clientcmd` does not read the other fields first, and uses `http`.
    #[cfg(feature = "kubeconfig")]
    pub(crate) fn parse_by_tls(url: &str, place: &str, has_tls: bool) -> Result<Self, Error> {
        match has_tls && !url.trim().is_empty() && !url.contains("://") {
            true => Self::parse(&format!("https://{}", url.trim()), place),
            false => Self::parse(url, place),
        }
    }

    /// Returns `true` if the host is this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        super::is_loopback(&self.host)
    }

    pub(crate) fn is_https(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// Returns the host without brackets but with its zone, for connections from this machine.
    pub(crate) fn host_in_zone(&self) -> String {
        match &self.zone {
            Some(zone) => format!("{}%{zone}", self.host),
            None => self.host.clone(),
        }
    }

    /// Returns `host:port` for a proxy or a log line.
    pub(crate) fn host_and_port(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// Returns the whole URL for messages and credential plugins.
    pub(crate) fn url(&self) -> String {
        let mut authority = self.authority.to_string();
        if let Some((zone, end)) = self.zone.as_ref().zip(authority.find(']')) {
            let mut encoded = "%25".to_owned();
            percent::encode(&mut encoded, zone, percent::is_unreserved);
            authority.insert_str(end, &encoded);
        }
        format!("{}://{authority}{}", self.scheme, self.prefix)
    }

    /// Returns the URI of a request, or an error if the path is invalid.
    pub(crate) fn uri(&self, path: &str, query: &[(&str, &str)]) -> Result<Uri, Error> {
        let rule = |rule: &str| Error::config("request path", rule.to_owned());
        if !path.starts_with('/') {
            return Err(rule("must begin with a slash"));
        }
        // `path` contains object names from the configuration, which must not make the path address another resource.
        if path.contains(['?', '#', '%', '\\']) || path.split('/').any(|s| s == "." || s == "..") || path.contains("//")
        {
            return Err(rule("must be plain segments without ?, #, %, empty or dot segments"));
        }
        let mut target = format!("{}{path}", self.prefix);
        for (i, (name, value)) in query.iter().enumerate() {
            target.push(if i == 0 { '?' } else { '&' });
            percent::encode(&mut target, name, percent::is_unreserved);
            target.push('=');
            percent::encode(&mut target, value, percent::is_unreserved);
        }
        if target.len() > MAX_TARGET {
            return Err(rule("must have at most 16 KiB with its query"));
        }
        Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(target)
            .build()
            .map_err(|_| rule("contains characters that are not allowed in a path"))
    }
}

/// The longest path with its query in bytes. Most servers accept less.
pub(crate) const MAX_TARGET: usize = 16 * 1024;

/// Removes the zone from an address such as `[fe80::1%25eth0]`.
///
/// A zone names an interface of this machine and is meaningless to other machines, so no request contains the zone.
/// Source: RFC 6874, sections 2 and 4. Go's `net/url` accepts the same URLs.
fn take_zone(url: &str) -> Result<(Cow<'_, str>, Option<String>), &'static str> {
    let start = url.find("://").map_or(0, |at| at + 3);
    let literal = url[start..].strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let Some((address, zone)) = literal.and_then(|(literal, _)| literal.split_once('%')) else {
        return Ok((Cow::Borrowed(url), None));
    };
    let encoded = zone.strip_prefix("25").ok_or("must write the % before an IPv6 zone as %25")?;
    if address.parse::<Ipv6Addr>().is_err() {
        return Err("has a zone in an address that is not an IPv6 address");
    }
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !b"%/[]".contains(byte);
    let zone = percent::decode(encoded)
        .filter(|zone| (1..=MAX_ZONE).contains(&zone.len()) && zone.iter().all(is_plain))
        .and_then(|zone| String::from_utf8(zone).ok())
        .ok_or("has an IPv6 zone that is neither the name nor the number of an interface")?;
    let without = format!("{}[{address}{}", &url[..start], &url[start + 1 + address.len() + 1 + 2 + encoded.len()..]);
    Ok((Cow::Owned(without), Some(zone)))
}

/// The longest name of an interface in bytes. Linux allows 15 bytes, Windows 256 characters.
const MAX_ZONE: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Endpoint, Error> {
        Endpoint::parse(url, "server")
    }

    #[test]
    fn urls_are_taken_apart() {
        let e = parse("https://[fd00::1]:6443/k8s/clusters/c-1/").unwrap();
        assert_eq!((&*e.host, e.port, e.is_https()), ("fd00::1", 6443, true));
        assert_eq!(e.host_and_port(), "[fd00::1]:6443");
        let uri = e.uri("/api/v1", &[("fieldSelector", "metadata.name=a b&c")]).unwrap();
        assert_eq!(
            uri.to_string(),
            "https://[fd00::1]:6443/k8s/clusters/c-1/api/v1?fieldSelector=metadata.name%3Da%20b%26c"
        );
        assert_eq!(parse("https://a").unwrap().port, 443);
        assert_eq!(parse("https://[::1]").unwrap().port, 443);
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
        assert!(!Endpoint::parse_by_tls("http://a", "server", true).unwrap().is_https(), "the URL has a scheme");
    }

    #[test]
    fn a_zone_is_for_this_machine_only() {
        for (url, host, zone, port) in [
            ("https://[fe80::1%25eth0]:6443/a/", "fe80::1", "fe80::1%eth0", 6443),
            ("http://[fe80::1%252]", "fe80::1", "fe80::1%2", 80),
            ("http://[::1%25eth%30.5]", "::1", "::1%eth0.5", 80),
        ] {
            let e = parse(url).unwrap();
            assert_eq!((&*e.host, e.host_in_zone().as_str(), e.port), (host, zone, port), "{url}");
            assert_eq!(e.host_and_port(), format!("[{host}]:{port}"));
            assert!(!e.uri("/api", &[]).unwrap().to_string().contains('%'));
            assert_eq!(parse(&e.url()).unwrap(), e, "{}", e.url());
        }
        assert_eq!(parse("https://[fe80::1%25eth0]:6443/a/").unwrap().url(), "https://[fe80::1%25eth0]:6443/a");
        assert_eq!(parse("https://[fe80::1]").unwrap().host_in_zone(), "fe80::1");
        let error = parse("https://[fe80::1%eth0]:6443").unwrap_err().to_string();
        assert!(error.contains("%25"), "{error}");
        for url in [
            "https://[fe80::1%25]",
            "https://[fe80::1%25a%2]",
            "https://[fe80::1%25a%2fb]",
            "https://[fe80::1%25a%20b]",
            "https://[fe80::1%25%ff]",
            "https://[1.2.3.4%25eth0]",
            "https://[a%25eth0]",
            "https://a%25eth0",
            "https://[fe80::1%25eth0",
        ] {
            assert!(parse(url).is_err(), "{url}");
        }
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
        let query = "q".repeat(MAX_TARGET - "/x/a?n=".len());
        assert_eq!(e.uri("/a", &[("n", &query)]).unwrap().path_and_query().unwrap().as_str().len(), MAX_TARGET);
        assert!(e.uri("/ab", &[("n", &query)]).unwrap_err().to_string().contains("16 KiB"));
    }
}
