//! Writes of this process that are readable, but that a crash of the server could revert.

use std::collections::BTreeMap;

use crate::util::sync::Mutex;

/// The writes of this process that may not be durable yet.
///
/// Without a binary log, InnoDB shows a commit to other sessions before the log is flushed. If a process reads its own
/// write before the write's result arrives, the write may still be lost in a crash.
#[derive(Default)]
pub(super) struct UndurableWrites(Mutex<BTreeMap<Box<str>, Writes>>);

/// The writes to one key.
#[derive(Default)]
struct Writes {
    in_flight: usize,
    /// The lowest version that an unconfirmed write replaces.
    ///
    /// A later successful write also confirms the earlier writes.
    since: Option<u64>,
    /// The greatest version that is known to be on disk.
    proven: u64,
}

impl UndurableWrites {
    /// Runs and tracks a write that replaces version `base`, which is zero for an insert.
    ///
    /// `write` returns the new version, or `None` if the write was certainly not applied. After an error of `write`, the
    /// outcome is unknown.
    pub(super) fn track<E>(
        &self,
        key: &str,
        base: u64,
        write: impl FnOnce() -> Result<Option<u64>, E>,
    ) -> Result<Option<u64>, E> {
        let is_alone = {
            let mut keys = self.0.lock();
            let writes = keys.entry(key.into()).or_default();
            let is_alone = writes.since.is_none();
            writes.in_flight += 1;
            writes.since = Some(writes.since.map_or(base, |since| since.min(base)));
            is_alone
        };
        let outcome = write();
        let mut keys = self.0.lock();
        let writes = keys.entry(key.into()).or_default();
        writes.in_flight = writes.in_flight.saturating_sub(1);
        if let Ok(Some(version)) = outcome {
            writes.proven = writes.proven.max(version);
        }
        let is_over = outcome.as_ref().is_ok_and(|version| version.is_some() || is_alone);
        if is_over && writes.in_flight == 0 {
            writes.since = None;
        }
        outcome
    }

    /// Returns `true` if `version` may be a write of this process that is not durable.
    pub(super) fn may_be_taken_back(&self, key: &str, version: u64) -> bool {
        let keys = self.0.lock();
        keys.get(key).is_some_and(|it| version != it.proven && it.since.is_some_and(|since| version > since))
    }

    /// Marks a version as durable.
    pub(super) fn is_proven(&self, key: &str, version: u64) {
        if let Some(writes) = self.0.lock().get_mut(key) {
            writes.proven = writes.proven.max(version);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_is_revocable_until_it_or_a_later_one_is_answered() {
        let undurable = UndurableWrites::default();
        let track = |base, outcome: Result<Option<u64>, ()>| undurable.track("a", base, || outcome);
        let in_flight = undurable.track("a", 4, || {
            assert!(undurable.may_be_taken_back("a", 5), "in flight");
            assert!(!undurable.may_be_taken_back("a", 4), "the version that the write replaces");
            assert!(!undurable.may_be_taken_back("b", 5), "another key");
            Err(())
        });
        assert_eq!(in_flight, Err(()));
        assert!(undurable.may_be_taken_back("a", 5), "the write may have been applied");
        assert_eq!(track(4, Ok(None)), Ok(None));
        assert!(undurable.may_be_taken_back("a", 5), "an earlier write is still in doubt");
        undurable.is_proven("a", 5);
        assert!(!undurable.may_be_taken_back("a", 5));
        assert!(undurable.may_be_taken_back("a", 6));
        assert_eq!(track(6, Ok(Some(7))), Ok(Some(7)));
        assert!(!undurable.may_be_taken_back("a", 7) && !undurable.may_be_taken_back("a", 8));
        assert_eq!(track(7, Ok(None)), Ok(None));
        assert!(!undurable.may_be_taken_back("a", 8), "another's");
    }
}
