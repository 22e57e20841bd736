//! Writes of which it is not known yet what became of them.

use crate::store::record::LeaderElectionRecord;
use crate::util::clock::Moment;

/// A write that may still be applied, or may have been.
#[derive(Debug)]
pub(super) struct OpenWrite {
    pub(super) id: u64,
    /// The version it replaces; zero for a create.
    pub(super) base: u64,
    pub(super) record: LeaderElectionRecord,
    pub(super) sent_at: Moment,
    pub(super) acquisition: u64,
    pub(super) progress: WriteProgress,
}

/// How far a write has come. An update that is resolved is forgotten. A create is not: as nothing that it is based on can
/// change, a copy of it may land at any time at which the lease is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteProgress {
    Open,
    /// A read did not find what it creates, although it had as long to land as a term lasts.
    Overdue,
    /// A read that was sent after it found another object there.
    Overtaken,
    /// What it created was seen.
    Landed,
}

impl OpenWrite {
    /// Whether `record` is what this write leaves behind; a create cannot know its object's uid before it has landed.
    pub(super) fn is(&self, record: &LeaderElectionRecord) -> bool {
        let may_be_any_object = self.base == 0 && self.progress != WriteProgress::Landed;
        (may_be_any_object || self.record.uid == record.uid) && self.record.same_fields(record)
    }
}
