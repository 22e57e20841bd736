//! What every call of a store is given: how long it may take, and what may end it sooner.

use std::time::Duration;

use crate::util::cancel::CancelToken;
use crate::util::sync::Instant;

/// How long a call may take, and what may end it sooner.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use leasehold::{CallContext, CancelToken};
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
}

impl CallContext {
    /// One that begins now.
    pub fn new(timeout: Duration, cancel: CancelToken) -> Self {
        Self { timeout, began: Instant::now(), cancel }
    }

    /// What is left of its time; zero when that is over.
    pub fn remaining(&self) -> Duration {
        self.timeout.saturating_sub(self.began.elapsed())
    }

    /// What ends it sooner: then it returns soon, with
    /// [`Interrupted`](crate::StoreErrorKind::Interrupted) if it has no answer yet.
    pub fn cancel(&self) -> &CancelToken {
        &self.cancel
    }
}
