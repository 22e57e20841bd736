//! Checks of the database file: its path, its identity, and its file system.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::store::{StoreError, StoreErrorKind};

/// The database file, its `-wal` file and its `-shm` file, with their paths and identities.
pub(super) struct DatabaseFile {
    /// The given path in absolute form, in which links are not resolved.
    ///
    /// Other processes open the database by this path. If a link in the path changes, the path leads to another
    /// database.
    pub(super) path: PathBuf,
    /// The path at which SQLite creates the `-wal` file, with all links resolved.
    pub(super) wal: PathBuf,
    shm: PathBuf,
    opened: Vec<(PathBuf, FileIdentity)>,
}

/// The device number and the inode number of a file.
type FileIdentity = (u64, u64);

impl DatabaseFile {
    /// Creates the file if it is missing, and checks its path and its file system.
    ///
    /// SQLite opens the file afterwards.
    pub(super) fn prepare(path: &Path) -> Result<Self, StoreError> {
        let failed = |error: io::Error| {
            let kind = match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => StoreErrorKind::NotFound,
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => StoreErrorKind::Forbidden,
                _ => StoreErrorKind::Unavailable,
            };
            let message = format!("cannot open {}: {error}; its directory must exist and be writable", path.display());
            StoreError::new(kind, message).with_source(error)
        };
        if path.as_os_str().is_empty() || path == Path::new(":memory:") {
            let message = format!("{path:?} is not a file that processes can share; use MemoryStore in one process");
            return Err(StoreError::new(StoreErrorKind::Rejected, message));
        }
        let is_url = path.to_str().is_some_and(|path| path.starts_with("sqlite:") || path.starts_with("file:"));
        if is_url || path.is_dir() {
            let what = if is_url { "is a URL; use a path" } else { "is a directory; use a file" };
            return Err(StoreError::new(StoreErrorKind::Rejected, format!("{} {what}", path.display())));
        }
        let path = std::path::absolute(path).map_err(failed)?;
        // The function does not open an existing file. Closing the file would drop the locks of all SQLite connections
        // of this process.
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error)),
        }
        let real = fs::canonicalize(&path).map_err(failed)?;
        refuse_network(&real)?;
        let [wal, shm] = ["-wal", "-shm"].map(|suffix| beside(&real, suffix));
        let opened = vec![(path.clone(), identity(&path).map_err(failed)?)];
        Ok(Self { path, wal, shm, opened })
    }

    /// Remembers the `-wal` and `-shm` files beside the database.
    ///
    /// SQLite keeps the same files while a connection that has read the database is open.
    pub(super) fn remember_companions(&mut self) -> Result<(), StoreError> {
        for path in [self.wal.clone(), self.shm.clone()] {
            let identity = identity(&path).map_err(|error| unreadable(&path, error))?;
            self.opened.push((path, identity));
        }
        self.check()
    }

    /// Returns an error if another process that opens the path would use another database.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        for (path, opened) in &self.opened {
            let what = match identity(path) {
                Ok(identity) if identity == *opened => continue,
                Ok(_) => "replaced",
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                    "deleted"
                }
                Err(error) => return Err(unreadable(path, error)),
            };
            let message = format!(
                "{} was {what} while open, so other processes use another database; restart every process that uses {}",
                path.display(),
                self.path.display()
            );
            return Err(StoreError::new(StoreErrorKind::NotFound, message));
        }
        Ok(())
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn unreadable(path: &Path, error: io::Error) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, format!("cannot examine {}: {error}", path.display()))
        .with_source(error)
}

#[cfg(unix)]
fn identity(path: &Path) -> io::Result<FileIdentity> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).map(|it| (it.dev(), it.ino()))
}

/// Returns a constant, because these systems forbid the replacement of open files.
#[cfg(not(unix))]
fn identity(path: &Path) -> io::Result<FileIdentity> {
    fs::metadata(path).map(|_| (0, 0))
}

/// Returns an error if the file is on a network file system, by `f_type` of statfs(2).
///
/// On network file systems, locks and shared memory do not reach other hosts reliably.
#[cfg(target_os = "linux")]
fn refuse_network(path: &Path) -> Result<(), StoreError> {
    let found = rustix::fs::statfs(path).map_err(|error| unreadable(path, error.into()))?;
    // The type of `f_type` differs between platforms, but its values never need more than 32 bits.
    let kind = found.f_type as u32;
    if kind == FUSE {
        crate::util::panics::log_line!(
            warn, target: crate::util::log_fields::STORE,
            "{} is on FUSE, which must support locks and shared memory; \
             otherwise several processes may lead at once",
            path.display()
        );
    }
    let Some(name) = network_name(kind) else { return Ok(()) };
    let message = format!(
        "cannot use {}: SQLite's locks do not work on the network file system {name}; use a local file system",
        path.display()
    );
    Err(StoreError::new(StoreErrorKind::Rejected, message))
}

#[cfg(not(target_os = "linux"))]
fn refuse_network(_: &Path) -> Result<(), StoreError> {
    Ok(())
}

#[cfg(target_os = "linux")]
const FUSE: u32 = 0x6573_5546;

#[cfg(target_os = "linux")]
const fn network_name(kind: u32) -> Option<&'static str> {
    Some(match kind {
        0x6969 => "NFS",
        0x517b => "SMB",
        0xff53_4d42 => "CIFS",
        0xfe53_4d42 => "SMB2",
        0x0102_1997 => "9p",
        0x00c3_6400 => "Ceph",
        0x5346_414f => "AFS",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn network_file_systems_are_known_by_their_numbers() {
        assert_eq!([0x6969, 0xff53_4d42, 0xfe53_4d42].map(network_name), [Some("NFS"), Some("CIFS"), Some("SMB2")]);
        // The numbers of ext4, xfs, btrfs, tmpfs, overlayfs and FUSE.
        assert_eq!([0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630, FUSE].map(network_name), [None; 6]);
    }

    #[test]
    fn path_without_file_or_directory_is_refused() {
        for (path, kind) in [
            ("", StoreErrorKind::Rejected),
            (":memory:", StoreErrorKind::Rejected),
            ("/no/such/directory/x.db", StoreErrorKind::NotFound),
            ("/dev/null/x.db", StoreErrorKind::NotFound),
        ] {
            let error = DatabaseFile::prepare(Path::new(path)).err().expect("a refusal");
            assert_eq!(error.kind(), kind, "{error}");
        }
    }
}
