//! The newest known state of the record, and its holder as this candidate sees it.

use std::time::Duration;

use crate::election::messages::ReadContext;
use crate::store::record::{LeaderElectionRecord, VersionedRecord};
use crate::util::clock::Moment;

/// The newest state of the record that this candidate knows.
///
/// The candidate ignores observations up to the newest known version.
#[derive(Debug)]
pub(crate) struct Observed {
    newest: u64,
    state: ObservedState,
    /// The earliest time to reclaim the record of another process with the same identity.
    reclaim_at: Moment,
}

#[derive(Debug)]
enum ObservedState {
    Unknown,
    /// The record does not exist. `deleted_uid` is the uid of the deleted object, whose later observations are outdated.
    Absent {
        deleted_uid: Option<String>,
    },
    Present {
        record: VersionedRecord,
        /// When the last change of the record was received.
        changed_at: Moment,
        holder: Holder,
    },
}

/// The holder of the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    Nobody,
    /// This candidate wrote the record.
    Ourselves,
    /// Another process wrote the record with the identity of this candidate.
    ///
    /// The record has not changed since its first observation, so the process has probably ended.
    Predecessor,
    /// Another running process wrote the record with the identity of this candidate.
    DuplicateIdentity,
    Other,
}

impl Observed {
    pub(super) fn nothing() -> Self {
        Self { newest: 0, state: ObservedState::Unknown, reclaim_at: Moment::default() }
    }

    /// Returns the newest known version.
    pub(crate) fn newest(&self) -> u64 {
        self.newest
    }

    /// Returns the record, if the record is known to exist.
    pub(crate) fn record(&self) -> Option<&VersionedRecord> {
        if let ObservedState::Present { record, .. } = &self.state { Some(record) } else { None }
    }

    /// Returns `true` if neither the record nor its absence was observed.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self.state, ObservedState::Unknown)
    }

    /// Returns `true` if the record is known not to exist.
    pub(super) fn is_absent(&self) -> bool {
        matches!(self.state, ObservedState::Absent { .. })
    }

    /// Returns the holder, if the record is known to exist.
    pub(super) fn holder(&self) -> Option<Holder> {
        if let ObservedState::Present { holder, .. } = &self.state { Some(*holder) } else { None }
    }

    /// Returns `true` if this candidate wrote the record and holds the lease.
    pub(crate) fn is_ours(&self) -> bool {
        self.holder() == Some(Holder::Ourselves)
    }

    /// Returns `true` if another process wrote the record with the identity of this candidate.
    pub(crate) fn identity_is_shared(&self) -> bool {
        matches!(self.holder(), Some(Holder::Predecessor | Holder::DuplicateIdentity))
    }

    /// Returns the time at which the lease of the holder expires, unless the record changes before.
    ///
    /// `otherwise` is the duration of a record without a duration.
    pub(super) fn expires_at(&self, otherwise: Duration) -> Option<Moment> {
        let ObservedState::Present { record, changed_at, .. } = &self.state else { return None };
        record.record.holder()?;
        Some(*changed_at + record.record.lease_duration_or(otherwise))
    }

    /// Returns the time from which a candidate may acquire the lease (rules 1 to 3), or `None` if it is unknown.
    ///
    /// `reclaims` is `true` if the candidate takes over from processes with its identity.
    pub(super) fn acquirable_at(
        &self,
        now: Moment,
        hold_back: Duration,
        reclaims: bool,
        otherwise: Duration,
    ) -> Option<Moment> {
        let (changed_at, holder) = match &self.state {
            ObservedState::Unknown => return None,
            ObservedState::Absent { .. } => return Some(now),
            ObservedState::Present { changed_at, holder, .. } => (*changed_at, *holder),
        };
        match holder {
            Holder::Ourselves => Some(now),
            Holder::Predecessor if reclaims => Some(now),
            // Another running process with this identity would reclaim the lease, too. The delay limits how often both
            // processes alternate.
            Holder::DuplicateIdentity if reclaims => Some(self.reclaim_at),
            Holder::Nobody => Some(changed_at + hold_back),
            Holder::Predecessor | Holder::DuplicateIdentity | Holder::Other => {
                self.expires_at(otherwise).map(|at| at + hold_back)
            }
        }
    }

    /// Returns the state with which the response to a read must be compared.
    pub(super) fn context(&self, now: Moment) -> ReadContext {
        ReadContext { newest: self.newest, absent: self.is_absent(), sent_at: now }
    }

    /// Remembers a version. Returns `true` if the version is new.
    pub(super) fn learn_version(&mut self, version: u64) -> bool {
        let is_news = version > self.newest;
        self.newest = self.newest.max(version);
        is_news
    }

    /// Stores a changed record.
    pub(super) fn see(&mut self, record: VersionedRecord, changed_at: Moment, holder: Holder) {
        self.state = ObservedState::Present { record, changed_at, holder };
    }

    /// Stores the equal record of another version, or with other notes.
    ///
    /// Returns `false` without an effect if the record is another one.
    pub(super) fn see_again(&mut self, again: VersionedRecord) -> bool {
        match &mut self.state {
            ObservedState::Present { record, .. } if record.record == again.record => {
                *record = again;
                true
            }
            _ => false,
        }
    }

    /// Sets the earliest time to reclaim the record of another running process with the same identity.
    pub(super) fn reclaim_at(&mut self, at: Moment) {
        self.reclaim_at = at;
    }

    /// Notes that the record does not exist. Returns `false` if its absence was known.
    pub(super) fn vanish(&mut self) -> bool {
        let deleted_uid = match &mut self.state {
            ObservedState::Absent { .. } => return false,
            ObservedState::Present { record, .. } => record.record.uid.take(),
            ObservedState::Unknown => None,
        };
        self.state = ObservedState::Absent { deleted_uid };
        true
    }

    /// Forgets the state after a restore of the store.
    pub(super) fn forget(&mut self) {
        (self.newest, self.state) = (0, ObservedState::Unknown);
    }

    /// Returns `true` if the record belongs to the object whose deletion was observed.
    pub(super) fn is_deleted(&self, record: &LeaderElectionRecord) -> bool {
        matches!(&self.state, ObservedState::Absent { deleted_uid: Some(uid) } if record.uid.as_ref() == Some(uid))
    }

    /// Returns `true` if a read proves that the store was restored to an older state.
    ///
    /// A read proves a restore if the read finds an older version than the newest version known when the read was sent.
    /// Another record at a known version also proves a restore, because the store has used the version again. An object
    /// that reappears after its known deletion is proof, too.
    pub(super) fn proves_restore(&self, context: ReadContext, found: &VersionedRecord) -> bool {
        let version = found.version;
        // The object was known to be deleted before the read was sent. Only a restore brings the object back.
        let is_back = context.absent && context.newest == self.newest && self.is_deleted(&found.record);
        version < context.newest
            || is_back
            || (context.absent && version == context.newest)
            || self.record().is_some_and(|known| known.version == version && known.record != found.record)
    }

    /// Returns the identity of the holder in the record, and the address that the holder advertises.
    pub(crate) fn leader(&self) -> Option<(&str, Option<&str>)> {
        self.record().and_then(|known| Some((known.record.holder()?, known.notes.term.address.as_deref())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::record::StoreData;

    const HOLD_BACK: Duration = Duration::from_secs(3);
    const OWN_DURATION: Duration = Duration::from_secs(15);

    const fn at(seconds: u64) -> Moment {
        Moment::from_nanos((1_000 + seconds) * 1_000_000_000)
    }

    fn record(uid: &str, holder: &str, seconds: Option<i32>) -> LeaderElectionRecord {
        LeaderElectionRecord {
            uid: Some(uid.to_owned()),
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: seconds,
            ..LeaderElectionRecord::default()
        }
    }

    fn found(record: LeaderElectionRecord, version: u64) -> VersionedRecord {
        VersionedRecord::new(record, version, StoreData::none())
    }

    /// Returns the state after a change to version 10 at 0 s.
    fn seen(record: LeaderElectionRecord, holder: Holder) -> Observed {
        let mut observed = Observed::nothing();
        assert!(observed.learn_version(10));
        observed.see(found(record, 10), at(0), holder);
        observed
    }

    /// Returns the state after the deletion of the object `u` at version 12.
    fn deleted() -> Observed {
        let mut observed = seen(record("u", "a", Some(9)), Holder::Other);
        assert!(observed.learn_version(12) && observed.vanish() && !observed.vanish());
        observed
    }

    #[test]
    fn each_holder_has_its_time_of_acquisition() {
        let held = |seconds| record("u", "a", seconds);
        // The holder, the record, whether the candidate reclaims its identity, and the second of the acquisition.
        for (holder, record, reclaims, second) in [
            (Holder::Nobody, record("u", "", Some(1)), false, 3),
            (Holder::Other, held(Some(40)), false, 43),
            (Holder::Other, held(None), true, 18),
            (Holder::Other, held(Some(-5)), false, 18),
            (Holder::Ourselves, held(Some(40)), false, 5),
            (Holder::Predecessor, held(Some(40)), false, 43),
            (Holder::Predecessor, held(Some(40)), true, 5),
            (Holder::DuplicateIdentity, held(Some(40)), false, 43),
            (Holder::DuplicateIdentity, held(Some(40)), true, 7),
        ] {
            let mut observed = seen(record, holder);
            observed.reclaim_at(at(7));
            let acquirable_at = observed.acquirable_at(at(5), HOLD_BACK, reclaims, OWN_DURATION);
            assert_eq!(acquirable_at, Some(at(second)), "{holder:?} {reclaims}");
        }
        assert_eq!(deleted().acquirable_at(at(5), HOLD_BACK, false, OWN_DURATION), Some(at(5)));
        assert_eq!(Observed::nothing().acquirable_at(at(5), HOLD_BACK, false, OWN_DURATION), None);
    }

    #[test]
    fn read_proves_a_restore_by_an_older_or_another_state() {
        let (known, other) = (record("u", "a", Some(9)), record("u", "b", Some(9)));
        let context = |newest, absent| ReadContext { newest, absent, sent_at: at(1) };
        // The known state, the state known when the read was sent, what the read found, and whether this proves a restore.
        for (case, observed, context, found, expected) in [
            ("older", seen(known.clone(), Holder::Other), context(10, false), found(known.clone(), 9), true),
            ("sent earlier", seen(known.clone(), Holder::Other), context(8, false), found(known.clone(), 9), false),
            ("the same", seen(known.clone(), Holder::Other), context(10, false), found(known.clone(), 10), false),
            ("another", seen(known.clone(), Holder::Other), context(8, false), found(other.clone(), 10), true),
            ("newer", seen(known.clone(), Holder::Other), context(10, false), found(other, 11), false),
            ("an object that is back", deleted(), context(12, true), found(known.clone(), 20), true),
            ("sent before the deletion", deleted(), context(10, false), found(known.clone(), 20), false),
            ("another object", deleted(), context(12, true), found(record("v", "a", None), 20), false),
            ("a version that was absent", deleted(), context(12, true), found(record("v", "a", None), 12), true),
        ] {
            assert_eq!(observed.proves_restore(context, &found), expected, "{case}");
        }
    }

    #[test]
    fn equal_record_is_replaced_and_another_is_not() {
        let mut observed = seen(record("u", "a", Some(9)), Holder::Other);
        assert!(observed.see_again(found(record("u", "a", Some(9)), 11)));
        assert_eq!((observed.record().unwrap().version, observed.expires_at(OWN_DURATION)), (11, Some(at(9))));
        assert!(
            !observed.see_again(found(record("u", "b", Some(9)), 12))
                && !deleted().see_again(found(record("u", "a", Some(9)), 12))
        );
        assert_eq!(observed.record().unwrap().version, 11);
        assert!(!observed.learn_version(10) && observed.newest() == 10);
        observed.forget();
        assert!(observed.is_unknown() && observed.newest() == 0);
    }
}
