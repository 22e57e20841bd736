//! The statements of the table, and the parsing of their rows.

use crate::backends::postgres::connection::Rows;
use crate::backends::postgres::error::{Error, PostgresRefusal};
use crate::backends::postgres::settings::proof;
use crate::backends::sql;
use crate::backends::sql::{Records, SqlRow};
use crate::store::WatchScope;

/// A query that returns a row if the table exists, survives a crash, and sends notifications.
pub(super) const IS_THERE: &str = "SELECT 1 FROM pg_class AS c JOIN pg_trigger AS t ON t.tgrelid = c.oid \
    WHERE c.oid = to_regclass('leasehold') AND c.relpersistence = 'p' AND t.tgenabled IN ('O', 'A') AND \
    t.tgname IN ('leasehold_notify', 'leasehold_notify_truncate') GROUP BY c.oid HAVING count(*) = 2";

/// Serializes concurrent creations of the table.
const ONE_AT_A_TIME: &str = "SELECT pg_advisory_xact_lock(hashtextextended('leasehold', 0))";

/// A query for records, whose first column is `true` if the server is read-only.
///
/// A read-only server may be a standby, which may return old rows.
///
/// A plain read may return commits that have not reached a synchronous standby. Such commits remain after a crash, or
/// come from a writer that does not wait for the standby. If synchronous standbys are configured, the query therefore
/// writes an unused message to the write-ahead log. The commit of this message waits until the standby has everything
/// that the query returned.
macro_rules! select {
    ($condition:literal) => {
        concat!(
            "SELECT one.recovers, l.generation, l.key, l.writes, l.uid, l.holder_identity, l.lease_duration_seconds, ",
            "l.acquire_time, l.renew_time, l.lease_transitions, l.notes, ",
            "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint, one.is_set FROM (SELECT CASE WHEN pg_is_in_recovery() ",
            "OR current_setting('transaction_read_only') = 'on' THEN true ",
            "WHEN current_setting('synchronous_standby_names') = '' THEN false ",
            "ELSE pg_logical_emit_message(true, 'leasehold', '') IS NULL END AS recovers, ",
            proof!(),
            " AS is_set) AS one ",
            "LEFT JOIN leasehold AS l ON ",
            $condition
        )
    };
}

pub(super) const SELECT_ONE: &str = select!("l.key = $1");
/// A query for the records with a prefix. The first comparison uses the index.
pub(super) const SELECT_PREFIX: &str = select!("l.key >= $1 AND left(l.key, length($1)) = $1");

/// Waits for the fenced transactions and acquisitions of a key that have started.
///
/// Later ones wait for this transaction, so fences cannot delay an acquisition forever. Under this lock, a later row of
/// the same key also has a greater generation. Otherwise an insert would first reserve its generation, and then wait for
/// a concurrent insert of the key.
pub(super) const TURN_OF_ACQUISITION: &str = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";

pub(super) const INSERT: &str = concat!(
    "INSERT INTO leasehold (key, uid, holder_identity, lease_duration_seconds, acquire_time, \
    renew_time, lease_transitions, notes, acquisition) VALUES ($1, $2, $3, $4::integer, $5, $6, $7::integer, $8, 0) \
    ON CONFLICT (key) DO NOTHING RETURNING generation, ",
    proof!()
);

/// An update that compares the whole record and its notes.
///
/// Only a change of `acquisition`, which is in a unique
/// index, waits for the row lock of a fence.
pub(super) const UPDATE: &str = concat!(
    "UPDATE leasehold SET writes = writes + 1, acquisition = coalesce($17::bigint, acquisition), holder_identity = $1, \
    lease_duration_seconds = $2::integer, acquire_time = $3, renew_time = $4, lease_transitions = $5::integer, \
    notes = $6 WHERE key = $7 AND generation = $8::bigint AND writes = $9::bigint AND uid IS NOT DISTINCT FROM $10 AND \
    holder_identity IS NOT DISTINCT FROM $11 AND lease_duration_seconds IS NOT DISTINCT FROM $12::integer AND \
    acquire_time IS NOT DISTINCT FROM $13 AND renew_time IS NOT DISTINCT FROM $14 AND \
    lease_transitions IS NOT DISTINCT FROM $15::integer AND notes IS NOT DISTINCT FROM $16 RETURNING writes, ",
    proof!()
);

/// The number of the parameters of [`UPDATE`].
pub(super) const UPDATE_PARAMETERS: usize = 17;

/// A query for the transactions for which the acquisitions of a key wait, from the oldest to the newest.
pub(super) const BLOCKERS: &str = "WITH acquiring AS (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND \
    mode = 'ExclusiveLock' AND objsubid = 1 AND database = (SELECT oid FROM pg_database WHERE datname = \
    current_database()) AND (classid::bigint << 32) | objid::bigint = hashtextextended($1, 0)) \
    SELECT b.pid, a.usename, a.application_name FROM (SELECT DISTINCT unnest(pg_blocking_pids(pid)) AS pid \
    FROM acquiring) AS b LEFT JOIN pg_stat_activity AS a ON a.pid = b.pid \
    WHERE b.pid NOT IN (SELECT pid FROM acquiring) ORDER BY a.xact_start LIMIT 3";

/// Returns the rows of [`BLOCKERS`] as text.
pub(super) fn blockers(rows: &Rows) -> Option<String> {
    let name = |row: &SqlRow| match row.columns()[..] {
        [Some("0"), ..] => {
            "a prepared transaction (run SELECT gid FROM pg_prepared_xacts, and ROLLBACK PREPARED 'GID')".to_owned()
        }
        [Some(pid), user, application] => {
            let [user, application] = [user, application].map(|name| name.unwrap_or("unknown"));
            format!("process {pid} (user {user}, application {application:?})")
        }
        _ => "an unknown process".to_owned(),
    };
    let names: Vec<_> = rows.iter().map(name).collect();
    let how = "to end a process, run: SELECT pg_terminate_backend(PROCESS)";
    (!names.is_empty()).then(|| format!("{}; {how}", names.join(", ")))
}

/// Returns a `SELECT` that yields a row only while no later term exists.
///
/// The advisory lock makes a fence wait for an acquisition that has asked earlier. The lock is taken before the row is
/// locked, because a CTE that is materialized is complete before the rows of the join are locked. The row lock makes
/// every acquisition wait, even of a client without the advisory lock, and refuses a row that has changed since the
/// snapshot of the transaction.
pub(super) fn fence(key: &str, fencing_token: u64) -> String {
    let key = literal(key);
    format!(
        "WITH turn AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared(hashtextextended({key}, 0))) \
         SELECT 1 FROM turn, leasehold WHERE {} FOR KEY SHARE OF leasehold",
        sql::fence_condition(&key, fencing_token)
    )
}

/// A query that fails if the table `leasehold` lacks a column of the store.
///
/// [`WRONG_COLUMN`] returns a missing column `acquisition` or `notes`. The failure rolls back the transaction that contains the query.
pub(super) const HAS_ITS_COLUMNS: &str = "SELECT generation, key, writes, uid, holder_identity, lease_duration_seconds, \
    acquire_time, renew_time, lease_transitions FROM leasehold LIMIT 0";

/// A query that returns 1 if the user has the rights of a candidate on the table, NULL if on some columns, else 0.
pub(super) const MAY_CAMPAIGN: &str = "SELECT CASE WHEN bool_and(has_table_privilege('leasehold', it)) THEN 1 \
    WHEN bool_and(has_any_column_privilege('leasehold', it)) THEN NULL ELSE 0 END \
    FROM unnest(ARRAY['SELECT', 'UPDATE', CASE WHEN $1::boolean THEN 'SELECT' ELSE 'INSERT' END]) AS it";

/// A query that returns a row if the table does not meet the store's requirements.
pub(super) const WRONG_COLUMN: &str = include_str!("wrong_column.sql");

/// Returns the error text for the result of [`WRONG_COLUMN`].
pub(super) fn wrong_column(column: &str, part: &str) -> String {
    match column {
        "UNLOGGED" => {
            "the table is UNLOGGED or TEMPORARY and lost in a crash; run: ALTER TABLE leasehold SET LOGGED".to_owned()
        }
        "ROW SECURITY" => "row level security can hide records from this user, and drop writes; give the user \
                           BYPASSRLS, or run: ALTER TABLE leasehold DISABLE ROW LEVEL SECURITY"
            .to_owned(),
        "RULE" => format!("the rule {part} of the table can drop writes; run: DROP RULE {part} ON leasehold"),
        "TRIGGER" => format!("the trigger {part} can drop or change writes; run: DROP TRIGGER {part} ON leasehold"),
        _ => sql::wrong_column(TABLE, column, |declared| repair(column, part, declared)),
    }
}

/// Returns the statement that repairs a column with this declaration.
fn repair(column: &str, part: &str, declared: &str) -> String {
    let kind = declared.split(' ').next().unwrap_or_default();
    match column {
        "generation" => format!(
            "ALTER TABLE leasehold ALTER generation DROP IDENTITY IF EXISTS; ALTER TABLE leasehold ALTER generation \
             DROP DEFAULT, ALTER generation TYPE bigint, ALTER generation SET NOT NULL, ALTER generation \
             ADD GENERATED ALWAYS AS IDENTITY (START WITH {part})"
        ),
        "key" => format!("ALTER TABLE leasehold ALTER key TYPE {kind} COLLATE \"C\", ADD UNIQUE (key)"),
        "acquisition" => format!(
            "ALTER TABLE leasehold {part}ALTER acquisition TYPE {kind}, ALTER acquisition SET NOT NULL, ALTER acquisition \
             DROP DEFAULT, ADD UNIQUE (key, acquisition)"
        ),
        _ => format!("ALTER TABLE leasehold {part}ALTER {column} TYPE {kind} USING {column}::{kind}"),
    }
}

const TABLE: &str = include_str!("table.sql");

/// Returns the statements that create the table in one transaction.
pub(super) fn create() -> impl Iterator<Item = &'static str> {
    let mut parts = TABLE.split("\n\n");
    let table = parts.next();
    std::iter::once(ONE_AT_A_TIME).chain(table).chain([HAS_ITS_COLUMNS]).chain(parts)
}

/// Parses the selected records, and ignores the last columns: the server's time, and the proof of the settings.
pub(super) fn read(rows: &[SqlRow], scope: WatchScope<'_>) -> Result<Records, Error> {
    sql::read_rows(rows, scope, not_ours, |row| match row {
        [Some("f"), columns @ .., _, _] => Ok(columns),
        [Some("t"), ..] => Err(read_only()),
        _ => Err(not_ours()),
    })
}

/// Returns the server's time in Unix microseconds from the first selected row.
pub(super) fn server_time(rows: &[SqlRow]) -> Option<u64> {
    rows.first()?.columns().iter().nth_back(1)?.and_then(|text| text.parse().ok())
}

/// Returns the number in the first column of the only row, or `None` without a row.
pub(super) fn number(rows: &[SqlRow]) -> Result<Option<i64>, Error> {
    let Some(row) = rows.first() else { return Ok(None) };
    let number = row.columns().first().copied().flatten().and_then(|text| text.parse().ok());
    number.map(Some).ok_or_else(not_ours)
}

fn read_only() -> Error {
    // A read-only server rejects writes with the same code.
    let message = "the server is read-only, perhaps a standby".to_owned();
    Error::Refused(PostgresRefusal { sqlstate: "25006".to_owned(), message, is_fatal: true, is_warning: false })
}

fn not_ours() -> Error {
    Error::malformed("a row of the table `leasehold` was not written by this library")
}

/// Quotes a text for SQL, independently of the setting `standard_conforming_strings`.
fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', r"\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stays_one_text() {
        assert_eq!(literal(r"a\b"), r"E'a\\b'");
        assert_eq!(literal(r"it's \' a"), r"E'it''s \\'' a'");
    }

    #[test]
    fn blockers_are_named_with_the_statement_that_ends_them() {
        let blockers = |rows: &[[Option<&str>; 3]]| {
            blockers(&rows.iter().map(|row| row.iter().copied().collect::<SqlRow>()).collect())
        };
        assert_eq!(blockers(&[]), None);
        let text = blockers(&[[Some("7"), Some("me"), None], [Some("0"), None, None]]).unwrap();
        assert!(text.starts_with("process 7 (user me, application \"unknown\"), a prepared transaction"), "{text}");
        assert!(text.contains("ROLLBACK PREPARED") && text.ends_with("pg_terminate_backend(PROCESS)"), "{text}");
    }

    #[test]
    fn each_statement_that_makes_the_table_is_one() {
        let all: Vec<_> = create().collect();
        assert_eq!(all.len(), 8);
        assert!(all.iter().all(|sql| !sql.trim().is_empty()));
    }

    #[test]
    fn foreign_row_and_standby_row_are_errors() {
        const ONE: WatchScope<'_> = WatchScope::Key("k");
        let row = |columns: &[Option<&str>]| columns.iter().copied().collect::<SqlRow>();
        let ours = [
            Some("f"),
            Some("1"),
            Some("k"),
            Some("2"),
            Some("u"),
            None,
            Some("15"),
            None,
            None,
            Some("0"),
            None,
            Some("1700000000000000"),
            None,
        ];
        assert_eq!(server_time(&[row(&ours)]), Some(1_700_000_000_000_000));
        // 70,000 rows of 130 bytes fit in a response.
        assert!(row(&ours).columns() == ours && row(&ours).memory() - 8 < sql::MAX_ROWS / 70_000 - 130);
        let found = read(&[row(&ours)], ONE).unwrap();
        assert_eq!((found["k"].version, found["k"].record.lease_duration_seconds), ((1 << 31) + 2, Some(15)));
        let nothing = |recovers| row(&[&[Some(recovers)], &[None; 12][..]].concat());
        assert!(read(&[nothing("f")], ONE).unwrap().is_empty());
        assert!(matches!(read(&[nothing("t")], ONE), Err(Error::Refused(refusal)) if refusal.sqlstate == "25006"));
        for (at, with) in [(0, None), (1, Some("x")), (1, Some("-1")), (2, None), (3, Some("")), (6, Some("x"))] {
            let mut other = ours;
            other[at] = with;
            assert!(read(&[row(&other)], ONE).is_err(), "{at}");
            // A damaged record does not hide the other records of a prefix.
            assert!(at == 0 || read(&[row(&other), row(&ours)], WatchScope::All).unwrap().len() == 1, "{at}");
        }
        assert!(read(&[row(&ours[..5])], ONE).is_err() && read(&[row(&[])], ONE).is_err());
    }
}
