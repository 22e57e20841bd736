//! The interface of a store: a table of records with compare-and-swap and watches.

mod call;
pub(crate) mod entry;
mod error;
pub(crate) mod memory;
pub(crate) mod micro_time;
pub(crate) mod notes;
mod operation;
pub(crate) mod record;
pub(crate) mod shared_watch;
mod watch;

pub use call::CallContext;
pub use error::{StoreError, StoreErrorKind};
pub use memory::MemoryStore;
pub use micro_time::MicroTime;
pub use notes::{JobNotes, RecordNotes, RequestAcceptance, TermNotes};
pub use operation::StoreOperation;
pub use record::{LeaderElectionRecord, RecordWrite, StoreData, VersionedRecord};
pub use shared_watch::SharedWatch;
pub(crate) use watch::check_watch;
pub use watch::{Cursor, WatchEvent, WatchScope};

use std::sync::Arc;

pub use crate::util::cancel::{CancelHook, CancelToken};
use crate::util::config_error::ConfigError;

/// The highest version that a store may use.
///
/// Fencing tokens are versions and must fit a signed 64-bit database column.
pub(crate) const MAX_VERSION: u64 = i64::MAX.cast_unsigned();

/// A table of records by key, with linearizable compare-and-swap.
///
/// `Arc<S>` and `Box<dyn Store>` are stores too, so that several electors can share one store.
/// [`MemoryStore`] is a store for tests and a model for other stores. [`leasehold_testing::conformance`]
/// checks a store against the duties below, and its documentation has a complete store as an example.
///
/// # Calls
///
/// An elector calls [`get`](Store::get), [`create`](Store::create) and [`update`](Store::update) from one thread, one
/// at a time. The elector calls [`watch`](Store::watch) from another thread. Every key has passed
/// [`check_key`](Store::check_key); for other keys, a store may behave in any way.
///
/// Each call must return within its [timeout](CallContext::remaining), apart from scheduling delays. A call that blocks
/// longer delays the next request, such as a release or a takeover, but does not extend a term.
///
/// The data of a record and the source of an error may be dropped on the thread that decides. Their destructors must
/// neither block nor panic.
///
/// A cancelled call must return soon. If no answer has arrived, the call returns [`StoreErrorKind::Interrupted`].
/// Cancelling must not affect other calls. A store that cannot cancel calls must document this limit, because a release
/// then waits for the previous call.
///
/// A panic in a request ends the elector. The elector's term ends with
/// [`StopReason::ElectorPanicked`](crate::StopReason::ElectorPanicked). A panic in a watch ends the watch, and the
/// elector then polls the key.
///
/// # Duties
///
/// The safety of the election depends on these duties of an implementation:
///
/// - [`get`](Store::get) is a linearizable read. In Kubernetes, this is a GET without `resourceVersion`.
/// - [`create`](Store::create) fails if there is a record.
/// - [`update`](Store::update) fails if the record is no longer at `base.version`, differs from `base` (for example in
///   its `uid`), or is gone.
/// - [`VersionedRecord::version`] is between 1 and [`i64::MAX`], and each write to the key raises the version. A
///   deletion is a write, and a re-created record has a higher version than the deletion. An elector rejects any other
///   version as [`StoreErrorKind::Malformed`].
/// - `Ok` from a write means that the write was applied. An error leaves the write in doubt, except
///   [`StoreErrorKind::NotApplied`].
/// - If a store can lose history, `update` also compares the whole record of `base` and its notes with the stored ones,
///   because versions may repeat. Examples of lost history are a restored backup, and a promoted replica without the
///   last writes.
/// - A store that [keeps notes](Store::keeps_notes) writes the notes together with the record. A change of the notes
///   alone is a write, too.
/// - A read returns exactly what was written, including all digits of the times. An elector treats a changed record as
///   a record of another candidate.
///
/// [`leasehold_testing::conformance`]: https://docs.rs/leasehold-testing/latest/leasehold_testing/conformance/index.html
///
/// # Examples
///
/// A store that is slow, for a test:
///
/// ```
/// use std::thread::sleep;
/// use std::time::Duration;
/// use leasehold::store::{CallContext, MemoryStore, RecordWrite, Store, StoreError, VersionedRecord};
/// use leasehold::{ConfigError, LeaderElector};
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
///     fn create(&self, key: &str, write: RecordWrite<'_>, call: &CallContext) -> Result<VersionedRecord, StoreError> {
///         self.wait(call);
///         self.0.create(key, write, call)
///     }
///     fn update(
///         &self,
///         key: &str,
///         base: &VersionedRecord,
///         write: RecordWrite<'_>,
///         call: &CallContext,
///     ) -> Result<VersionedRecord, StoreError> {
///         self.wait(call);
///         self.0.update(key, base, write, call)
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
    /// Returns the record of `key`, or `None` if the store reports that no record exists.
    ///
    /// # Errors
    ///
    /// Returns the error that prevented an answer. After such an error, a store must not return `None`.
    fn get(&self, key: &str, call: &CallContext) -> Result<Option<VersionedRecord>, StoreError>;

    /// Creates the record of `key` and returns the stored record.
    ///
    /// # Errors
    ///
    /// - Returns [`StoreErrorKind::AlreadyExists`] or [`StoreErrorKind::NotApplied`] if there is a record.
    /// - Returns another [`StoreError`] if the request failed; the write is then in doubt.
    fn create(&self, key: &str, write: RecordWrite<'_>, call: &CallContext) -> Result<VersionedRecord, StoreError>;

    /// Replaces the record if it is unchanged since `base`, and returns the stored record.
    ///
    /// The same store has returned `base` for the same key.
    ///
    /// # Errors
    ///
    /// - Returns [`StoreErrorKind::Conflict`] or [`StoreErrorKind::NotApplied`] if the record has changed or is gone.
    /// - Returns another [`StoreError`] if the request failed; the write is then in doubt.
    fn update(
        &self,
        key: &str,
        base: &VersionedRecord,
        write: RecordWrite<'_>,
        call: &CallContext,
    ) -> Result<VersionedRecord, StoreError>;

    /// Reports every change in `scope` after `from`, until the watch ends.
    ///
    /// Without `from`, the watch first reports the current records, and then sends [`WatchEvent::Synced`]. The method
    /// sends [`WatchEvent::Opened`] once no later change can be missed. The method returns `Ok` if the store ends the
    /// watch normally, and returns soon after `cancel`.
    ///
    /// If the store cannot read a record, the watch of its key fails. A watch of a prefix or of all keys should send
    /// [`WatchEvent::Unreadable`] and continue, because the record must not hide the other records.
    ///
    /// Events may arrive late, repeatedly and out of order. The safety of an election does not depend on events. A late
    /// or lost event only delays the elector's reaction to a change. In a [group](crate::group::LeaseGroup), no shard
    /// has two owners after a deletion if the watch reports the deletion before later changes of other records. While
    /// `on_event` runs, the store must not hold a lock that its requests need, because `on_event` may block for a
    /// moment.
    ///
    /// A store without watches keeps this default implementation, and electors poll that store.
    ///
    /// # Errors
    ///
    /// - Returns [`StoreErrorKind::Unsupported`] if the store has no watches.
    /// - Returns [`StoreErrorKind::Expired`] if the store no longer has the changes after `from`.
    /// - Returns [`StoreErrorKind::Interrupted`] after `cancel`.
    /// - Returns another [`StoreError`] if the watch failed.
    fn watch(
        &self,
        scope: WatchScope<'_>,
        from: Option<&Cursor>,
        cancel: &CancelToken,
        on_event: &mut dyn FnMut(WatchEvent),
    ) -> Result<(), StoreError> {
        let _ = (scope, from, cancel, on_event);
        Err(StoreError::new(StoreErrorKind::Unsupported, "cannot watch: the store has no watches"))
    }

    /// Returns an error if `key` is not a valid key of this store.
    ///
    /// # Errors
    ///
    /// - Returns [`ConfigError`] with the rule for keys if `key` breaks the rule.
    fn check_key(&self, key: &str) -> Result<(), ConfigError>;

    /// Returns the name of the record for logs and errors, such as `lease default/my-controller`.
    fn describe(&self, key: &str) -> String;

    /// Returns the location of the records for logs, or `None` by default.
    ///
    /// An example is `https://10.96.0.1:443 (service account of this pod)`. The text must not contain a secret. An
    /// elector logs the location when it starts. The log shows whether two candidates use different places.
    fn location(&self) -> Option<String> {
        None
    }

    /// Returns `true` if the store keeps the [notes](RecordWrite::notes) of a write, or `false` by default.
    ///
    /// An elector that needs notes does not start on a store that returns `false`. Such a store ignores the notes of a
    /// write, and returns observations without notes.
    fn keeps_notes(&self) -> bool {
        false
    }

    /// Returns `true` if this user has the rights that a campaign for `key` needs, or `None` by default.
    ///
    /// `None` means that the rights are unknown. The right to create a record is needed only if the record does not
    /// `exist`.
    fn may_campaign(&self, key: &str, exists: bool, call: &CallContext) -> Option<bool> {
        let _ = (key, exists, call);
        None
    }
}

/// Implements `Store` for a type by delegation to an inner store.
macro_rules! delegate_store {
    (impl $([$($generics:tt)*])? Store for $of:ty { $self:ident => $inside:expr }) => {
        impl $(<$($generics)*>)? Store for $of {
            fn get(&$self, key: &str, call: &CallContext) -> Result<Option<VersionedRecord>, StoreError> {
                $inside.get(key, call)
            }

            fn create(
                &$self,
                key: &str,
                write: RecordWrite<'_>,
                call: &CallContext,
            ) -> Result<VersionedRecord, StoreError> {
                $inside.create(key, write, call)
            }

            fn update(
                &$self,
                key: &str,
                base: &VersionedRecord,
                write: RecordWrite<'_>,
                call: &CallContext,
            ) -> Result<VersionedRecord, StoreError> {
                $inside.update(key, base, write, call)
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

            $crate::store::delegate_descriptions!($self => $inside);
        }
    };
}

/// Delegates the methods of `Store` that no election calls in its course to an inner store.
macro_rules! delegate_descriptions {
    ($self:ident => $inside:expr) => {
        fn check_key(&$self, key: &str) -> Result<(), ConfigError> {
            $inside.check_key(key)
        }

        fn describe(&$self, key: &str) -> String {
            $inside.describe(key)
        }

        fn location(&$self) -> Option<String> {
            $inside.location()
        }

        fn keeps_notes(&$self) -> bool {
            $inside.keeps_notes()
        }

        fn may_campaign(&$self, key: &str, exists: bool, call: &CallContext) -> Option<bool> {
            $inside.may_campaign(key, exists, call)
        }
    };
}

pub(crate) use delegate_descriptions;
#[cfg(feature = "_sql")]
pub(crate) use delegate_store;

delegate_store!(impl [S: Store + ?Sized] Store for Arc<S> { self => (**self) });
delegate_store!(impl [S: Store + ?Sized] Store for Box<S> { self => (**self) });
