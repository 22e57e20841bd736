//! The state of the record as last observed, and its holder from the view of this candidate.

use crate::store::record::VersionedRecord;
use crate::util::clock::Moment;

#[derive(Debug)]
pub(super) enum ObservedState {
    Nothing,
    /// The record does not exist. `gone` is the uid of the deleted object, whose later observations are outdated.
    Absent {
        gone: Option<String>,
    },
    Record(ObservedRecord),
}

impl ObservedState {
    /// Returns the observed record, if there is one.
    pub(super) fn known(&self) -> Option<&ObservedRecord> {
        if let Self::Record(known) = self { Some(known) } else { None }
    }
}

#[derive(Debug)]
pub(super) struct ObservedRecord {
    pub(super) observed: VersionedRecord,
    /// The time at which the last change of the record was received.
    pub(super) changed_at: Moment,
    pub(super) holder: Holder,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    Nobody,
    /// This election wrote the record.
    Ourselves,
    /// Another process wrote the record with the identity of this candidate.
    ///
    /// The record has not changed since its first observation, so the process has probably ended.
    Predecessor,
    /// Another running process wrote the record with the identity of this candidate.
    DuplicateIdentity,
    Other,
}
