//! The line from what the user holds to the elector's thread.

use std::time::Duration;

use crate::clock::Moment;
use crate::error::Error;
use crate::lock::{Lock, WatchEvent};
use crate::sync::channel::{self, RecvTimeoutError, Sender};
use crate::sync::thread::{self, ThreadId};
use crate::sync::{Arc, AtomicBool, Instant, OnceLock, Ordering};

/// How long a request under way is left to finish by itself when a release waits behind it.
const GRACE: Duration = Duration::from_millis(50);

/// What the elector's thread is told.
pub(crate) enum Command {
    Campaign {
        once: bool,
    },
    Withdraw,
    StepDown,
    GuardGone(Sender<Word>),
    Close,
    /// An event of the watch. What `_taken` belongs to disconnects when the thread has taken it.
    Heard {
        received_at: Moment,
        event: WatchEvent,
        _taken: Option<Sender<()>>,
    },
    WatchOpened {
        afresh: bool,
    },
    WatchLost,
}

/// What comes back about a guard that is gone.
#[derive(PartialEq)]
pub(crate) enum Word {
    /// The thread knows; from here on it works on the release.
    Heard,
    /// The record is not ours any more.
    Settled,
}

/// How a campaign or a guard reaches its elector's thread.
pub(crate) struct Link {
    commands: Sender<Command>,
    lock: Arc<dyn Lock>,
    release_timeout: Duration,
    thread: OnceLock<ThreadId>,
    busy: AtomicBool,
}

impl Link {
    pub(crate) fn new(commands: Sender<Command>, lock: Arc<dyn Lock>, release_timeout: Duration) -> Self {
        Self { commands, lock, release_timeout, thread: OnceLock::new(), busy: AtomicBool::new(false) }
    }

    /// Called by the elector's thread, so that it is known again.
    pub(crate) fn this_is_the_thread(&self) {
        let _ = self.thread.set(thread::current().id());
    }

    /// Takes the elector's one seat; false if it is taken.
    pub(crate) fn take_seat(&self) -> bool {
        !self.busy.swap(true, Ordering::SeqCst)
    }

    pub(crate) fn free_seat(&self) {
        self.busy.store(false, Ordering::SeqCst);
    }

    /// Tells the thread. One that has ended has nothing left to do for anybody.
    pub(crate) fn tell(&self, command: Command) {
        let _ = self.commands.send(command);
    }

    /// Ends what the thread waits for.
    pub(crate) fn interrupt(&self) {
        self.lock.interrupt();
    }

    /// Tells the thread that the guard is gone, without waiting for the release.
    pub(crate) fn let_go(&self) {
        let (word, _) = channel::bounded(2);
        self.tell(Command::GuardGone(word));
        self.free_seat();
    }

    /// Tells the thread that the guard is gone, and waits until the record is not ours any more.
    pub(crate) fn release(&self) -> Result<(), Error> {
        if self.thread.get() == Some(&thread::current().id()) {
            // Waiting here would be waiting for ourselves.
            self.let_go();
            return Ok(());
        }
        let (word, words) = channel::bounded(2);
        let until = Instant::now() + self.release_timeout;
        self.tell(Command::GuardGone(word));
        let grace = GRACE.min(self.release_timeout / 4);
        let mut heard = words.recv_timeout(grace);
        while heard == Err(RecvTimeoutError::Timeout) && Instant::now() < until {
            // A request that hangs must not hold up the release. It is abandoned, its outcome left open. More than
            // once: the thread may have been about to send it.
            self.interrupt();
            heard = words.recv_timeout(grace);
        }
        let settled = match heard {
            Ok(Word::Heard) => words.recv_deadline(until),
            other => other,
        };
        self.free_seat();
        match settled {
            Ok(Word::Settled) => Ok(()),
            // Heard at the last moment is not settled.
            _ => Err(Error::ReleaseTimeout { waited: self.release_timeout }),
        }
    }
}
