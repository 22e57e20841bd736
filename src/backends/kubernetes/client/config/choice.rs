//! Which cluster, where somebody says so.

use std::path::PathBuf;

#[cfg(feature = "kubeconfig")]
use super::kubeconfig::Kubeconfig;
use crate::backends::kubernetes::client::config::ClientConfig;
use crate::backends::kubernetes::client::error::ClientError;

/// A kubeconfig file, or a context in one, or neither.
#[derive(Clone, Default)]
pub(crate) struct Choice {
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) context: Option<String>,
}

impl Choice {
    /// What is chosen, if anything is.
    pub(crate) fn field(&self) -> Option<(&'static str, String)> {
        match (&self.kubeconfig, &self.context) {
            (Some(path), _) => Some(("kubeconfig", path.display().to_string())),
            (None, Some(context)) => Some(("context", context.clone())),
            (None, None) => None,
        }
    }

    /// That cluster, or else the one that is found.
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
            "is {value:?}, and this program was built without the feature kubeconfig, which reads such files: build with it, or \
             use start_with_client with a client of your own"
        );
        Err(ClientError::config(field, rule))
    }
}
