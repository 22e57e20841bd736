//! An in-memory store with compare-and-swap, whose requests may hang or fail.

use std::panic::resume_unwind;
use std::sync::Arc;

use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;

use crate::channel::{self, Receiver, RecvTimeoutError, Sender};
use crate::sync::Mutex;
use crate::{
    CallContext, CancelToken, ConfigError, Cursor, LeaderElectionRecord, Leadership, RecordWrite, Store, StoreData,
    StoreError, StoreErrorKind, VersionedRecord, WatchEvent, WatchScope,
};

/// The way in which the store handles requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Faults {
    /// Requests are answered at once.
    Fair,
    /// Any request may hang until it is interrupted or times out.
    ///
    /// The store may still apply the request.
    Foul,
    /// Renewals hang and are not applied.
    ///
    /// Other requests are answered at once.
    RenewalsHang,
    /// Requests are refused with an error that does not go away.
    Forbidden,
    /// Requests panic, without any output on the terminal.
    Panicking,
    /// The store supports watches, and a read or a write is an error of the test.
    ///
    /// Watches stay open until they are stopped, end by themselves, or are refused. With every other value, the store
    /// does not support watches.
    Watched,
}

/// A store whose clones share one state.
#[derive(Clone)]
pub struct FaultyStore(Arc<Mutex<State>>);

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
        Self(Arc::new(Mutex::new(state)))
    }

    pub fn set_faults(&self, faults: Faults) {
        self.0.lock().faults = faults;
    }

    /// Returns the holder in the record.
    pub fn holder(&self) -> Option<String> {
        self.0.lock().observed.as_ref().and_then(|observed| observed.record.holder().map(str::to_owned))
    }

    /// Writes the record of another candidate, which leads and never renews.
    pub fn give_to_another(&self) {
        let record = LeaderElectionRecord {
            holder_identity: Some("another".into()),
            lease_duration_seconds: Some(15),
            ..LeaderElectionRecord::default()
        };
        let given = self.apply(0, &record);
        given.expect("nobody was there before");
    }

    /// Checks from now on that `view` is `false` when a release begins.
    pub fn attend(&self, view: Leadership) {
        self.0.lock().views.push(view);
    }

    /// Returns a channel that receives a message for each refused read and each hanging renewal.
    ///
    /// The message is sent just before the read returns its error, or before the renewal hangs.
    pub fn ill_fated(&self) -> Receiver<()> {
        let (sender, receiver) = channel::unbounded();
        self.0.lock().ill_fated = Some(sender);
        receiver
    }

    /// Sets whether it is an error of the test if an elector acquires the lease.
    pub fn nobody_asks(&self, is_so: bool) {
        self.0.lock().nobody_asks = is_so;
    }

    fn write(&self, base: u64, write: RecordWrite<'_>, call: &CallContext) -> Result<VersionedRecord, StoreError> {
        let record = write.record;
        let faults = self.0.lock().faults;
        let held_before = self.holder().is_some();
        match record.holder() {
            None => self.check_that_views_are_false(),
            Some(_) if held_before => {}
            Some(_) => assert!(!self.0.lock().nobody_asks, "the lease was acquired, and nobody had asked for it"),
        }
        match faults {
            Faults::Forbidden => return Err(StoreError::new(StoreErrorKind::Forbidden, "forbidden")),
            Faults::Panicking => resume_unwind(Box::new("a store that panics")),
            Faults::Watched => unreachable!("a watcher does not write"),
            Faults::RenewalsHang if held_before && record.holder().is_some() => {
                self.tell_of_ill_fate();
                // Some time passes before the request can be interrupted.
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
                // The store may apply and answer the request although it hung.
                return if thread_rng().gen_bool(0.3) { self.apply(base, record) } else { Err(hung) };
            }
            _ => {}
        }
        self.apply(base, record)
    }

    fn tell_of_ill_fate(&self) {
        if let Some(ill_fated) = &self.0.lock().ill_fated {
            let _ = ill_fated.send(());
        }
    }

    fn check_that_views_are_false(&self) {
        let views = self.0.lock().views.clone();
        assert!(!views.iter().any(Leadership::is_leader), "a release began while a view was true");
    }

    fn apply(&self, base: u64, record: &LeaderElectionRecord) -> Result<VersionedRecord, StoreError> {
        let mut state = self.0.lock();
        let present = state.observed.as_ref().map_or(0, |observed| observed.version);
        if present != base {
            let kind = if base == 0 { StoreErrorKind::AlreadyExists } else { StoreErrorKind::Conflict };
            return Err(StoreError::new(kind, "it moved"));
        }
        state.version += 1;
        let observed = VersionedRecord::new(record.clone(), state.version, StoreData::none());
        Ok(state.observed.insert(observed).clone())
    }

    /// Blocks until the call is canceled or times out, and returns the error.
    ///
    /// Only a release cancels a call, so all views must be `false` then.
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
        let faults = self.0.lock().faults;
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
        Ok(self.0.lock().observed.clone())
    }

    fn create(&self, _: &str, write: RecordWrite<'_>, call: &CallContext) -> Result<VersionedRecord, StoreError> {
        self.write(0, write, call)
    }

    fn update(
        &self,
        _: &str,
        base: &VersionedRecord,
        write: RecordWrite<'_>,
        call: &CallContext,
    ) -> Result<VersionedRecord, StoreError> {
        self.write(base.version, write, call)
    }

    fn watch(
        &self,
        _: WatchScope<'_>,
        _: Option<&Cursor>,
        cancel: &CancelToken,
        tell: &mut dyn FnMut(WatchEvent),
    ) -> Result<(), StoreError> {
        if self.0.lock().faults != Faults::Watched {
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
