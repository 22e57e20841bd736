//! What the tables of the SQL stores have in common: the meaning of their columns.

pub(crate) mod told;

use std::collections::BTreeMap;

use crate::store::record::{LeaderElectionRecord, Observed, Opaque};
use crate::store::{StoreError, StoreErrorKind, WatchEvent};
use crate::util::config_error::ConfigError;

/// So many bits of a version count the writes to one row. The others number the rows that were ever inserted.
const WRITES_BITS: u32 = 31;

/// In bytes: what a VARBINARY or a B-tree key holds in every database.
const LONGEST_KEY: usize = 253;

/// What stands in the table, by its keys.
pub(crate) type Records = BTreeMap<Box<str>, Observed>;

/// A row of the table.
pub(crate) struct Row {
    pub(crate) key: Box<str>,
    pub(crate) generation: i64,
    pub(crate) writes: i64,
    pub(crate) record: LeaderElectionRecord,
}

impl Row {
    /// `None` for numbers that this library does not write.
    pub(crate) fn observed(self) -> Option<(Box<str>, Observed)> {
        let version = version(self.generation, self.writes)?;
        Some((self.key, Observed::new(self.record, version, Opaque::none())))
    }
}

/// The version of a row. A deleted row's generation is never given again: so versions grow over deletion and re-creation.
pub(crate) fn version(generation: i64, writes: i64) -> Option<u64> {
    let writes = u64::try_from(writes).ok().filter(|writes| writes >> WRITES_BITS == 0)?;
    let generation = u64::try_from(generation).ok().filter(|it| *it > 0 && it >> (63 - WRITES_BITS) == 0)?;
    Some((generation << WRITES_BITS) | writes)
}

/// The generation and the writes of a version. Both are in range for every `u64`.
pub(crate) fn parts(version: u64) -> (i64, i64) {
    let writes = version & ((1 << WRITES_BITS) - 1);
    ((version >> WRITES_BITS).cast_signed(), writes.cast_signed())
}

/// The version of the deletion of what stood at `version`, which no table keeps: above all that it had, and below those of
/// every later row.
pub(crate) fn deletion_version(version: u64) -> u64 {
    version | ((1 << WRITES_BITS) - 1)
}

/// Any text of at most 253 bytes without a NUL.
pub(crate) fn check_key(key: &str) -> Result<(), ConfigError> {
    let refuse = |rule: &str| Err(ConfigError::new("name", format_args!("{key:?}"), rule));
    match key {
        "" => refuse("it must not be empty"),
        _ if key.len() > LONGEST_KEY => refuse("it must be at most 253 bytes long"),
        _ if key.contains('\0') => refuse("it must not contain a NUL character"),
        _ => Ok(()),
    }
}

/// Explains which column of a table breaks the promise of the library, and which statement repairs it.
///
/// `repair` receives the column's declaration in `create`, the statement that creates the table.
pub(crate) fn wrong_column(create: &str, column: &str, repair: impl FnOnce(&str) -> String) -> String {
    let mut lines = create.lines().filter_map(|line| line.trim().trim_end_matches(',').split_once(' '));
    let declared = lines.find(|(name, _)| *name == column).map_or("", |(_, declared)| declared);
    format!("column {column} of the table must be declared as `{declared}` or an equivalent; run: {}", repair(declared))
}

/// Not to be found in another table, nor in this one before it was restored.
pub(crate) fn new_uid() -> String {
    format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..))
}

/// What stands where a row was inserted.
pub(crate) fn inserted(
    what: &str,
    generation: i64,
    uid: String,
    record: &LeaderElectionRecord,
) -> Result<Observed, StoreError> {
    let version = version(generation, 0).ok_or_else(|| {
        let message = format!("no more numbers for new rows, after 2^32 of them, for {what}");
        StoreError::new(StoreErrorKind::Rejected, message)
    })?;
    Ok(Observed::new(LeaderElectionRecord { uid: Some(uid), ..record.clone() }, version, Opaque::none()))
}

/// What stands where the row of `base` was updated.
pub(crate) fn updated(base: &Observed, record: &LeaderElectionRecord) -> Observed {
    let record = LeaderElectionRecord { uid: base.record.uid.clone(), ..record.clone() };
    Observed::new(record, base.version + 1, Opaque::none())
}

/// From one state to the next. The record counts beside the version: after a restore that may have been given again.
pub(crate) fn changes(told: &Records, current: &Records) -> Vec<WatchEvent> {
    let is_told = |key: &str, observed: &Observed| {
        told.get(key).is_some_and(|it| it.version == observed.version && it.record == observed.record)
    };
    let gone = told.iter().filter(|(key, _)| !current.contains_key(*key));
    let gone =
        gone.map(|(key, last)| WatchEvent::Deleted { key: key.clone(), version: deletion_version(last.version) });
    let changed = current.iter().filter(|(key, observed)| !is_told(key, observed));
    let changed = changed.map(|(key, observed)| WatchEvent::Changed { key: key.clone(), observed: observed.clone() });
    gone.chain(changed).collect()
}

/// The statement had no row: it was certainly not applied.
pub(crate) fn exists(what: &str) -> StoreError {
    StoreError::new(StoreErrorKind::NotApplied, format!("{what} exists"))
}

/// The statement had no row: it was certainly not applied.
pub(crate) fn has_moved(what: &str, base: &Observed) -> StoreError {
    let message = format!("{what} is not at version {} any more, or has another record there", base.version);
    StoreError::new(StoreErrorKind::NotApplied, message)
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
    fn numbers_that_are_not_ours_are_no_version() {
        for (generation, writes) in [(0, 0), (-1, 0), (1, -1), (1, 1 << WRITES_BITS), (1 << 32, 0), (i64::MAX, 1)] {
            assert_eq!(version(generation, writes), None, "{generation} {writes}");
        }
        assert!(version((1 << 32) - 1, 0).unwrap() <= u64::MAX / 2, "it fits in a signed column of others");
    }

    #[test]
    fn a_key_is_a_text_of_some_length_without_nul() {
        for key in ["jobs", "a b", "ä/ö", "it's", &"x".repeat(253)] {
            assert_eq!(check_key(key), Ok(()), "{key}");
        }
        for (key, word) in
            [("", "empty"), ("a\0b", "NUL"), (&*"x".repeat(254), "253 bytes"), (&*"ä".repeat(127), "253")]
        {
            assert!(check_key(key).unwrap_err().rule().contains(word), "{key}");
        }
    }
}
