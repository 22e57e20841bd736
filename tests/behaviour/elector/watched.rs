//! A store whose watches do what a test says, and that notes when they are asked for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use leasehold::{
    Cancel, ConfigError, Cursor, LeaderElectionRecord, Observed, Store, StoreError, StoreErrorKind, WatchEvent,
    WatchScope,
};
use parking_lot::Mutex;

use crate::support::memory::{Connection, Memory};

/// What the watch of this number, counted from zero, does.
type Script = dyn Fn(usize, &Cancel, &mut dyn FnMut(WatchEvent)) -> Result<(), StoreError> + Send + Sync;

pub struct Watched {
    store: Connection,
    script: Box<Script>,
    calls: Calls,
}

/// The watches that were asked for.
#[derive(Clone, Default)]
pub struct Calls(Arc<Mutex<Vec<Call>>>);

#[derive(Clone, Copy)]
pub struct Call {
    pub after: Option<u64>,
    pub began: Instant,
    pub ended: Option<Instant>,
}

impl Watched {
    pub fn new(
        store: &Memory,
        script: impl Fn(usize, &Cancel, &mut dyn FnMut(WatchEvent)) -> Result<(), StoreError> + Send + Sync + 'static,
    ) -> Self {
        Self { store: Connection::new(store), script: Box::new(script), calls: Calls::default() }
    }

    pub fn calls(&self) -> Calls {
        self.calls.clone()
    }
}

impl Calls {
    pub fn all(&self) -> Vec<Call> {
        self.0.lock().clone()
    }

    pub fn count(&self) -> usize {
        self.0.lock().len()
    }

    /// How long each watch came after the end of the one before it.
    pub fn pauses(&self) -> Vec<Duration> {
        let pause = |pair: &[Call]| Some(pair[1].began.duration_since(pair[0].ended?));
        self.0.lock().windows(2).filter_map(pause).collect()
    }
}

/// Tells what stands there.
pub fn changed(store: &Memory) -> WatchEvent {
    WatchEvent::Changed { key: "test".into(), observed: store.observed().expect("a lease") }
}

/// Stays open and says nothing, until it is stopped.
pub fn silence(cancel: &Cancel) -> Result<(), StoreError> {
    let (end, ended) = bounded::<()>(0);
    let _hook = cancel.on_cancel(move || drop(end));
    let _ = ended.recv();
    Err(StoreError::new(StoreErrorKind::Interrupted, "stopped"))
}

impl Store for Watched {
    fn get(&self, key: &str, call: &leasehold::Call) -> Result<Option<Observed>, StoreError> {
        self.store.get(key, call)
    }

    fn create(&self, key: &str, record: &LeaderElectionRecord, call: &leasehold::Call) -> Result<Observed, StoreError> {
        self.store.create(key, record, call)
    }

    fn update(
        &self,
        key: &str,
        base: &Observed,
        record: &LeaderElectionRecord,
        call: &leasehold::Call,
    ) -> Result<Observed, StoreError> {
        self.store.update(key, base, record, call)
    }

    fn watch(
        &self,
        _: WatchScope<'_>,
        from: Option<&Cursor>,
        cancel: &Cancel,
        tell: &mut dyn FnMut(WatchEvent),
    ) -> Result<(), StoreError> {
        let after = from.and_then(Cursor::get).copied();
        let number = {
            let mut calls = self.calls.0.lock();
            calls.push(Call { after, began: Instant::now(), ended: None });
            calls.len() - 1
        };
        let ended = (self.script)(number, cancel, tell);
        self.calls.0.lock()[number].ended = Some(Instant::now());
        ended
    }

    fn check_key(&self, _: &str) -> Result<(), ConfigError> {
        Ok(())
    }

    fn describe(&self, key: &str) -> String {
        self.store.describe(key)
    }
}
