//! Client configurations from the text of a kubeconfig.

use std::path::Path;

use leasehold::kubernetes::{ClientConfig, ClientError};

/// Returns the configuration of a kubeconfig without relative paths.
pub fn config_of(text: &str) -> Result<ClientConfig, ClientError> {
    let directory = tempfile::tempdir().expect("a scratch directory");
    config_in(text, directory.path())
}

/// Returns the configuration of a kubeconfig, which this function writes to a file in `directory`.
pub fn config_in(text: &str, directory: &Path) -> Result<ClientConfig, ClientError> {
    let file = directory.join("kubeconfig");
    std::fs::write(&file, text).expect("a kubeconfig");
    ClientConfig::from_kubeconfig(Some(&file), None)
}
