//! The work of a term: threads that borrow the guard, and a thread that owns the guard.

use std::convert::Infallible;
use std::fmt;
use std::thread::{Builder, JoinHandle, ScopedJoinHandle};
use std::time::Duration;

use crate::election::drain::DrainLimit;
use crate::leadership::error::Error;
use crate::leadership::guard::{LeaderGuard, Leadership};
use crate::leadership::term::call_at_end;
use crate::util::on_drop::OnDrop;
use crate::util::sync::channel::{self, Receiver, RecvTimeoutError};

/// A scope for threads that borrow the guard, created by [`LeaderGuard::scope`].
///
/// # Examples
///
/// ```no_run
/// # use leasehold::LeaderElector;
/// # let elector = LeaderElector::builder("jobs").start()?;
/// let guard = elector.block_until_leader()?;
/// guard.scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| while guard.is_leader() { /* one unit of work */ });
///     }
///     println!("four workers have token {}", guard.fencing_token());
/// });
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Scope<'scope, 'env> {
    scope: &'scope std::thread::Scope<'scope, 'env>,
    guard: &'env LeaderGuard,
}

/// A thread that owns the guard and runs the work, created by [`LeaderGuard::spawn`].
///
/// Dropping the `Worker` ends neither the thread nor the term.
///
/// # Examples
///
/// ```
/// use leasehold::crossbeam_channel::select;
/// use leasehold::store::MemoryStore;
/// use leasehold::LeaderElector;
///
/// let elector = LeaderElector::builder("jobs").start_on(MemoryStore::new())?;
/// let worker = elector.block_until_leader()?.spawn(|guard| {
///     while guard.is_leader() {
///         // one unit of work
///         # std::thread::yield_now();
///     }
///     "done"
/// })?;
/// worker.leadership().step_down();
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
    /// Runs `work` in a scope and returns when all threads of the scope have ended.
    ///
    /// The scope can spawn threads that borrow this guard, like `std::thread::scope`. The compiler proves that
    /// protected work ends before the lease is released. The compiler does not prove that the work ends before the term
    /// does. Workers must still check [`is_leader`](Leadership::is_leader), or wait for [`ended`](Leadership::ended).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example(guard: &leasehold::LeaderGuard) {
    /// let done = guard.scope(|scope| {
    ///     let workers: Vec<_> = (0..4)
    ///         .map(|_| scope.spawn(|| (0..100).take_while(|_| guard.is_leader()).count()))
    ///         .collect();
    ///     workers.into_iter().map(|worker| worker.join().unwrap()).sum::<usize>()
    /// });
    /// # }
    /// ```
    ///
    /// The closure cannot move or drop the guard, and no spawned thread can leave the scope:
    ///
    /// ```compile_fail,E0505
    /// # fn f(guard: leasehold::LeaderGuard) {
    /// guard.scope(|scope| {
    ///     drop(guard);
    /// });
    /// # }
    /// ```
    ///
    /// ```compile_fail,E0505
    /// # fn f(guard: leasehold::LeaderGuard) {
    /// guard.scope(|scope| {
    ///     scope.spawn(move || guard.is_leader());
    /// });
    /// # }
    /// ```
    ///
    /// ```compile_fail
    /// # fn f(guard: leasehold::LeaderGuard) {
    /// let handle = guard.scope(|scope| scope.spawn(|| 1));
    /// handle.join().unwrap();
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// Panics like `std::thread::scope`, if `work` panics, or if a spawned thread panics and was not joined. Either
    /// panic steps the term down at once, so that the candidate does not lead without its workers.
    pub fn scope<'env, T>(&'env self, work: impl for<'scope> FnOnce(Scope<'scope, 'env>) -> T) -> T {
        std::thread::scope(|scope| self.step_down_unless_finished(|| work(Scope { scope, guard: self })))
    }

    /// Moves this guard into a new thread that runs `work` and then releases the lease.
    ///
    /// Use this method for work that does not fit in a [`scope`](Self::scope). If `work` panics, the lease is released
    /// after all values on the stack of `work` were dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::store::MemoryStore;
    /// use leasehold::LeaderElector;
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
        let thread = Builder::new().name("leasehold-work".to_owned()).spawn(run).map_err(Error::thread)?;
        Ok(Worker { leadership, ended, thread })
    }

    fn step_down_unless_finished<T>(&self, work: impl FnOnce() -> T) -> T {
        let unfinished = OnDrop(|| self.link.step_down(&self.term, DrainLimit::Bounded));
        let result = work();
        std::mem::forget(unfinished);
        result
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Spawns a thread that ends before the guard can be dropped.
    ///
    /// If the thread panics, the term is stepped down at once.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example(guard: &leasehold::LeaderGuard) {
    /// guard.scope(|scope| {
    ///     let worker = scope.spawn(|| guard.fencing_token());
    ///     assert_eq!(worker.join().unwrap(), guard.fencing_token());
    /// });
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the operating system cannot start the thread.
    pub fn spawn<T: Send + 'scope>(&self, work: impl FnOnce() -> T + Send + 'scope) -> ScopedJoinHandle<'scope, T> {
        self.try_spawn(work).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn try_spawn<T: Send + 'scope>(
        &self,
        work: impl FnOnce() -> T + Send + 'scope,
    ) -> Result<ScopedJoinHandle<'scope, T>, Error> {
        let guard = self.guard;
        Builder::new().spawn_scoped(self.scope, move || guard.step_down_unless_finished(work)).map_err(Error::thread)
    }
}

impl<T> Worker<T> {
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

    /// Sleeps for `duration`, at most until the work has ended and the lease is released.
    ///
    /// Returns `true` if the work has not ended.
    pub fn wait(&self, duration: Duration) -> bool {
        self.ended.recv_timeout(duration) == Err(RecvTimeoutError::Timeout)
    }

    /// Calls `call` once the work has ended and the lease is released.
    ///
    /// If both have happened before, the call happens immediately.
    /// A thread that starts now waits for the end. A panic of `call` is caught and logged.
    ///
    /// # Errors
    ///
    /// - Returns [`Error::Thread`] if the operating system cannot start the thread. The callback is then never called.
    pub fn on_ended(&self, call: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        call_at_end(self.ended.clone(), || Duration::MAX, call)
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
