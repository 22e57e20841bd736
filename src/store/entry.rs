//! The one record that an elector is about.

use crate::cancel::Cancel;
use crate::record::{LeaderElectionRecord, Observed};
use crate::store::{Call, Cursor, Store, StoreError, StoreErrorKind, WatchEvent, WatchScope};
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
        self.store.get(&self.key, call)?.map(checked).transpose()
    }

    pub(crate) fn create(&self, record: &LeaderElectionRecord, call: &Call) -> Result<Observed, StoreError> {
        self.store.create(&self.key, record, call).and_then(checked)
    }

    pub(crate) fn update(
        &self,
        base: &Observed,
        record: &LeaderElectionRecord,
        call: &Call,
    ) -> Result<Observed, StoreError> {
        self.store.update(&self.key, base, record, call).and_then(checked)
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

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// For a line in the log: where the record is.
    pub(crate) fn at(&self) -> String {
        self.store.location().map_or_else(String::new, |location| format!(" at {location}"))
    }

    pub(crate) fn namespace(&self) -> Option<String> {
        self.store.namespace()
    }

    pub(crate) fn describe(&self) -> String {
        self.store.describe(&self.key)
    }
}

/// Zero stands for a record that is not there.
fn checked(observed: Observed) -> Result<Observed, StoreError> {
    match observed.version {
        0 => Err(StoreError::new(StoreErrorKind::Malformed, "the store says version 0: versions begin above that")),
        _ => Ok(observed),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::ConfigError;
    use crate::record::Opaque;

    struct FromZero;

    impl Store for FromZero {
        fn get(&self, _: &str, _: &Call) -> Result<Option<Observed>, StoreError> {
            Ok(Some(Observed::new(LeaderElectionRecord::default(), 0, Opaque::none())))
        }

        fn create(&self, _: &str, record: &LeaderElectionRecord, _: &Call) -> Result<Observed, StoreError> {
            Ok(Observed::new(record.clone(), 0, Opaque::none()))
        }

        fn update(
            &self,
            _: &str,
            base: &Observed,
            record: &LeaderElectionRecord,
            _: &Call,
        ) -> Result<Observed, StoreError> {
            Ok(Observed::new(record.clone(), base.version, Opaque::none()))
        }

        fn check_key(&self, _: &str) -> Result<(), ConfigError> {
            Ok(())
        }

        fn describe(&self, key: &str) -> String {
            key.to_owned()
        }
    }

    #[test]
    fn a_version_of_zero_is_an_error_that_says_so() {
        let entry = Entry::new(Arc::new(FromZero), "jobs");
        let call = Call::new(Duration::from_secs(1), Cancel::new());
        let record = LeaderElectionRecord::default();
        let base = Observed::new(record.clone(), 0, Opaque::none());
        let errors = [
            entry.get(&call).map(|_| ()),
            entry.create(&record, &call).map(|_| ()),
            entry.update(&base, &record, &call).map(|_| ()),
        ];
        for error in errors.map(Result::unwrap_err) {
            assert_eq!(error.kind(), StoreErrorKind::Malformed);
            assert!(error.to_string().contains("version 0"), "{error}");
        }
    }
}
