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
    /// Creates the file if it is missing, and checks its path and, unless `in_shared_folder`, its file system.
    ///
    /// SQLite opens the file afterwards.
    pub(super) fn prepare(path: &Path, in_shared_folder: bool) -> Result<Self, StoreError> {
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
        if !in_shared_folder {
            refuse_shared_folder(&real)?;
        }
        let [wal, shm] = ["-wal", "-shm"].map(|suffix| {
            let mut name = real.clone().into_os_string();
            name.push(suffix);
            PathBuf::from(name)
        });
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

/// Returns an error if the file is in a folder that other hosts or virtual machines share.
///
/// On such file systems, locks and shared memory do not reach the other hosts reliably.
#[cfg(target_os = "linux")]
fn refuse_shared_folder(path: &Path) -> Result<(), StoreError> {
    use crate::util::log_fields::STORE;
    use crate::util::panics::log_line;
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let path_text = path.display();
    match file_system(&mounts, path) {
        None => log_line!(warn, target: STORE, "cannot find the file system of {path_text} in /proc/self/mountinfo"),
        Some(name) if SHARED_FOLDERS.contains(&name) => {
            let message = format!(
                "cannot use {path_text}: SQLite's locks do not work on {name}, which other hosts or virtual machines may \
                 share; use a local file system, or open_store with the URL parameter shared-folder=true if all processes \
                 run on one kernel"
            );
            return Err(StoreError::new(StoreErrorKind::Rejected, message));
        }
        Some(name) if name.starts_with("fuse") => log_line!(
            warn, target: STORE,
            "{path_text} is on {name}, which must support locks and shared memory; \
             otherwise several processes may lead at once"
        ),
        Some(_) => {}
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn refuse_shared_folder(_: &Path) -> Result<(), StoreError> {
    Ok(())
}

/// The file systems that several hosts, or a host and its virtual machines, can mount at the same time.
#[cfg(target_os = "linux")]
const SHARED_FOLDERS: &[&str] = &[
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "afs", "virtiofs", "vboxsf", "vmhgfs", "prl_fs", "lustre",
    "gpfs", "beegfs", "ocfs2", "gfs2", "coda", "orangefs", "pvfs2",
];

/// Returns the type of the file system that contains an absolute path, from the text of `/proc/self/mountinfo`.
///
/// The type is read there, because the number that statfs(2) returns is the same for FUSE and virtiofs.
#[cfg(target_os = "linux")]
fn file_system<'a>(mounts: &'a str, path: &Path) -> Option<&'a str> {
    let mount = |line: &'a str| {
        let (mount, file_system) = line.split_once(" - ")?;
        // The kernel writes these four characters as octal numbers.
        let point = mount.split(' ').nth(4)?.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n");
        let point = PathBuf::from(point.replace("\\134", "\\"));
        path.starts_with(&point).then(|| (point.components().count(), file_system.split(' ').next()))
    };
    // The last one of several mounts at one place hides the others.
    mounts.lines().filter_map(mount).max_by_key(|(depth, _)| *depth)?.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn file_system_is_that_of_the_innermost_mount() {
        let mounts = "22 27 0:21 / / rw,relatime - ext4 /dev/vda rw\n\
                      23 22 0:22 / /srv rw shared:5 - virtiofs share rw\n\
                      24 22 0:23 / /a\\040b\\134 rw master:1 propagate_from:2 - nfs4 host:/x rw,vers=4.2\n\
                      25 22 0:24 / /mnt rw - nfs host:/y rw\n\
                      26 22 0:25 / /mnt rw - fuse.sshfs host:/z rw\n";
        for (path, expected) in [
            ("/srv/election.db", Some("virtiofs")),
            ("/srvx/election.db", Some("ext4")),
            ("/a b\\/c/election.db", Some("nfs4")),
            ("/mnt/election.db", Some("fuse.sshfs")),
        ] {
            assert_eq!(file_system(mounts, Path::new(path)), expected, "{path}");
        }
        for text in ["", "x", "22 27 0:21 / /"] {
            assert_eq!(file_system(text, Path::new("/x")), None, "{text:?}");
        }
        let here = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(file_system(&here, Path::new("/proc/self")) == Some("proc") && !SHARED_FOLDERS.contains(&"proc"));
    }

    #[test]
    fn path_without_file_or_directory_is_refused() {
        for (path, kind) in [
            ("", StoreErrorKind::Rejected),
            (":memory:", StoreErrorKind::Rejected),
            ("/no/such/directory/x.db", StoreErrorKind::NotFound),
            ("/dev/null/x.db", StoreErrorKind::NotFound),
        ] {
            let error = DatabaseFile::prepare(Path::new(path), false).err().expect("a refusal");
            assert_eq!(error.kind(), kind, "{error}");
        }
    }
}
