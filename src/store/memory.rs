//! A store in the memory of one process.

use std::collections::{BTreeMap, VecDeque};
use std::time::SystemTime;

use crate::store::record::{LeaderElectionRecord, RecordWrite, StoreData, VersionedRecord};
use crate::store::{CallContext, Cursor, Store, StoreError, StoreErrorKind, WatchEvent, WatchScope, check_watch};
use crate::util::cancel::CancelToken;
use crate::util::config_error::{ConfigError, require};
use crate::util::debug_fields::debug_fields;
use crate::util::on_drop::OnDrop;
use crate::util::sync::channel::Sender;
use crate::util::sync::{Mutex, channel};

/// The maximum number of changes that the store keeps for watches.
///
/// A watch that has missed more changes must start again without a cursor.
const REMEMBERED: usize = 1000;

/// A store in the memory of one process, for tests and for elections among threads.
///
/// The store implements every part of [`Store`] and never fails. Versions grow with every write to any key. If a watch
/// needs changes that the store no longer keeps, the watch ends with [`StoreErrorKind::Expired`]. Put the store in an
/// `Arc` to share the store.
///
/// # Examples
///
/// Two candidates in one process:
///
/// ```
/// use std::sync::Arc;
/// use leasehold::store::MemoryStore;
/// use leasehold::LeaderElector;
///
/// let store = Arc::new(MemoryStore::new());
/// let one = LeaderElector::builder("jobs").start_on(Arc::clone(&store))?;
/// let other = LeaderElector::builder("jobs").start_on(store)?;
/// let guard = one.block_until_leader()?;
/// assert!(other.try_acquire()?.is_none());
/// drop(guard);
/// assert!(other.block_until_leader()?.is_leader());
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Default)]
pub struct MemoryStore {
    state: Mutex<MemoryState>,
}

#[derive(Default)]
struct MemoryState {
    /// The version of the last write.
    version: u64,
    records: BTreeMap<Box<str>, VersionedRecord>,
    /// The latest changes, oldest first.
    changes: VecDeque<WatchEvent>,
    /// The version of the newest change that was removed from `changes`.
    forgotten: u64,
    /// The open watches by number.
    watches: BTreeMap<u64, MemoryWatch>,
}

struct MemoryWatch {
    /// The watched key or prefix.
    text: Box<str>,
    is_one: bool,
    /// A channel for one version: the last one before the changes that the watch has missed.
    behind: Sender<u64>,
}

impl MemoryStore {
    /// Creates a store without records.
    pub fn new() -> Self {
        Self::default()
    }

    /// Deletes the record of `key`, as an operator can, and returns `true` if a record existed.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use leasehold::store::MemoryStore;
    /// use leasehold::LeaderElector;
    ///
    /// let store = Arc::new(MemoryStore::new());
    /// let elector = LeaderElector::builder("jobs").start_on(Arc::clone(&store))?;
    /// let guard = elector.block_until_leader()?;
    /// assert!(store.delete("jobs"));
    /// assert!(guard.ended().recv().is_err(), "the term is over");
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn delete(&self, key: &str) -> bool {
        let mut state = self.state.lock();
        let was_there = state.records.remove(key).is_some();
        if was_there {
            state.version += 1;
            let version = state.version;
            state.note(key, WatchEvent::Deleted { key: key.into(), version });
        }
        was_there
    }
}

impl MemoryWatch {
    fn scope(&self) -> WatchScope<'_> {
        if self.is_one { WatchScope::Key(&self.text) } else { WatchScope::Prefix(&self.text) }
    }
}

impl MemoryState {
    fn write(&mut self, key: &str, uid: Option<String>, write: RecordWrite<'_>) -> VersionedRecord {
        self.version += 1;
        let record = LeaderElectionRecord { uid, ..write.record.clone() };
        let mut observed = VersionedRecord::new(record, self.version, StoreData::none());
        *observed.notes = write.stored_notes();
        self.records.insert(key.into(), observed.clone());
        self.note(key, WatchEvent::Changed { key: key.into(), observed: observed.clone() });
        observed
    }

    /// Adds the last write to `changes` and wakes the watches of `key`.
    fn note(&mut self, key: &str, change: WatchEvent) {
        for watch in self.watches.values().filter(|watch| watch.scope().includes(key)) {
            // A full channel contains an earlier version. The watch reads all changes after that version, including
            // this write.
            let _ = watch.behind.try_send(self.version - 1);
        }
        self.changes.push_back(change);
        if self.changes.len() > REMEMBERED {
            self.forgotten = self.changes.pop_front().and_then(|it| Some(it.change()?.1)).unwrap_or(0);
        }
    }

    /// Returns the records that a new watch reports first.
    fn all(&self, scope: WatchScope<'_>) -> Vec<WatchEvent> {
        let records = self.records.iter().filter(|(key, _)| scope.includes(key));
        records.map(|(key, observed)| WatchEvent::Changed { key: key.clone(), observed: observed.clone() }).collect()
    }

    /// Returns the changes in `scope` after `version`.
    fn after(&self, version: u64, scope: WatchScope<'_>) -> Result<Vec<WatchEvent>, StoreError> {
        if !(self.forgotten..=self.version).contains(&version) {
            let message = format!("cannot watch from version {version}: the later changes are no longer kept");
            return Err(StoreError::new(StoreErrorKind::Expired, message));
        }
        let newer = self.changes.partition_point(|it| it.change().is_some_and(|(_, at)| at <= version));
        let newer = self.changes.range(newer..);
        Ok(newer.filter(|it| it.change().is_some_and(|(key, _)| scope.includes(key))).cloned().collect())
    }
}

impl Store for MemoryStore {
    fn get(&self, key: &str, call: &CallContext) -> Result<Option<VersionedRecord>, StoreError> {
        call.set_store_time(SystemTime::now());
        Ok(self.state.lock().records.get(key).cloned())
    }

    fn create(&self, key: &str, write: RecordWrite<'_>, _: &CallContext) -> Result<VersionedRecord, StoreError> {
        let mut state = self.state.lock();
        if state.records.contains_key(key) {
            let message = format!("cannot create {}: the record exists", self.describe(key));
            return Err(StoreError::new(StoreErrorKind::NotApplied, message));
        }
        // The uid is unique across stores, so that an elector can distinguish the records of two stores.
        let uid = Some(format!("{:016x}-{}", fastrand::u64(..), state.version + 1));
        Ok(state.write(key, uid, write))
    }

    fn update(
        &self,
        key: &str,
        base: &VersionedRecord,
        write: RecordWrite<'_>,
        _: &CallContext,
    ) -> Result<VersionedRecord, StoreError> {
        let mut state = self.state.lock();
        let current = state.records.get(key);
        // Comparing only the version would be sufficient, because each deletion and each write to any key raises the
        // version.
        let stands = current.is_some_and(|it| it.version == base.version && it.record == base.record);
        if !stands {
            let message = format!("cannot update {}: the version is no longer {}", self.describe(key), base.version);
            return Err(StoreError::new(StoreErrorKind::NotApplied, message));
        }
        Ok(state.write(key, base.record.uid.clone(), write))
    }

    fn watch(
        &self,
        scope: WatchScope<'_>,
        from: Option<&Cursor>,
        cancel: &CancelToken,
        on_event: &mut dyn FnMut(WatchEvent),
    ) -> Result<(), StoreError> {
        check_watch(cancel)?;
        let (behind, woken) = channel::bounded(1);
        let wake = behind.clone();
        let _hook = cancel.on_cancel(move || _ = wake.try_send(0));
        let (mut changes, mut version, id) = {
            let mut state = self.state.lock();
            let changes = match from.and_then(Cursor::get::<u64>) {
                Some(version) => state.after(*version, scope)?,
                None => state.all(scope),
            };
            let id = state.watches.last_key_value().map_or(0, |(last, _)| last + 1);
            state.watches.insert(id, MemoryWatch { text: scope.text().into(), is_one: scope.is_one(), behind });
            (changes, state.version, id)
        };
        let _registered = OnDrop(|| drop(self.state.lock().watches.remove(&id)));
        on_event(WatchEvent::Opened);
        let mut synced = Some(WatchEvent::Synced);
        loop {
            for change in changes.into_iter().chain(synced.take()) {
                check_watch(cancel)?;
                on_event(change);
            }
            check_watch(cancel)?;
            on_event(WatchEvent::Bookmark(Cursor::new(version)));
            // `recv` cannot fail, because the registered watch owns a sender.
            let delivered = woken.recv().unwrap_or(0);
            check_watch(cancel)?;
            let state = self.state.lock();
            // A newer wake-up is not needed, because the next line also reads its changes.
            let _ = woken.try_recv();
            changes = state.after(delivered, scope)?;
            version = state.version;
        }
    }

    fn keeps_notes(&self) -> bool {
        true
    }

    fn check_key(&self, key: &str) -> Result<(), ConfigError> {
        require(!key.is_empty(), "name", format_args!("{key:?}"), "must not be empty")
    }

    fn describe(&self, key: &str) -> String {
        format!("{key} in memory")
    }
}

debug_fields!(impl Debug for MemoryStore { self => records: self.state.lock().records.len(), .. });

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn resume_from_a_forgotten_or_future_version_is_expired() {
        let store = MemoryStore::new();
        let call = CallContext::new(Duration::from_secs(1), CancelToken::new());
        let mut observed = store.create("jobs", LeaderElectionRecord::default().as_write(), &call).unwrap();
        for _ in 0..REMEMBERED {
            observed = store.update("jobs", &observed, LeaderElectionRecord::default().as_write(), &call).unwrap();
        }
        let last = observed.version;
        for (from, is_expired) in [(0, true), (1, false), (last, false), (last + 1, true)] {
            let cancel = CancelToken::new();
            let ended = store.watch(WatchScope::All, Some(&Cursor::new(from)), &cancel, &mut |event| {
                if let WatchEvent::Bookmark(_) = event {
                    cancel.cancel();
                }
            });
            let kind = ended.unwrap_err().kind();
            let expected = if is_expired { StoreErrorKind::Expired } else { StoreErrorKind::Interrupted };
            assert_eq!(kind, expected, "from {from} of {last}");
        }
        assert!(store.state.lock().watches.is_empty());
    }

    /// Writes another key more often than the store keeps changes, and then the watched key.
    #[test]
    fn a_watch_that_has_missed_nothing_does_not_expire() {
        let store = MemoryStore::new();
        let call = CallContext::new(Duration::from_secs(1), CancelToken::new());
        let record = LeaderElectionRecord::default();
        let quiet = store.create("quiet", record.as_write(), &call).unwrap();
        let cancel = CancelToken::new();
        let (tell, told) = channel::unbounded();
        std::thread::scope(|scope| {
            let watch = scope
                .spawn(|| store.watch(WatchScope::Key("quiet"), None, &cancel, &mut |event| drop(tell.send(event))));
            while !matches!(told.recv().unwrap(), WatchEvent::Bookmark(_)) {}
            let mut busy = store.create("busy", record.as_write(), &call).unwrap();
            for _ in 0..2 * REMEMBERED {
                busy = store.update("busy", &busy, record.as_write(), &call).unwrap();
            }
            let written = store.update("quiet", &quiet, record.as_write(), &call).unwrap().version;
            let next = told.recv_timeout(Duration::from_secs(30));
            cancel.cancel();
            assert_eq!(watch.join().unwrap().unwrap_err().kind(), StoreErrorKind::Interrupted);
            assert!(matches!(next, Ok(WatchEvent::Changed { observed, .. }) if observed.version == written));
        });
    }
}
