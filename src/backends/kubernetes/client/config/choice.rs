//! The cluster that the user has chosen, if any.

use std::path::PathBuf;

#[cfg(feature = "kubeconfig")]
use super::kubeconfig::Kubeconfig;
use crate::backends::kubernetes::client::config::ClientConfig;
use crate::backends::kubernetes::client::error::ClientError;

/// The chosen kubeconfig file and the chosen context. Each may be absent.
#[derive(Clone, Default)]
pub(crate) struct Choice {
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) context: Option<String>,
}

impl Choice {
    /// Returns the name and the value of the first field that is set, if any.
    pub(crate) fn field(&self) -> Option<(&'static str, String)> {
        match (&self.kubeconfig, &self.context) {
            (Some(path), _) => Some(("kubeconfig", path.display().to_string())),
            (None, Some(context)) => Some(("context", context.clone())),
            (None, None) => None,
        }
    }

    /// Returns the configuration of the chosen cluster, or else of the one that `infer` finds.
    pub(crate) fn client_config(&self) -> Result<ClientConfig, ClientError> {
        if self.field().is_none() {
            return ClientConfig::infer();
        }
        self.of_kubeconfig()
    }

    #[cfg(feature = "kubeconfig")]
    fn of_kubeconfig(&self) -> Result<ClientConfig, ClientError> {
        let files = match &self.kubeconfig {
            Some(path) => Kubeconfig::from_path(path)?,
            None => Kubeconfig::load()?,
        };
        files.client_config(self.context.as_deref())
    }

    #[cfg(not(feature = "kubeconfig"))]
    fn of_kubeconfig(&self) -> Result<ClientConfig, ClientError> {
        let (field, value) = self.field().unwrap_or_default();
        let rule = format!(
            "is {value:?}, but this program lacks the feature kubeconfig; build with that feature, or use start_with_client \
             with a configured client"
        );
        Err(ClientError::config(field, rule))
    }
}
