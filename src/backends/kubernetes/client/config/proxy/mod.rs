//! The proxy of the environment, by the rules of `golang.org/x/net/http/httpproxy`.

use std::ffi::OsString;

use super::Env;
use crate::backends::kubernetes::client::error::ClientError;
use crate::net::endpoint::Endpoint;
use crate::net::proxy::Proxy;

mod exempt;

/// Returns the environment's proxy for `target`, or an error if the proxy is unusable.
pub(super) fn from_env(env: Env<'_>, target: &Endpoint) -> Result<Option<Proxy>, ClientError> {
    let names: [&'static str; 2] = match target.is_https() {
        true => ["HTTPS_PROXY", "https_proxy"],
        false => ["HTTP_PROXY", "http_proxy"],
    };
    let lookup = |names: [&'static str; 2]| {
        names.into_iter().find_map(|name| Some((name, env(name).filter(|value| !value.is_empty())?)))
    };
    let Some((name, url)) = lookup(names) else { return Ok(None) };
    let is_exempt = |list: OsString| exempt::is_exempt(&list.to_string_lossy(), target);
    if target.is_loopback() || lookup(["NO_PROXY", "no_proxy"]).is_some_and(|(_, list)| is_exempt(list)) {
        return Ok(None);
    }
    // The variable is often set for other programs. The error therefore names `NO_PROXY`, which can exempt the server.
    let place = format!("{name} in the environment (NO_PROXY does not exempt {})", target.host_and_port());
    let url = url.into_string().map_err(|_| ClientError::config(place.clone(), "is not UTF-8 text"))?;
    Ok(Some(Proxy::parse(&url, &place)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backends::kubernetes::client::error::ErrorKind;

    fn target(url: &str) -> Endpoint {
        Endpoint::parse(url, "server").unwrap()
    }

    #[test]
    fn unusable_proxy_variable_is_an_error_only_if_used() {
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
                assert!(from_env(&env, &target(url)).unwrap().is_none(), "{url}");
            }
            let error = from_env(&env, &target("https://api.test")).unwrap_err();
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
        let proxied = |url: &str| from_env(&env, &target(url)).unwrap().is_some();
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
