//! The cluster of a kubeconfig or of the pod.

use std::path::Path;

#[cfg(feature = "kubeconfig")]
use super::kubeconfig::Kubeconfig;
use super::{Env, in_cluster};
use crate::backends::kubernetes::client::config::ClientConfig;
use crate::backends::kubernetes::client::error::ClientError;

impl ClientConfig {
    /// Finds the configuration of a cluster, in the same order as controller-runtime.
    ///
    /// 1. The files in `KUBECONFIG`, if the variable is set and not empty.
    /// 2. The service account of the pod, if `KUBERNETES_SERVICE_HOST` is set and the service account's token file
    ///    exists.
    /// 3. `~/.kube/config`.
    ///
    /// If the first configuration in this order is unusable, this method returns an error and tries no other. If two
    /// candidates found two clusters, both could lead.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use leasehold::kubernetes::{Client, ClientConfig};
    ///
    /// let client = Client::new(ClientConfig::infer()?)?;
    /// println!("working in {}", client.default_namespace());
    /// # Ok::<(), leasehold::kubernetes::ClientError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`](crate::kubernetes::ErrorKind::Config) in these cases:
    ///
    /// - There is no configuration, or the first one is unusable.
    /// - `KUBECONFIG` is set, and the program was built without the `kubeconfig` feature.
    pub fn infer() -> Result<Self, ClientError> {
        let env: Env<'_> = &|name| std::env::var_os(name);
        Self::infer_from(env, Path::new(in_cluster::DIRECTORY))
    }

    pub(crate) fn infer_from(env: Env<'_>, service_account: &Path) -> Result<Self, ClientError> {
        let is_asked_for = env("KUBECONFIG").is_some_and(|list| !list.is_empty());
        if !is_asked_for && in_cluster::is_inside(env, service_account) {
            return in_cluster::load(env, service_account);
        }
        #[cfg(feature = "kubeconfig")]
        {
            // In a pod without a token and without a kubeconfig, the error must name the token.
            if !is_asked_for && in_cluster::is_in_a_pod(env) && !Kubeconfig::is_at_home(env) {
                return in_cluster::load(env, service_account);
            }
            Kubeconfig::load_from(env)?.client_config_in(None, env, service_account)
        }
        #[cfg(not(feature = "kubeconfig"))]
        match is_asked_for {
            true => Err(ClientError::config(
                "KUBECONFIG",
                "is set, but this program lacks the feature kubeconfig; build with that feature, or unset KUBECONFIG",
            )),
            false => in_cluster::load(env, service_account),
        }
    }

    /// Creates a configuration from the service account of the pod that runs this program.
    ///
    /// Reads `KUBERNETES_SERVICE_HOST`, `KUBERNETES_SERVICE_PORT` and the files in
    /// `/var/run/secrets/kubernetes.io/serviceaccount`. Kubelets rotate the token. The client therefore reads the token
    /// again when the last read is a minute old, and whenever the server rejects the token.
    ///
    /// The namespace comes from `POD_NAMESPACE` if the variable is set, else from the file `namespace` beside the
    /// token. Without both, the namespace is `default`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// let config = leasehold::kubernetes::ClientConfig::in_cluster()?;
    /// # Ok::<(), leasehold::kubernetes::ClientError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`](crate::kubernetes::ErrorKind::Config) if a variable or a file is missing or
    /// unusable.
    pub fn in_cluster() -> Result<Self, ClientError> {
        in_cluster::load(&|name| std::env::var_os(name), Path::new(in_cluster::DIRECTORY))
    }

    /// Creates a configuration from a kubeconfig.
    ///
    /// Reads `file`, or else the files in `KUBECONFIG`, or else `~/.kube/config`. Uses `context`, or else the current
    /// context. Reads the certificate and key files of the context. If the context has no namespace, the configuration
    /// has the namespace of the pod as in [`in_cluster`](Self::in_cluster), or `default` outside a pod.
    ///
    /// If several files in `KUBECONFIG` define the same name, or a current context, the first file wins. Missing files
    /// are skipped. The files are UTF-8, or UTF-16 with a byte order mark, which PowerShell writes.
    ///
    /// If the cluster has no proxy of its own, the proxy comes from `HTTPS_PROXY` and `NO_PROXY` by the rules of Go's
    /// `golang.org/x/net/http/httpproxy`. The [module](crate::kubernetes#proxies) lists the supported proxies.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use leasehold::kubernetes::ClientConfig;
    ///
    /// let config = ClientConfig::from_kubeconfig(None, Some("staging"))?;
    /// # Ok::<(), leasehold::kubernetes::ClientError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`](crate::kubernetes::ErrorKind::Config) in these cases. The error names the file,
    /// the field and the rule.
    ///
    /// - A file cannot be read or parsed, or none of the files exists.
    /// - There is no such context, or no current context. The error lists the existing contexts.
    /// - An entry is invalid, or refers to a file that cannot be read.
    /// - The environment's proxy is unusable, and the client would need this proxy to reach the server.
    #[cfg(feature = "kubeconfig")]
    pub fn from_kubeconfig(file: Option<&Path>, context: Option<&str>) -> Result<Self, ClientError> {
        let kubeconfig = match file {
            Some(file) => Kubeconfig::from_path(file)?,
            None => Kubeconfig::load()?,
        };
        kubeconfig.client_config(context)
    }
}
