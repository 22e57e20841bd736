//! Reading of files of bounded size.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The largest file in bytes. A kubeconfig, a token or a certificate is much smaller.
pub(crate) const MAX_FILE: u64 = 4 * 1024 * 1024;

/// Reads a regular file of bounded size.
///
/// Returns an error if the file is not regular. Opening a pipe or a terminal can block forever, and a device may have
/// no end.
pub(crate) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
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
