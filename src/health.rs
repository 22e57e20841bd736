//! Health, for a liveness probe.

use std::fmt;
use std::time::Duration;

use crate::clock::{self, Moment};
use crate::sync::{Arc, Mutex};

/// Tells when work goes on for too long after its term ended: the guard is still there although the term has been over
/// for longer than a lease.
///
/// Such a process holds on to what it should have let go. Answer a liveness probe with it, and the process is restarted.
/// client-go has the same in its `HealthzAdaptor`. May be cloned and asked from any thread.
///
/// # Examples
///
/// ```no_run
/// # use leasehold::LeaderElector;
/// let elector = LeaderElector::builder("jobs").start()?;
/// let health = elector.health_check();
/// let status = match health.check() {
///     Ok(()) => "200 OK",
///     Err(unhealthy) => { log::error!("{unhealthy}"); "500 Internal Server Error" }
/// };
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct HealthCheck {
    ended: Arc<Mutex<Option<Moment>>>,
    tolerance: Duration,
}

/// A term has been over for too long while its guard was not dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unhealthy {
    /// How long the term has been over.
    pub over_for: Duration,
}

impl HealthCheck {
    pub(crate) fn new(tolerance: Duration) -> Self {
        Self { ended: Arc::new(Mutex::new(None)), tolerance }
    }

    /// Asks.
    ///
    /// # Errors
    ///
    /// [`Unhealthy`] when a term has been over for longer than the lease duration and its guard is not dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn example(health: &leasehold::HealthCheck) {
    /// if let Err(unhealthy) = health.check() {
    ///     eprintln!("{unhealthy}");
    /// }
    /// # }
    /// ```
    pub fn check(&self) -> Result<(), Unhealthy> {
        let Some(ended) = *self.ended.lock() else { return Ok(()) };
        let over_for = clock::now().since(ended);
        if over_for > self.tolerance { Err(Unhealthy { over_for }) } else { Ok(()) }
    }

    pub(crate) fn term_ended(&self) {
        self.ended.lock().get_or_insert_with(clock::now);
    }

    pub(crate) fn guard_gone(&self) {
        *self.ended.lock() = None;
    }
}

impl fmt::Display for Unhealthy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounded = Duration::from_millis(self.over_for.as_millis() as u64);
        write!(
            f,
            "the term has been over for {} and its guard is not dropped: protected work does not end",
            humantime::format_duration(rounded)
        )
    }
}

impl std::error::Error for Unhealthy {}
