//! Wakes a watch after a commit of any process, and at the end of the watch.

use std::path::Path;
use std::time::Duration;

use crate::util::sync::channel;
use crate::util::sync::channel::{Receiver, Sender};

#[cfg(target_os = "linux")]
use crate::util::sync::Arc;
#[cfg(target_os = "linux")]
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
#[cfg(target_os = "linux")]
use rustix::fd::OwnedFd;
#[cfg(target_os = "linux")]
use rustix::fs::inotify;
#[cfg(target_os = "linux")]
use rustix::fs::inotify::{CreateFlags, WatchFlags};

/// Interval of reads that detect writes of programs that do not touch the `-wal` file.
#[cfg(target_os = "linux")]
const FOREIGN_WRITERS: Duration = Duration::from_millis(250);

/// Interval of reads without inotify.
const POLLING: Duration = Duration::from_millis(20);

/// The source of the events that wake a watch.
pub(super) enum CommitSignal {
    /// inotify events of the `-wal` file.
    ///
    /// Every process that uses this library touches the file after a commit.
    #[cfg(target_os = "linux")]
    Inotify {
        changes: OwnedFd,
        own: Arc<OwnedFd>,
    },
    Polling {
        sender: Sender<()>,
        receiver: Receiver<()>,
    },
}

/// A handle that ends the current or the next wait of a [`CommitSignal`].
#[derive(Clone)]
pub(super) enum Waker {
    #[cfg(target_os = "linux")]
    Own(Arc<OwnedFd>),
    Channel(Sender<()>),
}

impl CommitSignal {
    /// Creates a signal, which polls if inotify is missing or all inotify instances are in use.
    pub(super) fn new(database: &Path, wal: &Path) -> Self {
        #[cfg(target_os = "linux")]
        match Self::inotify(database, wal) {
            Ok(signal) => return signal,
            Err(error) => {
                crate::util::panics::log_line!(debug, target: crate::util::log_fields::STORE, "no inotify for {}, polling: {error}", wal.display())
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (database, wal);
        let (sender, receiver) = channel::bounded(1);
        Self::Polling { sender, receiver }
    }

    #[cfg(target_os = "linux")]
    fn inotify(database: &Path, wal: &Path) -> rustix::io::Result<Self> {
        let changes = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        inotify::add_watch(&changes, wal, WatchFlags::ATTRIB)?;
        // Deleting or replacing the file changes its number of links, which inotify reports as an attribute.
        inotify::add_watch(&changes, database, WatchFlags::ATTRIB | WatchFlags::MOVE_SELF)?;
        let own = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        Ok(Self::Inotify { changes, own })
    }

    pub(super) fn waker(&self) -> Waker {
        match self {
            #[cfg(target_os = "linux")]
            Self::Inotify { own, .. } => Waker::Own(Arc::clone(own)),
            Self::Polling { sender, .. } => Waker::Channel(sender.clone()),
        }
    }

    /// Blocks until records may have changed.
    pub(super) fn wait(&self) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Inotify { changes, own } => wait_for_either(changes, own),
            Self::Polling { receiver, .. } => _ = receiver.recv_timeout(POLLING),
        }
    }
}

#[cfg(target_os = "linux")]
fn wait_for_either(changes: &OwnedFd, own: &OwnedFd) {
    let timeout = Timespec { tv_sec: 0, tv_nsec: FOREIGN_WRITERS.subsec_nanos().into() };
    let mut both = [PollFd::new(changes, PollFlags::IN), PollFd::new(own, PollFlags::IN)];
    if poll(&mut both, Some(&timeout)).is_err() {
        // The poll was interrupted or ran out of memory. The pause prevents a tight loop.
        std::thread::sleep(Duration::from_millis(1));
    }
    // The events contain no useful data. Events that do not fit in the buffer end the next wait early.
    let mut events = [0; 4096];
    for fd in [changes, own] {
        let _ = rustix::io::read(fd, &mut events);
    }
}

impl Waker {
    pub(super) fn wake(&self) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Own(own) => _ = rustix::io::write(own, &1_u64.to_ne_bytes()),
            Self::Channel(sender) => _ = sender.try_send(()),
        }
    }
}

/// Wakes the watches of all processes through inotify.
///
/// The caller runs this function after a commit. The write itself also causes inotify events, but before other
/// connections can read the write.
#[cfg(target_os = "linux")]
pub(super) fn wake_others(wal: &Path) {
    use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let times = Timestamps { last_access: now, last_modification: now };
    if let Err(error) = utimensat(CWD, wal, &times, AtFlags::empty()) {
        crate::util::panics::log_line!(debug, target: crate::util::log_fields::STORE, "cannot touch {}, other processes detect the write later: {error}", wal.display());
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn wake_others(_: &Path) {}
