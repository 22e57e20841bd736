//! The records of a group in one linearizable store.

use std::collections::BTreeMap;

use leasehold::election::ReadContext;
use leasehold::election::group::GroupKey;
use leasehold::{LeaderElectionRecord, StoreData, StoreErrorKind, VersionedRecord};

/// A request to the store.
#[derive(Debug, Clone)]
pub enum GroupCall {
    /// A read, with the context of the session if a session reads.
    Get(Option<ReadContext>),
    Create(LeaderElectionRecord),
    /// An update of the record with this version and `uid`.
    Update(u64, Option<String>, LeaderElectionRecord),
}

pub type Records = BTreeMap<GroupKey, VersionedRecord>;

#[derive(Debug, Default)]
pub struct GroupStore {
    pub version: u64,
    uids: u64,
    pub records: Records,
    pub backup: (u64, Records),
}

impl GroupStore {
    pub fn apply(&mut self, key: GroupKey, call: &GroupCall) -> Result<Option<VersionedRecord>, StoreErrorKind> {
        let standing = self.records.get(&key);
        match (call, standing) {
            (GroupCall::Get(_), _) => Ok(standing.cloned()),
            (GroupCall::Create(_), Some(_)) => Err(StoreErrorKind::AlreadyExists),
            (GroupCall::Create(record), None) => {
                self.uids += 1;
                let uid = Some(format!("uid-{}", self.uids));
                Ok(Some(self.put(key, LeaderElectionRecord { uid, ..record.clone() })))
            }
            (GroupCall::Update(version, uid, record), Some(standing))
                if (*version, uid) == (standing.version, &standing.record.uid) =>
            {
                Ok(Some(self.put(key, LeaderElectionRecord { uid: uid.clone(), ..record.clone() })))
            }
            (GroupCall::Update(..), _) => Err(StoreErrorKind::Conflict),
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
