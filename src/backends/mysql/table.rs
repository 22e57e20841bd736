//! The SQL statements of the store's table, and the meaning of their results.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::backends::mysql::acquisition::Acquisition;
use crate::backends::mysql::client::{self, MySqlClient};
use crate::backends::mysql::config::MySqlConfig;
use crate::backends::mysql::connection::{LOCK_WAIT, MySqlConnection, StatementResult};
use crate::backends::mysql::error::{Error, MySqlRefusal};
use crate::backends::mysql::packet::malformed;
use crate::backends::mysql::session::{CREATE_TABLES, FENCE, NAME, READ_ONLY, check_writable, prepare_write};
use crate::backends::sql;
use crate::backends::sql::blockers::Blockers;
use crate::backends::sql::store::{SqlTable, WatchRequest};
use crate::backends::sql::{Records, RowUpdate, SqlRow, watch_diff};
use crate::net::error::{self as net, NetErrorKind};
use crate::store::record::{RecordWrite, VersionedRecord};
use crate::store::{CallContext, StoreError, StoreErrorKind, WatchEvent, WatchScope};
use crate::util::config_error::ConfigError;
use crate::util::log_fields::STORE;
use crate::util::panics::log_line;

use super::undurable_writes::UndurableWrites;

/// The server's error code for an existing row.
const EXISTS: u16 = 1062;

/// The server's error codes for deadlocks.
///
/// If the deadlock prevents MariaDB from reading the next generation, the code is 1467.
const DEADLOCKS: [u16; 2] = [1213, 1467];

/// Maximum pause before a statement is repeated after a deadlock.
const PAUSE: Duration = Duration::from_millis(5);

/// Maximum number of repetitions of a statement after deadlocks.
///
/// If all repetitions fail, the call fails and the elector waits before its next attempt.
const MOST_DEADLOCKS: usize = 10;

/// Time limit of one read of a watch, after which the watch ends with an error.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// A write whose confirmation proves that all rows of earlier reads are on disk.
///
/// The write changes the row with the empty name, which is not a record.
const FLUSH: &str = "UPDATE leasehold SET writes = 1 - writes WHERE name = X''";
const MAKE_FLUSHABLE: &str = "INSERT IGNORE INTO leasehold (name, uid, writes) VALUES (X'', X'', 0)";

/// The end of a query for the transactions that block a connection, in MariaDB and in MySQL.
///
/// The fourth column of a row is `1` if the server does not identify the transaction. In MariaDB, all transactions that
/// have written nothing have the ID 0. The fifth column is `1` if the session uses the same database.
const BLOCKERS: [&str; 2] = [
    "w.blocking_trx_id = 0, p.DB <=> DATABASE() FROM information_schema.INNODB_LOCK_WAITS AS w \
     JOIN information_schema.INNODB_TRX AS r ON r.trx_id = w.requesting_trx_id \
     JOIN information_schema.INNODB_TRX AS b ON b.trx_id = w.blocking_trx_id AND b.trx_rows_locked > 0 \
     JOIN information_schema.PROCESSLIST AS p ON p.ID = b.trx_mysql_thread_id WHERE r.trx_mysql_thread_id =",
    "0, 1 FROM sys.innodb_lock_waits AS w JOIN information_schema.PROCESSLIST AS p ON p.ID = w.blocking_pid \
     WHERE w.waiting_pid =",
];

/// The server's time in Unix microseconds, without a time zone.
const SERVER_TIME: &str = "TIMESTAMPDIFF(MICROSECOND, 19700101000000, UTC_TIMESTAMP(6))";

/// The table `leasehold` in one database.
pub(super) struct MySqlTable {
    client: MySqlClient,
    undurable: UndurableWrites,
}

impl MySqlTable {
    pub(super) fn new(config: MySqlConfig) -> Result<Self, ConfigError> {
        Ok(Self { client: MySqlClient::new(config)?, undurable: UndurableWrites::default() })
    }

    /// Reads the records in `scope` from a primary.
    fn read(&self, operation: &str, scope: WatchScope<'_>, call: &CallContext) -> Result<Records, StoreError> {
        let which = match scope {
            WatchScope::Key(key) => format!("r.name = {}", text(Some(key))),
            // No key contains the byte FF, because keys are UTF-8.
            _ => format!("r.name BETWEEN {0} AND CONCAT({0}, X'FF')", text(Some(scope.text()))),
        };
        // The statement returns a row even without a record, because the row reports whether the server is read-only.
        let select = format!(
            "SELECT {READ_ONLY}, r.generation, r.name, r.writes, r.uid, r.holder_identity, r.lease_duration_seconds, \
             r.acquire_time, r.renew_time, r.lease_transitions, r.notes, {SERVER_TIME} \
             FROM (SELECT 1) AS one LEFT JOIN {NAME} AS r ON {which}"
        );
        let not_ours = || Error::from(malformed("a row was not written by this library"));
        // One connection runs the check, the read and the flush. A proxy may lead another connection to another server, or
        // to the same server after a crash that has reverted the writes.
        let read = |connection: &mut MySqlConnection, deadline| -> Result<Records, Error> {
            let StatementResult { rows, .. } = connection.query(&select, deadline).map_err(Error::sent)?;
            if rows.is_empty() {
                return Err(not_ours());
            }
            let server_time = rows[0].columns().last().copied().flatten();
            call.note_unix_micros(server_time.and_then(|text| text.parse().ok()));
            let mut records = sql::read_rows(&rows, scope, not_ours, |row| {
                check_writable(row)?;
                row.get(2..row.len() - 1).ok_or_else(not_ours)
            })?;
            // The row of the flush is not a record.
            records.remove("");
            self.prove(&records, connection, call, deadline)?;
            Ok(records)
        };
        self.client.run(true, call, read).map_err(|error| self.explain(operation, &self.describe(scope), &error))
    }

    /// Makes the records durable if they may be writes of this process that a crash could revert.
    ///
    /// Otherwise this process could lead with a version that a crash reverts and that another candidate then gets
    /// again.
    fn prove(
        &self,
        records: &Records,
        connection: &mut MySqlConnection,
        call: &CallContext,
        deadline: Instant,
    ) -> Result<(), Error> {
        let in_doubt = records.iter().map(|(key, observed)| (&**key, observed.version));
        let in_doubt: Vec<_> =
            in_doubt.filter(|(key, version)| self.undurable.may_be_taken_back(key, *version)).collect();
        if in_doubt.is_empty() {
            return Ok(());
        }
        prepare_write(connection, LOCK_WAIT, deadline)?;
        // If the row is missing, the first flush changes nothing, and the insert serves as the flush. If another client
        // has inserted the row in the meantime, the second flush is needed.
        for sql in [FLUSH, MAKE_FLUSHABLE, FLUSH] {
            let flush = || client::write(connection, sql, deadline);
            if self.repeat("flush", NAME, call, flush)?.affected > 0 {
                in_doubt.iter().for_each(|(key, version)| self.undurable.is_proven(key, *version));
                return Ok(());
            }
        }
        Err(net::Error::new(NetErrorKind::Malformed, "the row of the flush is missing and cannot be inserted").into())
    }

    /// Converts an error of the client to an error of the store.
    fn explain(&self, operation: &str, what: &str, error: &Error) -> StoreError {
        let (kind, advice) = match error {
            Error::Net(error) => (StoreErrorKind::from(error.kind), ""),
            Error::Refused(MySqlRefusal::Error { code, .. }) => of_mysql(*code),
            Error::Refused(MySqlRefusal::ReadOnly) => (StoreErrorKind::Unavailable, PRIMARY),
        };
        sql::failed(operation, what, error, &self.client.config.password, (kind, advice))
    }

    /// Runs a write, and repeats the write after a deadlock, which has rolled back the write.
    fn repeat<T>(
        &self,
        operation: &str,
        key: &str,
        call: &CallContext,
        mut write: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        for _ in 0..MOST_DEADLOCKS {
            match write() {
                Err(error) if error.code().is_some_and(|code| DEADLOCKS.contains(&code)) => {
                    log_line!(debug, target: STORE, "{operation} {key}: repeating: {}", self.client.config.password.clean(&error));
                }
                other => return other,
            }
            watch_diff::wait(call, PAUSE.mul_f64(fastrand::f64()));
        }
        write()
    }

    /// Runs `write` in a transaction after the fenced transactions of the key that have started.
    ///
    /// `write` gets the token in the fence, and returns `None` if it has changed no lease.
    fn acquire<T>(
        &self,
        operation: &str,
        key: &str,
        call: &CallContext,
        write: impl Fn(&mut MySqlConnection, u64, Instant) -> Result<Option<T>, Error>,
    ) -> Result<Option<T>, StoreError> {
        let thread = Cell::new(0);
        let look_up = || self.blockers(thread.get(), call);
        let blockers = Blockers::new(call, &look_up);
        let acquisition = Acquisition { key: &text(Some(key)), blockers: &blockers, thread: &thread };
        let acquire = || {
            self.client.run(false, call, |connection, deadline| {
                acquisition.run(connection, deadline, &write).map_err(Error::sent)
            })
        };
        match self.repeat(operation, key, call, acquire) {
            Err(error) if error.code() == Some(EXISTS) => Ok(None),
            other => other.map_err(|error| {
                blockers.explain(self.explain(operation, &self.describe(WatchScope::Key(key)), &error))
            }),
        }
    }

    /// Returns the transactions that block a connection, or `None` without the right `PROCESS`.
    fn blockers(&self, thread: u32, call: &CallContext) -> Option<String> {
        let brief = CallContext::new(call.remaining() / 2, call.cancel().clone());
        let query = |end: &&str| {
            let sql = format!("SELECT DISTINCT p.ID, p.USER, p.HOST, {end} {thread} ORDER BY 5 DESC, 1 LIMIT 3");
            self.client.query(&sql, true, &brief).ok()
        };
        let rows = BLOCKERS.iter().find_map(query)?.rows;
        let name = |row: &SqlRow| {
            let columns: Vec<_> =
                row.columns().into_iter().map(|column| column.unwrap_or("unknown").to_owned()).collect();
            format!("thread {} (user {}, host {})", columns[0], columns[1], columns[2])
        };
        let is_one_of = rows.len() > 1 && rows[0].columns()[3] == Some("1");
        let names: Vec<_> = rows.iter().map(name).collect();
        let one_of = if is_one_of { "one of " } else { "" };
        let blockers = format!("{one_of}{}; to end a thread, run: KILL THREAD", names.join(", "));
        (!names.is_empty()).then(|| self.client.config.password.clean(&blockers))
    }
}

impl SqlTable for MySqlTable {
    fn name(&self) -> String {
        format!("{NAME} of {}", self.client.location())
    }

    fn location(&self) -> String {
        format!("{} (MySQL)", self.client.location())
    }

    fn create_table(&self, call: &CallContext) -> Result<(), StoreError> {
        for create in CREATE_TABLES.split(';') {
            self.client.query(create, false, call).map_err(|error| match error.code() {
                // The user may not create tables, but may still use a table that another user has created.
                Some(1044 | 1142) => {
                    let meaning = (StoreErrorKind::Forbidden, "; grant CREATE to this user, or use the table's owner");
                    sql::failed("create", &self.name(), &error, &self.client.config.password, meaning)
                }
                _ => self.explain("create", &self.name(), &error),
            })?;
        }
        // An existing table with this name may have other columns, so a read checks the columns.
        self.read("read", WatchScope::Key(""), call).map(drop)
    }

    fn select(&self, key: &str, call: &CallContext) -> Result<Option<VersionedRecord>, StoreError> {
        Ok(self.read("get", WatchScope::Key(key), call)?.remove(key))
    }

    fn insert(&self, key: &str, write: RecordWrite<'_>, call: &CallContext) -> Result<Option<u64>, StoreError> {
        let (key_text, uid) = (text(Some(key)), text(write.record.uid.as_deref()));
        let columns = literals(sql::columns(write)).join(", ");
        let insert = format!(
            "INSERT INTO {NAME} (name, uid, writes, holder_identity, lease_duration_seconds, acquire_time, renew_time, \
             lease_transitions, notes) VALUES ({key_text}, {uid}, 0, {columns})"
        );
        // The lock of the fence admits one insert of a key at a time, so a later row has a greater generation.
        let insert = |connection: &mut MySqlConnection, _, deadline| {
            let generation = client::write(connection, &insert, deadline)?.last_insert_id;
            // The fence may already have this value, because a new table repeats generations.
            let fence = format!("UPDATE {FENCE} SET acquired = {generation} << 31 WHERE name = {key_text}");
            client::write(connection, &fence, deadline).map(|_| Some(generation))
        };
        self.undurable.track(key, 0, || match self.acquire("create", key, call, insert)? {
            Some(generation) => self.first_version(key, generation.try_into().unwrap_or(i64::MAX)).map(Some),
            None => Ok(None),
        })
    }

    fn update(&self, RowUpdate { key, base, new }: RowUpdate<'_>, call: &CallContext) -> Result<bool, StoreError> {
        let (generation, writes) = sql::parts(base.version);
        let (key_text, uid) = (text(Some(key)), text(base.record.uid.as_deref()));
        let [holder, duration, acquire_time, renew_time, transitions, notes] = literals(sql::columns(new));
        let [old_holder, old_duration, old_acquire_time, old_renew_time, old_transitions, old_notes] =
            literals(sql::base_columns(base));
        let columns = format!(
            "holder_identity = {holder}, lease_duration_seconds = {duration}, acquire_time = {acquire_time}, \
             renew_time = {renew_time}, lease_transitions = {transitions}, notes = {notes}, writes = writes + 1"
        );
        let is_base = format!(
            "generation = {generation} AND writes = {writes} AND uid <=> {uid} AND holder_identity <=> {old_holder} AND \
             lease_duration_seconds <=> {old_duration} AND acquire_time <=> {old_acquire_time} AND \
             renew_time <=> {old_renew_time} AND lease_transitions <=> {old_transitions} AND CAST(notes AS BINARY) <=> {old_notes}"
        );
        let next = base.version + 1;
        let update = || {
            if sql::acquisition(base, new.record).is_some() {
                // The join locks the fence first. In the other order, renewals would wait for fences.
                let both = format!(
                    "UPDATE {FENCE} AS f STRAIGHT_JOIN {NAME} AS l SET f.acquired = {next}, {columns} \
                     WHERE f.name = {key_text} AND l.name = {key_text} AND {is_base}"
                );
                return self.acquire("update", key, call, |connection, token, deadline| {
                    // The fence has the token already if another table of leases was restored.
                    let both_rows = if token == next { 1 } else { 2 };
                    Ok((client::write(connection, &both, deadline)?.affected == both_rows).then_some(next))
                });
            }
            let lease = format!("UPDATE {NAME} SET {columns} WHERE name = {key_text} AND {is_base}");
            match self.repeat("update", key, call, || self.client.query(&lease, false, call)) {
                Ok(answer) => Ok((answer.affected > 0).then_some(next)),
                Err(error) => Err(self.explain("update", &self.describe(WatchScope::Key(key)), &error)),
            }
        };
        Ok(self.undurable.track(key, base.version, update)?.is_some())
    }

    fn watch(&self, watch: WatchRequest<'_>, on_event: &mut dyn FnMut(WatchEvent)) -> Result<(), StoreError> {
        let call = |timeout| CallContext::new(timeout, watch.cancel.clone());
        let read = || self.read("watch", watch.scope, &call(READ_TIMEOUT)).map(Some);
        let interval = self.client.config.poll_interval;
        let wait = || watch_diff::wait(&call(interval), interval);
        watch_diff::watch_by_reading(watch, on_event, read, wait, Records::new)
    }
}

/// Returns a `SELECT` that yields a row only while no later term exists.
pub(super) fn fence(key: &str, fencing_token: u64) -> String {
    // A fencing token is the version at which the candidate first observed its term. A renewal may have written this
    // version, so the fence accepts every token from `acquired` on.
    let token = fencing_token.min(i64::MAX.cast_unsigned());
    format!("SELECT 1 FROM {FENCE} WHERE name = {} AND acquired <= {token} LOCK IN SHARE MODE", text(Some(key)))
}

/// Returns a text as a hexadecimal SQL literal, which needs no escapes.
pub(super) fn text(text: Option<&str>) -> String {
    let Some(text) = text else { return "NULL".to_owned() };
    let digits: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("X'{digits}'")
}

/// Returns the [`columns`](sql::columns) of a record as SQL literals.
fn literals([holder, duration, acquire_time, renew_time, transitions, notes]: [Option<String>; 6]) -> [String; 6] {
    let text = |column: Option<String>| text(column.as_deref());
    let number = |column: Option<String>| column.unwrap_or_else(|| "NULL".to_owned());
    [text(holder), number(duration), text(acquire_time), text(renew_time), number(transitions), text(notes)]
}

const PRIMARY: &str = "; connect to the primary, or wait until this server is the primary";

/// Converts an error code to a kind of error and advice.
///
/// MySQL and MariaDB use the same code if both have the error.
fn of_mysql(code: u16) -> (StoreErrorKind, &'static str) {
    use StoreErrorKind::{Forbidden, NotFound, Rejected, Unauthorized, Unavailable};
    match code {
        1290 | 1792 | 1836 => (Unavailable, PRIMARY),
        1146 => (NotFound, "; create the table with MySqlStore::create_table, or start `leasehold run`"),
        1049 => (NotFound, "; create the database"),
        1044 => (Forbidden, "; use an existing database that this user may access"),
        // The user, or the whole server, requires TLS.
        3159 => (Unauthorized, "; set ssl-mode=VERIFY_IDENTITY in the URL"),
        1142 | 1143 | 1227 | 1370 => {
            (Forbidden, "; grant the user SELECT, INSERT and UPDATE on leasehold and leasehold_fence")
        }
        // The login failed because of the user, password, host or method, or because the account is locked or expired.
        1045 | 1130 | 1131 | 1132 | 1133 | 1251 | 1275 | 1524 | 1698 | 1820 | 1862 | 3118 | 4151 => (Unauthorized, ""),
        1040 | 1203 | 1226 => (Unavailable, "; raise max_connections, or the user's limit"),
        // A statement contains the identity and the notes twice, and a few hundred other bytes. A repeated statement would be too long
        // again.
        1153 => (Rejected, "; raise max_allowed_packet, or shorten the identity"),
        1129 => (Unavailable, "; run FLUSH HOSTS on the server to allow this machine again"),
        // A value is too long, out of range or of another type, or violates a CHECK.
        1264 | 1292 | 1366 | 1406 | 3819 | 4025 => (Rejected, "; the table cannot store this record"),
        1054 | 1064 | 1136 | 1193 | 1231 | 1364 => {
            (Rejected, "; the table leasehold must be as in MySqlStore's documentation")
        }
        // All other errors, such as lock waits, deadlocks, shutdowns and full disks.
        _ => (Unavailable, ""),
    }
}
