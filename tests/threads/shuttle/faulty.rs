//! A store in memory: compare-and-swap, and requests that hang.

use std::panic::resume_unwind;
use std::sync::Arc;

use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;

use crate::channel::{self, Receiver, RecvTimeoutError, Sender};
use crate::sync::Mutex;
use crate::{
    CallContext, CancelToken, ConfigError, Cursor, LeaderElectionRecord, Leadership, Store, StoreData, StoreError,
    StoreErrorKind, VersionedRecord, WatchEvent, WatchScope,
};

/// How requests fare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Faults {
    /// They are answered at once.
    Fair,
    /// Any may hang, applied or not, until it is interrupted or its time has passed.
    Foul,
    /// Renewals hang, not applied; the rest is answered at once.
    RenewalsHang,
    /// They are refused, in a way that no waiting changes.
    Forbidden,
    /// They panic, without a word on the terminal.
    Panicking,
    /// Watches stand until they are stopped, or end by themselves, and a read or a write is an error of the test. With
    /// every other value, there are no watches.
    Watched,
}

/// Clones are the same store.
#[derive(Clone)]
pub struct FaultyStore(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
}

struct State {
    faults: Faults,
    observed: Option<VersionedRecord>,
    version: u64,
    views: Vec<Leadership>,
    nobody_asks: bool,
    ill_fated: Option<Sender<()>>,
}

impl FaultyStore {
    pub fn new(faults: Faults) -> Self {
        let state =
            State { faults, observed: None, version: 0, views: Vec::new(), nobody_asks: false, ill_fated: None };
        Self(Arc::new(Shared { state: Mutex::new(state) }))
    }

    pub fn set_faults(&self, faults: Faults) {
        self.0.state.lock().faults = faults;
    }

    /// Whoever is in the record.
    pub fn holder(&self) -> Option<String> {
        self.0
            .state
            .lock()
            .observed
            .as_ref()
            .and_then(|observed| observed.record.holder_identity.clone())
            .filter(|it| !it.is_empty())
    }

    /// Another candidate leads, and does not renew.
    pub fn give_to_another(&self) {
        let record = LeaderElectionRecord {
            holder_identity: Some("another".into()),
            lease_duration_seconds: Some(15),
            ..LeaderElectionRecord::default()
        };
        let given = self.apply(0, &record);
        given.expect("nobody was there before");
    }

    /// From now on a release may come only when this view is false.
    pub fn attend(&self, view: Leadership) {
        self.0.state.lock().views.push(view);
    }

    /// A message for each read that is refused, just before its caller hears of it, and for each renewal that will hang.
    pub fn ill_fated(&self) -> Receiver<()> {
        let (sender, receiver) = channel::unbounded();
        self.0.state.lock().ill_fated = Some(sender);
        receiver
    }

    /// From now on, or not any more, it is an error to acquire the lease.
    pub fn nobody_asks(&self, is_so: bool) {
        self.0.state.lock().nobody_asks = is_so;
    }

    fn write(
        &self,
        base: u64,
        record: &LeaderElectionRecord,
        call: &CallContext,
    ) -> Result<VersionedRecord, StoreError> {
        let faults = self.0.state.lock().faults;
        let held_before = self.holder().is_some();
        match record.holder() {
            None => self.check_that_views_are_false(),
            Some(_) if held_before => {}
            Some(_) => assert!(!self.0.state.lock().nobody_asks, "the lease was acquired, and nobody had asked for it"),
        }
        match faults {
            Faults::Forbidden => return Err(StoreError::new(StoreErrorKind::Forbidden, "forbidden")),
            Faults::Panicking => resume_unwind(Box::new("a store that panics")),
            Faults::Watched => unreachable!("a watcher does not write"),
            Faults::RenewalsHang if held_before && record.holder().is_some() => {
                self.tell_of_ill_fate();
                // As long as it takes until there is anything to interrupt.
                for _ in 0..thread_rng().gen_range(0..100) {
                    thread::yield_now();
                }
                return Err(self.hang(call));
            }
            Faults::Foul if thread_rng().gen_bool(0.5) => {
                if thread_rng().gen_bool(0.5) {
                    let _ = self.apply(base, record);
                }
                let hung = self.hang(call);
                // An answer may come after all.
                return if thread_rng().gen_bool(0.3) { self.apply(base, record) } else { Err(hung) };
            }
            _ => {}
        }
        self.apply(base, record)
    }

    fn tell_of_ill_fate(&self) {
        if let Some(ill_fated) = &self.0.state.lock().ill_fated {
            let _ = ill_fated.send(());
        }
    }

    fn check_that_views_are_false(&self) {
        let views = self.0.state.lock().views.clone();
        assert!(!views.iter().any(Leadership::is_leader), "a release began while a view was true");
    }

    fn apply(&self, base: u64, record: &LeaderElectionRecord) -> Result<VersionedRecord, StoreError> {
        let mut state = self.0.state.lock();
        let present = state.observed.as_ref().map_or(0, |observed| observed.version);
        if present != base {
            let kind = if base == 0 { StoreErrorKind::AlreadyExists } else { StoreErrorKind::Conflict };
            return Err(StoreError::new(kind, "it moved"));
        }
        state.version += 1;
        let observed = VersionedRecord::new(record.clone(), state.version, StoreData::none());
        Ok(state.observed.insert(observed).clone())
    }

    /// As a request that hangs, which is cancelled if that comes meanwhile. Only a release cancels.
    fn hang(&self, call: &CallContext) -> StoreError {
        let (end, ended) = channel::bounded::<()>(0);
        let store = self.clone();
        let _hook = call.cancel().on_cancel(move || {
            store.check_that_views_are_false();
            drop(end);
        });
        match ended.recv_timeout(call.remaining()) {
            Err(RecvTimeoutError::Timeout) => StoreError::new(StoreErrorKind::Timeout, "no answer"),
            _ => StoreError::new(StoreErrorKind::Interrupted, "interrupted"),
        }
    }
}

impl Store for FaultyStore {
    fn get(&self, _: &str, call: &CallContext) -> Result<Option<VersionedRecord>, StoreError> {
        let faults = self.0.state.lock().faults;
        match faults {
            Faults::Forbidden => {
                self.tell_of_ill_fate();
                return Err(StoreError::new(StoreErrorKind::Forbidden, "forbidden"));
            }
            Faults::Panicking => resume_unwind(Box::new("a store that panics")),
            Faults::Foul if thread_rng().gen_bool(0.5) => return Err(self.hang(call)),
            Faults::Watched => unreachable!("a watcher does not read"),
            _ => {}
        }
        Ok(self.0.state.lock().observed.clone())
    }

    fn create(
        &self,
        _: &str,
        record: &LeaderElectionRecord,
        call: &CallContext,
    ) -> Result<VersionedRecord, StoreError> {
        self.write(0, record, call)
    }

    fn update(
        &self,
        _: &str,
        base: &VersionedRecord,
        record: &LeaderElectionRecord,
        call: &CallContext,
    ) -> Result<VersionedRecord, StoreError> {
        self.write(base.version, record, call)
    }

    fn watch(
        &self,
        _: WatchScope<'_>,
        _: Option<&Cursor>,
        cancel: &CancelToken,
        tell: &mut dyn FnMut(WatchEvent),
    ) -> Result<(), StoreError> {
        if self.0.state.lock().faults != Faults::Watched {
            return Err(StoreError::new(StoreErrorKind::Unsupported, "no watch"));
        }
        if thread_rng().gen_ratio(1, 4) {
            return Err(StoreError::new(StoreErrorKind::Unavailable, "refused"));
        }
        let (end, ended) = channel::bounded::<()>(0);
        let _hook = cancel.on_cancel(move || drop(end));
        tell(WatchEvent::Opened);
        tell(WatchEvent::Bookmark(Cursor::new(7_u64)));
        if thread_rng().gen_ratio(1, 4) {
            return Ok(());
        }
        let _ = ended.recv();
        Err(StoreError::new(StoreErrorKind::Interrupted, "stopped"))
    }

    fn check_key(&self, _: &str) -> Result<(), ConfigError> {
        Ok(())
    }

    fn describe(&self, _: &str) -> String {
        "a store in memory".into()
    }
}
