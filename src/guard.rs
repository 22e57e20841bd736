//! The leader's hand on its term: the guard, its views, and work in its scope.

use std::convert::Infallible;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use crate::clock;
use crate::deadline::Deadline;
use crate::error::Error;
use crate::link::{Command, Link};
use crate::log_fields::log_with;
use crate::stop_reason::StopReason;
use crate::sync::channel::{self, Receiver, Sender};
use crate::sync::{Arc, Mutex};

/// The lease is ours for as long as this lives and [`is_leader`](Self::is_leader) says so.
///
/// Dropping the guard releases the lease: every view turns false first, then the release is sent, and the drop blocks
/// until it is written, at most for the release timeout, so that the process may exit right after. A standby leads
/// within milliseconds of that. The drop never panics.
///
/// A term can end while the guard lives: when renewals fail for as long as the renew deadline, when the lease is
/// deleted or taken. Then [`is_leader`](Self::is_leader) is false for good, [`lost`](Self::lost) fires, and nothing is
/// released until the guard is dropped: work that is still winding down is not overlapped sooner than it must be.
///
/// A guard that is leaked (`std::mem::forget`) leads until the process ends.
///
/// All methods may be called from any thread at any time.
///
/// # Examples
///
/// ```no_run
/// use leasehold::LeaderElector;
///
/// let elector = LeaderElector::builder("jobs").start()?;
/// let guard = elector.block_until_leader()?;
/// while guard.is_leader() {
///     // one unit of work, with guard.fencing_token() on every write
/// }
/// # Ok::<(), leasehold::Error>(())
/// ```
#[must_use = "the lease is released when the guard is dropped: bind it to a name"]
pub struct LeaderGuard {
    term: Arc<Term>,
    link: Option<Arc<Link>>,
}

/// A view of one term: it can be cloned and sent to other threads, asked, and waited on, but not end the term.
///
/// It never revives: a view of a term that is over stays false when the same elector leads again.
///
/// # Examples
///
/// ```no_run
/// # use leasehold::LeaderElector;
/// # let elector = LeaderElector::builder("jobs").start()?;
/// let guard = elector.block_until_leader()?;
/// let leadership = guard.leadership();
/// std::thread::spawn(move || {
///     while leadership.is_leader() {
///         // one unit of work
///     }
/// });
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone)]
pub struct Leadership {
    term: Arc<Term>,
}

/// Spawns threads that borrow the guard, inside [`LeaderGuard::scope`].
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
/// });
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Scope<'scope, 'env> {
    scope: &'scope std::thread::Scope<'scope, 'env>,
    guard: &'env LeaderGuard,
}

/// The term is over, and why, for `?` in protected work.
///
/// # Examples
///
/// ```
/// use leasehold::{LeaderGuard, LeadershipLost};
///
/// fn step(guard: &LeaderGuard) -> Result<(), LeadershipLost> {
///     guard.check()?;
///     // write something, with guard.fencing_token()
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeadershipLost {
    /// Why the term ended.
    pub reason: StopReason,
}

/// What guard, views and the elector's thread share of one term.
pub(crate) struct Term {
    deadline: Arc<Deadline>,
    fencing_token: u64,
    lost: Receiver<Infallible>,
    /// Dropped at the end of the term, which is what disconnects `lost`.
    end: Mutex<Option<Sender<Infallible>>>,
}

impl Term {
    pub(crate) fn new(deadline: Arc<Deadline>, fencing_token: u64) -> Self {
        let (sender, lost) = channel::bounded(0);
        Self { deadline, fencing_token, lost, end: Mutex::new(Some(sender)) }
    }

    /// Ends the term for every view, and wakes who waits for that. The first reason stands, and is given back; a term
    /// that had run out by then ended by that.
    pub(crate) fn end(&self, reason: StopReason) -> StopReason {
        let reason = self.deadline.end(clock::now(), reason);
        *self.end.lock() = None;
        reason
    }

    fn is_valid(&self) -> bool {
        self.deadline.is_valid(clock::now())
    }

    fn remaining(&self) -> Duration {
        self.deadline.remaining(clock::now())
    }

    fn check(&self) -> Result<(), LeadershipLost> {
        if self.is_valid() {
            return Ok(());
        }
        Err(LeadershipLost { reason: self.deadline.reason() })
    }
}

impl LeaderGuard {
    pub(crate) fn new(term: Arc<Term>, link: Arc<Link>) -> Self {
        Self { term, link: Some(link) }
    }

    /// Whether the term is valid now. Final once false.
    ///
    /// This is the safety check: one atomic load and one clock read, without a lock or an allocation. It is exact also
    /// when every other thread of the process is stopped, and it counts the time that the machine was suspended. What
    /// no check can do is stop work that is already past it; that is what the [fencing token](Self::fencing_token) is
    /// for.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example(guard: &leasehold::LeaderGuard) {
    /// while guard.is_leader() {
    ///     // one unit of work
    /// }
    /// # }
    /// ```
    pub fn is_leader(&self) -> bool {
        self.term.is_valid()
    }

    /// How long the term stays valid without another renewal. Zero once it is over.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example(guard: &leasehold::LeaderGuard) {
    /// use std::time::Duration;
    ///
    /// if guard.remaining() > Duration::from_secs(5) {
    ///     // work that takes five seconds, and may be covered to its end
    /// }
    /// # }
    /// ```
    pub fn remaining(&self) -> Duration {
        self.term.remaining()
    }

    /// [`is_leader`](Self::is_leader) for `?`.
    ///
    /// # Errors
    ///
    /// [`LeadershipLost`] when the term is over, and why.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example(guard: &leasehold::LeaderGuard) -> Result<(), leasehold::LeadershipLost> {
    /// guard.check()?;
    /// // one unit of work
    /// Ok(())
    /// # }
    /// ```
    pub fn check(&self) -> Result<(), LeadershipLost> {
        self.term.check()
    }

    /// A number that is greater than that of every earlier term, of this and every other candidate, for as long as
    /// the store is not restored from a backup: hand it to what you write to, and let that refuse anything lower than
    /// the highest it has seen.
    ///
    /// It is the `resourceVersion` at which this elector learned that its write had won the lease. Resource versions
    /// of one resource are ordered integers (KEP-5504); they go on growing when the lease is deleted and made anew.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example(guard: &leasehold::LeaderGuard) {
    /// let statement = format!("UPDATE jobs SET done = true WHERE last_token <= {}", guard.fencing_token());
    /// # }
    /// ```
    pub fn fencing_token(&self) -> u64 {
        self.term.fencing_token
    }

    /// A channel that never yields and disconnects at the end of the term: it wakes a `select!`, and every other
    /// waiter too. It needs a thread to run and may lag behind [`is_leader`](Self::is_leader), the safety check.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example(guard: &leasehold::LeaderGuard) {
    /// use std::time::Duration;
    /// use leasehold::crossbeam_channel::{after, select};
    ///
    /// select! {
    ///     recv(guard.lost()) -> _ => println!("the term is over"),
    ///     recv(after(Duration::from_secs(60))) -> _ => println!("still leading, after a minute"),
    /// }
    /// # }
    /// ```
    pub fn lost(&self) -> &Receiver<Infallible> {
        &self.term.lost
    }

    /// A view of this term for other threads.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example(guard: &leasehold::LeaderGuard) {
    /// let view = guard.leadership();
    /// std::thread::spawn(move || while view.is_leader() { /* one unit of work */ });
    /// # }
    /// ```
    pub fn leadership(&self) -> Leadership {
        Leadership { term: Arc::clone(&self.term) }
    }

    /// Ends the term without ending the guard: every view is false from now on and [`lost`](Self::lost) fires, while
    /// the lease stays ours, and renewed, until the guard is dropped. So work that is winding down is still covered.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example(guard: &leasehold::LeaderGuard) {
    /// guard.step_down();
    /// assert!(!guard.is_leader());
    /// // wind down; the lease is still ours
    /// # }
    /// ```
    pub fn step_down(&self) {
        self.term.end(StopReason::SteppedDown);
        if let Some(link) = &self.link {
            link.tell(Command::StepDown);
        }
    }

    /// Runs `work`, which may spawn threads that borrow this guard, and returns when all of them have ended.
    ///
    /// This is `std::thread::scope` over the guard: the compiler proves that protected work ends before the lease is
    /// released. It does not prove that it ends before the term expires: workers still ask
    /// [`is_leader`](Self::is_leader) or watch [`lost`](Self::lost).
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
    /// The guard cannot be moved or dropped inside, and nothing that was spawned can leave:
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
    /// Like `std::thread::scope`: with `work`'s own panic, or when a spawned thread panicked and was not joined. Either
    /// steps the term down at once, so that nobody leads on beside dead workers.
    pub fn scope<'env, T>(&'env self, work: impl for<'scope> FnOnce(Scope<'scope, 'env>) -> T) -> T {
        std::thread::scope(|scope| {
            let unfinished = StepDownUnlessFinished { guard: self, finished: false };
            let result = work(Scope { scope, guard: self });
            unfinished.finish();
            result
        })
    }

    /// Releases the lease like a drop, and says whether that was confirmed.
    ///
    /// # Errors
    ///
    /// [`Error::ReleaseTimeout`] when the release timeout passed before the store had confirmed it; [`Error::Stopped`] when
    /// the elector's thread has panicked. Either way others take over when the lease runs out.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example(guard: leasehold::LeaderGuard) {
    /// if let Err(error) = guard.release() {
    ///     eprintln!("{error}");
    /// }
    /// # }
    /// ```
    pub fn release(mut self) -> Result<(), Error> {
        self.term.end(StopReason::Released);
        match self.link.take() {
            Some(link) => link.release(),
            None => Ok(()),
        }
    }

    /// Ends the term and leaves its release to the caller.
    pub(crate) fn forget(mut self) {
        self.link = None;
    }

    /// Releases the lease without waiting for it.
    pub(crate) fn abandon(mut self) {
        self.term.end(StopReason::Released);
        if let Some(link) = self.link.take() {
            link.let_go();
        }
    }
}

impl Drop for LeaderGuard {
    fn drop(&mut self) {
        self.term.end(StopReason::Released);
        if let Some(link) = self.link.take()
            && let Err(error) = link.release()
        {
            let fields = link.log_fields(self.term.fencing_token);
            log_with!(log::Level::Warn, fields, reason = error.to_string().as_str(); "{error}");
        }
    }
}

impl fmt::Debug for LeaderGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderGuard")
            .field("fencing_token", &self.fencing_token())
            .field("remaining", &self.remaining())
            .finish()
    }
}

// A panic cannot leave a term half-changed: its one atomic, and a pair that is written under a lock without calling
// anything, are all there is to it.
impl UnwindSafe for LeaderGuard {}
impl RefUnwindSafe for LeaderGuard {}

impl Leadership {
    /// See [`LeaderGuard::is_leader`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example(view: &leasehold::Leadership) {
    /// while view.is_leader() {
    ///     // one unit of work
    /// }
    /// # }
    /// ```
    pub fn is_leader(&self) -> bool {
        self.term.is_valid()
    }

    /// See [`LeaderGuard::remaining`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example(view: &leasehold::Leadership) {
    /// println!("covered for {:?}", view.remaining());
    /// # }
    /// ```
    pub fn remaining(&self) -> Duration {
        self.term.remaining()
    }

    /// See [`LeaderGuard::check`].
    ///
    /// # Errors
    ///
    /// [`LeadershipLost`] when the term is over, and why.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example(view: &leasehold::Leadership) {
    /// if let Err(lost) = view.check() {
    ///     println!("{lost}");
    /// }
    /// # }
    /// ```
    pub fn check(&self) -> Result<(), LeadershipLost> {
        self.term.check()
    }

    /// See [`LeaderGuard::fencing_token`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example(view: &leasehold::Leadership) {
    /// println!("token {}", view.fencing_token());
    /// # }
    /// ```
    pub fn fencing_token(&self) -> u64 {
        self.term.fencing_token
    }

    /// See [`LeaderGuard::lost`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example(view: &leasehold::Leadership) {
    /// let _ = view.lost().recv(); // blocks until the term is over
    /// # }
    /// ```
    pub fn lost(&self) -> &Receiver<Infallible> {
        &self.term.lost
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership")
            .field("fencing_token", &self.fencing_token())
            .field("remaining", &self.remaining())
            .finish()
    }
}

impl UnwindSafe for Leadership {}
impl RefUnwindSafe for Leadership {}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Spawns a thread that ends before the guard can go. If it panics the term is stepped down at once.
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
    pub fn spawn<T: Send + 'scope>(&self, work: impl FnOnce() -> T + Send + 'scope) -> ScopedJoinHandle<'scope, T> {
        let guard = self.guard;
        self.scope.spawn(move || {
            let unfinished = StepDownUnlessFinished { guard, finished: false };
            let result = work();
            unfinished.finish();
            result
        })
    }

    /// The guard whose scope this is.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example(guard: &leasehold::LeaderGuard) {
    /// guard.scope(|scope| assert_eq!(scope.guard().fencing_token(), guard.fencing_token()));
    /// # }
    /// ```
    pub fn guard(&self) -> &'env LeaderGuard {
        self.guard
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("guard", self.guard).finish()
    }
}

impl fmt::Display for LeadershipLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "leadership lost: {}", self.reason)
    }
}

impl std::error::Error for LeadershipLost {}

struct StepDownUnlessFinished<'guard> {
    guard: &'guard LeaderGuard,
    finished: bool,
}

impl StepDownUnlessFinished<'_> {
    fn finish(mut self) {
        self.finished = true;
    }
}

impl Drop for StepDownUnlessFinished<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.guard.step_down();
        }
    }
}
