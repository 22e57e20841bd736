//! One term: the state that the guard, its views and the elector's thread share.

use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

use crate::election::deadline::Deadline;
use crate::election::drain::DrainLimit;
use crate::election::stop_reason::StopReason;
use crate::util::clock;
use crate::util::sync::channel::{self, Receiver, Sender};
use crate::util::sync::{Arc, AtomicBool, AtomicU64, Mutex};

/// The error of [`LeaderGuard::check`](crate::LeaderGuard::check): the term has ended.
///
/// Use the error with `?` in protected work.
///
/// # Examples
///
/// ```
/// use leasehold::{LeaderGuard, TermEnded};
///
/// fn step(guard: &LeaderGuard) -> Result<(), TermEnded> {
///     guard.check()?;
///     // write something, with guard.fencing_token()
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TermEnded {
    /// The reason for the end.
    pub reason: StopReason,
}

/// The state of one term that the guard, its views and the elector's thread share.
pub(crate) struct Term {
    pub(crate) deadline: Arc<Deadline>,
    pub(crate) fencing_token: u64,
    pub(crate) ended: Receiver<Infallible>,
    /// Dropped at the end of the term, so that `ended` disconnects.
    end: Mutex<Option<Sender<Infallible>>>,
    step_down_notice: Mutex<StepDownNotice>,
    /// The last report of each progress handle.
    pub(super) progress_reports: Mutex<Vec<Arc<ProgressReport>>>,
}

/// The last progress report of one worker.
pub(super) struct ProgressReport {
    pub(super) at: AtomicU64,
    /// `true` after a panic has dropped the handle.
    pub(super) is_abandoned: AtomicBool,
}

/// The last notice of a step-down that the elector received.
#[derive(PartialEq, Eq)]
enum StepDownNotice {
    Nothing,
    SteppedDown,
    /// The guard is dropped. A later notice would end the elector's next term.
    Closed,
}

impl Term {
    pub(crate) fn new(deadline: Arc<Deadline>, fencing_token: u64) -> Self {
        let (sender, ended) = channel::bounded(0);
        let (end, step_down_notice) = (Mutex::new(Some(sender)), Mutex::new(StepDownNotice::Nothing));
        Self { deadline, fencing_token, ended, end, step_down_notice, progress_reports: Mutex::default() }
    }

    /// Ends the term for every view, wakes all waiters, and returns the first reason.
    ///
    /// If the term had expired before, the reason is the expiry.
    pub(crate) fn end(&self, reason: StopReason) -> StopReason {
        let reason = self.deadline.end(clock::now(), reason);
        *self.end.lock() = None;
        reason
    }

    /// Ends the term and keeps the record.
    ///
    /// Calls `send` only if the elector does not have this notice yet and the guard still exists.
    pub(crate) fn step_down(&self, limit: DrainLimit, send: impl FnOnce()) {
        self.end(StopReason::SteppedDown);
        let mut notice = self.step_down_notice.lock();
        // A repeated step-down is sent only if the repetition sets a limit.
        if *notice == StepDownNotice::Nothing || (*notice == StepDownNotice::SteppedDown && limit != DrainLimit::AsSet)
        {
            *notice = StepDownNotice::SteppedDown;
            send();
        }
    }

    /// Ends the term before its release. No notice of a step-down may follow.
    pub(crate) fn close(&self) {
        self.end(StopReason::Released);
        *self.step_down_notice.lock() = StepDownNotice::Closed;
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.deadline.is_valid(clock::now())
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.deadline.remaining(clock::now())
    }

    pub(crate) fn check(&self) -> Result<(), TermEnded> {
        if self.is_valid() {
            return Ok(());
        }
        Err(TermEnded { reason: self.deadline.reason() })
    }
}

impl fmt::Display for TermEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "term ended: {}", self.reason)
    }
}

impl std::error::Error for TermEnded {}
