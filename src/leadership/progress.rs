//! Progress reports of the leader's work, by one worker or by several.

use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::leadership::term::{ProgressReport, Term};
use crate::util::clock::{self, Moment};
use crate::util::debug_fields::debug_fields;
use crate::util::sync::{Arc, AtomicBool, AtomicU64, Ordering};

/// A handle by which one of several workers reports progress.
///
/// [`Leadership::progress_handle`](crate::Leadership::progress_handle) creates a handle. The oldest of the workers'
/// last reports counts.
///
/// Several workers that report through the guard hide a worker that hangs. If each worker has a handle, the term ends
/// when any worker reports no progress for [`progress_timeout`](crate::LeaderElectorBuilder::progress_timeout). An idle
/// worker must call [`report`](Self::report), or drop its handle.
///
/// While handles exist, [`Leadership::report_progress`](crate::Leadership::report_progress) has no effect. Creating
/// or dropping a handle counts as progress. A handle that is dropped by a panic still counts as a worker without
/// progress, so the term ends.
///
/// # Examples
///
/// ```
/// use std::thread;
/// use std::time::Duration;
/// use leasehold::store::MemoryStore;
/// use leasehold::LeaderElector;
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
    report: Arc<ProgressReport>,
}

impl Term {
    /// Reports progress through the guard. The report counts only if no handle exists.
    ///
    /// Returns `true` if the term is valid.
    pub(crate) fn report_progress(&self) -> bool {
        let now = clock::now();
        match self.deadline.progress_limit() {
            Some(_) if self.oldest().is_none() => self.deadline.report_progress(now, now),
            _ => self.deadline.is_valid(now),
        }
    }

    /// Records the progress of the slowest worker. Returns `true` if the term is valid.
    fn judge(&self, now: Moment) -> bool {
        // Another worker may have reported after `now` was read.
        self.deadline.report_progress(now, self.oldest().unwrap_or(now).min(now))
    }

    /// Returns the last report of the slowest worker, or `None` if no handle counts.
    fn oldest(&self) -> Option<Moment> {
        let progress_reports = self.progress_reports.lock();
        // After the end of the term, a worker that panicked no longer counts, because only the remaining workers drain.
        let is_ended = self.deadline.was_ended_early();
        let counting =
            progress_reports.iter().filter(|report| !(is_ended && report.is_abandoned.load(Ordering::SeqCst)));
        counting.map(|report| report.at.load(Ordering::SeqCst)).min().map(Moment::from_nanos)
    }
}

impl ProgressHandle {
    pub(crate) fn new(term: Arc<Term>) -> Self {
        let now = clock::now();
        let report =
            Arc::new(ProgressReport { at: AtomicU64::new(now.as_nanos()), is_abandoned: AtomicBool::new(false) });
        term.progress_reports.lock().push(Arc::clone(&report));
        term.judge(now);
        Self { term, report }
    }

    /// Reports progress of this worker and returns `true` if the term is still valid.
    ///
    /// The result is that of [`Leadership::is_leader`](crate::Leadership::is_leader). A late report does not revive a
    /// term that has ended.
    pub fn report(&self) -> bool {
        let now = clock::now();
        self.report.at.store(now.as_nanos(), Ordering::SeqCst);
        self.term.judge(now)
    }
}

impl Drop for ProgressHandle {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.report.is_abandoned.store(true, Ordering::SeqCst);
        } else {
            self.term.progress_reports.lock().retain(|other| !Arc::ptr_eq(other, &self.report));
            self.term.judge(clock::now());
        }
    }
}

debug_fields!(impl Debug for ProgressHandle { self => .. });

// A panic cannot leave the handle half-changed, because each report is one atomic write.
impl UnwindSafe for ProgressHandle {}
impl RefUnwindSafe for ProgressHandle {}
