//! Records in a table of PostgreSQL.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::backends::postgres::changes;
use crate::backends::postgres::client::{PostgresClient, PostgresRequest};
use crate::backends::postgres::config::PostgresConfig;
use crate::backends::postgres::connection::{Rows, Statement};
use crate::backends::postgres::error::{Error, PostgresRefusal};
use crate::backends::postgres::table;
use crate::backends::sql::store::{SET_UP_TIMEOUT, SqlStore, SqlTable, WatchRequest};
use crate::backends::sql::{self, SqlRow};
use crate::store::record::{LeaderElectionRecord, VersionedRecord};
use crate::store::{CallContext, Cursor, Store, StoreError, StoreErrorKind, WatchEvent, WatchScope, delegate_store};
use crate::util::cancel::CancelToken;
use crate::util::config_error::ConfigError;

/// Records in a table of PostgreSQL: for electing where there is such a database and no Kubernetes. PostgreSQL 12 or later.
///
/// Every write is one statement that is committed, to the disk and to a synchronous standby if there is one, before it is
/// answered. It compares the row's version and the whole record that it replaces; where they do not match it is
/// [`NotApplied`](StoreErrorKind::NotApplied) for certain, and any other error leaves it open. A change wakes those who wait for
/// it by `NOTIFY`, from a trigger on the table. A read that a standby answers is an error. No clock of a server plays a part.
///
/// It has a client of its own, on blocking sockets and without an async runtime: a call ends in its time, and soon after it is
/// cancelled, also where the server stands still. Each store keeps at most four idle connections, and one for each watch.
///
/// Behind a pooler that hands connections from transaction to transaction notifications are not delivered. Each watch finds that
/// out, with a notification of its own, and reads every [50 ms](PostgresConfig::with_poll_interval) then.
///
/// # The table
///
/// [`create_table`](Self::create_table) makes it, or somebody who may, by hand:
///
/// ```sql
#[doc = include_str!("../table.sql")]
/// ```
///
/// The store's user needs `SELECT`, `INSERT` and `UPDATE` on the table. The version of a record, and so the fencing token, is
/// `(generation << 31) + writes`. It never repeats for a key, also when its row is deleted and made anew; except after the table
/// was dropped, or truncated with `RESTART IDENTITY`, the database was restored from a backup, or a standby was promoted that
/// lacked the last commits. `acquired` is the value of `writes` with which the present holder began.
///
/// All methods may be called from any thread at any time; share it by an `Arc`, but not with a child after `fork`, where both would
/// read from the same connections. [STORES.md] says when to use it, and on which
/// settings of the server its promise rests.
///
/// [STORES.md]: https://docs.rs/crate/leasehold/latest/source/docs/STORES.md
///
/// # Examples
///
/// ```no_run
/// use leasehold::{LeaderElector, PostgresConfig, PostgresStore};
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
    /// Whether the check has found no wrong column.
    is_checked: AtomicBool,
}

impl PostgresStore {
    /// A store that is reached so. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when certificates or keys cannot be used.
    pub fn new(config: PostgresConfig) -> Result<Self, ConfigError> {
        Self::open(config, false)
    }

    /// Creates a store as [`new`](Self::new) does. If `creates_table`, the first request creates a missing table.
    pub(crate) fn open(config: PostgresConfig, creates_table: bool) -> Result<Self, ConfigError> {
        let table = PostgresTable { client: PostgresClient::new(config)?, is_checked: AtomicBool::new(false) };
        Ok(Self(SqlStore::new(table, creates_table)))
    }

    /// Makes the table and its triggers if they are not there. Where they are, no rights are needed but those of the store.
    /// It waits for at most ten seconds.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Forbidden`] when the user may not make tables, [`StoreErrorKind::Rejected`] if a table of that
    /// name has wrong columns, and the errors of a server that cannot be reached.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use leasehold::{PostgresConfig, PostgresStore};
    ///
    /// let store = PostgresStore::new(PostgresConfig::new("postgres://owner:sesame@db.example/elections")?)?;
    /// store.create_table()?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn create_table(&self) -> Result<(), StoreError> {
        self.0.set_up()
    }

    /// A `SELECT` that has one row for as long as the term with this fencing token has no successor, and else none: for writes
    /// of a leader in the same database, which a former leader can then not make.
    ///
    /// It is a fence only in the transaction of those writes, at an isolation level of `READ COMMITTED` (PostgreSQL's default)
    /// or above: it locks the record until the commit, so that no other candidate becomes the leader, and none renews. So that
    /// transaction has to be much shorter than the renew deadline. It needs the right to `UPDATE` the table, as the lock does.
    /// After a release there is no row either. The table is the one in the `search_path` of the connection that it is used on.
    /// The token is to be of a term by this very table: with `start_on_both` it is the second store's.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::PostgresStore;
    ///
    /// let fence = PostgresStore::fence_sql("jobs", 7);
    /// // BEGIN; INSERT INTO runs SELECT 1 WHERE EXISTS (…fence…); COMMIT; and where no row was inserted, nobody leads here.
    /// let insert = format!("INSERT INTO runs SELECT 1 WHERE EXISTS ({fence})");
    /// assert!(insert.ends_with("FOR SHARE)"));
    /// ```
    pub fn fence_sql(key: &str, fencing_token: u64) -> String {
        sql::fence("key", key, fencing_token, table::literal, " FOR SHARE")
    }
}

delegate_store!(impl Store for PostgresStore { self => self.0 });

impl PostgresTable {
    /// Returns an error if the table has a wrong column. Queries the server once.
    fn check_table(&self, operation: &str, what: &str, call: &CallContext) -> Result<(), StoreError> {
        if !self.is_checked.load(Ordering::Acquire) {
            let check = [table::HAS_ITS_COLUMNS, table::WRONG_COLUMN].map(|sql| Statement { sql, parameters: &[] });
            let wrong = self.client.run(request(&check, true, call), Ok);
            let wrong = wrong.map_err(|error| self.explain(operation, what, &error))?;
            if let Some([Some(column), Some(next)]) = wrong.first().map(SqlRow::columns).as_deref() {
                let why = table::wrong_column(column, next);
                return Err(StoreError::new(StoreErrorKind::Rejected, format!("cannot {operation} {what}: {why}")));
            }
            self.is_checked.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Runs one statement about `key`, after a check of the table's columns.
    fn run<T>(
        &self,
        operation: &str,
        key: &str,
        sql: &str,
        parameters: &[Option<String>],
        call: &CallContext,
        read: impl FnOnce(Rows) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        let what = self.describe(WatchScope::Key(key));
        self.check_table(operation, &what, call)?;
        let parameters: Vec<_> = parameters.iter().map(Option::as_deref).collect();
        let statement = Statement { sql, parameters: &parameters };
        let answer = self.client.run(request(&[statement], operation == "get", call), read);
        answer.map_err(|error| self.explain(operation, &what, &error))
    }

    fn explain(&self, operation: &str, what: &str, error: &Error) -> StoreError {
        let (kind, advice) = match error {
            Error::Net(error) => (StoreErrorKind::from(error.kind), ""),
            Error::Refused(PostgresRefusal { is_warning: true, .. }) => (StoreErrorKind::Unavailable, WARNED),
            Error::Refused(PostgresRefusal { sqlstate, .. }) => of_postgres(sqlstate),
        };
        sql::failed(operation, what, error, self.client.password(), (kind, advice))
    }
}

fn request<'a>(statements: &'a [Statement<'a>], is_read: bool, call: &'a CallContext) -> PostgresRequest<'a> {
    PostgresRequest { statements, is_read, call }
}

impl SqlTable for PostgresTable {
    fn location(&self) -> String {
        self.client.location()
    }

    fn create_table(&self, call: &CallContext) -> Result<(), StoreError> {
        let what = format!("the table leasehold in {}", self.client.location());
        let place = |error: Error| match &error {
            Error::Refused(PostgresRefusal { sqlstate, .. }) if sqlstate == "42501" => {
                let advice = "; have its owner make it, or grant this user CREATE on the schema";
                sql::failed("make", &what, &error, self.client.password(), (StoreErrorKind::Forbidden, advice))
            }
            _ => self.explain("make", &what, &error),
        };
        let run = |statements: &[Statement<'_>]| self.client.run(request(statements, false, call), Ok).map_err(place);
        let statement = |sql| Statement { sql, parameters: &[] };
        if run(&[statement(table::IS_THERE)])?.is_empty() {
            let create: Vec<_> = table::create().map(statement).collect();
            run(&create)?;
        }
        self.check_table("use", &what, call)
    }

    fn select(&self, key: &str, call: &CallContext) -> Result<Option<VersionedRecord>, StoreError> {
        let parameters = [Some(key.to_owned())];
        self.run("get", key, table::SELECT_ONE, &parameters, call, |rows| table::only(key, table::read(rows)?))
    }

    fn insert(&self, key: &str, record: &LeaderElectionRecord, call: &CallContext) -> Result<Option<i64>, StoreError> {
        let parameters = sql::insert_parameters(key, record);
        self.run("create", key, table::INSERT, &parameters, call, |rows| table::number(&rows))
    }

    fn update(
        &self,
        key: &str,
        base: &VersionedRecord,
        new: &LeaderElectionRecord,
        call: &CallContext,
    ) -> Result<bool, StoreError> {
        let parameters = sql::update_parameters(key, base, new);
        self.run("update", key, table::UPDATE, &parameters, call, |rows| Ok(!rows.is_empty()))
    }

    fn watch(&self, watch: WatchRequest<'_>, on_event: &mut dyn FnMut(WatchEvent)) -> Result<(), StoreError> {
        let what = self.describe(watch.scope);
        self.check_table("watch", &what, &CallContext::new(SET_UP_TIMEOUT, watch.cancel.clone()))?;
        changes::watch(&self.client, watch, on_event).map_err(|error| self.explain("watch", &what, &error))
    }
}

const WARNED: &str = "; a warning with a commit counts as no answer, for so the server tells that a standby may not have it: no trigger \
                      on the table should warn";

/// Source: PostgreSQL's documentation, appendix A.
fn of_postgres(sqlstate: &str) -> (StoreErrorKind, &'static str) {
    match sqlstate {
        "28000" | "28P01" => (StoreErrorKind::Unauthorized, ""),
        "3D000" => (StoreErrorKind::NotFound, "; create it, or name another one in the URL"),
        "42P01" => (StoreErrorKind::NotFound, "; PostgresStore::create_table makes the table"),
        "3F000" => (StoreErrorKind::NotFound, "; the user's search_path has to name a schema that is there"),
        "42501" => (StoreErrorKind::Forbidden, "; grant SELECT, INSERT and UPDATE on the table to this user"),
        "25006" => (StoreErrorKind::Unavailable, "; this is a standby, or read-only: connect to the primary"),
        "40001" | "40P01" => (StoreErrorKind::Conflict, ""),
        "55P03" | "57014" => (StoreErrorKind::Timeout, "; it may be that another transaction has the record locked"),
        "22021" | "22P05" => (StoreErrorKind::Rejected, "; the database cannot hold such a text: make it with UTF8"),
        _ if sqlstate.starts_with("22") || sqlstate.starts_with("23") => {
            (StoreErrorKind::Rejected, "; the table does not take such a record")
        }
        _ if sqlstate.starts_with("42") => {
            (StoreErrorKind::Rejected, "; its table must be the one of PostgresStore's documentation")
        }
        _ => (StoreErrorKind::Unavailable, ""),
    }
}

#[cfg(test)]
mod tests;
