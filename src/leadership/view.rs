//! Views of one term.

use std::convert::Infallible;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

use crate::election::wind_down::WindDown;
use crate::leadership::handle::Link;
use crate::leadership::progress::Progress;
use crate::leadership::term::{LeadershipLost, Term};
use crate::util::sync::Arc;
use crate::util::sync::channel::Receiver;

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
///     let _ = leadership.lost().recv(); // blocks until the term is over
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
    /// [`LeadershipLost`] when the term is over, and why.
    pub fn check(&self) -> Result<(), LeadershipLost> {
        self.term.check()
    }

    /// See [`LeaderGuard::fencing_token`](crate::LeaderGuard::fencing_token).
    pub fn fencing_token(&self) -> u64 {
        self.term.fencing_token()
    }

    /// See [`LeaderGuard::lost`](crate::LeaderGuard::lost).
    pub fn lost(&self) -> &Receiver<Infallible> {
        self.term.lost()
    }

    /// See [`LeaderGuard::progress`](crate::LeaderGuard::progress).
    pub fn progress(&self) -> bool {
        self.term.progress()
    }

    /// See [`LeaderGuard::progress_handle`](crate::LeaderGuard::progress_handle).
    pub fn progress_handle(&self) -> Progress {
        self.term.progress_handle()
    }

    /// See [`LeaderGuard::step_down`](crate::LeaderGuard::step_down): whoever has a view can end the term, and the guard stays with
    /// its owner. Nothing when the guard is gone.
    pub fn step_down(&self) {
        self.link.step_down(&self.term, WindDown::AsSet);
    }

    /// See [`LeaderGuard::step_down_within`](crate::LeaderGuard::step_down_within).
    pub fn step_down_within(&self, limit: Duration) {
        self.link.step_down(&self.term, WindDown::Within(limit));
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
