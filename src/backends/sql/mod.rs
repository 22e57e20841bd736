//! The columns that all SQL stores share, and their conversion to records and versions.

#[cfg(feature = "_sql_server")]
pub(crate) mod blockers;
pub(crate) mod store;
#[cfg(feature = "_sql_server")]
pub(crate) mod tls_mode;
pub(crate) mod watch_diff;

use std::collections::BTreeMap;

#[cfg(feature = "_sql_server")]
use crate::backends::password::Password;
use crate::store::notes::RecordNotes;
use crate::store::record::{LeaderElectionRecord, MicroTime, RecordWrite, StoreData, VersionedRecord};
#[cfg(feature = "_sql_server")]
use crate::store::{StoreError, StoreErrorKind, WatchScope};

/// Number of low bits in a version, which count the writes to one row.
///
/// The high bits are the generation of the row. Generations number all rows that were ever inserted into the table.
const WRITES_BITS: u32 = 31;

/// Memory limit for the rows of a response, in bytes.
#[cfg(feature = "_sql_server")]
pub(crate) const MAX_ROWS: usize = 16 * 1024 * 1024;

/// The columns of a row in one string.
///
/// A separate allocation for each column would take four times the memory. Each column is stored as its length in
/// bytes, a colon and its text. NULL is stored as `-:`.
#[cfg(feature = "_sql_server")]
#[derive(Debug)]
pub(crate) struct SqlRow(Box<str>);

#[cfg(feature = "_sql_server")]
impl SqlRow {
    /// Returns the columns, with `None` for NULL.
    pub(crate) fn columns(&self) -> Vec<Option<&str>> {
        let (mut columns, mut rest) = (Vec::new(), &*self.0);
        while let Some((length, after)) = rest.split_once(':') {
            let length = length.parse().ok();
            let (text, after) = after.split_at(length.unwrap_or(0));
            columns.push(length.map(|_| text));
            rest = after;
        }
        columns
    }

    /// Returns the memory of the row in bytes, including the overhead of its allocation.
    pub(crate) fn memory(&self) -> usize {
        self.0.len() + 48
    }
}

#[cfg(feature = "_sql_server")]
impl<'a> FromIterator<Option<&'a str>> for SqlRow {
    fn from_iter<T: IntoIterator<Item = Option<&'a str>>>(columns: T) -> Self {
        let write = |column: Option<&str>| column.map_or("-:".to_owned(), |text| format!("{}:{text}", text.len()));
        Self(columns.into_iter().map(write).collect::<String>().into())
    }
}

/// The arguments of [`Store::update`](crate::store::Store::update).
#[derive(Clone, Copy)]
pub(crate) struct RowUpdate<'a> {
    pub(crate) key: &'a str,
    pub(crate) base: &'a VersionedRecord,
    pub(crate) new: RecordWrite<'a>,
}

/// The records of a table, by their keys.
pub(crate) type Records = BTreeMap<Box<str>, VersionedRecord>;

/// Parses the columns of a row into the key and the record.
///
/// The columns are the generation, the key, the writes, the uid, and the record's [`columns`]. Returns `Some(None)` if
/// the row contains no record. Returns `None` if this library cannot have written the columns.
pub(crate) fn read(columns: &[Option<&str>]) -> Option<Option<(Box<str>, VersionedRecord)>> {
    let [generation, key, writes, uid, holder, duration, acquire_time, renew_time, transitions, notes] = *columns
    else {
        return None;
    };
    let Some(generation) = generation else { return Some(None) };
    let number = |text: Option<&str>| text.map(str::parse::<i32>).transpose().ok();
    let record = LeaderElectionRecord {
        uid: Some(uid?.to_owned()),
        holder_identity: holder.map(str::to_owned),
        lease_duration_seconds: number(duration)?,
        acquire_time: acquire_time.map(MicroTime::from_text),
        renew_time: renew_time.map(MicroTime::from_text),
        lease_transitions: number(transitions)?,
    };
    let version = version(generation.parse().ok()?, writes?.parse().ok()?)?;
    Some(Some((key?.into(), with_notes(record, version, notes.map(str::to_owned)))))
}

/// Parses the rows of a query for the records in `scope`.
///
/// Skips an unreadable record, unless the scope is one record. `record_columns` checks a row, and returns the columns
/// for [`read`]. `not_ours` returns the error for rows that this library cannot have written.
#[cfg(feature = "_sql_server")]
pub(crate) fn read_rows<E>(
    rows: &[SqlRow],
    scope: WatchScope<'_>,
    not_ours: impl Fn() -> E,
    record_columns: impl for<'r> Fn(&'r [Option<&'r str>]) -> Result<&'r [Option<&'r str>], E>,
) -> Result<Records, E> {
    let mut records = Records::new();
    for row in rows {
        match read(record_columns(&row.columns())?) {
            // If the collation of the column ignores case, the query may return the row of another key.
            Some(Some((key, _))) if !scope.includes(&key) => return Err(not_ours()),
            Some(record) => records.extend(record),
            None if scope.is_one() => return Err(not_ours()),
            None => {}
        }
    }
    Ok(records)
}

/// Returns an observation of `record`, with the notes in the text of their column.
///
/// The observation keeps the text, because an update compares the text.
pub(crate) fn with_notes(record: LeaderElectionRecord, version: u64, notes: Option<String>) -> VersionedRecord {
    let read = notes.as_deref().map(|json| RecordNotes::from_json(json, &record)).unwrap_or_default();
    let mut observed = VersionedRecord::new(record, version, notes.map_or_else(StoreData::none, StoreData::new));
    *observed.notes = read;
    observed
}

/// Returns the columns of a record and its notes as texts.
///
/// The columns are the holder, the duration, the two times, the transitions and the notes.
pub(crate) fn columns(write: RecordWrite<'_>) -> [Option<String>; 6] {
    columns_with(write.record, write.notes.to_json(write.record))
}

/// Returns the [`columns`] that a row must still have, if an update replaces `base`.
pub(crate) fn base_columns(base: &VersionedRecord) -> [Option<String>; 6] {
    columns_with(&base.record, base.data.get().cloned())
}

fn columns_with(record: &LeaderElectionRecord, notes: Option<String>) -> [Option<String>; 6] {
    let number = |number: Option<i32>| number.map(|number| number.to_string());
    let time = |time: &Option<MicroTime>| time.as_ref().map(MicroTime::to_string);
    [
        record.holder_identity.clone(),
        number(record.lease_duration_seconds),
        time(&record.acquire_time),
        time(&record.renew_time),
        number(record.lease_transitions),
        notes,
    ]
}

/// Returns the value of `writes` after an acquisition, or `None` if `new` does not acquire the lease.
///
/// An acquisition names a holder, and starts a term. Renewals and releases are no acquisitions. An acquisition waits
/// for fenced transactions, and no other write does.
pub(crate) fn acquisition(base: &VersionedRecord, new: &LeaderElectionRecord) -> Option<i64> {
    let term = |record: &LeaderElectionRecord| {
        (record.holder_identity.clone(), record.acquire_time.clone(), record.lease_transitions)
    };
    (new.holder().is_some() && term(new) != term(&base.record)).then(|| parts(base.version).1 + 1)
}

/// Returns the parameters of an `INSERT`: the key, the uid and the [`columns`].
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) fn insert_parameters(key: &str, write: RecordWrite<'_>) -> Vec<Option<String>> {
    let row = [Some(key.to_owned()), write.record.uid.clone()];
    row.into_iter().chain(columns(write)).collect()
}

/// Returns the parameters of an `UPDATE`.
///
/// The parameters are the new [`columns`], then the key, the generation, the writes and the uid, then the
/// [`base_columns`], and then the [`acquisition`].
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) fn update_parameters(RowUpdate { key, base, new }: RowUpdate<'_>) -> Vec<Option<String>> {
    let (generation, writes) = parts(base.version);
    let row = [Some(key.to_owned()), Some(generation.to_string()), Some(writes.to_string()), base.record.uid.clone()];
    let acquisition = acquisition(base, new.record).map(|writes| writes.to_string());
    columns(new).into_iter().chain(row).chain(base_columns(base)).chain([acquisition]).collect()
}

/// Returns the version of a row, or `None` if this library cannot have written the numbers.
///
/// Generations never repeat, so a row that is deleted and created again has greater versions than before.
pub(crate) fn version(generation: i64, writes: i64) -> Option<u64> {
    let writes = u64::try_from(writes).ok().filter(|writes| writes >> WRITES_BITS == 0)?;
    let generation = u64::try_from(generation).ok().filter(|it| *it > 0 && it >> (63 - WRITES_BITS) == 0)?;
    Some((generation << WRITES_BITS) | writes)
}

/// Returns the generation and the writes of a version.
///
/// Both numbers fit in an `i64` for every version.
pub(crate) fn parts(version: u64) -> (i64, i64) {
    let writes = version & ((1 << WRITES_BITS) - 1);
    ((version >> WRITES_BITS).cast_signed(), writes.cast_signed())
}

/// Returns the version that reports the deletion of a row whose last version was `version`.
///
/// No table stores the returned version. It is greater than all versions of the row, and less than all versions of
/// later rows.
pub(crate) fn deletion_version(version: u64) -> u64 {
    version | ((1 << WRITES_BITS) - 1)
}

/// Returns an explanation of a wrong column, with the statement that repairs the column.
///
/// `create` is the statement that creates the table. `repair` receives the column's declaration in `create`, and
/// returns the repair statement.
pub(crate) fn wrong_column(create: &str, column: &str, repair: impl FnOnce(&str) -> String) -> String {
    let mut lines = create.lines().filter_map(|line| line.trim().trim_end_matches(',').split_once(' '));
    let declared = lines.find(|(name, _)| *name == column).map_or("", |(_, declared)| declared);
    format!("column {column} of the table must be declared as `{declared}` or an equivalent; run: {}", repair(declared))
}

/// Returns the condition on a row of `leasehold` that holds only while no later term exists.
///
/// `key` is the key as a literal.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) fn fence_condition(key: &str, fencing_token: u64) -> String {
    // A fencing token is the version at which the candidate first observed its term. A renewal may have written this
    // version, so the condition accepts every token from `acquisition` on. In a later term, `acquisition` exceeds all
    // earlier tokens.
    let token = fencing_token.min(i64::MAX.cast_unsigned());
    format!("key = {key} AND holder_identity <> '' AND (generation << 31) + acquisition <= {token}")
}

/// Converts a failed operation to an error of the store, without the password.
#[cfg(feature = "_sql_server")]
pub(crate) fn failed(
    operation: &str,
    what: &str,
    error: &impl std::fmt::Display,
    password: &Password,
    (kind, advice): (StoreErrorKind, &str),
) -> StoreError {
    StoreError::new(kind, format!("cannot {operation} {what}: {}{advice}", password.clean(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_row_has_greater_versions_than_all_of_an_earlier_one() {
        let last = (1 << WRITES_BITS) - 1;
        let versions = [version(1, 0), version(1, 1), version(1, last - 1)].map(Option::unwrap);
        assert!(versions.is_sorted() && versions[0] > 0);
        let deleted = versions.map(deletion_version);
        assert!(deleted.iter().all(|it| *it == deleted[0] && *it > versions[2]), "{deleted:?}");
        assert!(version(2, 0).unwrap() > deleted[0]);
        assert_eq!(parts(version(7, 9).unwrap()), (7, 9));
    }

    #[test]
    fn only_a_new_term_is_an_acquisition() {
        let record = |holder: Option<&str>, acquired: &str, transitions| LeaderElectionRecord {
            holder_identity: holder.map(str::to_owned),
            acquire_time: Some(MicroTime::from_text(acquired)),
            renew_time: Some(MicroTime::from_text(fastrand::u64(..).to_string())),
            lease_transitions: Some(transitions),
            ..Default::default()
        };
        let base = VersionedRecord::new(record(Some("a"), "t", 1), (7 << WRITES_BITS) + 4, StoreData::none());
        for (new, expected) in [
            (record(Some("a"), "t", 1), None),
            (record(Some(""), "t", 1), None),
            (record(Some(""), "u", 2), None),
            (record(None, "u", 2), None),
            (record(Some("b"), "t", 1), Some(5)),
            (record(Some("a"), "u", 1), Some(5)),
            (record(Some("a"), "t", 2), Some(5)),
        ] {
            assert_eq!(acquisition(&base, &new), expected, "{new:?}");
        }
    }

    #[test]
    fn numbers_that_are_not_ours_are_no_version() {
        for (generation, writes) in [(0, 0), (-1, 0), (1, -1), (1, 1 << WRITES_BITS), (1 << 32, 0), (i64::MAX, 1)] {
            assert_eq!(version(generation, writes), None, "{generation} {writes}");
        }
        assert!(version((1 << 32) - 1, 0).unwrap() <= u64::MAX / 2, "it fits in a signed column of others");
    }
}
