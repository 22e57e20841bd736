//! Progress of the leader's work, of which several parts may have to make some.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::leadership::term::{Stamp, Term};
use crate::util::clock;
use crate::util::clock::Moment;
use crate::util::sync::{Arc, AtomicBool, AtomicU64, Ordering};

/// The progress of one of several workers: of all that there are, the one that is furthest behind counts. Made by
/// [`LeaderGuard::progress_handle`](crate::LeaderGuard::progress_handle).
///
/// Several workers that report as one hide one that hangs: with a handle each the term ends when any of them makes no progress
/// for [`progress_timeout`](crate::LeaderElectorBuilder::progress_timeout). A worker that has nothing to do is to say so by
/// [`report`](Self::report), too, or drop its handle. While there are handles
/// [`LeaderGuard::report_progress`](crate::LeaderGuard::report_progress) counts nothing. A handle that is dropped by a panic counts on, so that
/// the term ends.
///
/// # Examples
///
/// ```
/// use std::thread;
/// use std::time::Duration;
/// use leasehold::{LeaderElector, MemoryStore};
///
/// let builder = LeaderElector::builder("jobs").progress_timeout(Duration::from_secs(60));
/// let elector = builder.start_on(MemoryStore::new())?;
/// let guard = elector.block_until_leader()?;
/// let workers: Vec<_> = (0..4).map(|_| guard.progress_handle()).collect();
/// guard.scope(|scope| {
///     for progress in workers {
///         scope.spawn(move || {
///             while progress.report() {
///                 // one unit of work
///                 # break;
///             }
///         });
///     }
/// });
/// # Ok::<(), leasehold::Error>(())
/// ```
#[must_use = "a handle that is dropped does not count"]
pub struct ProgressHandle {
    term: Arc<Term>,
    stamp: Arc<Stamp>,
}

impl Term {
    /// What makes progress now, and is no handle: it counts where there is none. Whether the term is valid.
    pub(crate) fn report_progress(&self) -> bool {
        let now = clock::now();
        match self.deadline.progress_limit() {
            Some(_) if self.oldest().is_none() => self.deadline.progress(now, now),
            _ => self.deadline.is_valid(now),
        }
    }

    /// One of several workers has made progress now. Whether the term is valid.
    fn judge(&self, now: Moment) -> bool {
        // Another may have done so later than this has read the clock.
        self.deadline.progress(now, self.oldest().unwrap_or(now).min(now))
    }

    /// When the one that is furthest behind was stamped; `None` where none counts.
    fn oldest(&self) -> Option<Moment> {
        let stamps = self.stamps.lock();
        // Who has panicked has ended the term; of what winds down it is no part.
        let is_ended = self.deadline.was_ended();
        let counting = stamps.iter().filter(|stamp| !(is_ended && stamp.is_abandoned.load(Ordering::SeqCst)));
        counting.map(|stamp| stamp.at.load(Ordering::SeqCst)).min().map(Moment::from_nanos)
    }
}

impl ProgressHandle {
    pub(crate) fn new(term: Arc<Term>) -> Self {
        let now = clock::now();
        let stamp = Arc::new(Stamp { at: AtomicU64::new(now.as_nanos()), is_abandoned: AtomicBool::new(false) });
        term.stamps.lock().push(Arc::clone(&stamp));
        term.judge(now);
        Self { term, stamp }
    }

    /// This worker makes progress. Whether the term is valid, as [`LeaderGuard::is_leader`](crate::LeaderGuard::is_leader) says.
    /// Progress that comes too late revives nothing.
    pub fn report(&self) -> bool {
        let now = clock::now();
        self.stamp.at.store(now.as_nanos(), Ordering::SeqCst);
        self.term.judge(now)
    }
}

impl Drop for ProgressHandle {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.stamp.is_abandoned.store(true, Ordering::SeqCst);
        } else {
            self.term.stamps.lock().retain(|other| !Arc::ptr_eq(other, &self.stamp));
            self.term.judge(clock::now());
        }
    }
}

impl fmt::Debug for ProgressHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgressHandle").finish_non_exhaustive()
    }
}

// A stamp is one atomic.
impl UnwindSafe for ProgressHandle {}
impl RefUnwindSafe for ProgressHandle {}
