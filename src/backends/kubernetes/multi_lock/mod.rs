//! The lock of two objects, which serves the migration of a fleet.
//!
//! The rule 'Two objects' of `docs/internals/PROTOCOL.md` describes the lock.

pub mod composite;

use composite::{Composite, CompositeCall, ObjectOperation};

use crate::store::record::{RecordWrite, VersionedRecord};
use crate::store::{CallContext, Store, StoreError};
use crate::util::config_error::ConfigError;
use crate::util::sync::{Arc, Mutex};

/// The store of one elector, whose record consists of two objects with the same name.
///
/// The kinds and the order of the objects are those of client-go's `MultiLock`. The store has no watch, so electors
/// poll.
pub(crate) struct MultiLock {
    objects: [Arc<dyn Store>; 2],
    composite: Mutex<Composite>,
}

impl MultiLock {
    /// Creates the store of the elector `identity` with this published duration.
    pub(crate) fn new(objects: [Arc<dyn Store>; 2], identity: &str, lease_duration_seconds: i32) -> Self {
        Self { objects, composite: Mutex::new(Composite::new(identity, lease_duration_seconds)) }
    }

    /// Sends the requests of a call one after the other, and returns the result of the call.
    fn run(
        &self,
        key: &str,
        mut requests: CompositeCall,
        call: &CallContext,
    ) -> Result<Option<VersionedRecord>, StoreError> {
        loop {
            let object = &self.objects[requests.object() as usize];
            let answer = match requests.operation() {
                ObjectOperation::Get => object.get(key, call),
                ObjectOperation::Create(record, notes) => object.create(key, record.with_notes(&notes), call).map(Some),
                ObjectOperation::Update(base, record, notes) => {
                    object.update(key, &base, record.with_notes(&notes), call).map(Some)
                }
            };
            if let Some(result) = requests.answered(&mut self.composite.lock(), answer) {
                return result;
            }
        }
    }

    fn write(
        &self,
        key: &str,
        base: Option<&VersionedRecord>,
        write: RecordWrite<'_>,
        call: &CallContext,
    ) -> Result<VersionedRecord, StoreError> {
        let requests = self.composite.lock().write(base, write)?;
        // A successful write returns a record, because both objects have the record.
        Ok(self.run(key, requests, call)?.unwrap_or_else(|| unreachable!("a write without a record")))
    }
}

impl Store for MultiLock {
    fn get(&self, key: &str, call: &CallContext) -> Result<Option<VersionedRecord>, StoreError> {
        self.run(key, CompositeCall::read(), call)
    }

    fn create(&self, key: &str, write: RecordWrite<'_>, call: &CallContext) -> Result<VersionedRecord, StoreError> {
        self.write(key, None, write, call)
    }

    fn update(
        &self,
        key: &str,
        base: &VersionedRecord,
        write: RecordWrite<'_>,
        call: &CallContext,
    ) -> Result<VersionedRecord, StoreError> {
        self.write(key, Some(base), write, call)
    }

    fn check_key(&self, key: &str) -> Result<(), ConfigError> {
        self.objects.iter().try_for_each(|object| object.check_key(key))
    }

    fn describe(&self, key: &str) -> String {
        let [primary, secondary] = &self.objects;
        format!("{} and {}", primary.describe(key), secondary.describe(key))
    }

    fn location(&self) -> Option<String> {
        self.objects[0].location()
    }

    fn keeps_notes(&self) -> bool {
        self.objects.iter().all(|object| object.keeps_notes())
    }

    fn namespace(&self) -> Option<String> {
        self.objects[0].namespace()
    }
}
