//! Configuration from the service account of the pod that runs this program.

use std::path::Path;

use super::{Env, proxy};
use crate::backends::kubernetes::client::auth::AuthConfig;
use crate::backends::kubernetes::client::config::ClientConfig;
use crate::backends::kubernetes::client::error::ClientError;
use crate::net::endpoint::Endpoint;
use crate::net::file::read_file;
use crate::net::tls::PemSource;

/// The directory in which the kubelet puts the service account.
///
/// Source: Kubernetes documentation, "Accessing the API from a Pod".
pub(crate) const DIRECTORY: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

const HOST: &str = "KUBERNETES_SERVICE_HOST";
const PORT: &str = "KUBERNETES_SERVICE_PORT";

/// The variable by which a pod's manifest can set the namespace (downward API).
///
/// The variable takes precedence over the mounted namespace file, as in client-go.
const NAMESPACE: &str = "POD_NAMESPACE";

/// Returns `true` if this program runs in a pod, with or without a service account.
pub(crate) fn is_in_a_pod(env: Env<'_>) -> bool {
    env(HOST).is_some_and(|host| !host.is_empty())
}

pub(crate) fn is_inside(env: Env<'_>, directory: &Path) -> bool {
    is_in_a_pod(env) && directory.join("token").is_file()
}

pub(crate) fn load(env: Env<'_>, directory: &Path) -> Result<ClientConfig, ClientError> {
    let variable = |name: &str| {
        env(name)
            .and_then(|value| value.into_string().ok())
            .filter(|value| !value.is_empty())
            .ok_or_else(|| ClientError::config(name, "is not set; this program does not seem to run in a pod"))
    };
    let (host, port) = (variable(HOST)?, variable(PORT)?);
    let host = match host.contains(':') && !host.starts_with('[') {
        true => format!("[{host}]"),
        false => host,
    };
    let endpoint = Endpoint::parse(&format!("https://{host}:{port}"), HOST)?;
    let unread = |name: &str, e: std::io::Error| {
        let hint = "cannot be read; check automountServiceAccountToken of the pod";
        ClientError::config(directory.join(name).display().to_string(), hint).caused_by(e)
    };
    let read = |name: &str| read_file(&directory.join(name)).map_err(|e| unread(name, e));
    // Reads the token now, so that a pod without a token fails here and not at the first request.
    read("token")?;
    let mut config = ClientConfig::for_endpoint(endpoint, "service account of this pod");
    let ca = PemSource::read(&directory.join("ca.crt")).map_err(|e| unread("ca.crt", e))?;
    config.tls.trust(ca).map_err(|rule| ClientError::config("ca.crt", rule))?;
    config.auth = AuthConfig::TokenFile(directory.join("token"));
    if let Some(namespace) = namespace(env, directory) {
        config.default_namespace = namespace;
    }
    config.proxy = proxy::from_env(env, &config.endpoint)?;
    Ok(config)
}

/// Returns the namespace of the pod, if known.
fn namespace(env: Env<'_>, directory: &Path) -> Option<String> {
    // A service account that was mounted by hand may lack this file.
    let of_file = || read_file(&directory.join("namespace")).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let of_pod = env(NAMESPACE).and_then(|name| name.into_string().ok());
    let is_named = |name: &String| !name.trim().is_empty();
    let found = of_pod.filter(is_named).or_else(of_file).filter(is_named);
    found.map(|namespace| namespace.trim().to_owned())
}

/// Returns the pod's namespace, for a kubeconfig context without a namespace.
///
/// The cluster of the context does not matter. A client-go candidate with the same kubeconfig also uses the pod's
/// namespace (`Namespace` in clientcmd's `merged_client_builder.go`). With another namespace, both candidates could
/// lead.
#[cfg(feature = "kubeconfig")]
pub(super) fn namespace_around(env: Env<'_>, directory: &Path) -> Option<String> {
    is_inside(env, directory).then(|| namespace(env, directory)).flatten()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::net::tests::Scratch;

    const CA: &str = include_str!("../tests/ca.pem");

    fn env(host: &'static str) -> impl Fn(&str) -> Option<OsString> {
        move |name| match name {
            HOST => Some(host.into()),
            PORT => Some("6443".into()),
            _ => None,
        }
    }

    fn kubeconfig(server: &str, namespace: &str) -> String {
        format!(
            "{{clusters: [{{name: c, cluster: {{server: '{server}'}}}}], \
             contexts: [{{name: x, context: {{cluster: c, namespace: '{namespace}'}}}}], current-context: x}}"
        )
    }

    #[test]
    fn a_service_account_is_enough() {
        let account = Scratch::new();
        account.file("token", "sesame");
        account.file("ca.crt", CA);
        assert!(is_inside(&env("10.0.0.1"), account.path()));
        let config = ClientConfig::infer_from(&env("fd00::1"), account.path()).unwrap();
        assert_eq!(config.server(), "https://[fd00::1]:6443");
        assert_eq!(config.default_namespace, "default");
        account.file("namespace", "jobs\n");
        let config = load(&env("10.0.0.1"), account.path()).unwrap();
        assert_eq!(config.server(), "https://10.0.0.1:6443");
        assert_eq!(config.default_namespace, "jobs");
        assert!(matches!(config.auth, AuthConfig::TokenFile(_)));
        // The file is read again when it changes.
        let ca = config.tls.ca.and_then(|ca| ca.name());
        assert_eq!(ca, Some(account.path().join("ca.crt").display().to_string()));
        let named = |namespace: &'static str| {
            let base = env("10.0.0.1");
            load(&move |name| if name == NAMESPACE { Some(namespace.into()) } else { base(name) }, account.path())
        };
        assert_eq!(named("of-the-pod").unwrap().default_namespace, "of-the-pod");
        assert_eq!(named(" ").unwrap().default_namespace, "jobs");
    }

    #[test]
    fn pod_without_a_token_is_an_error_that_names_the_token() {
        let (account, home) = (Scratch::new(), Scratch::new());
        let in_pod = env("10.0.0.1");
        let error = ClientConfig::infer_from(&in_pod, account.path()).unwrap_err().to_string();
        assert!(error.contains("token: cannot be read; check automountServiceAccountToken"), "{error}");
        // A program in a pod may use a kubeconfig in the home directory.
        let directory = home.path().to_owned();
        let at_home = |name: &str| if name == "HOME" { Some(directory.clone().into()) } else { in_pod(name) };
        let error = ClientConfig::infer_from(&at_home, account.path()).unwrap_err().to_string();
        assert!(error.contains("token") && error.contains("automountServiceAccountToken"), "{error}");
        std::fs::create_dir(home.path().join(".kube")).unwrap();
        home.file(".kube/config", "contexts: []");
        #[cfg(feature = "kubeconfig")]
        {
            let error = ClientConfig::infer_from(&at_home, account.path()).unwrap_err().to_string();
            let file = std::path::Path::new(".kube").join("config");
            assert!(error.contains(&format!("{}: has no current-context", file.display())), "{error}");
        }
    }

    #[test]
    fn kubeconfig_comes_before_service_account_before_home() {
        let account = Scratch::new();
        account.file("token", "sesame");
        account.file("ca.crt", CA);
        let home = Scratch::new();
        std::fs::create_dir(home.path().join(".kube")).unwrap();
        home.file(".kube/config", kubeconfig("https://home:1", ""));
        home.file("named", kubeconfig("https://named:2", ""));
        let named = home.path().join("named");
        let infer = |kubeconfig: Option<OsString>, in_pod: bool| {
            let home = home.path().to_owned();
            let base = env("10.0.0.1");
            let env = move |name: &str| match name {
                "KUBECONFIG" => kubeconfig.clone(),
                "HOME" => Some(home.clone().into()),
                _ if in_pod => base(name),
                _ => None,
            };
            ClientConfig::infer_from(&env, account.path())
        };
        let server = |config: Result<ClientConfig, ClientError>| config.unwrap().server();
        #[cfg(feature = "kubeconfig")]
        {
            assert_eq!(server(infer(Some(named.clone().into()), true)), "https://named:2");
            assert_eq!(server(infer(None, false)), "https://home:1");
            let missing = infer(Some("/nowhere/at/all".into()), true);
            assert!(missing.is_err(), "a missing kubeconfig is an error");
        }
        #[cfg(not(feature = "kubeconfig"))]
        assert!(infer(Some(named.into()), true).unwrap_err().to_string().contains("KUBECONFIG"));
        assert_eq!(server(infer(Some("".into()), true)), "https://10.0.0.1:6443");
        assert_eq!(server(infer(None, true)), "https://10.0.0.1:6443");
    }

    #[cfg(feature = "kubeconfig")]
    #[test]
    fn a_context_without_a_namespace_is_in_that_of_the_pod() {
        let account = Scratch::new();
        account.file("namespace", "jobs\n");
        let namespace = |in_context: &str, of_pod: Option<&'static str>, in_pod: bool| {
            let kubeconfig = account.file("config", kubeconfig("https://a", in_context));
            let base = env("10.0.0.1");
            let env = move |name: &str| match name {
                "KUBECONFIG" => Some(kubeconfig.clone().into()),
                NAMESPACE => of_pod.map(Into::into),
                _ if in_pod => base(name),
                _ => None,
            };
            ClientConfig::infer_from(&env, account.path()).unwrap().default_namespace
        };
        assert_eq!(namespace("", Some("of-the-pod"), true), "default", "without a token this is no pod");
        account.file("token", "sesame");
        assert_eq!(namespace("", Some("of-the-pod"), true), "of-the-pod");
        assert_eq!(namespace("", None, true), "jobs");
        assert_eq!(namespace("of-the-context", Some("of-the-pod"), true), "of-the-context");
        assert_eq!(namespace("", Some("of-the-pod"), false), "default");
    }

    #[test]
    fn missing_configuration_is_named() {
        let account = Scratch::new();
        let error = load(&|_| None, account.path()).unwrap_err().to_string();
        assert!(error.contains(HOST), "{error}");
        let error = load(&env("10.0.0.1"), account.path()).unwrap_err().to_string();
        assert!(error.contains("token") && error.contains("automount"), "{error}");
        account.file("token", "sesame");
        let error = load(&env("10.0.0.1"), account.path()).unwrap_err().to_string();
        assert!(error.contains("ca.crt") && error.contains("cannot be read"), "{error}");
        account.file("ca.crt", "no certificate");
        let error = load(&env("10.0.0.1"), account.path()).unwrap_err().to_string();
        assert!(error.contains("ca.crt"), "{error}");
        assert!(!is_inside(&|_| None, account.path()) && !is_inside(&env(""), account.path()));
    }
}
