//! Records in a table of one SQLite file.

use std::path::Path;

use crate::backends::sql;
use crate::backends::sql::store::{SET_UP_TIMEOUT, SqlStore};
use crate::backends::sqlite::database::Database;
use crate::store::record::{LeaderElectionRecord, VersionedRecord};
use crate::store::{CallContext, Cursor, Store, StoreError, WatchEvent, WatchScope, delegate_store};
use crate::util::cancel::CancelToken;
use crate::util::config_error::ConfigError;

/// Records in a table of one SQLite file: for several processes on one host, without a server.
///
/// Every process opens the same path. SQLite's own locks exclude them from each other, each write is on the disk before it is
/// answered (write-ahead log, `synchronous=FULL`), and a change wakes those who wait for it within about a millisecond on Linux,
/// where watches are told by inotify; elsewhere they look every 20 ms. Writers that are not this library are noticed within
/// 250 ms, or 20.
///
/// Calls may come from any thread; those of one store take turns, each for the time of one statement. A call that has to wait,
/// for another process or another thread, ends when its time is over or it is cancelled. What no call can end is the disk: a
/// statement that hangs in a write or a sync there is waited for, and so is it by a release.
///
/// # The table
///
/// [`open`](Self::open) makes it. Other tables may stand in the same file.
///
/// ```sql
#[doc = include_str!("table.sql")]
/// ```
///
/// The version of a record, and so the fencing token, is `(generation << 31) + writes`. It never repeats for a key, also when
/// its row is deleted and made anew; except after the table was dropped, or the file was deleted or restored from a backup.
/// `acquired` is the value of `writes` with which the present holder began.
///
/// # What must not be
///
/// - A network file system: SQLite's locks do not hold there. On Linux it is refused.
/// - The file deleted, renamed or replaced while it is open: every later call fails and says so, and leaders lose their
///   terms. Whoever opens the path anew elects on an empty table meanwhile. Back up with SQLite's own backup, or `VACUUM INTO`.
/// - The file opened and closed past SQLite by a process that has it open, such as to copy it: POSIX locks of the whole
///   process go with that. A second copy of SQLite in one process does the same.
/// - A store used in a child after `fork`, where SQLite's connections must not be used. Open it there.
/// - Two paths for one file, by hard links or by mounting the file itself: each has a log of its own.
///
/// # Examples
///
/// ```
/// use leasehold::{LeaderElector, SqliteStore};
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
    /// Opens the file at `path`, and makes it and its table where they are not there. Its directory must be there, and writable.
    /// Waits at most ten seconds for others who use the file.
    ///
    /// # Errors
    ///
    /// - [`Rejected`](crate::StoreErrorKind::Rejected) for what can be no store: a network file system, no write-ahead log, `:memory:`, or a table
    ///   of that name that is another.
    /// - [`NotFound`](crate::StoreErrorKind::NotFound) when there is no such directory, [`Forbidden`](crate::StoreErrorKind::Forbidden) when the file or its
    ///   directory is not writable, [`Malformed`](crate::StoreErrorKind::Malformed) when it is no database.
    /// - [`Timeout`](crate::StoreErrorKind::Timeout) when another connection keeps it locked, [`Unavailable`](crate::StoreErrorKind::Unavailable) when its disk
    ///   fails or is full.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let call = CallContext::new(SET_UP_TIMEOUT, CancelToken::new());
        Database::open(path.as_ref(), &call).map(|database| Self(SqlStore::new(database, false)))
    }

    /// Makes the table if it is not there. [`open`](Self::open) has done so: this is for after it was dropped.
    ///
    /// # Errors
    ///
    /// As for [`open`](Self::open).
    ///
    /// # Examples
    ///
    /// ```
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let path = scratch.path().join("election.db");
    /// let store = leasehold::SqliteStore::open(path)?;
    /// store.create_table()?;
    /// # Ok::<(), leasehold::StoreError>(())
    /// ```
    pub fn create_table(&self) -> Result<(), StoreError> {
        self.0.set_up()
    }

    /// A `SELECT` that has one row for as long as the term with this fencing token has no successor, and else none: for writes
    /// of a leader in the same file, which a former leader can then not make.
    ///
    /// It is a fence only in a transaction that began with `BEGIN IMMEDIATE`, on any connection to the file: from then on to
    /// the commit no other process can become the leader. Keep it short: it keeps renewals waiting, those of every key. After
    /// a release there is no row either. The token is to be of a term by this very file: with `start_on_both` it is the second
    /// store's.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::{LeaderElector, SqliteStore};
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
    /// let written = transaction.execute(&format!("INSERT INTO runs SELECT 1 WHERE EXISTS ({fence})"), [])?;
    /// transaction.commit()?;
    /// assert_eq!(written, 1, "we led until the commit");
    /// # Ok(())
    /// # }
    /// ```
    pub fn fence_sql(key: &str, fencing_token: u64) -> String {
        sql::fence("key", key, fencing_token, literal, "")
    }
}

/// A text in SQL.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

delegate_store!(impl Store for SqliteStore { self => self.0 });
