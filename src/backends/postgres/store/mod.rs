//! The store in a table of PostgreSQL.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::backends::postgres::client::PostgresClient;
use crate::backends::postgres::config::PostgresConfig;
use crate::backends::postgres::connection::{Rows, Statement};
use crate::backends::postgres::error::{Error, PostgresRefusal};
use crate::backends::postgres::{changes, table};
use crate::backends::sql::blockers::Blockers;
use crate::backends::sql::store::{SET_UP_TIMEOUT, SqlStore, SqlTable, WatchRequest};
use crate::backends::sql::{self, RowUpdate, SqlRow};
use crate::store::record::{RecordWrite, VersionedRecord};
use crate::store::{CallContext, Cursor, Store, StoreError, StoreErrorKind, WatchEvent, WatchScope, delegate_store};
use crate::util::cancel::CancelToken;
use crate::util::config_error::ConfigError;

/// A store in a table of PostgreSQL 12 or later, with one row for each key.
///
/// All methods may be called from any thread at any time. Share a store with an `Arc`. Do not use a store in a child
/// process after `fork`, because parent and child would read from the same connections. [STORES.md] compares the
/// stores, and [POSTGRES.md] lists the required server settings.
///
/// A write compares the row's version, the whole old record and its notes. If the row differs, the error is
/// [`NotApplied`](StoreErrorKind::NotApplied). After any other error, the outcome is unknown. The store returns
/// after the commit is on the disk of the server, and on the disk of a synchronous standby if there is one. A read from
/// a standby fails. The store does not use the server's clock.
///
/// A trigger on the table sends a `NOTIFY` for each change, which wakes watches. Poolers in transaction mode do not
/// deliver notifications. Each watch sends itself a test notification. If this notification does not arrive, the watch
/// reads every 50 ms, or at the interval of the URL parameter `poll_interval`.
///
/// The store has its own client on blocking sockets, without an async runtime. A call returns within its timeout, and
/// soon after a cancellation, even if the server hangs. A store keeps at most four idle connections, and one for each
/// watch.
///
/// # The table
///
/// [`create_table`](Self::create_table) creates the table. A user with sufficient rights may also run these statements:
///
/// ```sql
#[doc = include_str!("../table.sql")]
/// ```
///
/// The store's user needs `SELECT`, `INSERT` and `UPDATE` on the table. The version of a record, and thus the fencing
/// token, is `(generation << 31) + writes`. `acquisition` is the value of `writes` at which the last term began. The
/// unique index on `acquisition` makes an acquisition, and no other write, wait for [fences](Self::fence_sql).
///
/// A version never repeats for a key, even after its row was deleted and created again, except in these cases:
///
/// - The table was dropped, or truncated with `RESTART IDENTITY`.
/// - The database was restored from a backup.
/// - A standby that lacked the last commits was promoted.
///
/// [STORES.md]: https://docs.rs/crate/leasehold/latest/source/docs/STORES.md
/// [POSTGRES.md]: https://docs.rs/crate/leasehold/latest/source/docs/stores/POSTGRES.md
///
/// # Examples
///
/// ```no_run
/// use leasehold::postgres::{PostgresConfig, PostgresStore};
/// use leasehold::LeaderElector;
///
/// let config = PostgresConfig::new("postgres://jobs@db.example/elections")?.with_password("sesame");
/// let store = PostgresStore::new(config)?;
/// store.create_table()?;
/// let elector = LeaderElector::builder("nightly-jobs").start_on(store)?;
/// let guard = elector.block_until_leader()?;
/// assert!(guard.is_leader());
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
pub struct PostgresStore(SqlStore<PostgresTable>);

struct PostgresTable {
    client: PostgresClient,
    /// Whether the check of the table's columns has succeeded.
    is_checked: AtomicBool,
}

impl PostgresStore {
    /// Creates a store from `config`.
    ///
    /// Does not connect.
    ///
    /// # Errors
    ///
    /// Returns [`ConfigError`] if certificates or keys are unusable, or if both a password and a source are set.
    pub fn new(config: PostgresConfig) -> Result<Self, ConfigError> {
        Self::open(config, false)
    }

    /// Creates a store as [`new`](Self::new) does.
    ///
    /// If `creates_table` is `true`, the first request creates a missing table.
    pub(crate) fn open(config: PostgresConfig, creates_table: bool) -> Result<Self, ConfigError> {
        let table = PostgresTable { client: PostgresClient::new(config)?, is_checked: AtomicBool::new(false) };
        Ok(Self(SqlStore::new(table, creates_table)))
    }

    /// Creates the table and its triggers if they are missing.
    ///
    /// If the table exists, the user needs only the rights of the store. Blocks for at most ten seconds.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use leasehold::postgres::{PostgresConfig, PostgresStore};
    ///
    /// let store = PostgresStore::new(PostgresConfig::new("postgres://owner:sesame@db.example/elections")?)?;
    /// store.create_table()?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - Returns [`StoreErrorKind::Forbidden`] if the user has no right to create tables.
    /// - Returns [`StoreErrorKind::Rejected`] if the existing table has a wrong column.
    /// - Returns [`StoreErrorKind::Unavailable`], [`StoreErrorKind::Timeout`] or another error if the server cannot be
    ///   reached.
    pub fn create_table(&self) -> Result<(), StoreError> {
        self.0.set_up()
    }

    /// Returns a `SELECT` that yields a row only while no later term exists.
    ///
    /// Run the statement first in each transaction of the leader's own writes to the same database. If the statement
    /// yields no row or fails, roll back, because the leader of `fencing_token` has been replaced or has released the
    /// lease. The [guide] has the rules for such a transaction.
    ///
    /// - A renewal or a release never waits for a fenced transaction. An acquisition waits for the fenced transactions
    ///   that were open when it asked, and later fences wait for the acquisition. The limit of a fenced transaction is
    ///   half of the renew deadline minus one second (4 s by default).
    /// - After a release, the statement can still yield a row in a transaction whose snapshot is older than the
    ///   release. The next acquisition waits for this transaction.
    /// - The isolation level is `READ COMMITTED` (PostgreSQL's default) or a stricter one. At a stricter level, the
    ///   statement can fail with SQLSTATE 40001 instead of yielding no row.
    /// - The locks need the right to `UPDATE` the table. The connection's `search_path` selects the table.
    /// - The transaction must not be prepared (`PREPARE TRANSACTION`), because its fence then blocks every takeover
    ///   until the prepared transaction ends.
    /// - The token must come from a term in this same table.
    /// - A fencing token fits in a signed 64-bit column, because versions have at most 63 bits.
    ///
    /// [guide]: https://docs.rs/crate/leasehold/latest/source/docs/GUIDE.md#fencing
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::postgres::PostgresStore;
    ///
    /// let fence = PostgresStore::fence_sql("jobs", 7);
    /// // Run this insert first. If the insert adds no row, roll back, because the term has ended.
    /// let insert = format!("INSERT INTO runs SELECT 1 WHERE EXISTS ({fence})");
    /// assert!(insert.ends_with("FOR KEY SHARE OF leasehold)"));
    /// ```
    pub fn fence_sql(key: &str, fencing_token: u64) -> String {
        table::fence(key, fencing_token)
    }
}

delegate_store!(impl Store for PostgresStore { self => self.0 });

impl PostgresTable {
    /// Returns an error if the table has a wrong column.
    ///
    /// After a success, later calls do not query the server again.
    fn check_table(&self, operation: &str, what: &str, call: &CallContext) -> Result<(), StoreError> {
        if !self.is_checked.load(Ordering::Acquire) {
            let check = [table::HAS_ITS_COLUMNS, table::WRONG_COLUMN].map(|sql| Statement { sql, parameters: &[] });
            let wrong = self.client.run(&check, true, None, call, Ok);
            let wrong = wrong.map_err(|error| self.explain(operation, what, &error))?;
            if let Some([Some(column), Some(part)]) = wrong.first().map(SqlRow::columns).as_deref() {
                let why = table::wrong_column(column, part);
                return Err(StoreError::new(StoreErrorKind::Rejected, format!("cannot {operation} {what}: {why}")));
            }
            self.is_checked.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Runs one statement about `key`, after a check of the table's columns.
    ///
    /// If the statement acquires the lease, it waits for the fenced transactions that have started.
    fn run<T>(
        &self,
        (operation, acquires): (&str, bool),
        key: &str,
        sql: &str,
        parameters: &[Option<String>],
        call: &CallContext,
        read: impl FnOnce(Rows) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        let what = self.describe(WatchScope::Key(key));
        self.check_table(operation, &what, call)?;
        let (parameters, key) = (parameters.iter().map(Option::as_deref).collect::<Vec<_>>(), [Some(key)]);
        let of_key = |sql| Statement { sql, parameters: &key };
        let statement = Statement { sql, parameters: &parameters };
        let statements = match acquires {
            true => vec![of_key(table::TURN_OF_ACQUISITION), statement],
            false => vec![statement],
        };
        let look_up = || {
            let brief = CallContext::new(call.remaining() / 2, call.cancel().clone());
            let rows = self.client.run(&[of_key(table::BLOCKERS)], true, None, &brief, Ok).ok()?;
            table::blockers(&rows).map(|blockers| self.client.config.password.clean(&blockers))
        };
        let blockers = Blockers::new(call, &look_up);
        let answer = self.client.run(&statements, operation == "get", acquires.then_some(&blockers), call, read);
        answer.map_err(|error| {
            // A rule refuses `RETURNING`, and row level security a new row.
            let is_suspect =
                |it: &PostgresRefusal| operation != "get" && !it.is_fatal && matches!(&*it.sqlstate, "0A000" | "42501");
            let is_suspect = matches!(&error, Error::Refused(refusal) if is_suspect(refusal));
            let cause = is_suspect.then(|| self.cause_of_ignored_write(operation, &what, call)).flatten();
            cause.unwrap_or_else(|| blockers.explain(self.explain(operation, &what, &error)))
        })
    }

    fn explain(&self, operation: &str, what: &str, error: &Error) -> StoreError {
        let (kind, advice) = match error {
            Error::Net(error) => (StoreErrorKind::from(error.kind), ""),
            Error::Refused(PostgresRefusal { is_warning: true, .. }) => (StoreErrorKind::Unavailable, WARNED),
            Error::Refused(PostgresRefusal { sqlstate, .. }) => of_postgres(sqlstate),
        };
        sql::failed(operation, what, error, &self.client.config.password, (kind, advice))
    }
}

impl SqlTable for PostgresTable {
    fn location(&self) -> String {
        self.client.location()
    }

    fn create_table(&self, call: &CallContext) -> Result<(), StoreError> {
        let what = format!("the table leasehold in {}", self.client.location());
        let place = |error: Error| match &error {
            Error::Refused(PostgresRefusal { sqlstate, .. }) if sqlstate == "42501" => {
                let advice = "; let its owner create the table, or grant this user CREATE on the schema";
                sql::failed("create", &what, &error, &self.client.config.password, (StoreErrorKind::Forbidden, advice))
            }
            _ => self.explain("create", &what, &error),
        };
        let run = |statements: &[Statement<'_>]| self.client.run(statements, false, None, call, Ok).map_err(place);
        let statement = |sql| Statement { sql, parameters: &[] };
        if run(&[statement(table::IS_THERE)])?.is_empty() {
            let create: Vec<_> = table::create().map(statement).collect();
            run(&create)?;
        }
        self.check_table("use", &what, call)
    }

    fn select(&self, key: &str, call: &CallContext) -> Result<Option<VersionedRecord>, StoreError> {
        let parameters = [Some(key.to_owned())];
        let read = |rows: Rows| {
            call.note_unix_micros(table::server_time(&rows));
            Ok(table::read(&rows, WatchScope::Key(key))?.remove(key))
        };
        self.run(("get", false), key, table::SELECT_ONE, &parameters, call, read)
    }

    fn insert(&self, key: &str, write: RecordWrite<'_>, call: &CallContext) -> Result<Option<u64>, StoreError> {
        let parameters = sql::insert_parameters(key, write);
        let generation =
            self.run(("create", true), key, table::INSERT, &parameters, call, |rows| table::number(&rows))?;
        generation.map(|generation| self.first_version(key, generation)).transpose()
    }

    fn update(&self, update: RowUpdate<'_>, call: &CallContext) -> Result<bool, StoreError> {
        let parameters = sql::update_parameters(update);
        let acquires = sql::acquisition(update.base, update.new.record).is_some();
        self.run(("update", acquires), update.key, table::UPDATE, &parameters, call, |rows| Ok(!rows.is_empty()))
    }

    fn may_campaign(&self, key: &str, exists: bool, call: &CallContext) -> Option<bool> {
        let parameters = [Some(exists.to_string())];
        let number = self.run(("get", false), key, table::MAY_CAMPAIGN, &parameters, call, |rows| table::number(&rows));
        number.ok().flatten().map(|number| number == 1)
    }

    fn cause_of_ignored_write(&self, operation: &str, what: &str, call: &CallContext) -> Option<StoreError> {
        self.is_checked.store(false, Ordering::Release);
        self.check_table(operation, what, call).err().filter(|error| error.kind() == StoreErrorKind::Rejected)
    }

    fn watch(&self, watch: WatchRequest<'_>, on_event: &mut dyn FnMut(WatchEvent)) -> Result<(), StoreError> {
        let what = self.describe(watch.scope);
        self.check_table("watch", &what, &CallContext::new(SET_UP_TIMEOUT, watch.cancel.clone()))?;
        changes::watch(&self.client, watch, on_event).map_err(|error| self.explain("watch", &what, &error))
    }
}

const WARNED: &str = "; after a warning the commit is in doubt, because a standby may lack it; run VACUUM if the warning \
                      is about transaction IDs, and remove triggers that send warnings";

/// Converts an SQLSTATE to a kind of error and advice.
///
/// Appendix A of PostgreSQL's documentation lists the SQLSTATEs.
fn of_postgres(sqlstate: &str) -> (StoreErrorKind, &'static str) {
    use StoreErrorKind::{Conflict, Forbidden, NotFound, Rejected, Timeout, Unauthorized, Unavailable};
    match sqlstate {
        "28000" | "28P01" => (Unauthorized, "; check the user, the password and pg_hba.conf"),
        "53300" => (Unavailable, "; end other sessions, or raise max_connections"),
        "42601" => (Rejected, ""),
        "3D000" => (NotFound, "; create the database, or set another one in the URL"),
        "42P01" => (NotFound, "; create the table with PostgresStore::create_table, or start `leasehold run`"),
        "3F000" => (NotFound, "; set the user's search_path to an existing schema"),
        "42501" => (Forbidden, "; grant SELECT, INSERT and UPDATE on the table to this user"),
        "25006" => (Unavailable, "; the server is a standby or read-only; connect to the primary"),
        "40001" | "40P01" => (Conflict, ""),
        "55P03" | "57014" => (Timeout, "; another transaction may have locked the record"),
        "22021" | "22P05" => (Rejected, "; the database must use UTF8 to store this text"),
        _ if sqlstate.starts_with("22") || sqlstate.starts_with("23") => {
            (Rejected, "; the table cannot store this record")
        }
        _ if sqlstate.starts_with("42") => (Rejected, "; the table must be as in PostgresStore's documentation"),
        _ => (Unavailable, ""),
    }
}

#[cfg(test)]
mod tests;
