//! The service account of the pod this runs in.

use std::path::Path;

use super::config::{AuthConfig, ClientConfig, Env};
use super::endpoint::Endpoint;
use super::error::Error;
use super::proxy::Proxy;
use super::secret::read_file;
use super::tls::certificates;

/// Where the kubelet puts the service account. Source: Kubernetes documentation, "Accessing the API from a Pod".
pub(super) const DIRECTORY: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

const HOST: &str = "KUBERNETES_SERVICE_HOST";
const PORT: &str = "KUBERNETES_SERVICE_PORT";

pub(super) fn is_inside(env: Env<'_>, directory: &Path) -> bool {
    env(HOST).is_some_and(|host| !host.is_empty()) && directory.join("token").is_file()
}

pub(super) fn load(env: Env<'_>, directory: &Path) -> Result<ClientConfig, Error> {
    let variable = |name: &str| {
        env(name)
            .and_then(|value| value.into_string().ok())
            .filter(|value| !value.is_empty())
            .ok_or_else(|| Error::config(name, "is not set; this does not seem to run in a Kubernetes pod"))
    };
    let (host, port) = (variable(HOST)?, variable(PORT)?);
    let host = match host.contains(':') && !host.starts_with('[') {
        true => format!("[{host}]"),
        false => host,
    };
    let endpoint = Endpoint::parse(&format!("https://{host}:{port}"), HOST)?;
    let read = |name: &str| {
        let path = directory.join(name);
        read_file(&path).map_err(|e| {
            let hint = "cannot be read; does the pod set automountServiceAccountToken: false?";
            Error::config(path.display().to_string(), hint).caused_by(e)
        })
    };
    // Read once here, so that a pod without a token fails at the start and not at its first request.
    read("token")?;
    let mut config = ClientConfig::for_endpoint(endpoint);
    config.tls.ca = Some(
        certificates(&read("ca.crt")?)
            .map_err(|rule| Error::config(directory.join("ca.crt").display().to_string(), rule))?,
    );
    config.auth = AuthConfig::TokenFile(directory.join("token"));
    // The file is absent in hand-made mounts; the namespace then has to be named elsewhere.
    if let Ok(namespace) = read("namespace") {
        let namespace = String::from_utf8_lossy(&namespace).trim().to_owned();
        if !namespace.is_empty() {
            config.default_namespace = namespace;
        }
    }
    config.proxy = Proxy::from_env(env, &config.endpoint)?;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::kube::tests::Scratch;

    const CA: &str = include_str!("tests/ca.pem");

    fn env(host: &'static str) -> impl Fn(&str) -> Option<OsString> {
        move |name| match name {
            HOST => Some(host.into()),
            PORT => Some("6443".into()),
            _ => None,
        }
    }

    #[test]
    fn a_service_account_is_enough() {
        let account = Scratch::new();
        account.file("token", "sesame");
        account.file("ca.crt", CA);
        assert!(is_inside(&env("10.0.0.1"), account.path()));
        let config = ClientConfig::infer_from(&env("fd00::1"), account.path()).unwrap();
        assert_eq!(config.server(), "https://[fd00::1]:6443");
        assert_eq!(config.default_namespace(), "default");
        account.file("namespace", "jobs\n");
        let config = load(&env("10.0.0.1"), account.path()).unwrap();
        assert_eq!(config.server(), "https://10.0.0.1:6443");
        assert_eq!(config.default_namespace(), "jobs");
        assert!(matches!(config.auth, AuthConfig::TokenFile(_)) && config.tls.ca.is_some());
    }

    #[test]
    fn what_is_missing_is_named() {
        let account = Scratch::new();
        let error = load(&|_| None, account.path()).unwrap_err().to_string();
        assert!(error.contains(HOST), "{error}");
        let error = load(&env("10.0.0.1"), account.path()).unwrap_err().to_string();
        assert!(error.contains("token") && error.contains("automount"), "{error}");
        account.file("token", "sesame");
        account.file("ca.crt", "no certificate");
        let error = load(&env("10.0.0.1"), account.path()).unwrap_err().to_string();
        assert!(error.contains("ca.crt"), "{error}");
        assert!(!is_inside(&|_| None, account.path()) && !is_inside(&env(""), account.path()));
    }
}
