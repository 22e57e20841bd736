//! Small copies of records and requests, and a linearizable store for them.

use leasehold::election::group::{GroupKey, GroupOperation};
use leasehold::store::{LeaderElectionRecord, MicroTime, StoreData, VersionedRecord};

/// The published duration of a shard whose owner leaves.
const LEAVING: i32 = i32::MAX - 1;

/// The number that a write replaces by the version which the write produces.
pub const NEW: u8 = u8::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Holder {
    Nobody,
    /// The holder of a slot.
    Process(u8),
    /// The owner of a shard.
    Term {
        slot: u8,
        uid: u8,
        process: u8,
    },
}

/// A record without the fields that the group ignores.
///
/// Each number is the version of the write that set the field. Versions are counted separately for each key, because
/// the group only compares versions of one key. States that differ by the order of independent writes are then equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Content {
    pub uid: u8,
    pub holder: Holder,
    pub acquired: u8,
    pub renewed: u8,
    /// `true` if the owner of the shard has announced that it leaves.
    pub is_leaving: bool,
    /// The lease duration of a slot, or zero for a shard.
    pub seconds: u8,
}

/// The newest version of a key, which may be a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Stored {
    pub version: u8,
    pub content: Option<Content>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Call {
    pub key: GroupKey,
    /// The base and the new content, or `None` for a read. A creation has base zero.
    pub write: Option<(u8, Content)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reply {
    pub is_conflict: bool,
    /// The stored record after the request.
    pub stored: Stored,
}

impl Content {
    pub const FREE: Self =
        Self { uid: NEW, holder: Holder::Nobody, acquired: NEW, renewed: NEW, is_leaving: false, seconds: 0 };

    pub fn of(record: &LeaderElectionRecord) -> Self {
        let number = |text: &str, sign: char| text.strip_prefix(sign).and_then(|it| it.parse().ok()).unwrap_or(NEW);
        let time = |time: &Option<MicroTime>, sign| time.as_ref().map_or(0, |time| number(time.as_str(), sign));
        let holder = match record.holder().map(|holder| holder.split('/').collect::<Vec<_>>()).as_deref() {
            None => Holder::Nobody,
            Some([process]) => Holder::Process(number(process, 'p')),
            Some([slot, uid, process]) => Holder::Term {
                slot: slot.parse().expect("a slot"),
                uid: number(uid, 'u'),
                process: number(process, 'p'),
            },
            other => panic!("an unknown holder: {other:?}"),
        };
        let uid = record.uid.as_ref().map_or(NEW, |uid| number(uid, 'u'));
        let (acquired, renewed) = (time(&record.acquire_time, 't'), time(&record.renew_time, 'r'));
        let is_leaving = record.lease_duration_seconds == Some(LEAVING);
        let seconds = record.lease_duration_seconds.and_then(|seconds| seconds.try_into().ok()).unwrap_or(0);
        Self { uid, holder, acquired, renewed, is_leaving, seconds }
    }

    fn record(self, key: GroupKey) -> LeaderElectionRecord {
        LeaderElectionRecord {
            holder_identity: Some(match self.holder {
                Holder::Nobody => String::new(),
                Holder::Process(process) => format!("p{process}"),
                Holder::Term { slot, uid, process } => format!("{slot}/u{uid}/p{process}"),
            }),
            lease_duration_seconds: Some(match key {
                GroupKey::Slot(_) => self.seconds.into(),
                GroupKey::Shard(_) if self.is_leaving => LEAVING,
                GroupKey::Shard(_) => i32::MAX,
            }),
            acquire_time: (self.acquired > 0).then(|| MicroTime::from_text(format!("t{}", self.acquired))),
            renew_time: Some(MicroTime::from_text(format!("r{}", self.renewed))),
            uid: Some(format!("u{}", self.uid)),
            ..LeaderElectionRecord::default()
        }
    }
}

impl Stored {
    pub fn seen(self, key: GroupKey) -> Option<VersionedRecord> {
        let record = self.content?.record(key);
        Some(VersionedRecord::new(record, self.version.into(), StoreData::none()))
    }

    /// Performs a request. Returns the reply, and whether the stored record has changed.
    pub fn perform(&mut self, call: Call) -> (Reply, bool) {
        let Some((base, content)) = call.write else { return (Reply { is_conflict: false, stored: *self }, false) };
        let is_conflict = base != self.content.map_or(0, |_| self.version);
        if !is_conflict {
            self.version += 1;
            let number = |number: u8| if number == NEW { self.version } else { number };
            let uid = self.content.map_or(number(content.uid), |content| content.uid);
            let (acquired, renewed) = (number(content.acquired), number(content.renewed));
            self.content = Some(Content { uid, acquired, renewed, ..content });
        }
        (Reply { is_conflict, stored: *self }, !is_conflict)
    }
}

impl Call {
    pub fn of(key: GroupKey, operation: &GroupOperation) -> Self {
        let write = match operation {
            GroupOperation::Get(()) => None,
            GroupOperation::Create(record) => Some((0, Content::of(record))),
            GroupOperation::Update(base, record) => Some((base.version as u8, Content::of(record))),
        };
        Self { key, write }
    }
}
