//! Parsing of etcd's configuration from a URL.

use crate::backends::etcd::config::{EtcdConfig, EtcdUser};
use crate::net::parameters::{self, Decision::Followed, Decision::Ignored, Decision::Only, Decision::Refused, set};
use crate::net::tls::config::UrlFiles;
use crate::net::url::UrlParts;
use crate::util::config_error::ConfigError;

/// The default client port of etcd's members.
const PORT: u16 = 2379;

/// The decision about each parameter, with the names of `etcdctl`'s flags.
const PARAMETERS: parameters::ParameterTable<UrlFiles> = &[
    ("cacert", Followed(|files, value| set(&mut files.ca, value))),
    ("cert", Followed(|files, value| set(&mut files.certificate, value))),
    ("key", Followed(|files, value| set(&mut files.key, value))),
    // Each call of the store has its own timeout, and the client probes idle connections itself.
    ("dial-timeout command-timeout keepalive-time keepalive-timeout", Ignored),
    ("insecure-skip-tls-verify", Only(&["false"], "set the authority of a test server with cacert")),
    ("insecure-transport", Refused("the scheme etcd:// or etcds:// decides")),
    ("discovery-srv discovery-srv-name", Refused("members are not discovered; write their names into the URL")),
    ("user password", Refused("write the user and the password before the hosts: etcd://USER:PASSWORD@HOST")),
];

impl EtcdConfig {
    /// Creates a configuration from a URL: `etcd://HOST:PORT,…/PREFIX`, or `etcds://…` for TLS.
    ///
    /// | part | meaning | default |
    /// |---|---|---|
    /// | `USER:PASSWORD@`, before the hosts | the user and the password | no user |
    /// | `:PORT`, after a host | the client port | 2379 |
    /// | `/PREFIX`, after the hosts | the prefix of the keys; a missing `/` at its end is added | `leasehold/` |
    /// | `?cacert=FILE&cert=FILE&key=FILE`, at the end | PEM files, like the `etcdctl` flags with these names | the system's root certificates |
    ///
    /// Special characters in names, passwords and file names must be percent-encoded, such as `%40` for `@`.
    ///
    /// # Errors
    ///
    /// Returns [`ConfigError`] if the URL is invalid, or if a file is unusable. The error does not contain the URL,
    /// which may contain a password.
    pub(crate) fn from_url(url: &str) -> Result<Self, ConfigError> {
        let refuse = |rule: &str| {
            let rule = format!("the URL {rule}; use etcd://user:password@host:2379/prefix, or etcds:// for TLS");
            ConfigError::new("url", "unusable", rule)
        };
        let mut url = UrlParts::parse(url, &["etcd", "etcds"]).map_err(refuse)?;
        // Environment variables and configuration files of clients have `_` in place of `-`.
        url.parameters.iter_mut().for_each(|(name, _)| *name = name.replace('_', "-"));
        let is_tls = url.scheme == "etcds";
        let protocol = if is_tls { "https" } else { "http" };
        let endpoint = |member: &str| match has_port(member) {
            true => format!("{protocol}://{member}"),
            false => format!("{protocol}://{member}:{PORT}"),
        };
        let mut config = Self::new(url.place.split(',').map(endpoint))?;
        if let Some(prefix) = url.path {
            config = config.with_prefix(if prefix.ends_with('/') { prefix } else { prefix + "/" });
        }
        if url.user.is_some() || url.password.is_some() {
            config.user = Some(EtcdUser { name: url.user.unwrap_or_default(), password: url.password.into() });
        }
        let mut files = UrlFiles::default();
        parameters::apply(PARAMETERS, url.parameters, &mut files).map_err(|rule| refuse(&rule))?;
        if !is_tls && files.are_set() {
            return Err(refuse("must begin with etcds:// to have cacert, cert or key"));
        }
        Ok(config.with_tls(files.read(|| refuse("must have both cert and key, or neither"))?))
    }
}

/// Returns `true` if `member` contains a port.
///
/// The last colon in `[::1]` is a part of the address, not the start of a port.
fn has_port(member: &str) -> bool {
    member.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::secret::Secret;

    fn config(url: &str) -> EtcdConfig {
        EtcdConfig::from_url(url).expect(url)
    }

    #[test]
    fn url_gives_endpoints_user_and_prefix() {
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
    fn page_lists_the_decision_about_each_parameter() {
        crate::net::tests::parameters::check_page(PARAMETERS, "ETCD.md", str::to_owned);
        assert!(EtcdConfig::from_url("etcd://a?dial_timeout=5s&insecure-skip-tls-verify=false").is_ok());
    }

    #[test]
    fn invalid_url_is_refused_without_showing_secrets() {
        for (url, rule) in [
            ("127.0.0.1:2379", "is not a URL"),
            ("http://a:2379", "etcds://"),
            ("etcd://", "endpoints"),
            ("etcd://a:port", "endpoints"),
            ("etcd://jobs:hunter2#@a", "%23"),
            ("etcd://jobs:hunter2%@a", "percent-encoding"),
            ("etcd://jobs:hunter2/x@a", "%2F"),
            ("etcd://jobs:x@hunter2/x@a", "%2F"),
            ("etcd://a?cacert", "without a value"),
            ("etcd://a?cacert=/x", "begin with etcds://"),
            ("etcds://a?ca=/x", "known are cacert, cert, key"),
            ("etcds://a?insecure-skip-tls-verify=true", "authority of a test server"),
            ("etcd://a?user=jobs&password=hunter2", "before the hosts"),
            ("etcds://a?cert=/x", "both cert and key"),
            ("etcds://jobs:hunter2@a?cacert=/there/is/no/such.pem", "/there/is/no/such.pem"),
        ] {
            let error = EtcdConfig::from_url(url).expect_err(url).to_string();
            assert!(error.contains(rule) && !error.contains("hunter2"), "{url}: {error}");
        }
    }
}
