//! Connections to one SQLite file, and the retries of statements while the file is locked.

use std::path::Path;
use std::time::{Duration, SystemTime};

use rusqlite::types::Type;
use rusqlite::{Connection, ErrorCode, OpenFlags, Row, params_from_iter};

use crate::backends::sql;
use crate::backends::sql::store::{SqlTable, WatchRequest};
use crate::backends::sql::{Records, RowUpdate, watch_diff};
use crate::backends::sqlite::file::DatabaseFile;
use crate::backends::sqlite::signal::{CommitSignal, wake_watches};
use crate::store::record::{RecordWrite, VersionedRecord};
use crate::store::{CallContext, StoreError, StoreErrorKind, WatchEvent, WatchScope};
use crate::util::sync::Mutex;

/// Maximum wait for a busy connection before a call checks its timeout and cancel token.
///
/// A connection is busy while another call of this process runs one statement.
const LOCK_WAIT: Duration = Duration::from_millis(5);

/// Time limit of a watch's read while the file is locked, after which the watch ends.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// First pause before a call retries on a locked file.
///
/// A write of another process locks the file for a fraction of a millisecond.
const FIRST_PAUSE: Duration = Duration::from_micros(250);

/// Longest pause between two retries, as long as the call has more than [`PATIENCE`] such pauses left.
const LONGEST_PAUSE: Duration = Duration::from_millis(5);

/// The number of pauses that fit the rest of a call at any time.
///
/// SQLite has no queue, and a worker that commits is back within 50 µs. The chance of a retry grows with the number of
/// retries, so a call near its deadline retries more often.
const PATIENCE: u32 = 2_000;

pub(super) const CREATE_TABLE: &str = include_str!("../table.sql");

/// A query for records, whose columns are texts as on a database server.
const SELECT: &str = "SELECT CAST(generation AS TEXT), key, CAST(writes AS TEXT), uid, holder_identity, \
                      CAST(lease_duration_seconds AS TEXT), acquire_time, renew_time, \
                      CAST(lease_transitions AS TEXT), notes FROM leasehold";

/// A query that fails if the table lacks a column, except the columns that [`WRONG_COLUMN`] returns if they are missing.
const HAS_ITS_COLUMNS: &str = "SELECT generation, key, writes, uid, holder_identity, lease_duration_seconds, \
                               acquire_time, renew_time, lease_transitions FROM leasehold";

const INSERT: &str = "INSERT INTO leasehold (key, uid, holder_identity, lease_duration_seconds, acquire_time, \
                      renew_time, lease_transitions, notes, acquisition) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0) \
                      ON CONFLICT (key) DO NOTHING";

/// An update that compares the whole record and its notes.
const UPDATE: &str = "UPDATE leasehold SET writes = writes + 1, acquisition = coalesce(?17, acquisition), \
                      holder_identity = ?1, lease_duration_seconds = ?2, acquire_time = ?3, renew_time = ?4, \
                      lease_transitions = ?5, notes = ?6 WHERE key = ?7 AND generation = ?8 AND writes = ?9 AND \
                      uid IS ?10 AND holder_identity IS ?11 AND lease_duration_seconds IS ?12 AND \
                      acquire_time IS ?13 AND renew_time IS ?14 AND lease_transitions IS ?15 AND notes IS ?16";

/// A query that returns 1 if the table exists, else 0.
const HAS_TABLE: &str = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'leasehold'";

/// A query that returns the name of a wrong column, or NULL if no column is wrong.
const WRONG_COLUMN: &str = include_str!("../wrong_column.sql");

/// One file, with the connections and watches of this process.
pub(super) struct Database {
    file: DatabaseFile,
    requests: Mutex<Connection>,
    /// A separate connection that detects the commits of all other connections.
    ///
    /// SQLite's `data_version` changes only after commits of other connections, such as `requests`. This field must
    /// follow `requests`, because Rust drops fields in order, and SQLite must close `requests` first.
    watches: Mutex<Connection>,
}

impl Database {
    /// Opens the file within the time of this call. If `may_create`, creates the file and the table if they are missing.
    pub(super) fn open(
        path: &Path,
        in_shared_folder: bool,
        may_create: bool,
        call: &CallContext,
    ) -> Result<Self, StoreError> {
        let mut file = DatabaseFile::prepare(path, in_shared_folder)?;
        let connections = [connect(&file, may_create, call)?, connect(&file, may_create, call)?];
        // Both connections have read, so the `-wal` and `-shm` files now exist and stay.
        file.remember_companions()?;
        let [requests, watches] = connections.map(Mutex::new);
        Ok(Self { file, requests, watches })
    }

    /// Returns the records of the opened file, even if the path now leads to another file.
    ///
    /// Returns no records if the read fails.
    fn remains(&self, scope: WatchScope<'_>) -> Records {
        let connection = self.watches.try_lock_for(LOCK_WAIT);
        connection.and_then(|connection| select(&connection, scope).ok()).unwrap_or_default()
    }

    fn announce(&self, rows: usize) {
        if rows > 0 {
            wake_watches(&self.file.wal);
        }
    }

    /// Runs `work` on a connection, and retries while the file is locked until the call ends.
    fn attempt<T>(
        &self,
        connection: &Mutex<Connection>,
        call: &CallContext,
        mut work: impl FnMut(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        retry(&self.file, call, || {
            let connection = connection.try_lock_for(LOCK_WAIT.min(call.remaining()))?;
            Some(work(&connection))
        })
    }
}

impl SqlTable for Database {
    fn location(&self) -> String {
        self.file.path.display().to_string()
    }

    fn select(&self, key: &str, call: &CallContext) -> Result<Option<VersionedRecord>, StoreError> {
        let mut found = self.attempt(&self.requests, call, |connection| select(connection, WatchScope::Key(key)))?;
        call.set_store_time(SystemTime::now());
        Ok(found.remove(key))
    }

    fn insert(&self, key: &str, write: RecordWrite<'_>, call: &CallContext) -> Result<Option<u64>, StoreError> {
        let parameters = sql::insert_parameters(key, write);
        let generation = self.attempt(&self.requests, call, |connection| {
            // When `execute` returns, SQLite has committed or rejected the row. `RETURNING` is unsuitable, because
            // SQLite does not report a failed commit while a returned row is pending.
            let rows = connection.prepare_cached(INSERT)?.execute(params_from_iter(&parameters))?;
            let generation = (rows > 0).then(|| connection.last_insert_rowid());
            self.announce(rows);
            Ok(generation)
        })?;
        generation.map(|generation| self.first_version(key, generation)).transpose()
    }

    fn update(&self, update: RowUpdate<'_>, call: &CallContext) -> Result<bool, StoreError> {
        let parameters = sql::update_parameters(update);
        self.attempt(&self.requests, call, |connection| {
            let rows = connection.prepare_cached(UPDATE)?.execute(params_from_iter(&parameters))?;
            self.announce(rows);
            Ok(rows > 0)
        })
    }

    fn watch(&self, watch: WatchRequest<'_>, on_event: &mut dyn FnMut(WatchEvent)) -> Result<(), StoreError> {
        // The signal exists before the first read, so no change is missed.
        let signal = CommitSignal::new(&self.file.path, &self.file.wal, watch.cancel);
        let mut seen: Option<i64> = None;
        let read = || {
            let call = CallContext::new(READ_TIMEOUT, watch.cancel.clone());
            self.attempt(&self.watches, &call, |connection| {
                // `data_version` is read before the records. If a commit follows between the two reads, the next call
                // reads the records again and misses nothing.
                let number = connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
                if seen == Some(number) {
                    return Ok(None);
                }
                let records = select(connection, watch.scope)?;
                seen = Some(number);
                Ok(Some(records))
            })
        };
        // If the file is deleted, `remains` adds records that the watch has not delivered yet, such as a leader's first
        // write.
        watch_diff::watch_by_reading(watch, on_event, read, || signal.wait(), || self.remains(watch.scope))
    }
}

fn connect(file: &DatabaseFile, may_create: bool, call: &CallContext) -> Result<Connection, StoreError> {
    // Without the flags for URIs and creation, SQLite uses the path as it is, and does not create a file.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&file.path, flags).map_err(|error| failed(file, error))?;
    let on = |work: &dyn Fn(&Connection) -> rusqlite::Result<()>| retry(file, call, || Some(work(&connection)));
    // The store itself waits for locks, because SQLite's own wait cannot be cancelled.
    on(&|connection| connection.busy_timeout(Duration::ZERO))?;
    let has_table = || connection.query_row(HAS_TABLE, [], |row| row.get::<_, bool>(0));
    if !may_create && !retry(file, call, || Some(has_table()))? {
        let message = format!("{} has no table leasehold; a candidate creates the table", file.path.display());
        return Err(StoreError::new(StoreErrorKind::NotFound, message));
    }
    let mode = retry(file, call, || Some(write_ahead_log(&connection)))?;
    require_write_ahead_log(&file.path, &mode)?;
    // Without these settings, a power failure could revert confirmed writes. On Apple's systems, a sync needs
    // `fullfsync`.
    on(&|connection| connection.execute_batch("PRAGMA synchronous = FULL; PRAGMA fullfsync = ON"))?;
    on(&create_table)?;
    on(&|connection| connection.prepare(HAS_ITS_COLUMNS).map(drop))?;
    match retry(file, call, || Some(connection.query_row(WRONG_COLUMN, [], |row| row.get::<_, Option<String>>(0))))? {
        Some(column) => Err(wrong_column(file, &column)),
        None => Ok(connection),
    }
}

/// Returns the error for a wrong column, with the statements that repair the table.
///
/// SQLite cannot change a column, so the repair creates a new table with greater generations than the old table.
fn wrong_column(file: &DatabaseFile, column: &str) -> StoreError {
    let why = sql::wrong_column(CREATE_TABLE, column, |_| {
        format!(
            "ALTER TABLE leasehold RENAME TO leasehold_before; {}; INSERT INTO sqlite_sequence SELECT 'leasehold', max( \
             coalesce((SELECT max(generation) FROM leasehold_before), 0), \
             coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'leasehold_before'), 0))",
            CREATE_TABLE.replace("\n    ", " ").replace('\n', " ")
        )
    });
    StoreError::new(StoreErrorKind::Rejected, format!("cannot use {}: {why}", file.path.display()))
}

/// Requests the write-ahead log, and returns the resulting journal mode.
///
/// If SQLite cannot use the write-ahead log, SQLite keeps another mode.
fn write_ahead_log(connection: &Connection) -> rusqlite::Result<String> {
    connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))
}

fn require_write_ahead_log(path: &Path, mode: &str) -> Result<(), StoreError> {
    if mode.eq_ignore_ascii_case("wal") {
        return Ok(());
    }
    let message = format!(
        "cannot use {}: SQLite keeps the journal mode {mode:?} instead of \"wal\"; use a \
         local file system with shared memory",
        path.display()
    );
    Err(StoreError::new(StoreErrorKind::Rejected, message))
}

fn create_table(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(CREATE_TABLE)
}

fn select(connection: &Connection, scope: WatchScope<'_>) -> rusqlite::Result<Records> {
    // The first comparison of a prefix uses the index.
    let condition = if scope.is_one() { "key = ?1" } else { "key >= ?1 AND substr(key, 1, length(?1)) = ?1" };
    let mut statement = connection.prepare_cached(&format!("{SELECT} WHERE {condition}"))?;
    let found = statement.query_map([scope.text()], observed)?;
    // An error without a code of SQLite is an unreadable record, which does not hide the other records of a prefix.
    let is_readable = |found: &rusqlite::Result<_>| match found {
        Err(error) => scope.is_one() || error.sqlite_error_code().is_some(),
        Ok(_) => true,
    };
    found.filter(is_readable).collect()
}

fn observed(row: &Row<'_>) -> rusqlite::Result<(Box<str>, VersionedRecord)> {
    let columns = (0..10).map(|column| row.get(column)).collect::<rusqlite::Result<Vec<Option<String>>>>()?;
    let columns: Vec<_> = columns.iter().map(Option::as_deref).collect();
    sql::read(&columns).flatten().ok_or(rusqlite::Error::InvalidColumnType(0, "generation".to_owned(), Type::Integer))
}

/// Repeats `attempt` while the file is locked, until the call ends.
///
/// `attempt` returns `None` if it has waited for a busy connection. The next attempt then follows without a pause.
fn retry<T>(
    file: &DatabaseFile,
    call: &CallContext,
    mut attempt: impl FnMut() -> Option<rusqlite::Result<T>>,
) -> Result<T, StoreError> {
    let mut pause = FIRST_PAUSE;
    loop {
        check(file, call)?;
        file.check()?;
        match attempt() {
            None => continue,
            Some(Err(error)) if is_busy(&error) => {}
            Some(done) => {
                // The checks also run after a success, because meanwhile the file may have been replaced, or the call
                // may have ended.
                file.check()?;
                check(file, call)?;
                return done.map_err(|error| failed(file, error));
            }
        }
        // The random factor prevents two waiting processes from always retrying at the same time.
        watch_diff::wait(call, pause.mul_f64(0.5 + fastrand::f64()));
        pause = (pause * 2).min(longest_pause(call.remaining()));
    }
}

/// Returns the longest pause of a call with this time left.
fn longest_pause(remaining: Duration) -> Duration {
    (remaining / PATIENCE).clamp(FIRST_PAUSE, LONGEST_PAUSE)
}

fn check(file: &DatabaseFile, call: &CallContext) -> Result<(), StoreError> {
    if call.cancel().is_cancelled() {
        return Err(StoreError::new(StoreErrorKind::Interrupted, "the call was cancelled"));
    }
    if call.remaining().is_zero() {
        let message = format!(
            "timeout while waiting for {}; another connection may be in a long transaction",
            file.path.display()
        );
        return Err(StoreError::new(StoreErrorKind::Timeout, message));
    }
    Ok(())
}

fn is_busy(error: &rusqlite::Error) -> bool {
    use ErrorCode::{DatabaseBusy, DatabaseLocked, FileLockingProtocolFailed};
    matches!(code(error), Some(DatabaseBusy | DatabaseLocked | FileLockingProtocolFailed))
}

/// Returns SQLite's error code, or `None` if the error is not from SQLite.
fn code(error: &rusqlite::Error) -> Option<ErrorCode> {
    match error {
        rusqlite::Error::SqliteFailure(error, _) | rusqlite::Error::SqlInputError { error, .. } => Some(error.code),
        _ => None,
    }
}

fn failed(file: &DatabaseFile, error: rusqlite::Error) -> StoreError {
    use ErrorCode::*;
    let no_table = error.to_string().contains("no such table");
    let (kind, what_to_do) = match code(&error) {
        Some(DiskFull) => (StoreErrorKind::Unavailable, "the disk is full, or the quota is used up; make room"),
        Some(ReadOnly | PermissionDenied) => (
            StoreErrorKind::Forbidden,
            "the file, its -wal and -shm, and their directory must be writable for this user",
        ),
        Some(ConstraintViolation | TooBig) => (StoreErrorKind::Rejected, "the table cannot store this record"),
        Some(DatabaseCorrupt | NotADatabase) => {
            (StoreErrorKind::Malformed, "stop every process that uses the file, and restore or delete the file")
        }
        // The code is SQLite's general error. The table is either missing, or was created by another program with other
        // columns.
        Some(Unknown) if no_table => (StoreErrorKind::NotFound, "open the file again, which creates the table"),
        Some(Unknown) => (StoreErrorKind::Rejected, "the table `leasehold` must be as in SqliteStore's documentation"),
        Some(_) => (StoreErrorKind::Unavailable, "SQLite cannot use the file now"),
        None => (StoreErrorKind::Malformed, "a row of the table `leasehold` was not written by this library"),
    };
    StoreError::new(kind, format!("{}: {error}: {what_to_do}", file.path.display())).with_source(error)
}

#[cfg(test)]
mod tests;
