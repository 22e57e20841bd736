//! What tests of connections need.

pub(crate) mod certificates;
#[cfg(feature = "_http")]
mod failures;

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A directory that goes with the test. A killed test leaves its directory, so no later process may get the same name.
pub(crate) struct Scratch(TempDir);

impl Scratch {
    pub(crate) fn new() -> Self {
        Scratch(TempDir::new().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}
