//! The leader's hand on its term.

use std::convert::Infallible;
use std::fmt;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::time::Duration;

use crate::error::Error;
use crate::handle::{Command, Link};
use crate::log_fields::log_with;
use crate::stop_reason::StopReason;
use crate::sync::Arc;
use crate::sync::channel::Receiver;
use crate::term::{Leadership, LeadershipLost, Term};

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
/// deleted or taken. Then [`is_leader`](Self::is_leader) is false for good, [`lost`](Self::lost) fires, and nothing is
/// released until the guard is dropped: work that is still winding down is not overlapped sooner than it must be.
///
/// A guard that is leaked (`std::mem::forget`) leads until the process ends.
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
/// use leasehold::{LeaderElector, LeaderGuard, LeadershipLost};
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
/// fn in_two_steps(guard: &LeaderGuard) -> Result<(), LeadershipLost> {
///     guard.check()?;
///     // the first
///     guard.check()?;
///     // the second
///     Ok(())
/// }
///
/// // For other threads, a view that can neither end the term nor keep it.
/// let view = guard.leadership();
/// std::thread::spawn(move || while view.is_leader() { /* one unit of work */ });
/// # Ok::<(), leasehold::Error>(())
/// ```
#[must_use = "the lease is released when the guard is dropped: bind it to a name"]
pub struct LeaderGuard {
    term: Arc<Term>,
    link: Option<Arc<Link>>,
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
    pub fn is_leader(&self) -> bool {
        self.term.is_valid()
    }

    /// How long the term stays valid without another renewal. Zero once it is over.
    pub fn remaining(&self) -> Duration {
        self.term.remaining()
    }

    /// [`is_leader`](Self::is_leader) for `?`.
    ///
    /// # Errors
    ///
    /// [`LeadershipLost`] when the term is over, and why.
    pub fn check(&self) -> Result<(), LeadershipLost> {
        self.term.check()
    }

    /// A number that is greater than that of every earlier term, of this and every other candidate, for as long as
    /// the store is not restored from a backup: hand it to what you write to, and let that refuse anything lower than
    /// the highest it has seen.
    ///
    /// It is the `resourceVersion` at which this elector learned that its write had won the lease. Resource versions
    /// of one resource are ordered integers (KEP-5504); they go on growing when the lease is deleted and made anew.
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
    ///     recv(guard.lost()) -> _ => println!("the term is over"),
    ///     recv(after(Duration::from_secs(60))) -> _ => println!("still leading, after a minute"),
    /// }
    /// # }
    /// ```
    pub fn lost(&self) -> &Receiver<Infallible> {
        self.term.lost()
    }

    /// A view of this term for other threads.
    pub fn leadership(&self) -> Leadership {
        Leadership::of(Arc::clone(&self.term))
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
        if let Some(link) = &self.link {
            step_down(&self.term, link);
        }
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
        if self.is_forked() {
            return Err(Error::Forked);
        }
        self.term.end(StopReason::Released);
        self.term.close();
        match self.link.take() {
            Some(link) => link.release(),
            None => Ok(()),
        }
    }

    fn is_forked(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.is_forked())
    }

    /// Ends the term and leaves its release to the caller.
    pub(crate) fn forget(mut self) {
        self.link = None;
    }

    /// Releases the lease without waiting for it.
    pub(crate) fn abandon(mut self) {
        self.term.end(StopReason::Released);
        self.term.close();
        if let Some(link) = self.link.take() {
            link.release_later();
        }
    }
}

/// Of whoever has a hand on the term.
pub(crate) fn step_down(term: &Term, link: &Link) {
    if link.is_forked() {
        return;
    }
    if term.step_down(|| link.leave(Command::StepDown)) {
        link.work_off();
    }
}

impl Drop for LeaderGuard {
    fn drop(&mut self) {
        if self.is_forked() {
            return;
        }
        self.term.end(StopReason::Released);
        self.term.close();
        if let Some(link) = self.link.take()
            && let Err(error) = link.release()
        {
            let fields = link.log_fields(Some(self.term.fencing_token()));
            // A second panic on this thread would end the process.
            let _ = catch_unwind(AssertUnwindSafe(|| {
                log_with!(log::Level::Warn, fields, reason = error.to_string().as_str(); "{error}");
            }));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::election::deadline::Deadline;
    use crate::runtime::tests::link;

    #[test]
    fn a_step_down_is_told_once() {
        let (link, commands) = link();
        let deadline = Arc::new(Deadline::new(clock::now() + Duration::from_secs(3_600)));
        let guard = LeaderGuard::new(Arc::new(Term::new(deadline, 7)), link);
        for _ in 0..3 {
            guard.step_down();
        }
        assert!(matches!(commands.try_iter().collect::<Vec<_>>()[..], [Command::StepDown]));
        guard.forget();
    }
}
