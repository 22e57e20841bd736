//! The store that all SQL databases share, and the operations that each database provides.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::backends::sql::{RowUpdate, base_columns, columns, version, with_notes};
use crate::store::record::{LeaderElectionRecord, RecordWrite, VersionedRecord};
use crate::store::{CallContext, Cursor, Store, StoreError, StoreErrorKind, WatchEvent, WatchScope};
use crate::util::cancel::CancelToken;
use crate::util::config_error::ConfigError;

/// Maximum length of a key in bytes, which every database can store and index.
const LONGEST_KEY: usize = 253;

/// Timeout for opening the database and creating the table.
pub(crate) const SET_UP_TIMEOUT: Duration = Duration::from_secs(10);

/// The causes of a write that a database ignored without an error, with the statements that remove them.
const IGNORED_WRITE: &str = "a trigger of the table dropped the write, or in PostgreSQL a rule or row level security; run \
                             DROP TRIGGER, DROP RULE or ALTER TABLE leasehold DISABLE ROW LEVEL SECURITY";

/// The arguments of [`Store::watch`].
#[derive(Clone, Copy)]
pub(crate) struct WatchRequest<'a> {
    pub(crate) scope: WatchScope<'a>,
    pub(crate) from: Option<&'a Cursor>,
    pub(crate) cancel: &'a CancelToken,
}

/// The SQL operations of one kind of database on the table `leasehold`.
pub(crate) trait SqlTable: Send + Sync + 'static {
    /// Returns the location of the table, for logs.
    fn location(&self) -> String;

    /// Returns the name of the table, for errors.
    fn name(&self) -> String {
        self.location()
    }

    /// Creates the table if it is missing.
    ///
    /// The default implementation does nothing, for a database that creates its table when it opens.
    fn create_table(&self, _call: &CallContext) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns the record of `key`.
    fn select(&self, key: &str, call: &CallContext) -> Result<Option<VersionedRecord>, StoreError>;

    /// Inserts a row that contains the record, its uid and its notes.
    ///
    /// Returns the version of the row, or `None` if a row with this key exists.
    fn insert(&self, key: &str, write: RecordWrite<'_>, call: &CallContext) -> Result<Option<u64>, StoreError>;

    /// Replaces the record and the notes of a row.
    ///
    /// Returns `false` if the row no longer has the version and the [`base_columns`] of the base. A version alone may
    /// repeat if the database has lost writes.
    fn update(&self, update: RowUpdate<'_>, call: &CallContext) -> Result<bool, StoreError>;

    /// Returns `true` if this user has the rights of a candidate, or `None` if the rights are unknown.
    fn may_campaign(&self, key: &str, exists: bool, call: &CallContext) -> Option<bool> {
        let _ = (key, exists, call);
        None
    }

    /// Returns the cause of a write that the database ignored or refused, if the table shows a cause.
    fn cause_of_ignored_write(&self, _operation: &str, _what: &str, _call: &CallContext) -> Option<StoreError> {
        None
    }

    /// Watches as [`Store::watch`] does.
    fn watch(&self, watch: WatchRequest<'_>, on_event: &mut dyn FnMut(WatchEvent)) -> Result<(), StoreError>;

    /// Returns the version of a new row, or an error if no version has this generation.
    fn first_version(&self, key: &str, generation: i64) -> Result<u64, StoreError> {
        version(generation, 0).ok_or_else(|| {
            let what = self.describe(WatchScope::Key(key));
            let message = format!("cannot create {what}: all 2^32 generations of the table are used");
            StoreError::new(StoreErrorKind::Rejected, message)
        })
    }

    /// Returns the name of the records in `scope`, for errors.
    ///
    /// If the scope is the empty key, returns the name of the table, because no record has an empty key.
    fn describe(&self, scope: WatchScope<'_>) -> String {
        match scope {
            WatchScope::Key("") => self.name(),
            WatchScope::Key(key) => format!("{key} in {}", self.name()),
            WatchScope::Prefix(prefix) => format!("records {prefix}* in {}", self.name()),
            WatchScope::All => format!("all records in {}", self.name()),
        }
    }
}

/// A store that keeps its records in a table.
pub(crate) struct SqlStore<T> {
    pub(crate) table: T,
    /// Whether the next read or watch must first create the table.
    ///
    /// The constructor does not create the table, because the server may not be running yet.
    creates_table: AtomicBool,
}

impl<T: SqlTable> SqlStore<T> {
    pub(crate) fn new(table: T, creates_table: bool) -> Self {
        Self { table, creates_table: AtomicBool::new(creates_table) }
    }

    /// Creates the table if it is missing.
    ///
    /// Blocks at most [`SET_UP_TIMEOUT`].
    #[cfg(feature = "_sql_server")]
    pub(crate) fn set_up(&self) -> Result<(), StoreError> {
        self.table.create_table(&CallContext::new(SET_UP_TIMEOUT, CancelToken::new()))
    }

    /// Creates the table if `creates_table` is set.
    ///
    /// Concurrent calls do not wait for each other, because the server may never answer one of them.
    fn create_table(&self, call: &CallContext) -> Result<(), StoreError> {
        if self.creates_table.load(Ordering::Acquire) { self.table.create_table(call) } else { Ok(()) }
    }

    /// Returns the error of a write that changed no row.
    ///
    /// If the record still is `base`, the database ignored the write. The elector would repeat the write in vain.
    fn unapplied(&self, operation: &str, key: &str, base: Option<&VersionedRecord>, call: &CallContext) -> StoreError {
        let what = self.describe(key);
        let found = self.table.select(key, call);
        let state = |found: &VersionedRecord| (found.version, found.record.uid.clone(), base_columns(found));
        let is_ignored = base.is_some() && found.as_ref().is_ok_and(|it| it.as_ref().map(state) == base.map(state));
        // Row level security can also hide the record, and an operator can have deleted the record.
        if is_ignored || matches!(found, Ok(None)) {
            if let Some(cause) = self.table.cause_of_ignored_write(operation, &what, call) {
                return cause;
            }
            if is_ignored {
                let why = "the database changed no row, but the record is unchanged";
                let message = format!("cannot {operation} {what}: {why}; {IGNORED_WRITE}");
                return StoreError::new(StoreErrorKind::Rejected, message);
            }
        }
        let message = match base {
            Some(base) => {
                format!("{what} no longer has version {}, or has another record or other notes", base.version)
            }
            None => format!("{what} exists"),
        };
        StoreError::new(StoreErrorKind::NotApplied, message)
    }
}

impl<T: SqlTable> fmt::Debug for SqlStore<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlStore").field("location", &self.table.location()).finish_non_exhaustive()
    }
}

impl<T: SqlTable> Store for SqlStore<T> {
    fn get(&self, key: &str, call: &CallContext) -> Result<Option<VersionedRecord>, StoreError> {
        let created = match self.create_table(call) {
            // A later call may succeed after these errors. The password file, for example, may not exist yet.
            Err(error) if error.is_transient() || error.kind() == StoreErrorKind::Unauthorized => return Err(error),
            created => created,
        };
        let answer = self.table.select(key, call);
        match &answer {
            Ok(_) => self.creates_table.store(false, Ordering::Release),
            // Some users may use an existing table, but may not create a table. The failure to create the table is
            // therefore an error only if the table is missing.
            Err(error) if error.kind() == StoreErrorKind::NotFound => created?,
            Err(_) => {}
        }
        answer
    }

    fn create(&self, key: &str, write: RecordWrite<'_>, call: &CallContext) -> Result<VersionedRecord, StoreError> {
        // A version may repeat in another table, or in this table after a restore. The random uid then still differs.
        let uid = Some(format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..)));
        let record = LeaderElectionRecord { uid, ..write.record.clone() };
        let write = record.with_notes(write.notes);
        let Some(version) = self.table.insert(key, write, call)? else {
            return Err(self.unapplied("create", key, None, call));
        };
        let [.., notes] = columns(write);
        Ok(with_notes(record, version, notes))
    }

    fn update(
        &self,
        key: &str,
        base: &VersionedRecord,
        write: RecordWrite<'_>,
        call: &CallContext,
    ) -> Result<VersionedRecord, StoreError> {
        if !self.table.update(RowUpdate { key, base, new: write }, call)? {
            return Err(self.unapplied("update", key, Some(base), call));
        }
        let record = LeaderElectionRecord { uid: base.record.uid.clone(), ..write.record.clone() };
        let [.., notes] = columns(write);
        Ok(with_notes(record, base.version + 1, notes))
    }

    fn watch(
        &self,
        scope: WatchScope<'_>,
        from: Option<&Cursor>,
        cancel: &CancelToken,
        on_event: &mut dyn FnMut(WatchEvent),
    ) -> Result<(), StoreError> {
        // The watch ignores the error, because the caller's reads report the same error.
        let _ = self.create_table(&CallContext::new(SET_UP_TIMEOUT, cancel.clone()));
        self.table.watch(WatchRequest { scope, from, cancel }, on_event)
    }

    /// Accepts any text of at most 253 bytes without a NUL.
    fn check_key(&self, key: &str) -> Result<(), ConfigError> {
        check_key(key)
    }

    fn describe(&self, key: &str) -> String {
        self.table.describe(WatchScope::Key(key))
    }

    fn may_campaign(&self, key: &str, exists: bool, call: &CallContext) -> Option<bool> {
        self.table.may_campaign(key, exists, call)
    }

    fn location(&self) -> Option<String> {
        Some(self.table.location())
    }

    fn keeps_notes(&self) -> bool {
        true
    }
}

fn check_key(key: &str) -> Result<(), ConfigError> {
    let refuse = |rule: &str| Err(ConfigError::new("name", format_args!("{key:?}"), rule));
    match key {
        "" => refuse("a key must not be empty"),
        _ if key.len() > LONGEST_KEY => refuse("a key must be at most 253 bytes long"),
        _ if key.contains('\0') => refuse("a key must not contain a NUL character"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_text_of_some_length_without_nul() {
        for key in ["jobs", "a b", "ä/ö", "it's", &"x".repeat(253)] {
            assert_eq!(check_key(key), Ok(()), "{key}");
        }
        for (key, word) in
            [("", "empty"), ("a\0b", "NUL"), (&*"x".repeat(254), "253 bytes"), (&*"ä".repeat(127), "253")]
        {
            assert!(check_key(key).unwrap_err().rule().contains(word), "{key}");
        }
    }
}
