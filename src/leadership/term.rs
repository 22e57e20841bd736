//! One term: what its guard, its views and the elector's thread share.

use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

use crate::election::deadline::Deadline;
use crate::election::drain::DrainLimit;
use crate::election::stop_reason::StopReason;
use crate::util::clock;
use crate::util::clock::Moment;
use crate::util::sync::channel;
use crate::util::sync::channel::{Receiver, Sender};
use crate::util::sync::{Arc, AtomicBool, AtomicU64, Mutex};

/// The term is over, and why, for `?` in protected work.
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
    /// Why the term ended.
    pub reason: StopReason,
}

/// What guard, views and the elector's thread share of one term.
pub(crate) struct Term {
    pub(crate) deadline: Arc<Deadline>,
    fencing_token: u64,
    ended: Receiver<Infallible>,
    /// Dropped at the end of the term, which is what disconnects `ended`.
    end: Mutex<Option<Sender<Infallible>>>,
    told: Mutex<StepDownNotice>,
    /// The stamps of the progress handles.
    pub(super) stamps: Mutex<Vec<Arc<Stamp>>>,
}

/// When one of several workers last made progress.
pub(super) struct Stamp {
    pub(super) at: AtomicU64,
    /// Its handle was dropped by a panic.
    pub(super) is_abandoned: AtomicBool,
}

/// What the elector has been told of a step-down.
#[derive(PartialEq, Eq)]
enum StepDownNotice {
    Nothing,
    SteppedDown,
    /// It is not to be told of one any more: it would take it for the end of the next term.
    Closed,
}

impl Term {
    pub(crate) fn new(deadline: Arc<Deadline>, fencing_token: u64) -> Self {
        let (sender, ended) = channel::bounded(0);
        let (end, told) = (Mutex::new(Some(sender)), Mutex::new(StepDownNotice::Nothing));
        Self { deadline, fencing_token, ended, end, told, stamps: Mutex::default() }
    }

    /// Ends the term for every view, and wakes who waits for that. The first reason stands, and is given back; a term
    /// that had run out by then ended by that.
    pub(crate) fn end(&self, reason: StopReason) -> StopReason {
        let reason = self.deadline.end(clock::now(), reason);
        *self.end.lock() = None;
        reason
    }

    /// Ends the term while its record stays ours, and has the elector left word of how it is renewed, if that is news: never after
    /// the guard is gone.
    pub(crate) fn step_down(&self, limit: DrainLimit, leave_word: impl FnOnce()) {
        self.end(StopReason::SteppedDown);
        let mut told = self.told.lock();
        // Said again it says nothing new, but for a limit.
        if *told == StepDownNotice::Nothing || (*told == StepDownNotice::SteppedDown && limit != DrainLimit::AsSet) {
            *told = StepDownNotice::SteppedDown;
            leave_word();
        }
    }

    /// Ends the term before its guard goes.
    pub(crate) fn close(&self) {
        self.end(StopReason::Released);
        *self.told.lock() = StepDownNotice::Closed;
    }

    /// When the work made progress last, where it has to.
    pub(crate) fn last_progress(&self) -> Option<Moment> {
        self.deadline.progress_limit().map(|limit| limit.last())
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

    pub(crate) fn fencing_token(&self) -> u64 {
        self.fencing_token
    }

    pub(crate) fn ended(&self) -> &Receiver<Infallible> {
        &self.ended
    }
}

impl fmt::Display for TermEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the term has ended: {}", self.reason)
    }
}

impl std::error::Error for TermEnded {}
