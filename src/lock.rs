//! What an election asks of a store: get, create, compare-and-swap, watch, describe.

pub(crate) mod call;
pub(crate) mod lease;
mod watch;

pub use call::Call;
pub use watch::WatchEvent;

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::cancel::Cancel;
use crate::record::{LeaderElectionRecord, Observed};

/// A record in a store that offers linearizable compare-and-swap.
///
/// The elector calls get, create and update from its own thread, one at a time, and [`watch`](Lock::watch) from a second one.
/// Each call returns within its time, late by no more than scheduling; one that blocks longer delays a loss from being
/// noticed, though never from being true. When it is cancelled it returns soon, with [`LockErrorKind::Interrupted`] if it has
/// no answer by then, and no other call is touched. A lock that cannot do that says so: a release then waits for the call
/// before it.
///
/// Safety rests on these duties of an implementation:
///
/// - [`get`](Lock::get) is a linearizable read (for Kubernetes: a GET without `resourceVersion`);
/// - [`create`](Lock::create) fails when the object exists, and [`update`](Lock::update) when it is not at
///   `base.version` any more, or is another object than `base` (another `uid`), or is gone;
/// - [`Observed::version`] grows with every write to the object, also beyond its deletion and re-creation;
/// - `Ok` from a write means that it was applied; any error leaves that open;
/// - what was written is what is read, the times to the last digit: a record that comes back changed is another's.
///
/// # Examples
///
/// A lock in the process's memory, for a test:
///
/// ```
/// use std::sync::Mutex;
/// use leasehold::{Call, LeaderElectionRecord, Lock, LockError, LockErrorKind, Observed, Opaque};
///
/// #[derive(Default)]
/// struct MemoryLock(Mutex<Option<Observed>>);
///
/// impl Lock for MemoryLock {
///     fn get(&self, _: &Call) -> Result<Option<Observed>, LockError> {
///         Ok(self.0.lock().unwrap().clone())
///     }
///     fn create(&self, record: &LeaderElectionRecord, _: &Call) -> Result<Observed, LockError> {
///         let mut slot = self.0.lock().unwrap();
///         if slot.is_some() {
///             return Err(LockError::new(LockErrorKind::AlreadyExists, "somebody was faster"));
///         }
///         Ok(slot.insert(Observed::new(record.clone(), 1, Opaque::none())).clone())
///     }
///     fn update(&self, base: &Observed, record: &LeaderElectionRecord, _: &Call) -> Result<Observed, LockError> {
///         let mut slot = self.0.lock().unwrap();
///         match &*slot {
///             Some(now) if now.version == base.version => {
///                 Ok(slot.insert(Observed::new(record.clone(), base.version + 1, Opaque::none())).clone())
///             }
///             _ => Err(LockError::new(LockErrorKind::Conflict, "it moved")),
///         }
///     }
///     fn describe(&self) -> String {
///         "a lock in memory".into()
///     }
/// }
///
/// let elector = leasehold::LeaderElector::builder("test").start_on(MemoryLock::default())?;
/// let guard = elector.block_until_leader()?;
/// assert!(guard.is_leader());
/// # Ok::<(), leasehold::Error>(())
/// ```
pub trait Lock: Send + Sync + 'static {
    /// Reads the record; `None` when there is none.
    ///
    /// # Errors
    ///
    /// Whatever kept the store from answering.
    fn get(&self, call: &Call) -> Result<Option<Observed>, LockError>;

    /// Creates the record, and answers what now stands in the store.
    ///
    /// # Errors
    ///
    /// [`LockErrorKind::AlreadyExists`] when there is one.
    fn create(&self, record: &LeaderElectionRecord, call: &Call) -> Result<Observed, LockError>;

    /// Replaces the record if the object still stands as `base` was observed, and answers what now stands.
    ///
    /// # Errors
    ///
    /// [`LockErrorKind::Conflict`] when it does not.
    fn update(&self, base: &Observed, record: &LeaderElectionRecord, call: &Call) -> Result<Observed, LockError>;

    /// Tells every change of the record after the version `after`, or beginning with what is there if that is `None`,
    /// until the store ends the watch in good order.
    ///
    /// It calls [`WatchEvent::Opened`] once nothing can be missed any more, and returns soon after `cancel`. Events may come
    /// late, repeatedly and out of order: correctness never rests on them, only how soon a change is known. A lock that
    /// cannot watch leaves this as it is, and is polled.
    ///
    /// # Errors
    ///
    /// [`LockErrorKind::Unsupported`] when this lock cannot watch, [`LockErrorKind::Expired`] when the store has forgotten
    /// what came after `after`, [`LockErrorKind::Interrupted`] after `cancel`, or whatever else ended the watch.
    fn watch(&self, after: Option<u64>, cancel: &Cancel, tell: &mut dyn FnMut(WatchEvent)) -> Result<(), LockError> {
        let _ = (after, cancel, tell);
        Err(LockError::new(LockErrorKind::Unsupported, "this lock cannot watch"))
    }

    /// Names the record for logs and errors, such as `lease default/my-controller`.
    fn describe(&self) -> String;
}

/// Why a [`Lock`] did not do what it was asked.
///
/// # Examples
///
/// ```
/// use leasehold::{LockError, LockErrorKind};
///
/// let error = LockError::new(LockErrorKind::Forbidden, "no `get` on leases");
/// assert!(!error.is_transient());
/// ```
#[derive(Debug, Clone)]
pub struct LockError {
    kind: LockErrorKind,
    message: String,
    retry_after: Option<Duration>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// What kind of failure a [`LockError`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockErrorKind {
    /// The object moved since its base was observed, or is gone.
    Conflict,
    /// The object to be created exists.
    AlreadyExists,
    /// Who we are is known, and may not do this.
    Forbidden,
    /// Who we are is not accepted.
    Unauthorized,
    /// What should hold the object, such as its namespace, does not exist.
    NotFound,
    /// The server is not who it should be.
    Untrusted,
    /// The store understood the request and refuses it for what it says.
    Rejected,
    /// The answer makes no sense.
    Malformed,
    /// No answer in time.
    Timeout,
    /// Ended by [`Cancel::cancel`].
    Interrupted,
    /// The store does not remember what came after the version that a watch was to begin at.
    Expired,
    /// The lock cannot do this at all.
    Unsupported,
    /// A connection that had carried requests before was closed under this one, before a single byte of an answer. It may
    /// have been carried out. The next attempt is sent at once.
    ConnectionClosed,
    /// The store cannot be reached or says that it cannot answer now.
    Unavailable,
}

impl LockError {
    /// An error of this kind; `message` says what failed, where, and what to do about it.
    pub fn new(kind: LockErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None, source: None }
    }

    /// Adds how long the store asked to be left alone.
    #[must_use]
    pub fn with_retry_after(mut self, retry_after: Option<Duration>) -> Self {
        self.retry_after = retry_after;
        self
    }

    /// Adds the error underneath.
    #[must_use]
    pub fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> LockErrorKind {
        self.kind
    }

    /// How long the store asked to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Whether waiting may help; where it may not, somebody has to grant, create or correct something.
    pub fn is_transient(&self) -> bool {
        use LockErrorKind::*;
        !matches!(self.kind, Forbidden | Unauthorized | NotFound | Untrusted | Rejected)
    }
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for LockError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| &**source as &(dyn StdError + 'static))
    }
}
