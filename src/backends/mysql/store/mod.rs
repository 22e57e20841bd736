//! The store in a table of MySQL or MariaDB.

use crate::backends::mysql::config::MySqlConfig;
use crate::backends::mysql::table::{self, MySqlTable};
use crate::backends::sql::store::SqlStore;
use crate::store::record::{RecordWrite, VersionedRecord};
use crate::store::{CallContext, Cursor, Store, StoreError, WatchEvent, WatchScope, delegate_store};
use crate::util::cancel::CancelToken;
use crate::util::config_error::ConfigError;

/// A store in a table of MySQL 8.0, MariaDB 10.2.4, or later, with one row for each key.
///
/// All methods may be called from any thread at any time. Share a store with an `Arc`. Do not use a store in a child
/// process after `fork`. [STORES.md] compares the stores, and [MYSQL.md] lists the required server settings and the
/// effects of a lossy fail-over.
///
/// All candidates must use the same primary server and database. Reads and writes fail on a read-only server, because a
/// replica lags behind. On Galera and in replication groups, reads wait for the writes of other members
/// (`wsrep_sync_wait`, `group_replication_consistency`).
///
/// A write compares the whole old record and its notes. A renewal or a release is one statement, and an acquisition is
/// a transaction. If the write changes no row, the error is [`NotApplied`](crate::store::StoreErrorKind::NotApplied).
/// After any other error, the outcome is unknown.
///
/// MySQL has no notifications, so a watch reads its records every 50 ms, or at the interval of the URL parameter `poll-interval`.
///
/// [STORES.md]: https://docs.rs/crate/leasehold/latest/source/docs/STORES.md
/// [MYSQL.md]: https://docs.rs/crate/leasehold/latest/source/docs/stores/MYSQL.md
///
/// # The tables
///
/// [`create_table`](Self::create_table) creates the tables. A user with sufficient rights may also run the statements
/// below.
///
/// The store's user needs `SELECT`, `INSERT` and `UPDATE` on both tables. The user should not have rights that allow
/// writes on a read-only server (`SUPER`, `READ ONLY ADMIN`, `CONNECTION_ADMIN`).
///
/// ```sql
#[doc = include_str!("../table.sql")]
/// ```
///
/// The version of a record, and thus the fencing token, is `(generation << 31) + writes`. A version never repeats for a
/// key, even after its row was deleted and created again. The exceptions are a table that was dropped, truncated or
/// restored from a backup. The table `leasehold_fence` has the version at which the last term of a key began, for
/// [fences](Self::fence_sql). Its rows are never deleted.
///
/// # Examples
///
/// ```no_run
/// use leasehold::mysql::{MySqlConfig, MySqlStore};
/// use leasehold::LeaderElector;
///
/// let store = MySqlStore::new(MySqlConfig::new("mysql://jobs:sesame@db.example.com/app")?)?;
/// store.create_table()?;
/// let elector = LeaderElector::builder("nightly-jobs").start_on(store)?;
/// let guard = elector.block_until_leader()?;
/// assert!(guard.is_leader());
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
pub struct MySqlStore(SqlStore<MySqlTable>);

impl MySqlStore {
    /// Creates a store from `config`.
    ///
    /// Does not connect.
    ///
    /// # Errors
    ///
    /// Returns [`ConfigError`] in these cases:
    ///
    /// - The configuration has no user, or has both a password and a source.
    /// - Certificates or keys are unusable.
    pub fn new(config: MySqlConfig) -> Result<Self, ConfigError> {
        Self::open(config, false)
    }

    /// Creates a store as [`new`](Self::new) does.
    ///
    /// If `creates_table` is `true`, the first request creates a missing table.
    pub(crate) fn open(config: MySqlConfig, creates_table: bool) -> Result<Self, ConfigError> {
        MySqlTable::new(config).map(|table| Self(SqlStore::new(table, creates_table)))
    }

    /// Creates the tables if they are missing.
    ///
    /// The user needs the right to `CREATE` the tables. Blocks for at most ten seconds.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use leasehold::mysql::{MySqlConfig, MySqlStore};
    ///
    /// let store = MySqlStore::new(MySqlConfig::new("mysql://admin:sesame@127.0.0.1/app")?)?;
    /// store.create_table()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - Returns [`Forbidden`](crate::store::StoreErrorKind::Forbidden) if the user has no right to create tables.
    /// - Returns [`Unauthorized`](crate::store::StoreErrorKind::Unauthorized) if the login fails.
    /// - Returns [`Rejected`](crate::store::StoreErrorKind::Rejected) if the server is too old, or if the existing
    ///   table has another engine or wrong columns.
    /// - Returns [`Unavailable`](crate::store::StoreErrorKind::Unavailable),
    ///   [`Timeout`](crate::store::StoreErrorKind::Timeout) or another error if the server cannot be reached.
    pub fn create_table(&self) -> Result<(), StoreError> {
        self.0.set_up()
    }

    /// Returns a `SELECT` that yields a row only while no later term exists.
    ///
    /// Run the statement first in each transaction of the leader's own writes to the same database. If the statement
    /// yields no row or fails, roll back, because the leader of `fencing_token` has been replaced. The [guide] has the
    /// rules for such a transaction.
    ///
    /// - A renewal or a release never waits for a fenced transaction. An acquisition waits for the fenced transactions
    ///   that were open when it asked, and later fences wait for the acquisition. The limit of a fenced transaction is
    ///   half of the renew deadline minus one second (4 s by default).
    /// - After a release, or if an operator deletes the lease, the statement still yields a row until the next
    ///   acquisition has asked. This acquisition waits for the transaction.
    /// - The statement needs the right to `SELECT` from `leasehold_fence`, and in MySQL one more right on this table,
    ///   such as `UPDATE`.
    /// - The transaction must not be an XA transaction, because MariaDB frees the lock of the fence at `XA PREPARE`.
    /// - The token must come from a term in the table `leasehold` of the same database.
    /// - A fencing token fits in a signed 64-bit column, because versions have at most 63 bits.
    ///
    /// [guide]: https://docs.rs/crate/leasehold/latest/source/docs/GUIDE.md#fencing
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::mysql::MySqlStore;
    ///
    /// // Run START TRANSACTION and this statement. With a row, INSERT and COMMIT. Without a row, ROLLBACK.
    /// let fence = MySqlStore::fence_sql("jobs", 2_147_483_649);
    /// assert!(fence.ends_with("LOCK IN SHARE MODE"));
    /// ```
    pub fn fence_sql(key: &str, fencing_token: u64) -> String {
        table::fence(key, fencing_token)
    }
}

delegate_store!(impl Store for MySqlStore { self => self.0 });

#[cfg(test)]
mod tests;
