//! Records in a table of MySQL or MariaDB.

use crate::backends::mysql::config::MySqlConfig;
use crate::backends::mysql::table::{MySqlTable, text};
use crate::backends::sql;
use crate::backends::sql::store::SqlStore;
use crate::store::record::{LeaderElectionRecord, VersionedRecord};
use crate::store::{CallContext, Cursor, Store, StoreError, WatchEvent, WatchScope, delegate_store};
use crate::util::cancel::CancelToken;
use crate::util::config_error::ConfigError;

/// Records in a table of MySQL 8.0 or MariaDB 10.2.4, or later ones: for electing where there is such a server anyway, or where
/// what the leader writes is in it as well. See [`fence_sql`](Self::fence_sql) for that.
///
/// All candidates name the same primary server and database. Reads are those of the primary: a server that is read-only is
/// refused, by reads too, for a replica is behind. On Galera and in replication groups reads wait for what others have written
/// (`wsrep_sync_wait`, `group_replication_consistency`). Each write is one statement, which compares the whole record; one that
/// changes no row is [`NotApplied`](crate::StoreErrorKind::NotApplied) for certain, and any other error leaves it open.
///
/// There is nothing to listen to in MySQL: a watch reads what it watches every 50 ms
/// ([`MySqlConfig::with_poll_interval`]).
///
/// All methods may be called from any thread at any time; share it by an `Arc`, but not with a child after `fork`. [STORES.md]
/// says on which settings of the server the promises rest, and what a lossy fail-over does.
///
/// [STORES.md]: https://docs.rs/crate/leasehold/latest/source/docs/STORES.md
///
/// # The table
///
/// [`create_table`](Self::create_table) makes it, or whoever may. A user of the elections needs `SELECT`, `INSERT` and `UPDATE` on it,
/// and nothing else: best not to write on a server that is read-only (`SUPER`, `READ ONLY ADMIN`, `CONNECTION_ADMIN`).
///
/// ```sql
#[doc = include_str!("../table.sql")]
/// ```
///
/// The version of a record, and so the fencing token, is `(generation << 31) + writes`. It never repeats for a key, also when its
/// row is deleted and made anew; except after the table was dropped or truncated, or restored from a backup. `acquired` is the value of
/// `writes` with which the present holder began.
///
/// # Examples
///
/// ```no_run
/// use leasehold::{LeaderElector, MySqlConfig, MySqlStore};
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
    /// A store that is reached so. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when there is no user, or certificates or keys cannot be used.
    pub fn new(config: MySqlConfig) -> Result<Self, ConfigError> {
        Self::open(config, false)
    }

    /// Creates a store as [`new`](Self::new) does. If `creates_table`, the first request creates a missing table.
    pub(crate) fn open(config: MySqlConfig, creates_table: bool) -> Result<Self, ConfigError> {
        MySqlTable::new(config).map(|table| Self(SqlStore::new(table, creates_table)))
    }

    /// Makes the table if it is not there. Waits ten seconds at most. The user needs the right to `CREATE` for it.
    ///
    /// # Errors
    ///
    /// - [`Forbidden`](crate::StoreErrorKind::Forbidden) when the user may not, and
    ///   [`Unauthorized`](crate::StoreErrorKind::Unauthorized) when he is not let in.
    /// - [`Rejected`](crate::StoreErrorKind::Rejected) for what can be no store: a server that is too old, a
    ///   table of that name with another engine or other columns.
    /// - Whatever else keeps the server from answering.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use leasehold::{MySqlConfig, MySqlStore};
    ///
    /// let store = MySqlStore::new(MySqlConfig::new("mysql://admin:sesame@127.0.0.1/app")?)?;
    /// store.create_table()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create_table(&self) -> Result<(), StoreError> {
        self.0.set_up()
    }

    /// A `SELECT` that has one row for as long as the term with this fencing token has no successor, and else none: for writes
    /// of a leader in the same database, which a former leader can then not make.
    ///
    /// It is a fence only inside the transaction that writes, on any connection to the same server and database: it locks the
    /// record, so that until the commit nobody else can become the leader. Select it first, and write only if there is a row. Keep the
    /// transaction short: it keeps renewals of this record waiting. After a release there is no row either.
    /// The token is to be of a term by this very table: with `start_on_both` it is the second store's. It needs the right to
    /// `SELECT`, and in MySQL one more on the table, such as `UPDATE`.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::MySqlStore;
    ///
    /// // START TRANSACTION; this; if it has a row: INSERT …; COMMIT; else: ROLLBACK.
    /// let fence = MySqlStore::fence_sql("jobs", 2_147_483_649);
    /// assert!(fence.ends_with("LOCK IN SHARE MODE"));
    /// ```
    pub fn fence_sql(key: &str, fencing_token: u64) -> String {
        sql::fence("name", key, fencing_token, |key| text(Some(key)), " LOCK IN SHARE MODE")
    }
}

delegate_store!(impl Store for MySqlStore { self => self.0 });

#[cfg(test)]
mod tests;
