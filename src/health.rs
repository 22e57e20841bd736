//! Health, for a liveness probe.

use std::fmt;
use std::time::Duration;

use crate::clock::{self, Moment};
use crate::sync::{Arc, Mutex};

/// Tells when work goes on for too long after its term ended: the guard is still there although the term has been over
/// for longer than a lease. And when the elector's thread has panicked, so that this process never leads again.
///
/// Such a process holds on to what it should have released. Answer a liveness probe with it, and the process is restarted.
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
    state: Arc<Mutex<State>>,
    tolerance: Duration,
}

#[derive(Debug, Default)]
struct State {
    /// Since when a term is over whose guard is not dropped.
    ended: Option<Moment>,
    panicked: bool,
}

/// Why a process should be restarted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unhealthy {
    /// A term has been over for too long while its guard was not dropped.
    GuardNotDropped {
        /// How long the term has been over.
        over_for: Duration,
    },
    /// The elector's thread has panicked, in a [`Store`](crate::Store) or a logger. It campaigns no more.
    ElectorPanicked,
}

impl HealthCheck {
    pub(crate) fn new(tolerance: Duration) -> Self {
        Self { state: Arc::default(), tolerance }
    }

    /// Asks.
    ///
    /// # Errors
    ///
    /// [`Unhealthy`] when a term has been over for longer than the lease duration and its guard is not dropped, or when
    /// the elector's thread has panicked.
    pub fn check(&self) -> Result<(), Unhealthy> {
        let State { ended, panicked } = *self.state.lock();
        if panicked {
            return Err(Unhealthy::ElectorPanicked);
        }
        let Some(ended) = ended else { return Ok(()) };
        let over_for = clock::now().since(ended);
        if over_for > self.tolerance { Err(Unhealthy::GuardNotDropped { over_for }) } else { Ok(()) }
    }

    pub(crate) fn term_ended(&self) {
        self.state.lock().ended.get_or_insert_with(clock::now);
    }

    pub(crate) fn guard_gone(&self) {
        self.state.lock().ended = None;
    }

    pub(crate) fn thread_panicked(&self) {
        self.state.lock().panicked = true;
    }
}

impl fmt::Display for Unhealthy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GuardNotDropped { over_for } => {
                let rounded = Duration::from_millis(over_for.as_millis() as u64);
                write!(
                    f,
                    "the term has been over for {} and its guard is not dropped: protected work does not end",
                    humantime::format_duration(rounded)
                )
            }
            Self::ElectorPanicked => f.write_str("the elector's thread has panicked, and campaigns no more"),
        }
    }
}

impl std::error::Error for Unhealthy {}
