//! The guard of a term, and views of the term.

use std::convert::Infallible;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

use crate::election::drain::DrainLimit;
use crate::leadership::error::Error;
use crate::leadership::handle::{LOGGED_WITHIN, Link};
use crate::leadership::progress::ProgressHandle;
use crate::leadership::term::{Term, TermEnded};
use crate::util::log_fields::log_with;
use crate::util::sync::channel;
use crate::util::sync::channel::Receiver;
use crate::util::sync::{Arc, thread};

mod scope;
mod worker;

pub use scope::Scope;
pub use worker::Worker;

/// The lease is ours for as long as this lives and [`is_leader`](Self::is_leader) says so.
///
/// Dropping the guard releases the lease: every view turns false first, then the release is sent, and the drop blocks
/// until it is written, at most for the release timeout, so that the process may exit right after. A standby leads
/// within milliseconds of that. The drop never panics.
///
/// A term can end while the guard lives: when renewals fail for as long as the renew deadline, when the lease is
/// deleted or taken, when its work makes no progress or the candidate is not fit, where that is asked. Then [`is_leader`](Self::is_leader) is false for good, [`ended`](Self::ended) fires, and nothing is
/// released until the guard is dropped: work that is still winding down is not overlapped sooner than it must be.
///
/// A guard that is leaked (`std::mem::forget`) leads until the process ends, or its work is found to make no progress.
///
/// A child made by `fork` has a copy of the guard and none of the threads that renew the lease: to release or step down there is
/// refused, at once, and dropping it does nothing. What [`is_leader`](Self::is_leader) says there is not covered by any promise:
/// it knows of no term that its parent has lost since. A program that forks and works on in the child is to end its terms before.
///
/// All methods may be called from any thread at any time.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use leasehold::{LeaderElector, LeaderGuard, TermEnded};
///
/// let elector = LeaderElector::builder("jobs").start()?;
/// let guard = elector.block_until_leader()?;
/// # fn execute(statement: &str) {}
/// while guard.is_leader() {
///     // Every write carries the token, and what is written to refuses a lower one.
///     let token = guard.fencing_token();
///     execute(&format!("UPDATE jobs SET done = true, token = {token} WHERE token <= {token}"));
///     if guard.remaining() > Duration::from_secs(5) {
///         // work that takes five seconds, and may be covered to its end
///     }
/// }
///
/// fn in_two_steps(guard: &LeaderGuard) -> Result<(), TermEnded> {
///     guard.check()?;
///     // the first
///     guard.check()?;
///     // the second
///     Ok(())
/// }
///
/// // For other threads, a view that does not keep the term.
/// let view = guard.leadership();
/// std::thread::spawn(move || while view.is_leader() { /* one unit of work */ });
/// # Ok::<(), leasehold::Error>(())
/// ```
#[must_use = "the lease is released when the guard is dropped: bind it to a name"]
pub struct LeaderGuard {
    term: Arc<Term>,
    link: Arc<Link>,
    /// Until its release is another's affair, or done.
    is_held: bool,
}

impl LeaderGuard {
    pub(crate) fn new(term: Arc<Term>, link: Arc<Link>) -> Self {
        Self { term, link, is_held: true }
    }

    /// Whether the term is valid now. Final once false.
    ///
    /// This is the safety check: one atomic load and one clock read, without a lock or an allocation. It is exact also
    /// when every other thread of the process is stopped, and it counts the time that the machine was suspended. What
    /// no check can do is stop work that is already past it; that is what the [fencing token](Self::fencing_token) is
    /// for.
    pub fn is_leader(&self) -> bool {
        self.term.is_valid()
    }

    /// How long the term stays valid without another renewal, and without more progress where the work has to make some. Zero
    /// once it is over.
    pub fn remaining(&self) -> Duration {
        self.term.remaining()
    }

    /// [`is_leader`](Self::is_leader) for `?`.
    ///
    /// # Errors
    ///
    /// [`TermEnded`] when the term is over, and why.
    pub fn check(&self) -> Result<(), TermEnded> {
        self.term.check()
    }

    /// A number that is greater than that of every earlier term, of this and every other candidate, for as long as
    /// the store is not restored from a backup: hand it to what you write to, and let that refuse anything lower than
    /// the highest it has seen.
    ///
    /// It is the `resourceVersion` at which this elector learned that its write had won the lease. Resource versions
    /// of one resource are ordered integers (KEP-5504); they go on growing when the lease is deleted and made anew.
    ///
    /// A token is at most [`i64::MAX`], so a signed 64-bit column (`BIGINT`) of a database can store the token.
    pub fn fencing_token(&self) -> u64 {
        self.term.fencing_token()
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
    ///     recv(guard.ended()) -> _ => println!("the term is over"),
    ///     recv(after(Duration::from_secs(60))) -> _ => println!("still leading, after a minute"),
    /// }
    /// # }
    /// ```
    pub fn ended(&self) -> &Receiver<Infallible> {
        self.term.ended()
    }

    /// A view of this term for other threads.
    pub fn leadership(&self) -> Leadership {
        Leadership::of(Arc::clone(&self.term), Arc::clone(&self.link))
    }

    /// Ends the term without ending the guard: every view is false from now on and [`ended`](Self::ended) fires, while
    /// the lease stays ours, and renewed, until the guard is dropped, or for as long as
    /// [`drain_timeout`](crate::LeaderElectorBuilder::drain_timeout) says. So work that is winding down is still covered.
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
        self.link.step_down(&self.term, DrainLimit::AsSet);
    }

    /// [`step_down`](Self::step_down), and renews for at most `limit` from now on: then the lease is left to run out, while the
    /// guard lives. Zero: it is not renewed any more. Of several limits the first to come counts. It bounds how long others wait, not
    /// how long the work takes.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example(guard: &leasehold::LeaderGuard) {
    /// // The work may take half a minute to end; others lead a lease duration later at the latest.
    /// guard.step_down_within(std::time::Duration::from_secs(30));
    /// # }
    /// ```
    pub fn step_down_within(&self, limit: Duration) {
        self.link.step_down(&self.term, DrainLimit::Within(limit));
    }

    /// Says that the work makes progress, and answers [`is_leader`](Self::is_leader). With
    /// [`progress_timeout`](crate::LeaderElectorBuilder::progress_timeout) the term ends when that is not said for so long; progress
    /// that comes too late revives nothing. Without it this says nothing.
    ///
    /// It touches this term alone, and takes some fifty nanoseconds. Several workers that say it hide one that hangs: give each a
    /// [`progress_handle`](Self::progress_handle); while there are such handles this says nothing. Also after a step-down, when it is false, it counts: winding down is work.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use leasehold::{LeaderElector, MemoryStore};
    ///
    /// let builder = LeaderElector::builder("jobs").progress_timeout(Duration::from_secs(60));
    /// let elector = builder.start_on(MemoryStore::new())?;
    /// let guard = elector.block_until_leader()?;
    /// while guard.report_progress() {
    ///     // one unit of work, that takes less than a minute
    ///     # break;
    /// }
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn report_progress(&self) -> bool {
        self.term.report_progress()
    }

    /// A handle for the progress of one of several workers: see [`ProgressHandle`].
    pub fn progress_handle(&self) -> ProgressHandle {
        ProgressHandle::new(Arc::clone(&self.term))
    }

    /// As after a panic of the work.
    fn step_down_after_panic(&self) {
        self.link.step_down(&self.term, DrainLimit::Bounded);
    }

    /// Releases the lease like a drop, and says whether that was confirmed.
    ///
    /// # Errors
    ///
    /// [`Error::ReleaseTimeout`] when the release timeout passed before the store had confirmed it; [`Error::Stopped`] when
    /// the elector's thread has panicked. Either way others take over when the lease runs out. [`Error::Forked`], at once, in a
    /// forked child: the lease stays its parent's.
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
        if self.link.is_forked() {
            return Err(Error::Forked);
        }
        self.term.close();
        self.is_held = false;
        self.link.release()
    }

    /// Ends the term and leaves its release to the caller.
    pub(crate) fn forget(mut self) {
        self.is_held = false;
    }

    /// Releases a term that nobody took.
    pub(crate) fn abandon(mut self) {
        self.term.close();
        self.is_held = false;
        self.link.release_untaken();
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
            let fields = self.link.log_fields(Some(self.term.fencing_token()));
            let (logging, logged) = channel::bounded::<Infallible>(0);
            let log = move || {
                log_with!(log::Level::Warn, fields, error = error.to_string().as_str(); "{error}");
                drop(logging);
            };
            // On another thread, because a logger may hang.
            let _ = thread::Builder::new().name("leasehold-log".to_owned()).spawn(log);
            let _ = logged.recv_timeout(LOGGED_WITHIN);
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

/// A view of one term: it can be cloned and sent to other threads, asked, and waited on. It can end the term, and not release it.
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
///         println!("token {}, covered for {:?}", leadership.fencing_token(), leadership.remaining());
///         // one unit of work
///     }
/// });
/// let leadership = guard.leadership();
/// std::thread::spawn(move || {
///     let _ = leadership.ended().recv(); // blocks until the term is over
///     println!("{}", leadership.check().unwrap_err());
/// });
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone)]
pub struct Leadership {
    term: Arc<Term>,
    link: Arc<Link>,
}

impl Leadership {
    pub(crate) fn of(term: Arc<Term>, link: Arc<Link>) -> Self {
        Self { term, link }
    }

    /// See [`LeaderGuard::is_leader`](crate::LeaderGuard::is_leader).
    pub fn is_leader(&self) -> bool {
        self.term.is_valid()
    }

    /// See [`LeaderGuard::remaining`](crate::LeaderGuard::remaining).
    pub fn remaining(&self) -> Duration {
        self.term.remaining()
    }

    /// See [`LeaderGuard::check`](crate::LeaderGuard::check).
    ///
    /// # Errors
    ///
    /// [`TermEnded`] when the term is over, and why.
    pub fn check(&self) -> Result<(), TermEnded> {
        self.term.check()
    }

    /// See [`LeaderGuard::fencing_token`](crate::LeaderGuard::fencing_token).
    pub fn fencing_token(&self) -> u64 {
        self.term.fencing_token()
    }

    /// See [`LeaderGuard::ended`](crate::LeaderGuard::ended).
    pub fn ended(&self) -> &Receiver<Infallible> {
        self.term.ended()
    }

    /// See [`LeaderGuard::report_progress`](crate::LeaderGuard::report_progress).
    pub fn report_progress(&self) -> bool {
        self.term.report_progress()
    }

    /// See [`LeaderGuard::progress_handle`](crate::LeaderGuard::progress_handle).
    pub fn progress_handle(&self) -> ProgressHandle {
        ProgressHandle::new(Arc::clone(&self.term))
    }

    /// See [`LeaderGuard::step_down`](crate::LeaderGuard::step_down): whoever has a view can end the term, and the guard stays with
    /// its owner. Nothing when the guard is gone.
    pub fn step_down(&self) {
        self.link.step_down(&self.term, DrainLimit::AsSet);
    }

    /// See [`LeaderGuard::step_down_within`](crate::LeaderGuard::step_down_within).
    pub fn step_down_within(&self, limit: Duration) {
        self.link.step_down(&self.term, DrainLimit::Within(limit));
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

// A panic cannot leave a term half-changed: its one atomic, and a pair that is written under a lock without calling
// anything, are all there is to it.
impl UnwindSafe for LeaderGuard {}
impl RefUnwindSafe for LeaderGuard {}
impl UnwindSafe for Leadership {}
impl RefUnwindSafe for Leadership {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::candidate::session::Input;
    use crate::election::deadline::Deadline;
    use crate::leadership::handle::Command;
    use crate::leadership::handle::tests::link;
    use crate::util::clock;

    fn leading() -> (LeaderGuard, Receiver<Command>) {
        let (link, commands) = link();
        let deadline = Arc::new(Deadline::new(clock::now() + Duration::from_secs(3_600)));
        (LeaderGuard::new(Arc::new(Term::new(deadline, 7)), link), commands)
    }

    #[test]
    fn step_down_is_sent_once() {
        let (guard, commands) = leading();
        for _ in 0..3 {
            guard.step_down();
        }
        assert!(matches!(
            commands.try_iter().collect::<Vec<_>>()[..],
            [Command::Input(Input::StepDown(DrainLimit::AsSet))]
        ));
        guard.step_down_within(Duration::ZERO);
        guard.step_down();
        let limit = DrainLimit::Within(Duration::ZERO);
        assert!(
            matches!(commands.try_iter().collect::<Vec<_>>()[..], [Command::Input(Input::StepDown(told))] if told == limit)
        );
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
            assert!(matches!(
                commands.try_iter().collect::<Vec<_>>()[..],
                [Command::Input(Input::StepDown(DrainLimit::Bounded))]
            ));
            guard.forget();
        }
    }
}
