//! Common setup for the tests of all stores: calls, records and electors.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::crossbeam_channel::{Receiver, unbounded};
use leasehold::store::{
    CallContext, CancelToken, Cursor, LeaderElectionRecord, MicroTime, RecordWrite, Store, StoreError, StoreErrorKind,
    VersionedRecord, WatchEvent, WatchScope,
};
use leasehold::{ConfigError, LeaderElector, LeaderElectorBuilder};

use super::{A_WHILE, AT_ONCE, SOON};

/// A store that answers late, or whose watches behave as a test specifies.
pub struct Wrapped<S> {
    store: S,
    answer: Box<dyn Fn(&str) + Send + Sync>,
    watch: Option<Box<WatchScript>>,
}

type WatchScript =
    dyn Fn(Option<&Cursor>, &CancelToken, &mut dyn FnMut(WatchEvent)) -> Result<(), StoreError> + Send + Sync;

impl<S: Store> Wrapped<S> {
    /// Runs `answer` after each read or write, before the result is returned.
    ///
    /// The argument of `answer` is the name of the method.
    pub fn answering(store: S, answer: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { store, answer: Box::new(answer), watch: None }
    }

    pub fn watching(
        store: S,
        watch: impl Fn(Option<&Cursor>, &CancelToken, &mut dyn FnMut(WatchEvent)) -> Result<(), StoreError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self { store, answer: Box::new(|_| {}), watch: Some(Box::new(watch)) }
    }

    pub fn without_watch(store: S) -> Self {
        Self::watching(store, |_, _, _| Err(StoreError::new(StoreErrorKind::Unsupported, "no watch")))
    }

    /// Runs `answer` after each read or write, as in [`answering`](Self::answering).
    pub fn and_answering(self, answer: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { answer: Box::new(answer), ..self }
    }

    fn answered<T>(&self, method: &str, answer: T) -> T {
        (self.answer)(method);
        answer
    }
}

impl<S: Store> Store for Wrapped<S> {
    fn get(&self, key: &str, call: &CallContext) -> Result<Option<VersionedRecord>, StoreError> {
        self.answered("get", self.store.get(key, call))
    }

    fn create(&self, key: &str, write: RecordWrite<'_>, call: &CallContext) -> Result<VersionedRecord, StoreError> {
        self.answered("create", self.store.create(key, write, call))
    }

    fn update(
        &self,
        key: &str,
        base: &VersionedRecord,
        write: RecordWrite<'_>,
        call: &CallContext,
    ) -> Result<VersionedRecord, StoreError> {
        self.answered("update", self.store.update(key, base, write, call))
    }

    fn watch(
        &self,
        scope: WatchScope<'_>,
        from: Option<&Cursor>,
        cancel: &CancelToken,
        on_event: &mut dyn FnMut(WatchEvent),
    ) -> Result<(), StoreError> {
        match &self.watch {
            Some(watch) => watch(from, cancel, on_event),
            None => self.store.watch(scope, from, cancel, on_event),
        }
    }

    fn check_key(&self, key: &str) -> Result<(), ConfigError> {
        self.store.check_key(key)
    }

    fn describe(&self, key: &str) -> String {
        self.store.describe(key)
    }
}

pub fn call() -> CallContext {
    CallContext::new(SOON, CancelToken::new())
}

/// Returns the context of a call with a short timeout.
pub fn brief() -> CallContext {
    CallContext::new(A_WHILE, CancelToken::new())
}

pub fn held_by(identity: &str) -> LeaderElectionRecord {
    LeaderElectionRecord {
        uid: None,
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: Some(15),
        acquire_time: Some(MicroTime::from_unix_micros(1_700_000_000_000_001)),
        renew_time: Some(MicroTime::from_unix_micros(1_700_000_000_999_999)),
        lease_transitions: Some(3),
    }
}

/// Returns a builder with a lease duration that is longer than a test.
pub fn builder(identity: &str) -> LeaderElectorBuilder {
    LeaderElector::builder("jobs")
        .identity(identity)
        .lease_duration(Duration::from_secs(60))
        .retry_period(Duration::from_millis(100))
        .renew_interval(Duration::from_millis(50))
        .release_timeout(Duration::from_secs(20))
}

pub fn elector(store: &Arc<impl Store>, identity: &str) -> LeaderElector {
    builder(identity).start_on(Arc::clone(store)).expect("an elector")
}

/// Retries `ask` until `ask` succeeds.
///
/// The server may still be starting, or an etcd cluster may be electing its own leader.
pub fn at_last<T>(what: &str, ask: impl Fn() -> Result<T, StoreError>) -> T {
    let until = Instant::now() + SOON;
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(error) => assert!(Instant::now() < until, "{what}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Returns the errors of a read, an update, a creation and a watch.
pub fn errors_of(store: &impl Store, base: &VersionedRecord) -> [StoreError; 4] {
    [
        store.get("jobs", &call()).expect_err("a read"),
        store.update("jobs", base, held_by("b").as_write(), &call()).expect_err("an update"),
        store.create("other", held_by("b").as_write(), &call()).expect_err("a creation"),
        store.watch(WatchScope::All, None, &CancelToken::new(), &mut |_| {}).expect_err("a watch"),
    ]
}

/// Cancels the watch when dropped, even if the test panics.
///
/// Otherwise the test would wait for its watch forever.
struct Ends(CancelToken);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Runs `test` during a watch of all keys.
///
/// The channel receives the events after the first bookmark.
pub fn watching<T>(store: &impl Store, test: impl FnOnce(&Receiver<WatchEvent>) -> T) -> T {
    let cancel = CancelToken::new();
    std::thread::scope(|scope| {
        let (tell, told) = unbounded();
        let watched = cancel.clone();
        let watch =
            scope.spawn(move || store.watch(WatchScope::All, None, &watched, &mut |event| drop(tell.send(event))));
        while !matches!(told.recv_timeout(SOON).expect("the watch opens"), WatchEvent::Bookmark(_)) {}
        let ends = Ends(cancel);
        let seen = test(&told);
        drop(ends);
        let ended = watch.join().expect("no panic").expect_err("the watch was cancelled");
        assert_eq!(ended.kind(), StoreErrorKind::Interrupted, "{ended}");
        seen
    })
}

/// Returns the key of the next change and the new holder.
///
/// The holder is `None` if the record was deleted.
pub fn next_change(told: &Receiver<WatchEvent>) -> (String, Option<String>) {
    loop {
        match told.recv_timeout(AT_ONCE).expect("a change") {
            WatchEvent::Changed { key, observed } => {
                return (key.into(), Some(observed.record.holder_identity.unwrap_or_default()));
            }
            WatchEvent::Deleted { key, .. } => return (key.into(), None),
            _ => {}
        }
    }
}
