//! Where to look for a cluster, and in which order.

use std::path::Path;

use super::Env;
use super::in_cluster;
#[cfg(feature = "kubeconfig")]
use super::kubeconfig::Kubeconfig;
use crate::backends::kubernetes::client::config::ClientConfig;
use crate::backends::kubernetes::client::error::ClientError;

impl ClientConfig {
    /// Finds the cluster in the order of controller-runtime: the files in `KUBECONFIG` if that is set and not empty, else
    /// the service account of the pod this runs in, else `~/.kube/config`.
    ///
    /// In a pod means that `KUBERNETES_SERVICE_HOST` is set and the service account's token file exists. Two candidates that
    /// find two clusters are two leaders: so what was asked for and cannot be used is an error, and nothing else is tried.
    ///
    /// # Errors
    ///
    /// [`Config`](crate::backends::kubernetes::client::ErrorKind::Config) when none is there, or what is there is not usable, or `KUBECONFIG` is set for a
    /// program that was built without the feature `kubeconfig`.
    ///
    /// ```no_run
    /// let config = leasehold::kubernetes::ClientConfig::infer()?;
    /// println!("working in {}", config.default_namespace());
    /// # Ok::<(), leasehold::kubernetes::ClientError>(())
    /// ```
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
            // A pod without a token is told about the token: nobody wants a kubeconfig there.
            if !is_asked_for && in_cluster::is_in_a_pod(env) && !Kubeconfig::is_at_home(env) {
                return in_cluster::load(env, service_account);
            }
            Kubeconfig::load_from(env)?.client_config_in(None, env, service_account)
        }
        #[cfg(not(feature = "kubeconfig"))]
        match is_asked_for {
            true => Err(ClientError::config(
                "KUBECONFIG",
                "is set, and this program was built without the feature kubeconfig; unset it, or build with that",
            )),
            false => in_cluster::load(env, service_account),
        }
    }

    /// Uses the service account of the pod this runs in.
    ///
    /// Reads `KUBERNETES_SERVICE_HOST`, `KUBERNETES_SERVICE_PORT` and the files in
    /// `/var/run/secrets/kubernetes.io/serviceaccount`. The token is read again when it is a minute old and whenever
    /// the server rejects it, for kubelets rotate it. The namespace is that of `POD_NAMESPACE` if it is set, else that of
    /// the file beside the token, else `default`.
    ///
    /// # Errors
    ///
    /// [`Config`](crate::backends::kubernetes::client::ErrorKind::Config) when a variable or a file is missing or not usable.
    ///
    /// ```no_run
    /// let config = leasehold::kubernetes::ClientConfig::in_cluster()?;
    /// # Ok::<(), leasehold::kubernetes::ClientError>(())
    /// ```
    pub fn in_cluster() -> Result<Self, ClientError> {
        in_cluster::load(&|name| std::env::var_os(name), Path::new(in_cluster::DIRECTORY))
    }

    /// Uses the current context of the kubeconfig: the files in `KUBECONFIG`, or else `~/.kube/config`.
    ///
    /// For another context or another file see [`Kubeconfig`].
    ///
    /// # Errors
    ///
    /// [`Config`](crate::backends::kubernetes::client::ErrorKind::Config), naming the file and the field.
    ///
    /// ```no_run
    /// let config = leasehold::kubernetes::ClientConfig::from_kubeconfig()?;
    /// # Ok::<(), leasehold::kubernetes::ClientError>(())
    /// ```
    #[cfg(feature = "kubeconfig")]
    pub fn from_kubeconfig() -> Result<Self, ClientError> {
        Kubeconfig::load()?.client_config(None)
    }
}
