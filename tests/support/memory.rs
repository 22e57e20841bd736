//! A store in memory, whose operations a test can make fail, wait or hang.

use std::sync::Arc;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use leasehold::ConfigError;
use leasehold::store::{
    CallContext, LeaderElectionRecord, RecordWrite, Store, StoreData, StoreError, StoreErrorKind, VersionedRecord,
};
use parking_lot::Mutex;

use super::SOON;

/// One record for any number of candidates. Every key refers to this record.
#[derive(Clone, Default)]
pub struct Memory(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    on_get: Mutex<Option<OnGet>>,
    on_create: Mutex<Option<Box<dyn FnMut() + Send>>>,
    on_update: Mutex<Option<OnUpdate>>,
    hang_next_update: Mutex<Option<Sender<()>>>,
}

type OnGet = Box<dyn FnMut() -> Result<(), StoreError> + Send>;
type OnUpdate = Box<dyn FnMut(&LeaderElectionRecord) -> Result<(), StoreError> + Send>;

#[derive(Default)]
struct State {
    version: u64,
    record: Option<LeaderElectionRecord>,
}

impl Memory {
    pub fn version(&self) -> u64 {
        self.0.state.lock().version
    }

    pub fn holder(&self) -> Option<String> {
        self.0.state.lock().record.as_ref().and_then(|record| record.holder().map(str::to_owned))
    }

    pub fn observed(&self) -> Option<VersionedRecord> {
        let state = self.0.state.lock();
        state.record.clone().map(|record| VersionedRecord::new(record, state.version, StoreData::none()))
    }

    /// Changes the record like an operator. Creates the record if there is none.
    pub fn edit(&self, change: impl FnOnce(&mut LeaderElectionRecord)) {
        let mut state = self.0.state.lock();
        state.version += 1;
        let version = state.version;
        let record = state.record.get_or_insert_with(|| LeaderElectionRecord {
            uid: Some(format!("uid-{version}")),
            ..LeaderElectionRecord::default()
        });
        change(record);
    }

    /// Sets the holder and the duration in seconds, like an operator.
    pub fn give_to(&self, holder: &str, seconds: i32) {
        self.edit(|record| {
            record.holder_identity = Some(holder.into());
            record.lease_duration_seconds = Some(seconds);
        });
    }

    /// Sets a function that runs before every get.
    pub fn on_get(&self, run: impl FnMut() -> Result<(), StoreError> + Send + 'static) {
        *self.0.on_get.lock() = Some(Box::new(run));
    }

    /// Sets a function that runs before every create.
    pub fn on_create(&self, run: impl FnMut() + Send + 'static) {
        *self.0.on_create.lock() = Some(Box::new(run));
    }

    /// Sets a function that runs before every update.
    pub fn on_update(&self, run: impl FnMut(&LeaderElectionRecord) -> Result<(), StoreError> + Send + 'static) {
        *self.0.on_update.lock() = Some(Box::new(run));
    }

    /// Sets a function that runs before every release.
    pub fn on_release(&self, mut run: impl FnMut() + Send + 'static) {
        self.on_update(move |record| {
            if record.holder().is_none() {
                run();
            }
            Ok(())
        });
    }

    /// Makes the next update hang until it is interrupted, and waits for that update.
    pub fn hang_next_update(&self) {
        let (hanging, hangs) = bounded(1);
        *self.0.hang_next_update.lock() = Some(hanging);
        hangs.recv_timeout(SOON).expect("an update");
    }
}

/// One candidate's connection to a [`Memory`].
pub struct Connection {
    memory: Memory,
    is_cut_off: bool,
    name: String,
}

impl Connection {
    pub fn new(memory: &Memory) -> Self {
        Self::named(memory, "the test's record")
    }

    /// Creates a connection with a name for the log.
    pub fn named(memory: &Memory, name: &str) -> Self {
        Self { memory: memory.clone(), is_cut_off: false, name: name.to_owned() }
    }

    /// Cuts the candidate off from its store.
    pub fn cut_off(self) -> Self {
        Self { is_cut_off: true, ..self }
    }

    fn reach(&self) -> Result<(), StoreError> {
        match self.is_cut_off {
            true => Err(StoreError::new(StoreErrorKind::Unavailable, "cut off")),
            false => Ok(()),
        }
    }

    /// Blocks like a request to a server that does not answer.
    fn hang(&self, call: &CallContext) -> StoreError {
        let (end, ended) = bounded::<()>(0);
        let _hook = call.cancel().on_cancel(move || drop(end));
        match ended.recv_timeout(call.remaining()) {
            Err(RecvTimeoutError::Disconnected) => StoreError::new(StoreErrorKind::Interrupted, "interrupted"),
            _ => StoreError::new(StoreErrorKind::Timeout, "timed out"),
        }
    }
}

impl Store for Connection {
    fn get(&self, _: &str, _: &CallContext) -> Result<Option<VersionedRecord>, StoreError> {
        self.reach()?;
        if let Some(run) = &mut *self.memory.0.on_get.lock() {
            run()?;
        }
        Ok(self.memory.observed())
    }

    fn create(&self, _: &str, write: RecordWrite<'_>, _: &CallContext) -> Result<VersionedRecord, StoreError> {
        self.reach()?;
        if let Some(run) = &mut *self.memory.0.on_create.lock() {
            run();
        }
        let mut state = self.memory.0.state.lock();
        if state.record.is_some() {
            return Err(StoreError::new(StoreErrorKind::AlreadyExists, "it exists"));
        }
        state.version += 1;
        let record = LeaderElectionRecord { uid: Some(format!("uid-{}", state.version)), ..write.record.clone() };
        state.record = Some(record.clone());
        Ok(VersionedRecord::new(record, state.version, StoreData::none()))
    }

    fn update(
        &self,
        _: &str,
        base: &VersionedRecord,
        write: RecordWrite<'_>,
        call: &CallContext,
    ) -> Result<VersionedRecord, StoreError> {
        self.reach()?;
        if let Some(hanging) = self.memory.0.hang_next_update.lock().take() {
            let _ = hanging.send(());
            return Err(self.hang(call));
        }
        if let Some(run) = &mut *self.memory.0.on_update.lock() {
            run(write.record)?;
        }
        let mut state = self.memory.0.state.lock();
        if state.record.is_none() || state.version != base.version {
            return Err(StoreError::new(StoreErrorKind::Conflict, "it moved"));
        }
        state.version += 1;
        state.record = Some(write.record.clone());
        Ok(VersionedRecord::new(write.record.clone(), state.version, StoreData::none()))
    }

    fn check_key(&self, _: &str) -> Result<(), ConfigError> {
        Ok(())
    }

    fn describe(&self, _: &str) -> String {
        self.name.clone()
    }
}
