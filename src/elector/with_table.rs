//! Creates the table of a store before the first request.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::store::record::{LeaderElectionRecord, Observed};
use crate::store::{Call, Cursor, Store, StoreError, StoreErrorKind, WatchEvent, WatchScope};
use crate::util::cancel::Cancel;
use crate::util::config_error::ConfigError;

/// A store whose table is created before the first request, because the server may start later.
pub(super) struct WithTable<S> {
    store: S,
    create: fn(&S, &Call) -> Result<(), StoreError>,
    is_made: AtomicBool,
}

impl<S: Store> WithTable<S> {
    pub(super) fn new(store: S, create: fn(&S, &Call) -> Result<(), StoreError>, may_create: bool) -> Self {
        Self { store, create, is_made: AtomicBool::new(!may_create) }
    }

    /// Calls do not wait for each other, because a server may hang.
    fn create_table(&self, call: &Call) -> Result<(), StoreError> {
        if self.is_made.load(Ordering::Acquire) { Ok(()) } else { (self.create)(&self.store, call) }
    }
}

impl<S: Store> Store for WithTable<S> {
    fn get(&self, key: &str, call: &Call) -> Result<Option<Observed>, StoreError> {
        let created = match self.create_table(call) {
            // The password may be a file that another program has not written yet.
            Err(error) if error.is_transient() || error.kind() == StoreErrorKind::Unauthorized => return Err(error),
            created => created,
        };
        let answer = self.store.get(key, call);
        match &answer {
            Ok(_) => self.is_made.store(true, Ordering::Release),
            // A user without the right to create tables may use a table that exists.
            Err(error) if error.kind() == StoreErrorKind::NotFound => created?,
            Err(_) => {}
        }
        answer
    }

    fn create(&self, key: &str, record: &LeaderElectionRecord, call: &Call) -> Result<Observed, StoreError> {
        self.store.create(key, record, call)
    }

    fn update(
        &self,
        key: &str,
        base: &Observed,
        record: &LeaderElectionRecord,
        call: &Call,
    ) -> Result<Observed, StoreError> {
        self.store.update(key, base, record, call)
    }

    fn watch(
        &self,
        scope: WatchScope<'_>,
        from: Option<&Cursor>,
        cancel: &Cancel,
        on_event: &mut dyn FnMut(WatchEvent),
    ) -> Result<(), StoreError> {
        // A read returns the error, and within a shorter time.
        let _ = self.create_table(&Call::new(Duration::from_secs(10), cancel.clone()));
        self.store.watch(scope, from, cancel, on_event)
    }

    fn check_key(&self, key: &str) -> Result<(), ConfigError> {
        self.store.check_key(key)
    }

    fn describe(&self, key: &str) -> String {
        self.store.describe(key)
    }

    fn location(&self) -> Option<String> {
        self.store.location()
    }

    fn namespace(&self) -> Option<String> {
        self.store.namespace()
    }
}
