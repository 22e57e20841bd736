//! A lock whose watches do what a test says, and that notes when they are asked for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use leasehold::{Cancel, LeaderElectionRecord, Lock, LockError, LockErrorKind, Observed, WatchEvent};
use parking_lot::Mutex;

use crate::support::memory::{MemoryLock, Store};

/// What the watch of this number, counted from zero, does.
type Script = dyn Fn(usize, &Cancel, &mut dyn FnMut(WatchEvent)) -> Result<(), LockError> + Send + Sync;

pub struct Watched {
    lock: MemoryLock,
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
        store: &Store,
        script: impl Fn(usize, &Cancel, &mut dyn FnMut(WatchEvent)) -> Result<(), LockError> + Send + Sync + 'static,
    ) -> Self {
        Self { lock: MemoryLock::new(store), script: Box::new(script), calls: Calls::default() }
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

/// Stays open and says nothing, until it is stopped.
pub fn silence(cancel: &Cancel) -> Result<(), LockError> {
    let (end, ended) = bounded::<()>(0);
    let _hook = cancel.on_cancel(move || drop(end));
    let _ = ended.recv();
    Err(LockError::new(LockErrorKind::Interrupted, "stopped"))
}

impl Lock for Watched {
    fn get(&self, call: &leasehold::Call) -> Result<Option<Observed>, LockError> {
        self.lock.get(call)
    }

    fn create(&self, record: &LeaderElectionRecord, call: &leasehold::Call) -> Result<Observed, LockError> {
        self.lock.create(record, call)
    }

    fn update(
        &self,
        base: &Observed,
        record: &LeaderElectionRecord,
        call: &leasehold::Call,
    ) -> Result<Observed, LockError> {
        self.lock.update(base, record, call)
    }

    fn watch(&self, after: Option<u64>, cancel: &Cancel, tell: &mut dyn FnMut(WatchEvent)) -> Result<(), LockError> {
        let number = {
            let mut calls = self.calls.0.lock();
            calls.push(Call { after, began: Instant::now(), ended: None });
            calls.len() - 1
        };
        let ended = (self.script)(number, cancel, tell);
        self.calls.0.lock()[number].ended = Some(Instant::now());
        ended
    }

    fn describe(&self) -> String {
        self.lock.describe()
    }
}
