//! What tests of both threads need.

use crate::store::entry::Entry;
use crate::store::record::{LeaderElectionRecord, VersionedRecord};
use crate::store::{CallContext, Store, StoreError};
use crate::util::config_error::ConfigError;
use crate::util::sync::Arc;

/// One that nobody asks.
pub(crate) fn entry() -> Entry {
    Entry::new(Arc::new(NoStore), "jobs")
}

struct NoStore;

impl Store for NoStore {
    fn get(&self, _: &str, _: &CallContext) -> Result<Option<VersionedRecord>, StoreError> {
        unreachable!("nobody asks")
    }
    fn create(&self, _: &str, _: &LeaderElectionRecord, _: &CallContext) -> Result<VersionedRecord, StoreError> {
        unreachable!("nobody asks")
    }
    fn update(
        &self,
        _: &str,
        _: &VersionedRecord,
        _: &LeaderElectionRecord,
        _: &CallContext,
    ) -> Result<VersionedRecord, StoreError> {
        unreachable!("nobody asks")
    }
    fn check_key(&self, _: &str) -> Result<(), ConfigError> {
        Ok(())
    }
    fn describe(&self, key: &str) -> String {
        key.to_owned()
    }
}
