//! A thread that owns the guard and does the leader's work.

use std::convert::Infallible;
use std::fmt;
use std::thread::{Builder, JoinHandle};

use crate::leadership::error::Error;
use crate::leadership::guard::{LeaderGuard, Leadership};
use crate::util::sync::channel::{self, Receiver, TryRecvError};

/// A thread that owns the guard and runs the work, created by [`LeaderGuard::spawn`].
///
/// Dropping the `Worker` ends neither the thread nor the term.
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
#[must_use = "only this value reports when the work has ended"]
pub struct Worker<T> {
    leadership: Leadership,
    ended: Receiver<Infallible>,
    thread: JoinHandle<T>,
}

impl LeaderGuard {
    /// Moves this guard into a new thread that runs `work` and then releases the lease.
    ///
    /// Use this method for work that does not fit in a [`scope`](Self::scope). If `work` panics, the lease is released
    /// after all values on the stack of `work` were dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{LeaderElector, MemoryStore};
    ///
    /// let elector = LeaderElector::builder("jobs").start_on(MemoryStore::new())?;
    /// let worker = elector.block_until_leader()?.spawn(|guard| guard.fencing_token())?;
    /// println!("worked with token {}", worker.join().expect("the work does not panic"));
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - Returns [`Error::Thread`] if the operating system cannot start a thread. The lease is then released.
    pub fn spawn<T: Send + 'static>(
        self,
        work: impl FnOnce(&LeaderGuard) -> T + Send + 'static,
    ) -> Result<Worker<T>, Error> {
        let (ending, ended) = channel::bounded(0);
        let leadership = self.leadership();
        let run = move || {
            // Dropped after the guard, even if the work panics, so that `ended` disconnects after the release.
            let _ending = ending;
            let guard = self;
            work(&guard)
        };
        let thread = Builder::new().name("leasehold-work".to_owned()).spawn(run).map_err(Error::Thread)?;
        Ok(Worker { leadership, ended, thread })
    }
}

impl<T> Worker<T> {
    /// Ends the term, like [`LeaderGuard::step_down`].
    ///
    /// The work must then return. Does nothing if the work has ended.
    pub fn step_down(&self) {
        self.leadership.step_down();
    }

    /// Returns a view of the term.
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Returns a channel that disconnects when the work has ended and the lease is released.
    ///
    /// The channel never delivers a message. Use the channel in a `select!`.
    pub fn ended(&self) -> &Receiver<Infallible> {
        &self.ended
    }

    /// Returns `true` if the work has ended and the lease is released.
    ///
    /// If the result is `true`, [`join`](Self::join) does not block.
    pub fn has_ended(&self) -> bool {
        self.ended.try_recv() == Err(TryRecvError::Disconnected)
    }

    /// Blocks until the work has ended and the lease is released. Returns the result of the work.
    ///
    /// # Errors
    ///
    /// - Returns the panic of the work if the work panicked.
    pub fn join(self) -> std::thread::Result<T> {
        self.thread.join()
    }
}

impl<T> fmt::Debug for Worker<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("leadership", &self.leadership()).finish_non_exhaustive()
    }
}
