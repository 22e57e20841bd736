//! The location of an elector's record: a store and a key.

use crate::store::record::{RecordWrite, VersionedRecord};
use crate::store::{CallContext, Cursor, MAX_VERSION, Store, StoreError, StoreErrorKind, WatchEvent, WatchScope};
use crate::util::cancel::CancelToken;
use crate::util::sync::Arc;

/// The location of one record: a store and a key.
#[derive(Clone)]
pub(crate) struct Entry {
    store: Arc<dyn Store>,
    key: Arc<str>,
}

impl Entry {
    pub(crate) fn new(store: Arc<dyn Store>, key: &str) -> Self {
        Self { store, key: key.into() }
    }

    pub(crate) fn get(&self, call: &CallContext) -> Result<Option<VersionedRecord>, StoreError> {
        self.store.get(&self.key, call)?.map(|observed| self.checked(observed, 0)).transpose()
    }

    pub(crate) fn create(&self, write: RecordWrite<'_>, call: &CallContext) -> Result<VersionedRecord, StoreError> {
        self.store.create(&self.key, write, call).and_then(|observed| self.checked(observed, 0))
    }

    /// Replaces the record.
    ///
    /// Returns an error if the version in the store's answer is not above the version of `base`.
    pub(crate) fn update(
        &self,
        base: &VersionedRecord,
        write: RecordWrite<'_>,
        call: &CallContext,
    ) -> Result<VersionedRecord, StoreError> {
        self.store.update(&self.key, base, write, call).and_then(|observed| self.checked(observed, base.version))
    }

    /// Watches this key.
    ///
    /// Ignores events of other keys. Cancels the watch if an event has a version that is out of range.
    pub(crate) fn watch(
        &self,
        from: Option<&Cursor>,
        cancel: &CancelToken,
        on_event: &mut dyn FnMut(WatchEvent),
    ) -> Result<(), StoreError> {
        let mut refused = None;
        let ended = self.store.watch(WatchScope::Key(&self.key), from, cancel, &mut |event| match event.change() {
            Some((key, _)) if *key != *self.key => {}
            Some((_, version)) if !(1..=MAX_VERSION).contains(&version) => {
                refused = Some(self.malformed(version, 0));
                cancel.cancel();
            }
            _ => on_event(event),
        });
        refused.map_or(ended, Err)
    }

    pub(crate) fn keeps_notes(&self) -> bool {
        self.store.keeps_notes()
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Returns the location of the record as a suffix for log lines.
    pub(crate) fn at(&self) -> String {
        self.store.location().map_or_else(String::new, |location| format!(" at {location}"))
    }

    pub(crate) fn describe(&self) -> String {
        self.store.describe(&self.key)
    }

    /// Returns an error unless the version is above `above` and at most [`MAX_VERSION`].
    ///
    /// Version 0 means that no record exists. A version above [`MAX_VERSION`] does not fit a signed 64-bit database
    /// column.
    fn checked(&self, observed: VersionedRecord, above: u64) -> Result<VersionedRecord, StoreError> {
        match observed.version {
            version if version > above && version <= MAX_VERSION => Ok(observed),
            version => Err(self.malformed(version, above)),
        }
    }

    fn malformed(&self, version: u64, above: u64) -> StoreError {
        let rule = format!("a store must return versions above {above} and at most {MAX_VERSION}");
        let message = format!("cannot use version {version} of {}: {rule}", self.describe());
        StoreError::new(StoreErrorKind::Malformed, message)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::record::{LeaderElectionRecord, StoreData};
    use crate::util::config_error::ConfigError;

    /// A store that returns this version for every record.
    struct AtVersion(u64);

    fn observed(version: u64) -> VersionedRecord {
        VersionedRecord::new(LeaderElectionRecord::default(), version, StoreData::none())
    }

    impl Store for AtVersion {
        fn get(&self, _: &str, _: &CallContext) -> Result<Option<VersionedRecord>, StoreError> {
            Ok(Some(observed(self.0)))
        }

        fn create(&self, _: &str, _: RecordWrite<'_>, _: &CallContext) -> Result<VersionedRecord, StoreError> {
            Ok(observed(self.0))
        }

        fn update(
            &self,
            _: &str,
            _: &VersionedRecord,
            _: RecordWrite<'_>,
            _: &CallContext,
        ) -> Result<VersionedRecord, StoreError> {
            Ok(observed(self.0))
        }

        fn watch(
            &self,
            _: WatchScope<'_>,
            from: Option<&Cursor>,
            _: &CancelToken,
            on_event: &mut dyn FnMut(WatchEvent),
        ) -> Result<(), StoreError> {
            let (key, version) = ("jobs".into(), self.0);
            on_event(match from {
                None => WatchEvent::Changed { key, observed: observed(version) },
                Some(_) => WatchEvent::Deleted { key, version },
            });
            Ok(())
        }

        fn check_key(&self, _: &str) -> Result<(), ConfigError> {
            Ok(())
        }

        fn describe(&self, key: &str) -> String {
            key.to_owned()
        }
    }

    #[test]
    fn version_out_of_range_is_malformed() {
        let call = CallContext::new(Duration::from_secs(1), CancelToken::new());
        for version in [0, 1, 7, 8, MAX_VERSION, MAX_VERSION + 1, u64::MAX] {
            let (entry, base) = (Entry::new(Arc::new(AtVersion(version)), "jobs"), observed(7));
            let (cancel, mut events) = (CancelToken::new(), 0);
            let mut watch = |from| entry.watch(from, &cancel, &mut |_| events += 1);
            let results = [
                watch(None),
                watch(Some(&Cursor::new(()))),
                entry.get(&call).map(drop),
                entry.create(base.record.as_write(), &call).map(drop),
                entry.update(&base, base.record.as_write(), &call).map(drop),
            ];
            let is_valid = (1..=MAX_VERSION).contains(&version);
            let refused = results.each_ref().map(|it| it.as_ref().err().map(StoreError::kind));
            let expected = |is_valid: bool| (!is_valid).then_some(StoreErrorKind::Malformed);
            assert_eq!(refused[..4], [expected(is_valid); 4], "{version}");
            assert_eq!(refused[4], expected(is_valid && version > 7), "{version}");
            assert_eq!((events, cancel.is_cancelled()), (if is_valid { 2 } else { 0 }, !is_valid), "{version}");
        }
    }
}
