//! A store that serves the watches of many keys from one watch of all keys.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::store::record::{RecordWrite, VersionedRecord};
use crate::store::{
    CallContext, Cursor, Store, StoreError, StoreErrorKind, WatchEvent, WatchScope, check_watch, delegate_descriptions,
};
use crate::util::cancel::CancelToken;
use crate::util::config_error::ConfigError;
use crate::util::on_drop::OnDrop;
use crate::util::panics::caught;
use crate::util::sync::channel::{Receiver, Sender};
use crate::util::sync::{Arc, Instant, Mutex, channel, thread};

/// The stack size of the thread. The deepest stack is a TLS handshake.
const STACK_SIZE: usize = 256 * 1024;

/// Time limit for the read at the start of a watch.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest time without any event after a change that this process knows from an answer.
///
/// After this time, the connection of the watch is regarded as dead.
const LATE: Duration = Duration::from_secs(5);

/// The shortest time between two bookmarks that only show contact with the server.
const CONTACT_INTERVAL: Duration = Duration::from_secs(1);

/// The shortest watch of all keys after which the next one resumes without the electors.
const SHORTEST: Duration = Duration::from_secs(1);

/// A store that serves the watches of many keys from one watch of all keys.
///
/// Each elector watches its record. On most stores, each of these watches is a connection. If many electors of one
/// process share a `SharedWatch`, they need one connection for all watches. Put the store in an `Arc` to share the
/// store. Other calls go to the wrapped store directly, and so does a watch of
/// [`WatchScope::Prefix`] or [`WatchScope::All`].
///
/// - The first watch of a key starts the watch of all keys on a thread of its own. The last one ends it.
/// - If the watch of all keys fails, every watch of a key ends with the same error. The first elector that watches
///   again starts the next watch of all keys, which serves the other electors too. After a normal end, the next watch
///   of all keys resumes without a notice to the electors, except after less than a second.
/// - A watch of a key that starts after the watch of all keys has opened costs one [`get`](Store::get).
/// - A watch that is slow to process its events delays no other watch, and skips all states of its record except the
///   newest one.
/// - If a change that a call has returned is followed by no event for five seconds, the watch of all keys is replaced.
///
/// Use one `SharedWatch` for a process whose electors hold a considerable part of the records, because the store sends
/// the changes of all records. In Kubernetes, these are the objects of one kind in one namespace.
///
/// # Access rights
///
/// In Kubernetes, the role must grant the verbs `list` and `watch` on `leases` without `resourceNames`. Without these
/// rights, electors poll. In etcd, the user must be allowed to read the whole prefix.
///
/// # Examples
///
/// A hundred electors with one watch:
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use leasehold::store::{MemoryStore, SharedWatch};
/// use leasehold::{release_all, LeaderElector};
///
/// let store = Arc::new(SharedWatch::new(MemoryStore::new()));
/// let electors = (0..100)
///     .map(|shard| LeaderElector::builder(format!("shard-{shard}")).start_on(Arc::clone(&store)))
///     .collect::<Result<Vec<_>, _>>()?;
/// let guards = electors.iter().map(LeaderElector::block_until_leader).collect::<Result<Vec<_>, _>>()?;
/// // lead all shards
/// for released in release_all(guards, Duration::from_secs(5)) {
///     released?;
/// }
/// # Ok::<(), leasehold::Error>(())
/// ```
///
/// Leases in the namespace `jobs`:
///
/// ```no_run
/// # #[cfg(feature = "kubernetes")]
/// # fn main() -> Result<(), leasehold::Error> {
/// use std::sync::Arc;
/// use leasehold::kubernetes::{Client, ClientConfig};
/// use leasehold::kubernetes::LeaseStore;
/// use leasehold::store::SharedWatch;
/// use leasehold::LeaderElector;
///
/// let leases = LeaseStore::new(Client::new(ClientConfig::infer()?)?, "jobs")?;
/// let store = Arc::new(SharedWatch::new(leases));
/// let mail = LeaderElector::builder("mail").start_on(Arc::clone(&store))?;
/// let reports = LeaderElector::builder("reports").start_on(store)?;
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "kubernetes"))]
/// # fn main() {}
/// ```
pub struct SharedWatch<S> {
    store: Arc<S>,
    hub: Arc<Mutex<WatchHub>>,
}

#[derive(Default)]
struct WatchHub {
    /// The current watch of all keys.
    collection: Option<CollectionWatch>,
    /// The position from which the next watch of all keys can resume.
    cursor: Option<Cursor>,
    /// The newest state of each watched key. `None` if the state is not known.
    ///
    /// The states stay when the watch of all keys ends, because the next watch may resume.
    states: BTreeMap<Box<str>, Option<Arc<KeyState>>>,
    /// The watches of one key that the current watch of all keys serves, by number.
    watches: BTreeMap<u64, KeyWatch>,
    last_watch: u64,
}

struct CollectionWatch {
    id: u64,
    cancel: CancelToken,
    is_open: bool,
    /// The time since which an event is missing, or `None` if none is known to be missing.
    owed_since: Option<Instant>,
    /// The time at which the watches of one key last learned of the contact with the server.
    contact_at: Instant,
}

struct KeyWatch {
    key: Box<str>,
    wake: Sender<()>,
    /// Receives a value after contact with the server, even if the record has not changed.
    contact: Sender<()>,
    end: Sender<WatchEnd>,
}

/// The states of one key, as a watch of the key delivers them.
struct KeyStream<'a> {
    key: &'a str,
    /// The state that was delivered last.
    last: Option<Arc<KeyState>>,
    /// `true` if the watch of all keys will report the current record.
    reports_current: bool,
    woken: Receiver<()>,
    contacted: Receiver<()>,
    ended: Receiver<WatchEnd>,
}

/// The end of the watch of all keys, and the newest state of one key at that time.
type WatchEnd = (Option<Arc<KeyState>>, Result<(), StoreError>);

/// A state of a record, and the cursor of a watch that has reported the state.
struct KeyState {
    /// The version of the record or of its deletion. Zero if a read found no record.
    version: u64,
    observed: Option<VersionedRecord>,
}

impl<S> SharedWatch<S> {
    /// Creates a store that shares one watch of `store`.
    pub fn new(store: S) -> Self {
        Self { store: Arc::new(store), hub: Arc::default() }
    }
}

impl KeyState {
    /// Returns the event that reports this state after `last`, or `None` if the states are equal.
    fn after(&self, last: Option<&Self>, key: &str) -> Option<WatchEvent> {
        let known = last.and_then(|last| last.observed.as_ref());
        match &self.observed {
            Some(now) if known.is_some_and(|it| it.version == now.version && it.record == now.record) => None,
            Some(observed) => Some(WatchEvent::Changed { key: key.into(), observed: observed.clone() }),
            None => {
                let reported = last.map_or(0, |last| last.version);
                (self.version > reported).then(|| WatchEvent::Deleted { key: key.into(), version: self.version })
            }
        }
    }
}

impl KeyStream<'_> {
    /// Returns the event that reports `state`, if the state is new.
    fn next(&mut self, state: Arc<KeyState>) -> Option<(WatchEvent, Arc<KeyState>)> {
        let event = state.after(self.last.as_deref(), self.key)?;
        self.last = Some(Arc::clone(&state));
        Some((event, state))
    }
}

impl WatchHub {
    /// Stores a state of `key` and wakes the watches of `key`, unless the known state is newer.
    ///
    /// The known state is older if it is the state `before` a read, even if its version is higher.
    fn learn(&mut self, key: &str, state: KeyState, before: Option<&Arc<KeyState>>) {
        let Some(known) = self.states.get_mut(key) else { return };
        let is_before = |known: &Arc<KeyState>| before.is_some_and(|before| Arc::ptr_eq(before, known));
        if known.as_ref().is_none_or(|known| known.version < state.version || is_before(known)) {
            *known = Some(Arc::new(state));
            for watch in self.watches.values().filter(|watch| *watch.key == *key) {
                // A full channel already contains a wake-up, after which the watch reads the newest state.
                let _ = watch.wake.try_send(());
            }
        }
    }
}

impl<S: Store> SharedWatch<S> {
    /// Adds a watch, and starts the watch of all keys if none is running.
    ///
    /// Returns the number of the watch. Returns `true` if the watch of all keys will report the current record.
    fn join(&self, watch: KeyWatch, is_resumed: bool) -> Result<(u64, bool), StoreError> {
        let mut hub = self.hub.lock();
        hub.last_watch += 1;
        let id = hub.last_watch;
        if hub.collection.is_none() {
            hub.collection = Some(self.start(&mut hub, id, is_resumed)?);
        }
        hub.states.entry(watch.key.clone()).or_default();
        hub.watches.insert(id, watch);
        let is_from_scratch = hub.cursor.is_none();
        Ok((id, is_from_scratch && hub.collection.as_ref().is_some_and(|it| !it.is_open)))
    }

    /// Starts the watch `id` of all keys.
    fn start(&self, hub: &mut WatchHub, id: u64, is_resumed: bool) -> Result<CollectionWatch, StoreError> {
        hub.cursor = hub.cursor.take().filter(|_| is_resumed);
        if hub.cursor.is_none() {
            // Deletions since the last watch would be missed.
            hub.states.clear();
        }
        let shared = Self { store: Arc::clone(&self.store), hub: Arc::clone(&self.hub) };
        let (from, cancel) = (hub.cursor.clone(), CancelToken::new());
        let (is_open, owed_since, contact_at) = (false, None, Instant::now());
        let collection = CollectionWatch { id, cancel: cancel.clone(), is_open, owed_since, contact_at };
        let run = move || shared.watch_all(id, from, &cancel);
        let started = thread::Builder::new().name("leasehold-shared".into()).stack_size(STACK_SIZE).spawn(run);
        started.map(|_| collection).map_err(|error| {
            StoreError::new(StoreErrorKind::Unavailable, format!("cannot watch: cannot start a thread: {error}"))
        })
    }

    /// Keeps the watch `id` of all keys open.
    ///
    /// Servers end watches in normal operation, which the electors need not notice.
    fn watch_all(&self, id: u64, mut from: Option<Cursor>, cancel: &CancelToken) {
        let panicked = || Err(StoreError::new(StoreErrorKind::Unavailable, "cannot watch: the store panicked"));
        loop {
            let began = Instant::now();
            let watch =
                || self.store.watch(WatchScope::All, from.as_ref(), cancel, &mut |event| self.on_event(id, event));
            let ended = caught(watch).unwrap_or_else(panicked);
            from = self.hub.lock().cursor.clone();
            if ended.is_err() || from.is_none() || cancel.is_cancelled() || began.elapsed() < SHORTEST {
                return self.end(id, &ended);
            }
        }
    }

    /// Removes a watch that its caller has ended, and ends the watch of all keys after the last one.
    fn leave(&self, id: u64) {
        let mut hub = self.hub.lock();
        // The watch was removed already if the watch of all keys has ended.
        let Some(KeyWatch { key, .. }) = hub.watches.remove(&id) else { return };
        // After the last watch, the state stays, because the next watch may resume.
        let unused = if hub.watches.is_empty() { hub.collection.take() } else { None };
        if unused.is_none() && hub.watches.values().all(|watch| watch.key != key) {
            hub.states.remove(&key);
        }
        drop(hub);
        if let Some(unused) = unused {
            let _ = caught(|| unused.cancel.cancel());
        }
    }

    /// Ends every watch because the watch `id` of all keys has ended.
    fn end(&self, id: u64, result: &Result<(), StoreError>) {
        let mut hub = self.hub.lock();
        if hub.collection.take_if(|it| it.id == id).is_none() {
            return;
        }
        if result.as_ref().is_err_and(|error| error.kind() == StoreErrorKind::Expired) {
            hub.cursor = None;
        }
        let watches = std::mem::take(&mut hub.watches);
        hub.states.retain(|key, _| watches.values().any(|watch| watch.key == *key));
        for watch in watches.values() {
            let newest = hub.states.get(&watch.key).cloned().flatten();
            let _ = watch.end.try_send((newest, result.clone()));
            let _ = watch.wake.try_send(());
        }
    }

    fn on_event(&self, id: u64, event: WatchEvent) {
        let mut guard = self.hub.lock();
        let hub = &mut *guard;
        let Some(collection) = hub.collection.as_mut().filter(|it| it.id == id) else { return };
        collection.owed_since = None;
        if collection.contact_at.elapsed() >= CONTACT_INTERVAL {
            collection.contact_at = Instant::now();
            for watch in hub.watches.values() {
                let _ = (watch.contact.try_send(()), watch.wake.try_send(()));
            }
        }
        match event {
            WatchEvent::Opened => {
                collection.is_open = true;
                hub.watches.values().for_each(|watch| _ = watch.wake.try_send(()));
            }
            WatchEvent::Synced => {}
            WatchEvent::Bookmark(cursor) => hub.cursor = Some(cursor),
            WatchEvent::Changed { key, observed } => {
                hub.learn(&key, KeyState { version: observed.version, observed: Some(observed) }, None);
            }
            WatchEvent::Deleted { key, version } => hub.learn(&key, KeyState { version, observed: None }, None),
            // A watch of one key fails if the store cannot read its record.
            WatchEvent::Unreadable { key, error } => {
                for watch in hub.watches.values().filter(|it| it.key == key) {
                    let _ = watch.end.try_send((None, Err(error.clone())));
                    let _ = watch.wake.try_send(());
                }
            }
        }
    }

    /// Returns the newest state of `key`. Returns `None` while the watch of all keys is not open.
    fn state(&self, key: &str) -> Option<Option<Arc<KeyState>>> {
        let hub = self.hub.lock();
        hub.collection.as_ref().filter(|it| it.is_open)?;
        Some(hub.states.get(key).cloned().flatten())
    }

    /// Reads the record of `key`, unless events meanwhile report a newer state.
    fn read(&self, key: &str, before: Option<&Arc<KeyState>>, cancel: &CancelToken) -> Result<(), StoreError> {
        let observed = self.store.get(key, &CallContext::new(READ_TIMEOUT, cancel.clone()))?;
        let found = KeyState { version: observed.as_ref().map_or(0, |it| it.version), observed };
        // Without an event during the read, even a lower version is newer, because the store may have been restored.
        self.hub.lock().learn(key, found, before);
        Ok(())
    }

    /// Delivers the states of one key until the watch of the key ends.
    fn deliver(
        &self,
        mut stream: KeyStream<'_>,
        cancel: &CancelToken,
        on_event: &mut dyn FnMut(WatchEvent),
    ) -> Result<(), StoreError> {
        let (key, is_resumed, mut is_open, mut end) = (stream.key, stream.last.is_some(), false, None);
        loop {
            check_watch(cancel)?;
            end = end.or_else(|| stream.ended.try_recv().ok());
            let state = match &end {
                Some((newest, _)) => is_open.then(|| newest.clone()),
                None => self.state(key),
            };
            if let Some(state) = state.as_ref().filter(|_| !is_open) {
                match is_resumed {
                    // A read does not return the version of a deletion.
                    true if state.is_none() => return Err(self.expired(key, "the record may have been deleted")),
                    false if !stream.reports_current => self.read(key, state.as_ref(), cancel)?,
                    _ => {}
                }
                is_open = true;
                on_event(WatchEvent::Opened);
            } else if let Some((event, state)) = state.flatten().and_then(|state| stream.next(state)) {
                on_event(event);
                check_watch(cancel)?;
                on_event(WatchEvent::Bookmark(Cursor::new(state)));
            } else if let Some((_, ended)) = end {
                return ended;
            } else {
                if let (true, Ok(()), Some(last)) = (is_open, stream.contacted.try_recv(), &stream.last) {
                    on_event(WatchEvent::Bookmark(Cursor::new(Arc::clone(last))));
                }
                // `recv` cannot fail, because the hook owns a sender.
                let _ = stream.woken.recv();
            }
        }
    }

    fn expired(&self, key: &str, cause: &str) -> StoreError {
        let message = format!("cannot resume the watch of {}: {cause}", self.store.describe(key));
        StoreError::new(StoreErrorKind::Expired, message)
    }

    /// Replaces the watch of all keys if events are missing since a known change. Returns `observed`.
    fn noted(&self, key: &str, observed: VersionedRecord) -> VersionedRecord {
        let mut guard = self.hub.lock();
        let hub = &mut *guard;
        let known = hub.states.get(key).and_then(Option::as_ref);
        let is_owed = known.is_some_and(|known| known.version < observed.version);
        let Some(collection) = hub.collection.as_mut().filter(|it| it.is_open && is_owed) else { return observed };
        if collection.owed_since.get_or_insert_with(Instant::now).elapsed() < LATE {
            return observed;
        }
        let (id, cancel) = (collection.id, collection.cancel.clone());
        drop(guard);
        let key = self.store.describe(key);
        let message = format!(
            "cannot watch all keys: no event for {LATE:?} after a change of {key}; a proxy may buffer the events"
        );
        self.end(id, &Err(StoreError::new(StoreErrorKind::Timeout, message)));
        let _ = caught(|| cancel.cancel());
        observed
    }
}

impl<S: Store> Store for SharedWatch<S> {
    fn get(&self, key: &str, call: &CallContext) -> Result<Option<VersionedRecord>, StoreError> {
        Ok(self.store.get(key, call)?.map(|observed| self.noted(key, observed)))
    }

    fn create(&self, key: &str, write: RecordWrite<'_>, call: &CallContext) -> Result<VersionedRecord, StoreError> {
        self.store.create(key, write, call).map(|observed| self.noted(key, observed))
    }

    fn update(
        &self,
        key: &str,
        base: &VersionedRecord,
        write: RecordWrite<'_>,
        call: &CallContext,
    ) -> Result<VersionedRecord, StoreError> {
        self.store.update(key, base, write, call).map(|observed| self.noted(key, observed))
    }

    fn watch(
        &self,
        scope: WatchScope<'_>,
        from: Option<&Cursor>,
        cancel: &CancelToken,
        on_event: &mut dyn FnMut(WatchEvent),
    ) -> Result<(), StoreError> {
        let WatchScope::Key(key) = scope else { return self.store.watch(scope, from, cancel, on_event) };
        check_watch(cancel)?;
        let last = from.and_then(Cursor::get::<Arc<KeyState>>).cloned();
        if from.is_some() && last.is_none() {
            return Err(self.expired(key, "the cursor is from another store"));
        }
        let [(wake, woken), (contact, contacted)] = [channel::bounded(1), channel::bounded(1)];
        let (end, ended) = channel::bounded(1);
        let wake_cancelled = wake.clone();
        let _hook = cancel.on_cancel(move || _ = wake_cancelled.try_send(()));
        let (id, reports_current) = self.join(KeyWatch { key: key.into(), wake, contact, end }, from.is_some())?;
        let _joined = OnDrop(|| self.leave(id));
        self.deliver(KeyStream { key, last, reports_current, woken, contacted, ended }, cancel, on_event)
    }

    delegate_descriptions!(self => self.store);
}

impl<S: fmt::Debug> fmt::Debug for SharedWatch<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedWatch").field(&self.store).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::memory::MemoryStore;
    use crate::store::record::{LeaderElectionRecord, StoreData};

    const JOBS: &str = "jobs";

    fn at(version: u64) -> VersionedRecord {
        VersionedRecord::new(LeaderElectionRecord::default(), version, StoreData::none())
    }

    /// Returns a store with a watch of [`JOBS`], whose watch of all keys the test replaces.
    fn watched() -> SharedWatch<MemoryStore> {
        let shared = SharedWatch::new(MemoryStore::new());
        let ((wake, _), (end, _)) = (channel::bounded(1), channel::bounded(1));
        let (id, reports_current) =
            shared.join(KeyWatch { key: JOBS.into(), wake, contact: channel::bounded(1).0, end }, false).unwrap();
        assert!(reports_current);
        shared.on_event(id, WatchEvent::Opened);
        // The thread of the watch reports no further event after its first bookmark.
        let until = Instant::now() + Duration::from_secs(30);
        while shared.hub.lock().cursor.is_none() {
            assert!(Instant::now() < until, "no bookmark");
            thread::yield_now();
        }
        shared
    }

    fn version(shared: &SharedWatch<MemoryStore>) -> Option<u64> {
        shared.state(JOBS).unwrap().map(|state| state.version)
    }

    #[test]
    fn unreadable_record_ends_the_watches_of_its_key_alone() {
        let shared = SharedWatch::new(MemoryStore::new());
        let watch = |key: &str| {
            let ((wake, woken), (end, ended)) = (channel::bounded(1), channel::bounded(1));
            let watch = KeyWatch { key: key.into(), wake, contact: channel::bounded(1).0, end };
            (shared.join(watch, false).unwrap().0, woken, ended)
        };
        let ((id, _woken, of_jobs), (_, _also, of_mail)) = (watch(JOBS), watch("mail"));
        let error = StoreError::new(StoreErrorKind::Malformed, "made up");
        shared.on_event(id, WatchEvent::Unreadable { key: JOBS.into(), error });
        let (_, ended) = of_jobs.try_recv().unwrap();
        assert_eq!(ended.unwrap_err().kind(), StoreErrorKind::Malformed);
        assert!(of_mail.try_recv().is_err(), "the watch goes on");
    }

    #[test]
    fn an_event_that_is_older_than_a_read_is_skipped() {
        let shared = watched();
        for (reported, expected) in [(7, 7), (5, 7), (8, 8)] {
            shared.on_event(1, WatchEvent::Changed { key: JOBS.into(), observed: at(reported) });
            assert_eq!(version(&shared), Some(expected));
        }
        shared.on_event(1, WatchEvent::Deleted { key: JOBS.into(), version: 6 });
        assert_eq!(version(&shared), Some(8));
        shared.on_event(2, WatchEvent::Deleted { key: JOBS.into(), version: 9 });
        assert_eq!(version(&shared), Some(8), "an event of another watch");
    }

    /// The versions of a restored store are lower than the last known version.
    #[test]
    fn read_replaces_a_higher_version_unless_an_event_came() {
        let shared = watched();
        let call = CallContext::new(Duration::from_secs(1), CancelToken::new());
        shared.store.create(JOBS, LeaderElectionRecord::default().as_write(), &call).unwrap();
        shared.on_event(1, WatchEvent::Changed { key: JOBS.into(), observed: at(7) });
        let outdated = Arc::new(KeyState { version: 7, observed: Some(at(7)) });
        shared.read(JOBS, Some(&outdated), call.cancel()).unwrap();
        assert_eq!(version(&shared), Some(7));
        let before = shared.state(JOBS).unwrap();
        shared.read(JOBS, before.as_ref(), call.cancel()).unwrap();
        assert_eq!(version(&shared), Some(1));
    }

    #[test]
    fn shared_watch_in_steady_use_is_kept() {
        let shared = watched();
        let owe = |since| shared.hub.lock().collection.as_mut().map(|it| std::mem::replace(&mut it.owed_since, since));
        shared.on_event(1, WatchEvent::Changed { key: JOBS.into(), observed: at(7) });
        for version in 8..11 {
            shared.noted(JOBS, at(version));
            assert!(owe(Instant::now().checked_sub(LATE)).flatten().is_some());
            shared.on_event(1, WatchEvent::Changed { key: JOBS.into(), observed: at(version) });
            (0..2).for_each(|_| _ = shared.noted(JOBS, at(version)));
            assert_eq!(owe(None), Some(None), "the event is late, but arrived before the next read");
        }
        owe(Instant::now().checked_sub(LATE));
        shared.noted(JOBS, at(11));
        assert_eq!(owe(None), None, "no event has arrived");
    }

    #[test]
    fn next_shared_watch_resumes_at_the_newest_bookmark() {
        let expired = Err(StoreError::new(StoreErrorKind::Expired, "made up"));
        for (ended, expected) in [(Ok(()), Some(9)), (expired, None)] {
            let shared = watched();
            [3_u64, 9].into_iter().for_each(|at| shared.on_event(1, WatchEvent::Bookmark(Cursor::new(at))));
            shared.end(1, &ended);
            assert_eq!(shared.hub.lock().cursor.as_ref().and_then(Cursor::get::<u64>).copied(), expected);
        }
    }

    #[test]
    fn states_become_events_once() {
        let present = |version| KeyState { version, observed: Some(at(version)) };
        let absent = |version| KeyState { version, observed: None };
        let deleted = |state: &KeyState, last: Option<&KeyState>| match state.after(last, JOBS) {
            Some(WatchEvent::Deleted { version, .. }) => Some(version),
            None => None,
            other => panic!("{other:?}"),
        };
        assert!(matches!(present(7).after(Some(&present(6)), JOBS), Some(WatchEvent::Changed { .. })));
        assert!(matches!(present(7).after(Some(&absent(8)), JOBS), Some(WatchEvent::Changed { .. })));
        assert!(present(7).after(Some(&present(7)), JOBS).is_none());
        assert_eq!(deleted(&absent(0), None), None, "a record that never existed");
        assert_eq!(deleted(&absent(9), None), Some(9));
        assert_eq!(deleted(&absent(9), Some(&present(7))), Some(9));
        assert_eq!(deleted(&absent(8), Some(&absent(8))), None);
        assert_eq!(deleted(&absent(0), Some(&absent(8))), None);
    }
}
