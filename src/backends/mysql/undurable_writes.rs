//! Which of our own writes may be seen although a crash of the server could take them back.

use std::collections::BTreeMap;

use crate::util::sync::Mutex;

/// InnoDB shows a commit to others before it has flushed its log, unless there is a binary log. So who reads his own write
/// before it is answered must not take it for one that stays.
#[derive(Default)]
pub(super) struct UndurableWrites(Mutex<BTreeMap<Box<str>, Writes>>);

/// Those to one key.
#[derive(Default)]
struct Writes {
    in_flight: usize,
    /// What the first of them replaces that was not answered with success; a later success proves those before it.
    since: Option<u64>,
    /// This version is known to be on disk.
    proven: u64,
}

/// What has become of a write.
pub(super) enum WriteOutcome {
    Applied(u64),
    NotApplied,
    Open,
}

impl UndurableWrites {
    /// Carries out a write onto this version; zero for none.
    pub(super) fn track<T>(&self, key: &str, base: u64, write: impl FnOnce() -> (WriteOutcome, T)) -> T {
        let is_alone = {
            let mut keys = self.0.lock();
            let writes = keys.entry(key.into()).or_default();
            let is_alone = writes.since.is_none();
            writes.in_flight += 1;
            writes.since = Some(writes.since.map_or(base, |since| since.min(base)));
            is_alone
        };
        let (end, result) = write();
        let mut keys = self.0.lock();
        let writes = keys.entry(key.into()).or_default();
        writes.in_flight = writes.in_flight.saturating_sub(1);
        if let WriteOutcome::Applied(version) = end {
            writes.proven = writes.proven.max(version);
        }
        let is_over = matches!(end, WriteOutcome::Applied(_)) || (matches!(end, WriteOutcome::NotApplied) && is_alone);
        if is_over && writes.in_flight == 0 {
            writes.since = None;
        }
        result
    }

    /// Whether what was read at this version may be our own, and taken back.
    pub(super) fn may_be_taken_back(&self, key: &str, version: u64) -> bool {
        let keys = self.0.lock();
        keys.get(key).is_some_and(|it| version != it.proven && it.since.is_some_and(|since| version > since))
    }

    /// After what was read was made to stay.
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
        undurable.track("a", 4, || {
            assert!(undurable.may_be_taken_back("a", 5), "in flight");
            assert!(!undurable.may_be_taken_back("a", 4), "what it replaces");
            assert!(!undurable.may_be_taken_back("b", 5), "another key");
            (WriteOutcome::Open, ())
        });
        assert!(undurable.may_be_taken_back("a", 5), "it may have been applied");
        undurable.track("a", 4, || (WriteOutcome::NotApplied, ()));
        assert!(undurable.may_be_taken_back("a", 5), "for the one before was");
        undurable.is_proven("a", 5);
        assert!(!undurable.may_be_taken_back("a", 5));
        assert!(undurable.may_be_taken_back("a", 6));
        undurable.track("a", 6, || (WriteOutcome::Applied(7), ()));
        assert!(!undurable.may_be_taken_back("a", 7) && !undurable.may_be_taken_back("a", 8));
        undurable.track("a", 7, || (WriteOutcome::NotApplied, ()));
        assert!(!undurable.may_be_taken_back("a", 8), "another's");
    }
}
