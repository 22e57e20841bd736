//! What an election asks of a store, a table of records by key: get, create, compare-and-swap, watch, describe.

mod call;
pub(crate) mod entry;
mod error;
pub(crate) mod memory;
mod operation;
pub(crate) mod record;
mod watch;

pub use call::CallContext;
pub use error::{StoreError, StoreErrorKind};
pub use operation::StoreOperation;
pub use watch::{Cursor, WatchEvent, WatchScope};

use std::sync::Arc;

use crate::store::record::{LeaderElectionRecord, VersionedRecord};
use crate::util::cancel::CancelToken;
use crate::util::config_error::ConfigError;

/// The highest version that a store may use. A fencing token is a version, and must fit a signed 64-bit column.
pub(crate) const MAX_VERSION: u64 = i64::MAX.cast_unsigned();

/// A table of records by key, with linearizable compare-and-swap. Any number of electors may share one.
///
/// An elector calls get, create and update from its own thread, one at a time, and [`watch`](Store::watch) from a second one.
/// Each call returns within its time, late by no more than scheduling; one that blocks longer delays a loss from being
/// noticed, though never from being true. When it is cancelled it returns soon, with [`StoreErrorKind::Interrupted`] if it has
/// no answer by then, and no other call is touched. A store that cannot do that says so: a release then waits for the call
/// before it.
///
/// A key has passed [`check_key`](Store::check_key): for any other a store may do as it likes.
///
/// Safety rests on these duties of an implementation:
///
/// - [`get`](Store::get) is a linearizable read (for Kubernetes: a GET without `resourceVersion`);
/// - [`create`](Store::create) fails when there is a record, and [`update`](Store::update) when it is not at
///   `base.version` any more, or is another than `base` (another `uid`), or is gone;
/// - [`VersionedRecord::version`] is between 1 and [`i64::MAX`], and each write to the key raises the version. A deletion is a write, and a
///   re-created record has a higher version than the deletion. An elector rejects any other version as
///   [`StoreErrorKind::Malformed`];
/// - `Ok` from a write means that it was applied; any error leaves that open, but for [`StoreErrorKind::NotApplied`];
/// - where history can be lost (a restored backup, a replica that is promoted without the last writes), `update` compares the
///   whole record of `base` with what stands there as well: the same version may have been given again;
/// - what was written is what is read, the times to the last digit: a record that comes back changed is another's.
///
/// A panic in a request ends the elector that made it, and its term with [`StopReason::ElectorPanicked`](crate::StopReason::ElectorPanicked); one
/// in a watch ends the watch, and the key is polled from then on.
///
/// `Arc<S>` and `Box<dyn Store>` are stores too. [`MemoryStore`](crate::MemoryStore) is one to start from, or for tests. Whether
/// one of your own does all this is checked by [`testing::conformance`], which has a whole store as its example.
///
/// [`testing::conformance`]: https://docs.rs/leasehold/latest/leasehold/testing/conformance/index.html
///
/// # Examples
///
/// A store that is slow, for a test:
///
/// ```
/// use std::thread::sleep;
/// use std::time::Duration;
/// use leasehold::{
///     CallContext, ConfigError, LeaderElectionRecord, LeaderElector, MemoryStore, VersionedRecord, Store, StoreError,
/// };
///
/// #[derive(Default)]
/// struct Slow(MemoryStore);
///
/// impl Slow {
///     fn wait(&self, call: &CallContext) {
///         sleep(Duration::from_millis(20).min(call.remaining()));
///     }
/// }
///
/// impl Store for Slow {
///     fn get(&self, key: &str, call: &CallContext) -> Result<Option<VersionedRecord>, StoreError> {
///         self.wait(call);
///         self.0.get(key, call)
///     }
///     fn create(&self, key: &str, record: &LeaderElectionRecord, call: &CallContext) -> Result<VersionedRecord, StoreError> {
///         self.wait(call);
///         self.0.create(key, record, call)
///     }
///     fn update(
///         &self,
///         key: &str,
///         base: &VersionedRecord,
///         record: &LeaderElectionRecord,
///         call: &CallContext,
///     ) -> Result<VersionedRecord, StoreError> {
///         self.wait(call);
///         self.0.update(key, base, record, call)
///     }
///     fn check_key(&self, key: &str) -> Result<(), ConfigError> {
///         self.0.check_key(key)
///     }
///     fn describe(&self, key: &str) -> String {
///         format!("slow {}", self.0.describe(key))
///     }
/// }
///
/// let elector = LeaderElector::builder("test").start_on(Slow::default())?;
/// let guard = elector.block_until_leader()?;
/// assert!(guard.is_leader());
/// # Ok::<(), leasehold::Error>(())
/// ```
pub trait Store: Send + Sync + 'static {
    /// Reads the record of `key`; `None` only when the store itself says that there is none.
    ///
    /// # Errors
    ///
    /// Whatever kept the store from answering.
    fn get(&self, key: &str, call: &CallContext) -> Result<Option<VersionedRecord>, StoreError>;

    /// Creates the record, and answers what now stands in the store.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::AlreadyExists`] when there is one, or [`StoreErrorKind::NotApplied`].
    fn create(
        &self,
        key: &str,
        record: &LeaderElectionRecord,
        call: &CallContext,
    ) -> Result<VersionedRecord, StoreError>;

    /// Replaces the record if it still stands as `base` was observed, and answers what now stands. `base` came from this
    /// store and this key.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Conflict`] when it does not, or [`StoreErrorKind::NotApplied`].
    fn update(
        &self,
        key: &str,
        base: &VersionedRecord,
        record: &LeaderElectionRecord,
        call: &CallContext,
    ) -> Result<VersionedRecord, StoreError>;

    /// Tells every change in `scope` after `from`, or beginning with what is there if that is `None`, until the store ends
    /// the watch in good order.
    ///
    /// It tells [`WatchEvent::Opened`] once nothing can be missed any more, and returns soon after `cancel`. Events may come
    /// late, repeatedly and out of order: correctness never rests on them, only how soon a change is known. A store that
    /// cannot watch leaves this as it is, and is polled. `on_event` may take a moment: a store holds no lock meanwhile that its
    /// requests need.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Unsupported`] when this store cannot watch, [`StoreErrorKind::Expired`] when it has forgotten what
    /// came after `from`, [`StoreErrorKind::Interrupted`] after `cancel`, or whatever else ended the watch.
    fn watch(
        &self,
        scope: WatchScope<'_>,
        from: Option<&Cursor>,
        cancel: &CancelToken,
        on_event: &mut dyn FnMut(WatchEvent),
    ) -> Result<(), StoreError> {
        let _ = (scope, from, cancel, on_event);
        Err(StoreError::new(StoreErrorKind::Unsupported, "this store cannot watch"))
    }

    /// Whether `key` may be one.
    ///
    /// # Errors
    ///
    /// [`ConfigError`], which says what a key of this store must be like.
    fn check_key(&self, key: &str) -> Result<(), ConfigError>;

    /// Names the record of `key` for logs and errors, such as `lease default/my-controller`.
    fn describe(&self, key: &str) -> String;

    /// Says where the records are, such as `https://10.96.0.1:443 (service account of this pod)`, without a secret in it. An
    /// elector logs it when it starts: two candidates that do not meet are found by it. Default: none.
    fn location(&self) -> Option<String> {
        None
    }

    /// The namespace of the records, where the store is of a Kubernetes cluster. Default: none.
    fn namespace(&self) -> Option<String> {
        None
    }
}

/// Has a type do as the store inside of it.
macro_rules! delegate_store {
    (impl $([$($generics:tt)*])? Store for $of:ty { $self:ident => $inside:expr }) => {
        impl $(<$($generics)*>)? Store for $of {
            fn get(&$self, key: &str, call: &CallContext) -> Result<Option<VersionedRecord>, StoreError> {
                $inside.get(key, call)
            }

            fn create(
                &$self,
                key: &str,
                record: &LeaderElectionRecord,
                call: &CallContext,
            ) -> Result<VersionedRecord, StoreError> {
                $inside.create(key, record, call)
            }

            fn update(
                &$self,
                key: &str,
                base: &VersionedRecord,
                record: &LeaderElectionRecord,
                call: &CallContext,
            ) -> Result<VersionedRecord, StoreError> {
                $inside.update(key, base, record, call)
            }

            fn watch(
                &$self,
                scope: WatchScope<'_>,
                from: Option<&Cursor>,
                cancel: &CancelToken,
                on_event: &mut dyn FnMut(WatchEvent),
            ) -> Result<(), StoreError> {
                $inside.watch(scope, from, cancel, on_event)
            }

            fn check_key(&$self, key: &str) -> Result<(), ConfigError> {
                $inside.check_key(key)
            }

            fn describe(&$self, key: &str) -> String {
                $inside.describe(key)
            }

            fn location(&$self) -> Option<String> {
                $inside.location()
            }

            fn namespace(&$self) -> Option<String> {
                $inside.namespace()
            }
        }
    };
}

#[cfg(feature = "_sql")]
pub(crate) use delegate_store;

delegate_store!(impl [S: Store + ?Sized] Store for Arc<S> { self => (**self) });
delegate_store!(impl [S: Store + ?Sized] Store for Box<S> { self => (**self) });
