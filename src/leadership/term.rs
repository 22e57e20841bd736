//! One term: the state that the guard, its views and the elector's thread share.

use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

use crate::election::deadline::Deadline;
use crate::election::drain::DrainLimit;
use crate::election::stop_reason::StopReason;
use crate::leadership::error::Error;
use crate::util::clock;
use crate::util::debug_fields::debug_as_display;
use crate::util::latch::Latch;
use crate::util::panics::{caught, log_line};
use crate::util::sync::channel::{Receiver, RecvTimeoutError};
use crate::util::sync::{Arc, AtomicBool, AtomicU64, Instant, Mutex, thread};

/// The error of [`Leadership::check`](crate::Leadership::check): the term has ended.
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
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TermEnded {
    /// The reason for the end.
    pub reason: StopReason,
}

/// The interval at which a thread that waits for an end reads the clock again.
const LONG: Duration = Duration::from_secs(3_600);

/// The state of one term that the guard, its views and the elector's thread share.
pub(crate) struct Term {
    pub(crate) deadline: Arc<Deadline>,
    pub(crate) fencing_token: u64,
    /// Set at the end of the term.
    pub(crate) ended: Latch,
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
        let step_down_notice = Mutex::new(StepDownNotice::Nothing);
        Self { deadline, fencing_token, ended: Latch::new(), step_down_notice, progress_reports: Mutex::default() }
    }

    /// Ends the term for every view, wakes all waiters, and returns the first reason.
    ///
    /// If the term had expired before, the reason is the expiry.
    pub(crate) fn end(&self, reason: StopReason) -> StopReason {
        let reason = self.deadline.end(clock::now(), reason);
        self.ended.set();
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

    /// Sleeps for `duration`, at most until the end of the term. Returns `true` if the term is valid.
    pub(crate) fn wait(&self, duration: Duration) -> bool {
        wait_while(self.ended.receiver(), duration, || self.remaining())
    }

    /// Calls `call` once the term has ended, on a thread of its own.
    pub(crate) fn on_ended(self: &Arc<Self>, call: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        let term = Arc::clone(self);
        call_at_end(self.ended.receiver().clone(), move || term.remaining(), call)
    }

    pub(crate) fn check(&self) -> Result<(), TermEnded> {
        if self.is_valid() {
            return Ok(());
        }
        Err(TermEnded { reason: self.deadline.reason() })
    }
}

/// Sleeps for `duration`, at most until `ended` disconnects or `remaining` returns zero.
///
/// Returns `false` after the end. The thread that disconnects `ended` may be late, so the sleep also ends with the
/// remaining validity.
pub(crate) fn wait_while(ended: &Receiver<Infallible>, duration: Duration, remaining: impl Fn() -> Duration) -> bool {
    let began = Instant::now();
    loop {
        let (left, remaining) = (duration.saturating_sub(began.elapsed()), remaining());
        if left.is_zero() || remaining.is_zero() {
            return !remaining.is_zero();
        }
        if ended.recv_timeout(left.min(remaining)) == Err(RecvTimeoutError::Disconnected) {
            return false;
        }
    }
}

/// Calls `call` once `ended` disconnects or `remaining` returns zero, on a thread that starts now.
pub(crate) fn call_at_end(
    ended: Receiver<Infallible>,
    remaining: impl Fn() -> Duration + Send + 'static,
    call: impl FnOnce() + Send + 'static,
) -> Result<(), Error> {
    let run = move || {
        while wait_while(&ended, LONG, &remaining) {}
        if caught(call).is_none() {
            log_line!(error, "on_ended callback panicked");
        }
    };
    thread::Builder::new().name("leasehold-ended".into()).spawn(run).map(drop).map_err(Error::thread)
}

debug_as_display!(TermEnded);

impl fmt::Display for TermEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "term ended: {}", self.reason)
    }
}

impl std::error::Error for TermEnded {}
