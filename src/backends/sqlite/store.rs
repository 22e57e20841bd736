//! The store in a table of one SQLite file.

use std::path::Path;

use crate::backends::sql;
use crate::backends::sql::store::{SET_UP_TIMEOUT, SqlStore};
use crate::backends::sqlite::database::Database;
use crate::store::record::{RecordWrite, VersionedRecord};
use crate::store::{CallContext, Cursor, Store, StoreError, WatchEvent, WatchScope, delegate_store};
use crate::util::cancel::CancelToken;
use crate::util::config_error::ConfigError;

/// A store in a table of one SQLite file, with one row for each key.
///
/// Use this store for several processes on one host, without a server. Every process opens the same path. SQLite's
/// locks exclude concurrent writes. A write returns after its data is on the disk (write-ahead log,
/// `synchronous=FULL`).
///
/// On Linux, inotify wakes watches within about a millisecond after a change. On other systems, watches read every 20
/// ms. Watches detect writers other than this library within 250 ms on Linux, and within 20 ms elsewhere.
///
/// All methods may be called from any thread at any time. The calls of one store take turns, each for the time of one
/// statement. A call that waits for another process or thread ends at its timeout or when it is cancelled. While the
/// disk hangs in a write or a sync, neither a call nor a release can end early.
///
/// # The table
///
/// [`open`](Self::open) creates the table. The file may have other tables.
///
/// ```sql
#[doc = include_str!("table.sql")]
/// ```
///
/// The version of a record, and thus the fencing token, is `(generation << 31) + writes`. A version never repeats for a
/// key, even after its row was deleted and created again. The exceptions are a table that was dropped, and a file that
/// was deleted or restored from a backup. `acquisition` is the value of `writes` at which the last term began.
///
/// # Limitations
///
/// - The file must not be on a network file system, where SQLite's locks do not work. On Linux, [`open`](Self::open)
///   rejects such a file, and a file in a folder that other hosts or virtual machines may share. If all processes run
///   on one kernel, such as the containers of one virtual machine on a folder of its host, SQLite's locks reach all of
///   them. Then use [`open_store`](crate::open_store) with `sqlite:///DIRECTORY/FILE?shared-folder=true`.
/// - The file must not be deleted, renamed or replaced while it is open. Later calls then fail with an error that names
///   the cause, and leaders lose their terms. A process that opens the path afterwards finds an empty table, and may
///   elect another leader. Back up with SQLite's own backup, or with `VACUUM INTO`.
/// - A process that has the file open must not open and close it without SQLite, such as to copy it. Closing the file
///   drops all POSIX locks of the process on the file. A second copy of SQLite in one process has the same effect.
/// - A child process after `fork` must not use the store, because SQLite does not allow this use. Open the file again
///   in the child.
/// - One file must not have two paths, by hard links or by mounting the file itself, because each path has its own log.
///
/// # Examples
///
/// ```
/// use leasehold::sqlite::SqliteStore;
/// use leasehold::LeaderElector;
///
/// # let scratch = tempfile::tempdir().unwrap();
/// # let path = scratch.path().join("election.db");
/// let store = SqliteStore::open(path)?;
/// let elector = LeaderElector::builder("nightly-jobs").start_on(store)?;
/// let guard = elector.block_until_leader()?;
/// assert!(guard.is_leader());
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
pub struct SqliteStore(SqlStore<Database>);

impl SqliteStore {
    /// Opens the file at `path`, and creates the file and its table if they are missing.
    ///
    /// The directory must exist and be writable. Blocks for at most ten seconds while other connections use the file.
    ///
    /// # Errors
    ///
    /// - Returns [`Rejected`](crate::store::StoreErrorKind::Rejected) if the file is `:memory:`, is in a shared folder,
    ///   lacks a write-ahead log, or has another table with this name.
    /// - Returns [`NotFound`](crate::store::StoreErrorKind::NotFound) if the directory does not exist.
    /// - Returns [`Forbidden`](crate::store::StoreErrorKind::Forbidden) if the file or its directory is not writable.
    /// - Returns [`Malformed`](crate::store::StoreErrorKind::Malformed) if the file is not a database.
    /// - Returns [`Timeout`](crate::store::StoreErrorKind::Timeout) if another connection keeps the file locked.
    /// - Returns [`Unavailable`](crate::store::StoreErrorKind::Unavailable) if the disk fails or is full.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_with(path.as_ref(), false, true)
    }

    /// Opens the file. Without `may_create`, the file must contain the table, and other files stay as they are.
    pub(crate) fn open_with(path: &Path, in_shared_folder: bool, may_create: bool) -> Result<Self, StoreError> {
        let call = CallContext::new(SET_UP_TIMEOUT, CancelToken::new());
        Database::open(path, in_shared_folder, may_create, &call).map(|database| Self(SqlStore::new(database, false)))
    }

    /// Returns a `SELECT` that yields a row only while no later term exists.
    ///
    /// Run the statement first in a transaction of the leader's own writes to the same file, on any connection. If the
    /// statement yields no row, roll back, because the leader of `fencing_token` has been replaced or has released the
    /// lease.
    ///
    /// - The transaction must start with `BEGIN IMMEDIATE`, which keeps other processes from writing until the commit.
    /// - Keep the transaction short, because it delays the renewals of all keys.
    /// - The token must come from a term in this same file.
    /// - A fencing token fits in a signed 64-bit column, because versions have at most 63 bits.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::sqlite::SqliteStore;
    /// use leasehold::LeaderElector;
    /// use rusqlite::{Connection, TransactionBehavior};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let scratch = tempfile::tempdir()?;
    /// # let path = scratch.path().join("app.db");
    /// let elector = LeaderElector::builder("jobs").start_on(SqliteStore::open(&path)?)?;
    /// let guard = elector.block_until_leader()?;
    ///
    /// let mut connection = Connection::open(&path)?;
    /// connection.execute_batch("CREATE TABLE runs (number INTEGER)")?;
    /// let fence = SqliteStore::fence_sql("jobs", guard.fencing_token());
    /// let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    /// if !transaction.prepare(&fence)?.exists([])? {
    ///     return Err("a later term exists".into()); // dropping the transaction rolls back
    /// }
    /// transaction.execute("INSERT INTO runs VALUES (1)", [])?;
    /// transaction.commit()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn fence_sql(key: &str, fencing_token: u64) -> String {
        format!("SELECT 1 FROM leasehold WHERE {}", sql::fence_condition(&literal(key), fencing_token))
    }
}

/// Quotes a text for SQL.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

delegate_store!(impl Store for SqliteStore { self => self.0 });
