//! Wakes a watch after a commit of any process, and at the end of the watch.

use std::path::Path;
use std::time::Duration;

#[cfg(target_os = "linux")]
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
#[cfg(target_os = "linux")]
use rustix::fd::OwnedFd;
#[cfg(target_os = "linux")]
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use crate::backends::sql::watch_diff;
use crate::store::CallContext;
#[cfg(target_os = "linux")]
use crate::util::cancel::CancelHook;
use crate::util::cancel::CancelToken;
#[cfg(target_os = "linux")]
use crate::util::sync::Arc;

/// Interval of reads that detect writes of programs that do not touch the `-wal` file.
#[cfg(target_os = "linux")]
const FOREIGN_WRITERS: Duration = Duration::from_millis(250);

/// Interval of reads without inotify.
const POLLING: Duration = Duration::from_millis(20);

/// The source of the events that wake a watch.
pub(super) enum CommitSignal {
    /// inotify events of the `-wal` file, and an eventfd that ends the wait of a cancelled watch.
    ///
    /// Every process that uses this library touches the file after a commit.
    #[cfg(target_os = "linux")]
    Inotify {
        changes: OwnedFd,
        cancelled: Arc<OwnedFd>,
        _hook: CancelHook,
    },
    Polling(CancelToken),
}

impl CommitSignal {
    /// Creates a signal, which polls if inotify is missing or all inotify instances are in use.
    pub(super) fn new(database: &Path, wal: &Path, cancel: &CancelToken) -> Self {
        #[cfg(target_os = "linux")]
        match Self::inotify(database, wal, cancel) {
            Ok(signal) => return signal,
            Err(error) => {
                crate::util::panics::log_line!(debug, target: crate::util::log_fields::STORE, "no inotify for {}, polling: {error}", wal.display())
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (database, wal);
        Self::Polling(cancel.clone())
    }

    #[cfg(target_os = "linux")]
    fn inotify(database: &Path, wal: &Path, cancel: &CancelToken) -> rustix::io::Result<Self> {
        let changes = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        inotify::add_watch(&changes, wal, WatchFlags::ATTRIB)?;
        // Deleting or replacing the file changes its number of links, which inotify reports as an attribute.
        inotify::add_watch(&changes, database, WatchFlags::ATTRIB | WatchFlags::MOVE_SELF)?;
        let cancelled = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let written = Arc::clone(&cancelled);
        let hook = cancel.on_cancel(move || _ = rustix::io::write(&*written, &1_u64.to_ne_bytes()));
        Ok(Self::Inotify { changes, cancelled, _hook: hook })
    }

    /// Blocks until records may have changed, or until the watch is cancelled.
    pub(super) fn wait(&self) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Inotify { changes, cancelled, .. } => wait_for_either(changes, cancelled),
            Self::Polling(cancel) => watch_diff::wait(&CallContext::new(POLLING, cancel.clone()), POLLING),
        }
    }
}

#[cfg(target_os = "linux")]
fn wait_for_either(changes: &OwnedFd, cancelled: &OwnedFd) {
    let timeout = Timespec { tv_sec: 0, tv_nsec: FOREIGN_WRITERS.subsec_nanos().into() };
    let mut both = [PollFd::new(changes, PollFlags::IN), PollFd::new(cancelled, PollFlags::IN)];
    if poll(&mut both, Some(&timeout)).is_err() {
        // The poll was interrupted or ran out of memory. The pause prevents a tight loop.
        std::thread::sleep(Duration::from_millis(1));
    }
    // The events contain no useful data. Events that do not fit in the buffer end the next wait early.
    let mut events = [0; 4096];
    for fd in [changes, cancelled] {
        let _ = rustix::io::read(fd, &mut events);
    }
}

/// Wakes the watches of all processes through inotify.
///
/// The caller runs this function after a commit. The write itself also causes inotify events, but before other
/// connections can read the write.
#[cfg(target_os = "linux")]
pub(super) fn wake_watches(wal: &Path) {
    use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let times = Timestamps { last_access: now, last_modification: now };
    if let Err(error) = utimensat(CWD, wal, &times, AtFlags::empty()) {
        crate::util::panics::log_line!(debug, target: crate::util::log_fields::STORE, "cannot touch {}, other processes detect the write later: {error}", wal.display());
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn wake_watches(_: &Path) {}
