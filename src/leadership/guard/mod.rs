//! The guard of a term, and views of the term.

use std::convert::Infallible;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

use crate::election::drain::DrainLimit;
use crate::leadership::error::Error;
use crate::leadership::handle::{LOGGED_WITHIN, Link, ReleaseSender};
use crate::leadership::progress::ProgressHandle;
use crate::leadership::term::{Term, TermEnded};
use crate::util::clock;
use crate::util::debug_fields::debug_fields;
use crate::util::log_fields::{LogFields, log_with};
use crate::util::sync::channel::{self, Receiver};
use crate::util::sync::{Arc, thread};

mod work;

pub use work::{Scope, Worker};

/// One term of leadership; dropping the guard releases the lease.
///
/// A guard has all methods of [`Leadership`]. The candidate leads while the guard exists and
/// [`is_leader`](Leadership::is_leader) returns `true`. All methods may be called from any thread at any time.
///
/// **Drop.** Every view of the term becomes invalid first, and then the release is sent. The drop blocks until the
/// release is written, at most for the [release timeout](crate::LeaderElectorBuilder::release_timeout). The process may
/// exit right after the drop. A standby leads within milliseconds of the release. The drop never panics.
///
/// **End of the term.** A term can end while the guard exists, for example because no renewal succeeded within the
/// renew deadline. [`StopReason`](crate::StopReason) lists all reasons. Then `is_leader` returns `false` forever, and
/// [`ended`](Leadership::ended) disconnects. The lease is not released until the guard is dropped, so that another
/// candidate does not take over before the lease expires.
///
/// **Leak.** If the guard is leaked (`std::mem::forget`), the candidate leads until the process ends or the term ends.
///
/// **Fork.** A child made by `fork` has a copy of the guard, but no thread that renews the lease. In the child,
/// [`release`](Self::release) returns an error at once. [`step_down`](Leadership::step_down) and the drop do nothing.
/// The result of `is_leader` has no guarantee in the child, because the child does not learn that its parent lost the
/// term. A program that forks and continues in the child must end its terms before the fork.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use leasehold::{LeaderElector, LeaderGuard, TermEnded};
///
/// let elector = LeaderElector::builder("jobs").start()?;
/// let guard = elector.block_until_leader()?;
/// # fn execute(statement: &str) -> u64 { 1 }
/// while guard.is_leader() {
///     // Each transaction raises a one-row fence. No row changes if a later leader has raised the fence.
///     let token = guard.fencing_token();
///     execute("BEGIN");
///     let raise = "UPDATE fence SET token = :token, writes = writes + 1 WHERE name = 'jobs' AND token <= :token";
///     if execute(&raise.replace(":token", &token.to_string())) == 0 {
///         execute("ROLLBACK");
///         break;
///     }
///     execute("INSERT INTO runs VALUES ('report')");
///     execute("COMMIT");
///     if guard.remaining() > Duration::from_secs(5) {
///         // a step that takes five seconds
///     }
/// }
///
/// fn in_two_steps(guard: &LeaderGuard) -> Result<(), TermEnded> {
///     guard.check()?;
///     // first step
///     guard.check()?;
///     // second step
///     Ok(())
/// }
///
/// // Other threads use a view, which does not keep the term.
/// let view = guard.leadership();
/// std::thread::spawn(move || while view.is_leader() { /* one unit of work */ });
/// # Ok::<(), leasehold::Error>(())
/// ```
#[must_use = "the lease is released when the guard is dropped; bind the guard to a name"]
pub struct LeaderGuard {
    leadership: Leadership,
    /// `false` once the guard no longer has to release the lease.
    is_held: bool,
}

impl LeaderGuard {
    pub(crate) fn new(term: Arc<Term>, link: Arc<Link>) -> Self {
        Self { leadership: Leadership::new(term, link), is_held: true }
    }

    /// Returns a view of this term for other threads.
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Releases the lease like a drop, and returns whether the store confirmed the release.
    ///
    /// Blocks at most for the [release timeout](crate::LeaderElectorBuilder::release_timeout).
    /// [`release_all`](crate::release_all) releases many guards at the same time.
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
    ///
    /// # Errors
    ///
    /// After `ReleaseTimeout` or `Stopped`, another candidate takes over when the lease expires.
    ///
    /// - Returns [`Error::ReleaseTimeout`] if the store does not confirm the release within the release timeout.
    /// - Returns [`Error::Stopped`] if the elector's thread has panicked.
    /// - Returns [`Error::Forked`] at once in a forked child. The parent keeps the lease.
    pub fn release(mut self) -> Result<(), Error> {
        self.close()?;
        self.link.release()
    }

    /// Records the result of the job, and blocks until the record contains the result.
    ///
    /// A term of [`campaign_once_per`](crate::LeaderElector::campaign_once_per) has a job. The exit code zero is a success.
    /// Blocks at most for the [renew deadline](crate::LeaderElectorBuilder::renew_deadline), and not after the term has
    /// lost its lease.
    ///
    /// # Errors
    ///
    /// - Returns [`Error::ResultNotRecorded`] if the result is not known to be in the record, for example because the
    ///   term has ended. The job may run again.
    /// - Returns [`Error::Forked`] at once in a forked child.
    pub fn record_result(&self, exit_code: i32) -> Result<(), Error> {
        match () {
            () if self.link.is_forked() => Err(Error::Forked),
            () if self.link.record_result(exit_code) => Ok(()),
            () => Err(Error::ResultNotRecorded),
        }
    }

    /// Starts the release, and returns the handle to the elector, which the caller frees after the release.
    pub(crate) fn start_release(mut self, ack: ReleaseSender) -> Result<Arc<Link>, Error> {
        self.close()?;
        self.link.start_release(ack);
        Ok(Arc::clone(&self.link))
    }

    /// Ends the term. The caller releases the lease.
    fn close(&mut self) -> Result<(), Error> {
        if self.link.is_forked() {
            return Err(Error::Forked);
        }
        self.term.close();
        self.is_held = false;
        Ok(())
    }

    /// Steps down, and limits the renewals as after a request.
    pub(crate) fn step_down_as_requested(&self) {
        self.link.step_down(&self.term, DrainLimit::Bounded);
    }

    pub(crate) fn log_fields(&self) -> LogFields {
        self.link.log_fields(Some(self.fencing_token()))
    }

    /// Drops the guard without a release. The caller releases the lease.
    pub(crate) fn forget(mut self) {
        self.is_held = false;
    }

    /// Releases a term that no caller received.
    pub(crate) fn abandon(mut self) {
        self.term.close();
        self.is_held = false;
        self.link.release_untaken();
    }
}

impl Deref for LeaderGuard {
    type Target = Leadership;

    fn deref(&self) -> &Leadership {
        &self.leadership
    }
}

impl Drop for LeaderGuard {
    fn drop(&mut self) {
        if self.link.is_forked() {
            return;
        }
        self.term.close();
        if self.is_held
            && let Err(error) = self.link.release()
        {
            let fields = self.link.log_fields(Some(self.term.fencing_token));
            let (logging, logged) = channel::bounded::<Infallible>(0);
            let log = move || {
                log_with!(log::Level::Warn, fields, error = error.to_string().as_str(); "{error}");
                drop(logging);
            };
            // Logged on another thread, because a logger may hang.
            let _ = thread::Builder::new().name("leasehold-log".to_owned()).spawn(log);
            let _ = logged.recv_timeout(LOGGED_WITHIN);
        }
    }
}

debug_fields!(impl Debug for LeaderGuard { self => fencing_token: self.fencing_token(), remaining: self.remaining() });

/// A view of one term. A guard dereferences to the view of its term.
///
/// A view can be cloned and sent to other threads. A view can end the term, but cannot release the lease. A view never
/// revives: after the term has ended, the view stays invalid even if the same elector leads again.
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
///         println!("token {}, valid for {:?}", leadership.fencing_token(), leadership.remaining());
///         // one unit of work
///     }
/// });
/// let leadership = guard.leadership();
/// std::thread::spawn(move || {
///     let _ = leadership.ended().recv(); // blocks until the term has ended
///     println!("{}", leadership.check().unwrap_err());
/// });
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone)]
pub struct Leadership {
    pub(crate) term: Arc<Term>,
    link: Arc<Link>,
}

impl Leadership {
    pub(crate) fn new(term: Arc<Term>, link: Arc<Link>) -> Self {
        Self { term, link }
    }

    /// Returns `true` while the term is valid.
    ///
    /// Once this method has returned `false`, it never returns `true` again.
    ///
    /// This method is the safety check. It costs two or three atomic loads and one clock read, without a lock or an
    /// allocation. The result is exact even if every other thread of the process is stopped. Time during which the
    /// machine is suspended counts.
    ///
    /// No check can stop work that has already passed the check. The [fencing token](Self::fencing_token) protects
    /// against such work.
    pub fn is_leader(&self) -> bool {
        self.term.is_valid()
    }

    /// Returns how long the term stays valid without another renewal.
    ///
    /// If a [progress timeout](crate::LeaderElectorBuilder::progress_timeout) is set, the result also assumes that the
    /// work reports no more progress. Returns zero once the term has ended.
    pub fn remaining(&self) -> Duration {
        self.term.remaining()
    }

    /// Returns how long this candidate keeps the lease without another renewal.
    ///
    /// Equals [`remaining`](Self::remaining) while the term is valid. After a step-down or a request, the lease is
    /// still renewed, so that work can finish. Returns zero once the lease may be lost.
    pub fn lease_remaining(&self) -> Duration {
        let now = clock::now();
        self.term.deadline.lease_until(now).since(now)
    }

    /// Returns an error once the term has ended; for use with `?`.
    ///
    /// # Errors
    ///
    /// - Returns [`TermEnded`] with the reason if the term has ended.
    pub fn check(&self) -> Result<(), TermEnded> {
        self.term.check()
    }

    /// Returns a number that is greater than the token of every earlier term of any candidate.
    ///
    /// Let the target of a write refuse a token that is lower than the highest token that it has seen. In SQL, raise a
    /// one-row fence in the transaction that writes. A token in each row is not enough, because an INSERT has no row to
    /// compare. If the lease is in the same database, use `fence_sql` of the store. [GUIDE.md] has the statements, and
    /// recipes for etcd and Kubernetes objects.
    ///
    /// The token is the version of the record (the `resourceVersion` of a Lease) at which this elector learned that its
    /// write had won the lease. Versions keep growing when the lease is deleted and re-created (KEP-5504 for
    /// Kubernetes). If the store is restored from a backup, versions and tokens go back.
    ///
    /// A token is at most [`i64::MAX`], because an elector rejects a higher version. So `i64::try_from` never fails,
    /// and a signed 64-bit column (`BIGINT`) of a database can store the token.
    ///
    /// [GUIDE.md]: https://docs.rs/crate/leasehold/latest/source/docs/GUIDE.md
    pub fn fencing_token(&self) -> u64 {
        self.term.fencing_token
    }

    /// Returns a channel that disconnects at the end of the term.
    ///
    /// The channel never delivers a message. Use the channel in a `select!`, or block in `recv` until the term has
    /// ended. Any number of threads may wait.
    ///
    /// The disconnect depends on a thread of the elector and may be late. Only [`is_leader`](Self::is_leader) is the
    /// safety check.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example(guard: &leasehold::LeaderGuard) {
    /// use std::time::Duration;
    /// use leasehold::crossbeam_channel::{after, select};
    ///
    /// select! {
    ///     recv(guard.ended()) -> _ => println!("the term has ended"),
    ///     recv(after(Duration::from_secs(60))) -> _ => println!("still leading after a minute"),
    /// }
    /// # }
    /// ```
    pub fn ended(&self) -> &Receiver<Infallible> {
        self.term.ended.receiver()
    }

    /// Sleeps for `duration`, at most until the end of the term.
    ///
    /// Returns `true` if the term is valid, like [`is_leader`](Self::is_leader). So `while guard.wait(interval)` runs a
    /// body once per interval during the term.
    pub fn wait(&self, duration: Duration) -> bool {
        self.term.wait(duration)
    }

    /// Calls `call` once the term has ended, or immediately if the term has ended.
    ///
    /// A thread that starts now waits for the end. A panic of `call` is caught and logged.
    ///
    /// # Errors
    ///
    /// - Returns [`Error::Thread`] if the operating system cannot start the thread. The callback is then never called.
    pub fn on_ended(&self, call: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        self.term.on_ended(call)
    }

    /// Reports progress of the work and returns `true` if the term is still valid.
    ///
    /// If [`progress_timeout`](crate::LeaderElectorBuilder::progress_timeout) is set, the term ends when no progress is
    /// reported for that time. A late report does not revive a term that has ended. Without a progress timeout, this
    /// method only returns the result of [`is_leader`](Self::is_leader).
    ///
    /// Several workers that report through the guard hide a worker that hangs. Give each worker a
    /// [`progress_handle`](Self::progress_handle) instead. While such handles exist, this method reports nothing.
    /// Reports still count after a step-down, although this method then returns `false`, because finishing work is
    /// progress too.
    ///
    /// A call takes about 50 ns and does not affect other terms.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use leasehold::store::MemoryStore;
    /// use leasehold::LeaderElector;
    ///
    /// let builder = LeaderElector::builder("jobs").progress_timeout(Duration::from_secs(60));
    /// let elector = builder.start_on(MemoryStore::new())?;
    /// let guard = elector.block_until_leader()?;
    /// while guard.report_progress() {
    ///     // one unit of work that takes less than a minute
    ///     # break;
    /// }
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn report_progress(&self) -> bool {
        self.term.report_progress()
    }

    /// Returns a handle by which one of several workers reports progress.
    ///
    /// [`ProgressHandle`] describes how the reports of several workers are combined.
    pub fn progress_handle(&self) -> ProgressHandle {
        ProgressHandle::new(Arc::clone(&self.term))
    }

    /// Ends the term but keeps the lease until the guard is dropped.
    ///
    /// Use this method to finish work before another candidate may lead. Every view of the term is invalid from now on,
    /// and [`ended`](Self::ended) disconnects. The lease is renewed until the guard is dropped, at most for the [drain
    /// timeout](crate::LeaderElectorBuilder::drain_timeout) if one is set. Does nothing if the guard was dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example(guard: &leasehold::LeaderGuard) {
    /// guard.step_down();
    /// assert!(!guard.is_leader());
    /// // finish work; this candidate still holds the lease
    /// # }
    /// ```
    pub fn step_down(&self) {
        self.link.step_down(&self.term, DrainLimit::AsSet);
    }

    /// Ends the term and keeps the lease for at most `limit`.
    ///
    /// After `limit`, renewals stop and the lease expires, even if the guard still exists. Zero stops renewals at once.
    /// If several limits apply, the shortest one counts. The limit bounds the time that standbys wait. The limit does
    /// not bound the time of the work.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example(guard: &leasehold::LeaderGuard) {
    /// // Work may take 30 s to finish. A standby leads at most one lease duration after that.
    /// guard.step_down_within(std::time::Duration::from_secs(30));
    /// # }
    /// ```
    pub fn step_down_within(&self, limit: Duration) {
        self.link.step_down(&self.term, DrainLimit::Within(limit));
    }
}

debug_fields!(impl Debug for Leadership { self => fencing_token: self.fencing_token(), remaining: self.remaining() });

// A panic cannot leave a term half-changed. Each change is an atomic write, or a write under a lock that calls no other
// code.
impl UnwindSafe for LeaderGuard {}
impl RefUnwindSafe for LeaderGuard {}
impl UnwindSafe for Leadership {}
impl RefUnwindSafe for Leadership {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::candidate::messages::Input;
    use crate::election::deadline::Deadline;
    use crate::leadership::handle::Command;
    use crate::leadership::handle::tests::link;
    use crate::util::clock;

    fn leading() -> (LeaderGuard, Receiver<Command>) {
        let (link, commands) = link();
        let deadline = Arc::new(Deadline::new(clock::now() + Duration::from_secs(3_600)));
        (LeaderGuard::new(Arc::new(Term::new(deadline, 7)), link), commands)
    }

    /// Takes all commands, which must be step-downs. Returns their limits.
    fn step_downs(commands: &Receiver<Command>) -> Vec<DrainLimit> {
        let limit = |command| match command {
            Command::Input(Input::StepDown(limit)) => limit,
            _ => panic!("another command"),
        };
        commands.try_iter().map(limit).collect()
    }

    #[test]
    fn step_down_is_sent_once() {
        let (guard, commands) = leading();
        for _ in 0..3 {
            guard.step_down();
        }
        assert_eq!(step_downs(&commands), [DrainLimit::AsSet]);
        guard.step_down_within(Duration::ZERO);
        guard.step_down();
        assert_eq!(step_downs(&commands), [DrainLimit::Within(Duration::ZERO)]);
        let view = guard.leadership();
        guard.forget();
        view.step_down_within(Duration::ZERO);
        assert!(commands.try_iter().next().is_none(), "the guard is gone");
    }

    #[test]
    fn a_panic_in_a_scope_steps_down_with_a_bound() {
        for in_thread in [false, true] {
            let (guard, commands) = leading();
            let panic = || -> () { std::panic::resume_unwind(Box::new("as planned")) };
            let scope = || guard.scope(|scope| if in_thread { drop(scope.spawn(panic)) } else { panic() });
            assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(scope)).is_err());
            assert_eq!(step_downs(&commands), [DrainLimit::Bounded]);
            guard.forget();
        }
    }
}
