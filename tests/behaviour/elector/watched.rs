//! A store whose watches follow a script of the test, and which records these watches.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use leasehold::store::{CancelToken, Cursor, StoreError, StoreErrorKind, WatchEvent};
use parking_lot::Mutex;

use crate::support::memory::{Connection, Memory};
use crate::support::stores::Wrapped;

/// The watches that were requested.
#[derive(Clone, Default)]
pub struct Calls(Arc<Mutex<Vec<Call>>>);

#[derive(Clone, Copy)]
pub struct Call {
    pub after: Option<u64>,
    pub began: Instant,
    pub ended: Option<Instant>,
}

/// Returns a store whose watches run `script`, and the list of watches.
///
/// `script` receives the number of the watch, counted from zero.
pub fn watched(
    store: &Memory,
    script: impl Fn(usize, &CancelToken, &mut dyn FnMut(WatchEvent)) -> Result<(), StoreError> + Send + Sync + 'static,
) -> (Wrapped<Connection>, Calls) {
    let calls = Calls::default();
    let noted = Arc::clone(&calls.0);
    let watched = Wrapped::watching(Connection::new(store), move |from, cancel, tell| {
        let after = from.and_then(Cursor::get).copied();
        let number = {
            let mut calls = noted.lock();
            calls.push(Call { after, began: Instant::now(), ended: None });
            calls.len() - 1
        };
        let ended = script(number, cancel, tell);
        noted.lock()[number].ended = Some(Instant::now());
        ended
    });
    (watched, calls)
}

impl Calls {
    pub fn all(&self) -> Vec<Call> {
        self.0.lock().clone()
    }

    pub fn count(&self) -> usize {
        self.0.lock().len()
    }

    /// Returns the pause between the end of each watch and the start of the next watch.
    pub fn pauses(&self) -> Vec<Duration> {
        let pause = |pair: &[Call]| Some(pair[1].began.duration_since(pair[0].ended?));
        self.0.lock().windows(2).filter_map(pause).collect()
    }
}

/// Returns an event with the current record.
pub fn changed(store: &Memory) -> WatchEvent {
    WatchEvent::Changed { key: "test".into(), observed: store.observed().expect("a lease") }
}

/// Keeps a watch open without events until the watch is canceled.
pub fn silence(cancel: &CancelToken) -> Result<(), StoreError> {
    let (end, ended) = bounded::<()>(0);
    let _hook = cancel.on_cancel(move || drop(end));
    let _ = ended.recv();
    Err(StoreError::new(StoreErrorKind::Interrupted, "stopped"))
}
