//! One term: what its guard, its views and the elector's thread share, and the views.

use std::convert::Infallible;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

use crate::clock;
use crate::election::deadline::Deadline;
use crate::stop_reason::StopReason;
use crate::sync::channel::{self, Receiver, Sender};
use crate::sync::{Arc, Mutex};

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
///         println!("token {}, covered for {:?}", leadership.fencing_token(), leadership.remaining());
///         // one unit of work
///     }
/// });
/// let leadership = guard.leadership();
/// std::thread::spawn(move || {
///     let _ = leadership.lost().recv(); // blocks until the term is over
///     println!("{}", leadership.check().unwrap_err());
/// });
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone)]
pub struct Leadership {
    term: Arc<Term>,
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
    /// Whether the elector has been told of a step-down, or is not to be told of one any more.
    told: Mutex<bool>,
}

impl Term {
    pub(crate) fn new(deadline: Arc<Deadline>, fencing_token: u64) -> Self {
        let (sender, lost) = channel::bounded(0);
        Self { deadline, fencing_token, lost, end: Mutex::new(Some(sender)), told: Mutex::new(false) }
    }

    /// Ends the term for every view, and wakes who waits for that. The first reason stands, and is given back; a term
    /// that had run out by then ended by that.
    pub(crate) fn end(&self, reason: StopReason) -> StopReason {
        let reason = self.deadline.end(clock::now(), reason);
        *self.end.lock() = None;
        reason
    }

    /// Ends the term while its record stays ours. Has the elector left word of it once, and never after the guard is gone: it
    /// would take it for the end of the next term. True if it was.
    pub(crate) fn step_down(&self, leave_word: impl FnOnce()) -> bool {
        self.end(StopReason::SteppedDown);
        let mut told = self.told.lock();
        let is_news = !std::mem::replace(&mut *told, true);
        if is_news {
            leave_word();
        }
        is_news
    }

    /// Before the guard goes.
    pub(crate) fn close(&self) {
        *self.told.lock() = true;
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.deadline.is_valid(clock::now())
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.deadline.remaining(clock::now())
    }

    pub(crate) fn check(&self) -> Result<(), LeadershipLost> {
        if self.is_valid() {
            return Ok(());
        }
        Err(LeadershipLost { reason: self.deadline.reason() })
    }

    pub(crate) fn fencing_token(&self) -> u64 {
        self.fencing_token
    }

    pub(crate) fn lost(&self) -> &Receiver<Infallible> {
        &self.lost
    }
}

impl Leadership {
    pub(crate) fn of(term: Arc<Term>) -> Self {
        Self { term }
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
    /// [`LeadershipLost`] when the term is over, and why.
    pub fn check(&self) -> Result<(), LeadershipLost> {
        self.term.check()
    }

    /// See [`LeaderGuard::fencing_token`](crate::LeaderGuard::fencing_token).
    pub fn fencing_token(&self) -> u64 {
        self.term.fencing_token
    }

    /// See [`LeaderGuard::lost`](crate::LeaderGuard::lost).
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

impl fmt::Display for LeadershipLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "leadership lost: {}", self.reason)
    }
}

impl std::error::Error for LeadershipLost {}
