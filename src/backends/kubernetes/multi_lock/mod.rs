//! The lock of two objects, which serves the migration of a fleet.
//!
//! The rule 'Two objects' of `docs/internals/PROTOCOL.md` describes the lock.

pub mod composite;

use composite::{Composite, CompositeCall, ObjectOperation};

use crate::store::record::{RecordWrite, VersionedRecord};
use crate::store::{CallContext, Store, StoreError, StoreErrorKind};
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
        self.run(key, requests, call)?.ok_or_else(|| {
            let text = format!(
                "cannot write {}: the server answered with an earlier record; remove caches before it",
                self.describe(key)
            );
            StoreError::new(StoreErrorKind::Malformed, text)
        })
    }
}

impl Store for MultiLock {
    fn get(&self, key: &str, call: &CallContext) -> Result<Option<VersionedRecord>, StoreError> {
        // The lock does not write the history of a job.
        self.run(key, CompositeCall::read(), &call.without_store_time())
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
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::record::{LeaderElectionRecord, MicroTime, StoreData};
    use crate::util::cancel::CancelToken;

    /// An object whose server answers each create with this record, or with the written record.
    struct Answers(Option<LeaderElectionRecord>);

    impl Store for Answers {
        fn get(&self, _: &str, _: &CallContext) -> Result<Option<VersionedRecord>, StoreError> {
            Ok(None)
        }

        fn create(&self, _: &str, write: RecordWrite<'_>, _: &CallContext) -> Result<VersionedRecord, StoreError> {
            let record = self.0.as_ref().unwrap_or(write.record).clone();
            Ok(VersionedRecord::new(record, 7, StoreData::none()))
        }

        fn update(
            &self,
            _: &str,
            _: &VersionedRecord,
            _: RecordWrite<'_>,
            _: &CallContext,
        ) -> Result<VersionedRecord, StoreError> {
            Err(StoreError::new(StoreErrorKind::Conflict, "made up"))
        }

        fn check_key(&self, _: &str) -> Result<(), ConfigError> {
            Ok(())
        }

        fn describe(&self, key: &str) -> String {
            key.to_owned()
        }
    }

    /// A proxy may answer a write with a cached answer to an earlier write.
    #[test]
    fn answer_with_an_earlier_own_record_is_an_error() {
        let record = |renewal| LeaderElectionRecord {
            holder_identity: Some("me".to_owned()),
            acquire_time: Some(MicroTime::from_unix_micros(1)),
            renew_time: Some(MicroTime::from_unix_micros(renewal)),
            ..LeaderElectionRecord::default()
        };
        let call = CallContext::new(Duration::from_secs(1), CancelToken::new());
        let objects: [Arc<dyn Store>; 2] = [Arc::new(Answers(None)), Arc::new(Answers(Some(record(1))))];
        let lock = MultiLock::new(objects, "me", 15);
        assert!(lock.get("jobs", &call).expect("an answer").is_none());
        lock.composite.lock().write(None, record(1).as_write()).expect("own");
        let error = lock.create("jobs", record(2).as_write(), &call).expect_err("an earlier record");
        assert_eq!(error.kind(), StoreErrorKind::Malformed);
    }
}
