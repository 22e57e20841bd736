//! Whether a path still leads to the file that was opened, and whether that can be shared at all.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::store::{StoreError, StoreErrorKind};

/// The database and the two files beside it, by their paths and by what stood there when they were opened.
pub(super) struct DatabaseFile {
    /// As it was given, in absolute form: what others open by it is what counts, also where a link on the way is changed.
    path: PathBuf,
    /// Where SQLite puts it, with all links resolved.
    wal: PathBuf,
    shm: PathBuf,
    opened: Vec<(PathBuf, FileIdentity)>,
}

/// The device and the inode.
type FileIdentity = (u64, u64);

impl DatabaseFile {
    /// Makes the file if there is none. SQLite itself is to open it afterwards.
    pub(super) fn prepare(path: &Path) -> Result<Self, StoreError> {
        let failed = |error: io::Error| {
            let kind = match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => StoreErrorKind::NotFound,
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => StoreErrorKind::Forbidden,
                _ => StoreErrorKind::Unavailable,
            };
            let message = format!("cannot open {}: {error}; its directory must be there, and writable", path.display());
            StoreError::new(kind, message).with_source(error)
        };
        if path.as_os_str().is_empty() || path == Path::new(":memory:") {
            let message = format!("{path:?} is no file that processes could share: MemoryStore is for one process");
            return Err(StoreError::new(StoreErrorKind::Rejected, message));
        }
        let is_url = path.to_str().is_some_and(|path| path.starts_with("sqlite:") || path.starts_with("file:"));
        if is_url || path.is_dir() {
            let what =
                if is_url { "is a URL, and a path is wanted" } else { "is a directory, and a file in it is wanted" };
            return Err(StoreError::new(StoreErrorKind::Rejected, format!("{} {what}", path.display())));
        }
        let path = std::path::absolute(path).map_err(failed)?;
        // One that exists is not opened by this: to close it would drop the locks of every connection to it in this process.
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

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn wal(&self) -> &Path {
        &self.wal
    }

    /// Leaves nothing to watch.
    #[cfg(test)]
    pub(super) fn lose_wal(&mut self) {
        self.wal = PathBuf::from("/no/such/file");
    }

    /// Remembers the files beside the database as well. They stay the same for as long as a connection that has read is open.
    pub(super) fn remember_companions(&mut self) -> Result<(), StoreError> {
        for path in [self.wal.clone(), self.shm.clone()] {
            let identity = identity(&path).map_err(|error| unreadable(&path, error))?;
            self.opened.push((path, identity));
        }
        self.check()
    }

    /// Whether others who open the path now, or who opened it before us, share a database with us.
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
                "{} was {what} while it was open: what is written now, nobody else reads; restart every process that uses {}",
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
    StoreError::new(StoreErrorKind::Unavailable, format!("cannot look at {}: {error}", path.display()))
        .with_source(error)
}

#[cfg(unix)]
fn identity(path: &Path) -> io::Result<FileIdentity> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).map(|it| (it.dev(), it.ino()))
}

/// A file that is open can be neither deleted nor replaced.
#[cfg(not(unix))]
fn identity(path: &Path) -> io::Result<FileIdentity> {
    fs::metadata(path).map(|_| (0, 0))
}

/// By `f_type` of statfs(2). Locks and shared memory there do not reach other hosts, or not reliably.
#[cfg(target_os = "linux")]
fn refuse_network(path: &Path) -> Result<(), StoreError> {
    let found = rustix::fs::statfs(path).map_err(|error| unreadable(path, error.into()))?;
    // Signed in some places, and no wider than 32 bits.
    let kind = found.f_type as u32;
    if kind == FUSE {
        crate::util::panics::log_line!(
            warn, target: crate::util::log_fields::STORE,
            "{} is on FUSE: whether processes on it exclude each other rests on what is mounted there; on one that \
             passes on locks and shared memory of one host alone, they do",
            path.display()
        );
    }
    let Some(name) = network_name(kind) else { return Ok(()) };
    let message = format!(
        "{} is on {name}, a network file system: locks of SQLite do not hold there; use a local one",
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
        // ext4, xfs, btrfs, tmpfs, overlayfs.
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
