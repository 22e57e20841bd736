//! Values that must not be shown, and files that must not be endless.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::Deserialize;

/// Nothing that belongs in a kubeconfig, a token or a certificate file comes near this.
pub(super) const MAX_FILE: u64 = 4 * 1024 * 1024;

/// Text that `Debug` does not show.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(super) struct Secret(String);

impl Secret {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    /// Named so that every use of the value stands out in a review.
    pub(super) fn expose(&self) -> &str {
        &self.0
    }

    #[cfg(feature = "kubeconfig")]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// Reads a regular file of bounded size.
///
/// Anything else is refused: opening a pipe or a terminal can block for ever, and a device need not end.
pub(super) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "larger than 4 MiB"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_hides_the_value() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "[redacted]");
    }

    #[test]
    fn only_regular_files_of_bounded_size_are_read() {
        let dir = std::env::temp_dir();
        assert_eq!(read_file(&dir).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        #[cfg(unix)]
        assert_eq!(read_file(Path::new("/dev/zero")).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        let large = dir.join(format!("leasehold-large-{}", std::process::id()));
        std::fs::write(&large, vec![b'x'; MAX_FILE as usize + 1]).unwrap();
        let error = read_file(&large).unwrap_err();
        std::fs::remove_file(&large).unwrap();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
