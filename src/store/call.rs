//! The timeout and the cancellation of a call to a store.

use std::time::{Duration, SystemTime};

use crate::util::cancel::CancelToken;
use crate::util::sync::{Arc, Instant, OnceLock};

/// The timeout and the cancellation of a call to a [`Store`](crate::store::Store).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use leasehold::store::{CallContext, CancelToken};
///
/// let call = CallContext::new(Duration::from_secs(5), CancelToken::new());
/// assert!(call.remaining() <= Duration::from_secs(5));
/// assert!(!call.cancel().is_cancelled());
/// ```
#[derive(Debug, Clone)]
pub struct CallContext {
    timeout: Duration,
    began: Instant,
    cancel: CancelToken,
    idle_timeout: Arc<OnceLock<Option<Duration>>>,
    store_time: Arc<OnceLock<SystemTime>>,
}

impl CallContext {
    /// Creates the context of a call whose timeout starts now.
    pub fn new(timeout: Duration, cancel: CancelToken) -> Self {
        Self { timeout, began: Instant::now(), cancel, idle_timeout: Arc::default(), store_time: Arc::default() }
    }

    /// Returns the time left before the timeout, or zero.
    pub fn remaining(&self) -> Duration {
        self.timeout.saturating_sub(self.began.elapsed())
    }

    /// Returns the token that cancels the call.
    ///
    /// A cancelled call returns soon. If no answer has arrived, the call returns
    /// [`Interrupted`](crate::store::StoreErrorKind::Interrupted).
    pub fn cancel(&self) -> &CancelToken {
        &self.cancel
    }

    /// Returns the idle time after which the connection of the call must be used again to stay open.
    ///
    /// The idle time is `None` if the connection stays open by itself, or if opening another connection is fast. The
    /// result is `None` if the call failed or used no connection.
    pub(crate) fn idle_timeout(&self) -> Option<Option<Duration>> {
        self.idle_timeout.get().copied()
    }

    #[cfg(feature = "_tls")]
    pub(crate) fn set_idle_timeout(&self, after: Option<Duration>) {
        let _ = self.idle_timeout.set(after);
    }

    /// Notes the time of the store's clock at its answer.
    ///
    /// A store that notes this time in each read can have periodic jobs, as
    /// [`run_once_per`](crate::LeaderElector::run_once_per) describes. The first call for an answer counts.
    pub fn set_store_time(&self, time: SystemTime) {
        let _ = self.store_time.set(time);
    }

    /// Notes the time of a database server in Unix microseconds.
    #[cfg(feature = "_sql_server")]
    pub(crate) fn note_unix_micros(&self, micros: Option<u64>) {
        let time = micros.and_then(|micros| SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(micros)));
        time.into_iter().for_each(|time| self.set_store_time(time));
    }

    /// Returns the context of a store that cannot have periodic jobs.
    #[cfg(feature = "kubernetes")]
    pub(crate) fn without_store_time(&self) -> Self {
        Self { store_time: Arc::default(), ..self.clone() }
    }

    pub(crate) fn store_time(&self) -> Option<SystemTime> {
        self.store_time.get().copied()
    }
}
