//! The settings of a session, and the requirements on a server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::connection::{MySqlConnection, StatementResult};
use super::error::{Error, MySqlRefusal};
use crate::backends::sql::{self, SqlRow};
use crate::net::error::{self as net, NetErrorKind};

/// The name of the store's table.
pub(crate) const NAME: &str = "leasehold";

/// The name of the table of the fences.
///
/// Fences lock rows of their own, because the unique index of the store's table would make a fence lock the gap beside
/// its row, and block the inserts of other keys.
pub(crate) const FENCE: &str = "leasehold_fence";

/// The statements that create the tables, with the table of the fences first.
pub(crate) const CREATE_TABLES: &str = include_str!("table.sql");

/// A query that returns the table and the name of each wrong column, and the word `trigger` and the name of each trigger.
const WRONG_COLUMNS: &str = include_str!("wrong_columns.sql");

/// The SQL of the two columns that [`check_writable`] expects at the start of a row.
pub(crate) const READ_ONLY: &str = "@@global.read_only, @@global.innodb_read_only";

/// The settings of every session, which have these effects:
///
/// - Each statement is its own transaction, and returns all rows.
/// - No value is truncated to fit a column, and no other engine replaces InnoDB.
/// - A statement waits only one or two seconds for a lock, because the statement's caller may have given up. Only an
///   acquisition [waits longer](prepare_write).
///
/// [`LOCK_WAIT`](super::connection::LOCK_WAIT) is the number of seconds.
const SETTINGS: &str = "SET SESSION autocommit = 1, NAMES utf8mb4, \
                        sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', \
                        sql_select_limit = 18446744073709551615, innodb_lock_wait_timeout = 1, \
                        lock_wait_timeout = 2, sql_big_selects = 1";

/// Sets an isolation level in which a locking read of a missing row blocks its insert.
///
/// Other clients cannot insert the row until the end of the transaction.
const ISOLATION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE";

const VARIABLES: &str = "SHOW VARIABLES WHERE Variable_name IN \
                         ('version', 'version_comment', 'wsrep_on', 'group_replication_group_name')";

/// Makes a member of Galera wait for the writes of other members before each read.
const CAUSAL_GALERA: &str = "SET SESSION wsrep_sync_wait = 15";
const CAUSAL_GROUP: &str = "SET SESSION group_replication_consistency = 'BEFORE'";

/// Prepares a session for a write that waits `lock_wait` seconds for the lock of a row.
pub(super) fn prepare_write(connection: &mut MySqlConnection, lock_wait: u64, deadline: Instant) -> Result<(), Error> {
    // This user can write even on a read-only server, so the client first checks that the server is not read-only.
    if connection.writes_on_read_only {
        let answer = connection.query(&format!("SELECT {READ_ONLY}"), deadline)?;
        check_writable(&answer.rows.first().map(SqlRow::columns).unwrap_or_default())?;
    }
    if connection.lock_wait != lock_wait {
        connection.query(&format!("SET SESSION innodb_lock_wait_timeout = {lock_wait}"), deadline)?;
        connection.lock_wait = lock_wait;
    }
    Ok(())
}

/// Applies the settings of a session, and checks the server and the table.
///
/// `is_checked` is `true` once the check has found no wrong column.
pub(super) fn set_up(
    connection: &mut MySqlConnection,
    is_checked: &AtomicBool,
    deadline: Instant,
) -> Result<(), Error> {
    connection.query(SETTINGS, deadline)?;
    connection.query(ISOLATION, deadline)?;
    let variables = connection.query(VARIABLES, deadline)?;
    let variable = |name: &'static str| find(&variables, name).next().unwrap_or_default();
    check_version(variable("version"), variable("version_comment")).map_err(refuse)?;
    if variable("wsrep_on") == "ON" {
        connection.query(CAUSAL_GALERA, deadline)?;
    }
    if !variable("group_replication_group_name").is_empty() {
        connection.query(CAUSAL_GROUP, deadline)?;
    }
    let about = format!(
        "SELECT TABLE_NAME, ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND \
         TABLE_NAME IN ('{NAME}', '{FENCE}') UNION ALL SELECT 'privilege', PRIVILEGE_TYPE FROM information_schema.USER_PRIVILEGES WHERE PRIVILEGE_TYPE IN \
         ('SUPER', 'READ ONLY ADMIN', 'READ_ONLY ADMIN', 'CONNECTION_ADMIN')"
    );
    let about = connection.query(&about, deadline)?;
    let engines = [NAME, FENCE].map(|table| (table, find(&about, table).next()));
    for (table, engine) in engines {
        if let Some(engine) = engine.filter(|engine| !engine.eq_ignore_ascii_case("InnoDB")) {
            let is = if engine.is_empty() { "a view".to_owned() } else { format!("a table of {engine}") };
            return Err(refuse(format!("{table} is {is}; use the engine InnoDB, which survives a crash")));
        }
    }
    // The client checks the columns only once, because the check takes some milliseconds.
    if !is_checked.load(Ordering::Acquire) && engines[0].1.is_some() {
        let wrong = connection.query(WRONG_COLUMNS, deadline)?;
        for table in [NAME, FENCE] {
            if let Some(column) = find(&wrong, table).next() {
                return Err(refuse(wrong_column(table, column)));
            }
        }
        if let Some(name) = find(&wrong, "trigger").next() {
            return Err(refuse(format!("the trigger {name} can change writes; run: DROP TRIGGER {name}")));
        }
        if engines[1].1.is_none() {
            let rule =
                format!("the table {FENCE} is missing, or this user has no right on it; run: {}", create_fence());
            return Err(refuse(rule));
        }
        is_checked.store(true, Ordering::Release);
    }
    connection.writes_on_read_only = find(&about, "privilege").next().is_some();
    Ok(())
}

/// Returns the statement that creates the table of the fences.
fn create_fence() -> String {
    CREATE_TABLES.split(';').next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns an explanation of a wrong column, with the statement that repairs the column.
fn wrong_column(table: &str, column: &str) -> String {
    if (table, column) == (NAME, "acquired") {
        return format!(
            "the table {NAME} is of an earlier version; run: {}; INSERT IGNORE INTO {FENCE} SELECT name, \
             (generation << 31) + acquired FROM {NAME}; ALTER TABLE {NAME} DROP COLUMN acquired, ALTER writes DROP DEFAULT, \
             ADD notes TEXT CHARACTER SET utf8mb4",
            create_fence()
        );
    }
    let (verb, column) = column.strip_prefix("no ").map_or(("MODIFY", column), |column| ("ADD", column));
    sql::wrong_column(CREATE_TABLES, column, |declared| {
        // The repair declares the column UNIQUE, because MySQL rejects a second primary key. Another unique index is
        // harmless.
        format!("ALTER TABLE {table} {verb} {column} {}", declared.replace("PRIMARY KEY", "UNIQUE"))
    })
}

fn refuse(rule: String) -> Error {
    net::Error::new(NetErrorKind::Config, rule).into()
}

/// Returns the second column of each row whose first column is `name`.
fn find<'a>(answer: &'a StatementResult, name: &'a str) -> impl Iterator<Item = &'a str> {
    let text = |row: &[Option<&'a str>], at: usize| row.get(at).copied().flatten().unwrap_or_default();
    let rows = answer.rows.iter().map(SqlRow::columns);
    rows.filter(move |row| text(row, 0).eq_ignore_ascii_case(name)).map(move |row| text(&row, 1))
}

/// Returns an error if this version may generate row numbers that do not increase.
fn check_version(version: &str, comment: &str) -> Result<(), String> {
    let says = |name: &str| [version, comment].iter().any(|text| text.to_ascii_lowercase().contains(name));
    if says("tidb") {
        return Err("TiDB generates numbers of rows out of order, so fencing tokens could decrease".to_owned());
    }
    let is_mariadb = says("mariadb");
    // Older versions of MariaDB report `5.5.5-` before their own version, for compatibility with old replicas.
    let text = version.strip_prefix("5.5.5-").filter(|_| is_mariadb).unwrap_or(version);
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
    let mut number = || numbers.next().unwrap_or(0);
    let found = (number(), number(), number());
    let needed = if is_mariadb { (10, 2, 4) } else { (8, 0, 0) };
    match found >= needed {
        true => Ok(()),
        false => Err(format!(
            "the server is {version:?}: before MySQL 8.0 and MariaDB 10.2.4, a restart forgets the numbers of \
             deleted rows, so fencing tokens could decrease"
        )),
    }
}

/// Returns an error if the server may be a replica.
///
/// `row` starts with the columns of [`READ_ONLY`].
pub(crate) fn check_writable(row: &[Option<&str>]) -> Result<(), Error> {
    // MariaDB 12 returns `OFF` instead of `0`.
    let is_off = |column: &Option<&str>| matches!(*column, Some("0" | "OFF"));
    match row.get(..2).is_some_and(|columns| columns.iter().all(is_off)) {
        true => Ok(()),
        false => Err(Error::Refused(MySqlRefusal::ReadOnly)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_forget_numbers_are_refused() {
        for version in [
            "8.0.11",
            "8.4.3-0ubuntu1",
            "9.1.0",
            "10.2.4-MariaDB",
            "10.11.19-MariaDB-0+deb12u1",
            "5.5.5-10.3.39-MariaDB-log",
            "11.8.2-MariaDB",
            "8.0.mysql_aurora.3.04.0",
        ] {
            assert_eq!(check_version(version, ""), Ok(()), "{version}");
        }
        for version in
            ["5.7.44-log", "5.5.5-10.1.48-MariaDB", "10.2.3-MariaDB", "5.6", "", "x", "99999999999.1", "5.5.5-8.0"]
        {
            assert!(check_version(version, "").unwrap_err().contains("fencing tokens"), "{version}");
        }
        assert_eq!(check_version("10.6.1", "mariadb.org binary distribution"), Ok(()));
        assert!(check_version("8.0.11-TiDB-v7.5.1", "").unwrap_err().contains("TiDB"));
    }
}
