//! The terms that a store has observed, and the newest value of each record.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

use crate::backends::etcd::message::KeyValue;
use crate::store::record::LeaderElectionRecord;

/// Maximum number of remembered terms for each key.
const REMEMBERED: usize = 16;

/// Maximum number of followed keys.
///
/// If more guards exist at once, the store rejects guarded transactions of some guards.
const MAX_KEYS: usize = 4096;

/// The fields of a record that identify a term among all terms of a key.
///
/// Two terms of the same holder differ in `acquireTime`, which has random digits.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct EtcdTerm(LeaderElectionRecord);

/// The terms of all followed keys.
#[derive(Default)]
pub(super) struct EtcdTerms(Mutex<HashMap<Box<str>, Seen>>);

#[derive(Default)]
struct Seen {
    /// The default value until the first observation.
    newest: KeyValue,
    /// Each term, with the version at which this store first observed the term.
    ///
    /// If a candidate won the term through this store, this version is the fencing token of the term.
    terms: VecDeque<(u64, EtcdTerm)>,
}

/// The term and the newest observed value of a record, for a guarded transaction.
pub(super) struct GuardedRecord {
    pub(super) key: Box<str>,
    pub(super) term: EtcdTerm,
    pub(super) newest: KeyValue,
}

impl EtcdTerm {
    pub(super) fn of(record: &LeaderElectionRecord) -> Self {
        let LeaderElectionRecord { uid, holder_identity, acquire_time, .. } = record.clone();
        Self(LeaderElectionRecord { uid, holder_identity, acquire_time, ..Default::default() })
    }
}

impl EtcdTerms {
    /// Remembers the terms of `key` from now on.
    ///
    /// A watch of all keys observes many keys that no elector of this store uses, and does not follow these keys.
    pub(super) fn follow(&self, key: &str) {
        let mut all = self.0.lock();
        // The check avoids an allocation for a known key, because each renewal calls this function.
        if !all.contains_key(key) {
            if all.len() >= MAX_KEYS {
                // Renewals increase the revision of a key in use. The key with the lowest revision has been unused for
                // the longest time.
                let oldest = all.iter().min_by_key(|(_, seen)| seen.newest.mod_revision).map(|(key, _)| key.clone());
                oldest.map(|key| all.remove(&key));
            }
            all.insert(key.into(), Seen::default());
        }
    }

    /// Remembers `kv` as the value of `key` if the key is followed, where `record` is the parsed value.
    pub(super) fn note(&self, key: &str, record: &LeaderElectionRecord, kv: KeyValue) {
        let version = kv.mod_revision;
        let mut all = self.0.lock();
        let Some(seen) = all.get_mut(key) else { return };
        // Concurrent threads may call this function out of order, so the value with the higher version stays. If etcd
        // was restored, this value may be outdated, and then the comparison of a guarded transaction fails.
        if version >= seen.newest.mod_revision {
            seen.newest = kv;
        }
        let term = EtcdTerm::of(record);
        if record.holder().is_some() && !seen.terms.iter().any(|(_, known)| *known == term) {
            seen.terms.push_back((version, term));
            if seen.terms.len() > REMEMBERED {
                seen.terms.pop_front();
            }
        }
    }

    /// Returns the term with this fencing token, and the newest value of its key.
    ///
    /// Returns `None` if no key has a term with this fencing token, or if several keys have such a term.
    pub(super) fn find(&self, token: u64) -> Option<GuardedRecord> {
        let all = self.0.lock();
        // Two keys have terms with the same fencing token only if another program wrote both keys in one transaction.
        let mut found = all.iter().flat_map(|(key, seen)| {
            let mine = seen.terms.iter().rev().find(|(version, _)| *version == token);
            mine.map(|(_, term)| GuardedRecord { key: key.clone(), term: term.clone(), newest: seen.newest.clone() })
        });
        let first = found.next();
        if found.next().is_some() { None } else { first }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::record::MicroTime;

    fn note(terms: &EtcdTerms, key: &str, record: &LeaderElectionRecord, kv: KeyValue) {
        terms.follow(key);
        terms.note(key, record, kv);
    }

    fn record(holder: &str, acquired: u64) -> LeaderElectionRecord {
        LeaderElectionRecord {
            uid: Some("2".to_owned()),
            holder_identity: Some(holder.to_owned()),
            acquire_time: Some(MicroTime::from_unix_micros(acquired)),
            ..Default::default()
        }
    }

    fn kv(version: u64) -> KeyValue {
        KeyValue { key: b"k".to_vec(), create_revision: 2, mod_revision: version, value: b"v".to_vec() }
    }

    #[test]
    fn a_term_is_found_by_the_version_at_which_it_was_first_seen() {
        let terms = EtcdTerms::default();
        note(&terms, "jobs", &record("a", 1), kv(2));
        note(&terms, "jobs", &record("a", 1), kv(5));
        note(&terms, "jobs", &record("a", 6), kv(7));
        note(&terms, "jobs", &record("", 6), kv(8));
        note(&terms, "jobs", &record("a", 6), kv(6));
        let newest = |token| terms.find(token).map(|it| it.newest.mod_revision);
        assert_eq!([2, 5, 6, 7, 8].map(newest), [Some(8), None, None, Some(8), None]);
        assert!(terms.find(2).unwrap().term != terms.find(7).unwrap().term);
        note(&terms, "other", &record("a", 1), kv(7));
        assert_eq!(newest(7), None, "with two keys, neither is certain");
        terms.note("unused", &record("a", 1), kv(9));
        assert_eq!(newest(9), None, "the key is not followed");
    }

    #[test]
    fn only_so_many_are_remembered() {
        let terms = EtcdTerms::default();
        for number in 1..=REMEMBERED as u64 + 1 {
            note(&terms, "jobs", &record("a", number), kv(number));
        }
        assert!(terms.find(1).is_none() && terms.find(2).is_some());
        for number in 0..=MAX_KEYS as u64 {
            note(&terms, &format!("key-{number}"), &record("a", 1), kv(100 + number));
        }
        assert_eq!(terms.0.lock().len(), MAX_KEYS);
        assert!(terms.find(2).is_none() && terms.find(100).is_none() && terms.find(101).is_some());
    }
}
