//! Writes of this process that are readable, but that a crash of the server could revert.

use std::collections::BTreeMap;

use crate::util::sync::Mutex;

/// The writes of this process that may not be durable yet.
///
/// Without a binary log, InnoDB shows a commit to other sessions before the log is flushed. If a process reads its own
/// write before the write's result arrives, the write may still be lost in a crash.
#[derive(Default)]
pub(super) struct UndurableWrites(Mutex<BTreeMap<Box<str>, Writes>>);

/// The writes to one key, each as the version that it replaces.
#[derive(Default)]
struct Writes {
    in_flight: Vec<u64>,
    /// The writes whose outcome is unknown.
    unanswered: Vec<u64>,
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
        self.begin(key, base);
        let outcome = write();
        self.end(key, base, &outcome);
        outcome
    }

    fn begin(&self, key: &str, base: u64) {
        let mut keys = self.0.lock();
        let writes = keys.entry(key.into()).or_default();
        // A restored store has lower versions, and may give the proven version to another write.
        if base < writes.proven {
            writes.proven = 0;
        }
        writes.in_flight.push(base);
    }

    /// Notes the end of a write.
    fn end<E>(&self, key: &str, base: u64, outcome: &Result<Option<u64>, E>) {
        let mut keys = self.0.lock();
        let Some(writes) = keys.get_mut(key) else { return };
        if let Some(at) = writes.in_flight.iter().position(|it| *it == base) {
            writes.in_flight.swap_remove(at);
        }
        match outcome {
            Ok(Some(version)) => {
                writes.proven = writes.proven.max(*version);
                // The answer proves that all commits before `version` are on disk. Later writes are still in doubt.
                writes.unanswered.retain(|it| it >= version);
            }
            Ok(None) => {}
            Err(_) if writes.unanswered.contains(&base) => {}
            Err(_) => writes.unanswered.push(base),
        }
    }

    /// Returns `true` if `version` may be a write of this process that is not durable.
    pub(super) fn may_be_taken_back(&self, key: &str, version: u64) -> bool {
        let keys = self.0.lock();
        keys.get(key).is_some_and(|it| {
            version != it.proven && it.in_flight.iter().chain(&it.unanswered).any(|base| *base < version)
        })
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
            assert_eq!(track(4, Ok(None)), Ok(None), "another elector's write is refused");
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
        assert_eq!((track(8, Err(())), track(5, Ok(None))), (Err(()), Ok(None)));
        assert!(undurable.may_be_taken_back("a", 9), "a write with an old base settles no other write");
    }

    /// Another elector of the process writes too, and its answer is lost.
    #[test]
    fn answer_or_refusal_confirms_no_write_beside_it() {
        for (base, outcome) in [(4, Ok::<_, ()>(None)), (5, Ok(Some(5)))] {
            let undurable = UndurableWrites::default();
            let write = || undurable.track("a", base, || Err(())).or(outcome);
            assert_eq!(undurable.track("a", 4, write), outcome);
            assert!(undurable.may_be_taken_back("a", base + 1), "{outcome:?}");
        }
    }

    /// A write that this process has sent.
    struct Request {
        base: u64,
        /// The result of the server, or an error before the server executes the write.
        result: Result<Option<u64>, ()>,
        /// `true` while the client waits for the result.
        is_open: bool,
    }

    /// Runs requests of several electors of one process, and writes of another process, in random orders.
    #[test]
    fn unconfirmed_write_is_revocable_in_random_orders() {
        for seed in 0..3_000 {
            let mut random = fastrand::Rng::with_seed(seed);
            let undurable = UndurableWrites::default();
            let (mut version, mut durable, mut own, mut requests) = (4, 4, Vec::new(), Vec::<Request>::new());
            for _ in 0..16 {
                let (step, open) = (random.u8(..9), requests.len());
                let it = requests.get_mut(random.usize(..open.max(1)));
                match (step, it) {
                    (0 | 1, _) if open < 5 => {
                        requests.push(Request { base: version - random.u64(..2), result: Err(()), is_open: true });
                        undurable.begin("a", requests[open].base);
                    }
                    // The server may also execute a request that the client has given up.
                    (2 | 3, Some(it)) if it.result.is_err() => {
                        let is_applied = it.base == version;
                        version += u64::from(is_applied);
                        own.extend(is_applied.then_some(version));
                        it.result = Ok(is_applied.then_some(version));
                    }
                    (4 | 5, Some(it)) if it.is_open && (step == 5 || it.result.is_ok()) => {
                        let answer = it.result.and_then(|result| if step == 4 { Ok(result) } else { Err(()) });
                        // The server answers a write after the log is on disk.
                        durable = durable.max(answer.ok().flatten().unwrap_or_default());
                        undurable.end("a", it.base, &answer);
                        it.is_open = false;
                    }
                    (6, _) => version += 1,
                    // The server starts on an older copy. The requests of the connections before end with them.
                    (8, _) if random.u8(..4) == 0 => {
                        version = random.u64(3..=version);
                        durable = version;
                        own.retain(|it| *it <= version);
                        for it in requests.drain(..).filter(|it| it.is_open) {
                            undurable.end::<()>("a", it.base, &Err(()));
                        }
                    }
                    // A read.
                    (7, _) if undurable.may_be_taken_back("a", version) => {
                        durable = version;
                        undurable.is_proven("a", version);
                    }
                    _ => {}
                }
                let is_safe = durable >= version || !own.contains(&version);
                assert!(is_safe || undurable.may_be_taken_back("a", version), "seed {seed}, version {version}");
            }
        }
    }
}
