//! The records of a group in one linearizable store.

use std::collections::BTreeMap;

use leasehold::election::group::{GroupKey, GroupOperation};
use leasehold::store::{LeaderElectionRecord, StoreData, StoreErrorKind, VersionedRecord};

pub type Records = BTreeMap<GroupKey, VersionedRecord>;

#[derive(Debug, Default)]
pub struct GroupStore {
    pub version: u64,
    uids: u64,
    pub records: Records,
    pub backup: (u64, Records),
}

impl GroupStore {
    pub fn apply(&mut self, key: GroupKey, call: &GroupOperation) -> Result<Option<VersionedRecord>, StoreErrorKind> {
        let standing = self.records.get(&key);
        match (call, standing) {
            (GroupOperation::Get(()), _) => Ok(standing.cloned()),
            (GroupOperation::Create(_), Some(_)) => Err(StoreErrorKind::AlreadyExists),
            (GroupOperation::Create(record), None) => {
                self.uids += 1;
                let uid = Some(format!("uid-{}", self.uids));
                Ok(Some(self.put(key, LeaderElectionRecord { uid, ..record.clone() })))
            }
            (GroupOperation::Update(base, record), Some(standing))
                if (base.version, &base.record.uid) == (standing.version, &standing.record.uid) =>
            {
                let uid = base.record.uid.clone();
                Ok(Some(self.put(key, LeaderElectionRecord { uid, ..record.clone() })))
            }
            (GroupOperation::Update(..), _) => Err(StoreErrorKind::Conflict),
        }
    }

    pub fn put(&mut self, key: GroupKey, record: LeaderElectionRecord) -> VersionedRecord {
        self.version += 1;
        let observed = VersionedRecord::new(record, self.version, StoreData::none());
        self.records.insert(key, observed.clone());
        observed
    }

    pub fn delete(&mut self, key: GroupKey) {
        self.version += u64::from(self.records.remove(&key).is_some());
    }
}
