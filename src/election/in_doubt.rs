//! In-doubt writes, whose outcome is not certain yet.

use crate::store::record::LeaderElectionRecord;
use crate::util::clock::Moment;

/// An in-doubt write, which the store may have applied or may apply later.
#[derive(Debug)]
pub(super) struct InDoubtWrite {
    pub(super) id: u64,
    /// The version that the write replaces, or zero for a create.
    pub(super) base: u64,
    pub(super) record: LeaderElectionRecord,
    pub(super) sent_at: Moment,
    pub(super) acquisition: u64,
    pub(super) progress: WriteProgress,
}

/// The known outcome of a write.
///
/// The election forgets a settled update, but keeps a settled create. A create has no base version, so the store may
/// apply a delayed copy of the create whenever the record does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteProgress {
    Open,
    /// A read that was sent a renew deadline after the create found no record.
    Overdue,
    /// A later answer showed another object.
    Overtaken,
    /// The created record was observed.
    Landed,
}

impl InDoubtWrite {
    /// Returns `true` if this write is a create whose outcome is not known.
    pub(super) fn is_open_create(&self) -> bool {
        self.base == 0 && self.progress == WriteProgress::Open
    }

    /// Returns `true` if this write produced `record`.
    ///
    /// The uid of a created object is unknown until the record is observed.
    pub(super) fn is(&self, record: &LeaderElectionRecord) -> bool {
        let may_be_any_object = self.base == 0 && self.progress != WriteProgress::Landed;
        (may_be_any_object || self.record.uid == record.uid) && self.record.same_fields(record)
    }
}
