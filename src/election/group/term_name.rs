//! The content of a shard record.

use crate::store::record::LeaderElectionRecord;

/// The largest number of members.
pub const MAX_MEMBERS: usize = 64;

/// The name of one term of a member, as shard records and slot records contain it.
///
/// An `acquireTime` has random digits, and a re-created record has another `uid`. Two terms therefore have different
/// names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TermName {
    /// The slot of the member.
    pub slot: usize,
    /// The `acquireTime` of the slot's record.
    pub acquire_time: Box<str>,
    /// The `uid` of the slot's record.
    pub uid: Box<str>,
}

/// The owner that a shard record names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ShardOwner {
    /// No owner, because the record was created and no member has owned the shard since.
    Unowned,
    /// No owner, because the last owner emptied the record.
    Released,
    /// The term of a member, and the identity of the member.
    Term(TermName, Box<str>),
    /// A text that no member of a group wrote.
    Foreign,
}

impl TermName {
    /// Returns the name of the term in the record of a slot, or `None` without a holder.
    pub fn of_slot(slot: usize, record: &LeaderElectionRecord) -> Option<Self> {
        record.holder()?;
        let acquire_time = record.acquire_time.as_ref().map_or("", |time| time.as_str());
        Some(Self { slot, acquire_time: acquire_time.into(), uid: Self::uid(record) })
    }

    /// Returns the `uid` of a record, without the separator of the fields of a holder.
    pub fn uid(record: &LeaderElectionRecord) -> Box<str> {
        record.uid.as_deref().unwrap_or_default().replace('/', "_").into()
    }

    /// Returns the text of the field `holderIdentity`.
    pub fn to_holder(&self, identity: &str) -> String {
        format!("{}/{}/{identity}", self.slot, self.uid)
    }
}

impl ShardOwner {
    /// Reads the owner from a shard record.
    pub fn of(record: &LeaderElectionRecord) -> Self {
        let acquire_time = record.acquire_time.as_ref();
        let Some(holder) = record.holder() else {
            return if acquire_time.is_some() { Self::Released } else { Self::Unowned };
        };
        let mut fields = holder.splitn(3, '/');
        let mut field = || fields.next();
        let (Some(slot), Some(uid), Some(identity), Some(acquire_time)) = (field(), field(), field(), acquire_time)
        else {
            return Self::Foreign;
        };
        match slot.parse() {
            Ok(slot) if slot < MAX_MEMBERS => {
                let name = TermName { slot, acquire_time: acquire_time.as_str().into(), uid: uid.into() };
                Self::Term(name, identity.into())
            }
            _ => Self::Foreign,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::record::MicroTime;

    fn record(holder: &str, acquire_time: Option<&str>) -> LeaderElectionRecord {
        LeaderElectionRecord {
            holder_identity: Some(holder.into()),
            acquire_time: acquire_time.map(MicroTime::from_text),
            uid: Some("u/1".into()),
            ..Default::default()
        }
    }

    #[test]
    fn owner_survives_the_round_trip_through_a_record() {
        let name = TermName::of_slot(7, &record("pod-1", Some("t"))).unwrap();
        let written = record(&name.to_holder("a/b"), Some("t"));
        assert_eq!(ShardOwner::of(&written), ShardOwner::Term(name, "a/b".into()));
        assert_eq!(TermName::of_slot(7, &record("", Some("t"))), None);
    }

    #[test]
    fn other_texts_are_foreign() {
        for holder in ["pod-1", "x/u/a", "64/u/a", "-1/u/a", "7/u", "/"] {
            assert_eq!(ShardOwner::of(&record(holder, Some("t"))), ShardOwner::Foreign, "{holder}");
        }
        assert_eq!(ShardOwner::of(&record("7/u/a", None)), ShardOwner::Foreign);
        assert_eq!(ShardOwner::of(&record("", None)), ShardOwner::Unowned);
        assert_eq!(ShardOwner::of(&record("", Some("t"))), ShardOwner::Released);
    }
}
