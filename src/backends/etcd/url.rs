//! etcd in one line, as in `etcds://user:password@a:2379,b:2379/prefix?cacert=/etc/etcd/ca.pem`.

use crate::backends::etcd::config::{EtcdConfig, User};
use crate::net::percent;
use crate::net::secret::Secret;
use crate::net::tls::config::TlsConfig;
use crate::util::config_error::ConfigError;

/// The port that etcd's members serve clients on by default.
const PORT: u16 = 2379;

impl EtcdConfig {
    /// The same by one URL: `etcd://HOST:PORT,…/PREFIX`, or `etcds://…` for TLS, which trusts the system's roots unless `cacert` says
    /// otherwise. Before the hosts there may be `USER:PASSWORD@`, after the prefix `?cacert=FILE&cert=FILE&key=FILE`: PEM files, as
    /// those flags of `etcdctl`. Without a port it is 2379. A prefix ends with `/`, which is added where it is missing; without one it
    /// is `leasehold/`. In names, passwords and files `%40` is an `@`, and so on.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when it is no such URL, or a file cannot be used. The URL is not in it: there may be a password there.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{EtcdConfig, EtcdStore};
    ///
    /// let store = EtcdStore::new(EtcdConfig::from_url("etcd://127.0.0.1:2379/production")?)?;
    /// # Ok::<(), leasehold::ConfigError>(())
    /// ```
    pub fn from_url(url: &str) -> Result<Self, ConfigError> {
        let refuse = |rule: &str| ConfigError::new("url", "unusable", rule);
        let (scheme, rest) = url.trim().split_once("://").ok_or_else(|| refuse("it is no URL"))?;
        let protocol = match scheme {
            "etcd" => "http",
            "etcds" => "https",
            _ => return Err(refuse("it begins with etcd://, or with etcds:// for TLS")),
        };
        if rest.contains('#') {
            return Err(refuse("each # of a name or a password is written as %23"));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let (account, members) = match authority.rsplit_once('@') {
            Some((account, members)) => (Some(account), members),
            None => (None, authority),
        };
        let endpoint = |member: &str| match has_port(member) {
            true => format!("{protocol}://{member}"),
            false => format!("{protocol}://{member}:{PORT}"),
        };
        let mut config = Self::new(members.split(',').map(endpoint))?;
        if !prefix.is_empty() {
            let prefix = decode(prefix)?;
            config = config.with_prefix(if prefix.ends_with('/') { prefix } else { prefix + "/" });
        }
        if let Some(account) = account {
            let (name, password) = account.split_once(':').map_or((account, None), |(name, it)| (name, Some(it)));
            let password = password.map(decode).transpose()?.map(Secret::new).into();
            config.user = Some(User { name: decode(name)?, password });
        }
        config.tls_by(query, protocol == "https")
    }

    fn tls_by(self, query: &str, is_tls: bool) -> Result<Self, ConfigError> {
        let refuse = |rule: &str| ConfigError::new("url", "unusable", rule);
        let (mut ca, mut certificate, mut key) = (None, None, None);
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').ok_or_else(|| refuse("a parameter has no value"))?;
            let place = match name {
                "cacert" => &mut ca,
                "cert" => &mut certificate,
                "key" => &mut key,
                _ => return Err(refuse("its parameters are cacert, cert and key")),
            };
            *place = Some(decode(value)?);
        }
        if !is_tls && (ca.is_some() || certificate.is_some() || key.is_some()) {
            return Err(refuse("cacert, cert and key are for TLS: begin it with etcds://"));
        }
        let mut tls = TlsConfig::new();
        if let Some(ca) = ca {
            tls = tls.with_ca_file(ca)?;
        }
        tls = match (certificate, key) {
            (Some(certificate), Some(key)) => tls.with_client_certificate_files(certificate, key)?,
            (None, None) => tls,
            _ => return Err(refuse("cert and key come together")),
        };
        Ok(self.with_tls(tls))
    }
}

/// In `[::1]:2379` the last colon is before the port, in `[::1]` it is not.
fn has_port(member: &str) -> bool {
    member.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'))
}

fn decode(text: &str) -> Result<String, ConfigError> {
    let text = percent::decode(text).and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| ConfigError::new("url", "unusable", "a % is not followed by two digits, or makes no UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(url: &str) -> EtcdConfig {
        EtcdConfig::from_url(url).expect(url)
    }

    #[test]
    fn a_url_says_where_it_is_as_whom_and_below_which_prefix() {
        let endpoints = |config: &EtcdConfig| {
            config.endpoints.iter().map(|endpoint| endpoint.url().to_string()).collect::<Vec<_>>()
        };
        let plain = config("etcd://127.0.0.1:2379,[::1]/team");
        assert_eq!(endpoints(&plain), ["http://127.0.0.1:2379", "http://[::1]:2379"]);
        assert_eq!((plain.prefix.as_str(), plain.user.is_none()), ("team/", true));
        let whole = config("etcds://jo%40b:p%3Aw%2f@a,b:1/%2Fdeep/er/");
        assert_eq!(endpoints(&whole), ["https://a:2379", "https://b:1"]);
        let user = whole.user.expect("a user");
        assert_eq!(
            (whole.prefix.as_str(), user.name.as_str(), user.password.fixed),
            ("/deep/er/", "jo@b", Some(Secret::new("p:w/")))
        );
        assert_eq!(config("etcd://a").prefix, "leasehold/");
        assert_eq!(config("etcd://a/").prefix, "leasehold/");
    }

    #[test]
    fn what_is_no_such_url_is_refused_and_no_secret_shows() {
        for (url, rule) in [
            ("127.0.0.1:2379", "it is no URL"),
            ("http://a:2379", "etcds://"),
            ("etcd://", "endpoints"),
            ("etcd://a:port", "endpoints"),
            ("etcd://jobs:hunter2#@a", "%23"),
            ("etcd://jobs:hunter2%@a", "two digits"),
            ("etcd://a?cacert", "no value"),
            ("etcd://a?cacert=/x", "begin it with etcds://"),
            ("etcds://a?ca=/x", "cacert, cert and key"),
            ("etcds://a?cert=/x", "come together"),
            ("etcds://jobs:hunter2@a?cacert=/there/is/no/such.pem", "/there/is/no/such.pem"),
        ] {
            let error = EtcdConfig::from_url(url).expect_err(url).to_string();
            assert!(error.contains(rule) && !error.contains("hunter2"), "{url}: {error}");
        }
    }
}
