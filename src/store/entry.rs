//! The one record that an elector is about.

use crate::cancel::Cancel;
use crate::record::{LeaderElectionRecord, Observed};
use crate::store::{Call, Cursor, Store, StoreError, WatchEvent, WatchScope};
use crate::sync::Arc;

/// A key of a store.
#[derive(Clone)]
pub(crate) struct Entry {
    store: Arc<dyn Store>,
    key: Arc<str>,
}

impl Entry {
    pub(crate) fn new(store: Arc<dyn Store>, key: &str) -> Self {
        Self { store, key: key.into() }
    }

    pub(crate) fn get(&self, call: &Call) -> Result<Option<Observed>, StoreError> {
        self.store.get(&self.key, call)
    }

    pub(crate) fn create(&self, record: &LeaderElectionRecord, call: &Call) -> Result<Observed, StoreError> {
        self.store.create(&self.key, record, call)
    }

    pub(crate) fn update(
        &self,
        base: &Observed,
        record: &LeaderElectionRecord,
        call: &Call,
    ) -> Result<Observed, StoreError> {
        self.store.update(&self.key, base, record, call)
    }

    /// What a store tells of other keys is not passed on.
    pub(crate) fn watch(
        &self,
        from: Option<&Cursor>,
        cancel: &Cancel,
        on_event: &mut dyn FnMut(WatchEvent),
    ) -> Result<(), StoreError> {
        self.store.watch(WatchScope::Key(&self.key), from, cancel, &mut |event| match &event {
            WatchEvent::Changed { key, .. } | WatchEvent::Deleted { key, .. } if **key != *self.key => {}
            _ => on_event(event),
        })
    }

    pub(crate) fn describe(&self) -> String {
        self.store.describe(&self.key)
    }
}
