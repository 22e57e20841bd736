//! Work that the guard moves into.

use std::convert::Infallible;
use std::fmt;
use std::thread::{Builder, JoinHandle};

use crate::leadership::error::Error;
use crate::leadership::guard::{LeaderGuard, Leadership};
use crate::util::sync::channel;
use crate::util::sync::channel::{Receiver, TryRecvError};

/// A thread that does the leader's work and has its guard, made by [`LeaderGuard::spawn`].
///
/// Dropping this neither ends the thread nor the term.
///
/// # Examples
///
/// ```
/// use leasehold::crossbeam_channel::select;
/// use leasehold::{LeaderElector, MemoryStore};
///
/// let elector = LeaderElector::builder("jobs").start_on(MemoryStore::new())?;
/// let worker = elector.block_until_leader()?.spawn(|guard| {
///     while guard.is_leader() {
///         // one unit of work
///         # std::thread::yield_now();
///     }
///     "done"
/// })?;
/// worker.step_down();
/// select! {
///     recv(worker.ended()) -> _ => println!("released"),
/// }
/// assert_eq!(worker.join().unwrap(), "done");
/// # Ok::<(), leasehold::Error>(())
/// ```
#[must_use = "nobody else knows when the work has ended"]
pub struct Worker<T> {
    leadership: Leadership,
    ended: Receiver<Infallible>,
    thread: JoinHandle<T>,
}

impl LeaderGuard {
    /// Moves this guard into a thread of its own, which does `work` and releases the lease when that returns or panics: for
    /// work that is not to end within a [`scope`](Self::scope). Also when it panics the lease is released only after what it had
    /// on its stack has been dropped.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`] when the system gives no thread; the lease is released then.
    pub fn spawn<T: Send + 'static>(
        self,
        work: impl FnOnce(&LeaderGuard) -> T + Send + 'static,
    ) -> Result<Worker<T>, Error> {
        let (ending, ended) = channel::bounded(0);
        let leadership = self.leadership();
        let run = move || {
            // Dropped last, also when the work panics.
            let _ending = ending;
            let guard = self;
            work(&guard)
        };
        let thread = Builder::new().name("leasehold-work".to_owned()).spawn(run).map_err(Error::Thread)?;
        Ok(Worker { leadership, ended, thread })
    }
}

impl<T> Worker<T> {
    /// Ends the term, as [`LeaderGuard::step_down`] does: the work is to notice it and return. Nothing after its end.
    pub fn step_down(&self) {
        self.leadership.step_down();
    }

    /// A view of the term.
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// A channel that never yields and disconnects when the work has ended and the lease is released: for a `select!`.
    pub fn ended(&self) -> &Receiver<Infallible> {
        &self.ended
    }

    /// Whether the work has ended and the lease is released: [`join`](Self::join) does not wait then.
    pub fn has_ended(&self) -> bool {
        self.ended.try_recv() == Err(TryRecvError::Disconnected)
    }

    /// Waits for the work and the release, and gives what the work returned.
    ///
    /// # Errors
    ///
    /// The panic of the work.
    pub fn join(self) -> std::thread::Result<T> {
        self.thread.join()
    }
}

impl<T> fmt::Debug for Worker<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("leadership", &self.leadership()).finish_non_exhaustive()
    }
}
