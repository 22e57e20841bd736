//! One linearizable store that behaves like an API server.

use std::collections::BTreeSet;

use leasehold::election::{self, Operation, StoreRequest};
use leasehold::store::{LeaderElectionRecord, RecordNotes, StoreData, StoreErrorKind, TermNotes, VersionedRecord};

use crate::clock::Nanos;
use crate::plan::Violation;

/// An acquisition, which the store held from version `since` on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    pub since: u64,
    pub uid: Option<String>,
    pub holder: Option<String>,
    pub acquired: Option<String>,
}

/// A change that a watch delivers: the object at `version`, or `None` if it was deleted.
#[derive(Debug, Clone)]
pub struct Change {
    pub version: u64,
    /// The time of the change.
    pub at: Nanos,
    object: Option<VersionedRecord>,
}

/// The history before a restore, which a server that was not restarted still shows.
#[derive(Debug, Clone)]
pub struct Former {
    pub changes: Vec<Change>,
    compacted: u64,
    /// The time of the restore.
    pub since: Nanos,
}

/// A state to which the store may be restored.
#[derive(Debug)]
struct Backup {
    version: u64,
    object: Option<VersionedRecord>,
    changes: usize,
    holdings: usize,
}

#[derive(Debug, Default)]
pub struct Store {
    /// The current true time.
    pub now: Nanos,
    version: u64,
    uids: u64,
    object: Option<VersionedRecord>,
    pub changes: Vec<Change>,
    /// The version up to which changes have been forgotten.
    compacted: u64,
    /// Every change of holder or acquisition, which the checks use.
    pub history: Vec<Holding>,
    /// The histories that ended because the store was restored to an older state.
    undone: Vec<Vec<Holding>>,
    /// The changes in the histories that ended.
    undone_changes: Vec<Change>,
    backups: Vec<Backup>,
    /// `true` if an update after a deletion creates the object, as an update without a uid would.
    uid_blind: bool,
    /// The identities in records that a third party has edited.
    forged: BTreeSet<String>,
}

impl Store {
    pub fn new(uid_blind: bool) -> Self {
        Self { uid_blind, ..Self::default() }
    }

    pub fn apply(
        &mut self,
        StoreRequest { operation, notes, .. }: &StoreRequest,
    ) -> Result<Result<Option<VersionedRecord>, StoreErrorKind>, Violation> {
        Ok(match operation {
            Operation::Get(_) => Ok(self.object.clone()),
            Operation::Create(_) if self.object.is_some() => Err(StoreErrorKind::AlreadyExists),
            Operation::Create(record) => Ok(Some(self.create(record.clone(), notes.clone()))),
            Operation::Update(base, record) => match &self.object {
                None if self.uid_blind => Ok(Some(self.create(record.clone(), notes.clone()))),
                None => Err(StoreErrorKind::Conflict),
                Some(standing) if standing.version != base.version => Err(StoreErrorKind::Conflict),
                Some(standing) if standing.record.uid != base.record.uid => Err(StoreErrorKind::Conflict),
                Some(_) => {
                    must_move(&base.record, record)?;
                    Ok(Some(self.put(record.clone(), notes.clone())))
                }
            },
        })
    }

    /// Counts writes to other objects, because the store has one counter for all versions.
    pub fn unrelated(&mut self, writes: u64) {
        self.version += writes;
    }

    /// Writes a record for a client that needs to know only the current version.
    ///
    /// If `base` is `None`, no object may exist.
    pub fn write(
        &mut self,
        base: Option<u64>,
        record: LeaderElectionRecord,
        notes: RecordNotes,
    ) -> Result<VersionedRecord, StoreErrorKind> {
        match (&self.object, base) {
            (None, None) => Ok(self.create(record, notes)),
            (Some(standing), Some(base)) if standing.version == base => {
                let uid = standing.record.uid.clone();
                Ok(self.put(LeaderElectionRecord { uid, ..record }, notes))
            }
            (Some(_), None) => Err(StoreErrorKind::AlreadyExists),
            _ => Err(StoreErrorKind::Conflict),
        }
    }

    pub fn observed(&self) -> Option<&VersionedRecord> {
        self.object.as_ref()
    }

    /// Edits a label: the version changes, but the record does not.
    pub fn label(&mut self) {
        self.annotate(|_| ());
    }

    /// Returns the notes beside the record.
    pub fn notes(&self) -> Option<&RecordNotes> {
        self.object.as_ref().map(|object| &*object.notes)
    }

    /// Edits the notes: the version changes, but the record does not.
    pub fn annotate(&mut self, edit: impl FnOnce(&mut RecordNotes)) {
        if let Some(VersionedRecord { record, mut notes, .. }) = self.object.clone() {
            edit(&mut notes);
            self.put(record, *notes);
        }
    }

    pub fn delete(&mut self) {
        if self.object.take().is_some() {
            self.version += 1;
            self.changes.push(Change { version: self.version, at: self.now, object: None });
            self.note();
        }
    }

    pub fn edit(&mut self, edit: impl FnOnce(&mut LeaderElectionRecord)) {
        if let Some(VersionedRecord { mut record, mut notes, .. }) = self.object.clone() {
            let (holder, acquire_time) = (record.holder_identity.clone(), record.acquire_time.clone());
            edit(&mut record);
            if (holder, &acquire_time) != (record.holder_identity.clone(), &record.acquire_time) {
                notes.term = TermNotes::default();
            }
            self.forged.extend(record.holder().map(str::to_owned));
            self.put(record, *notes);
        }
    }

    /// Returns `true` if a third party has edited a record with this identity.
    pub fn is_forged(&self, identity: &str) -> bool {
        self.forged.contains(identity)
    }

    pub fn record(&self) -> Option<&LeaderElectionRecord> {
        self.object.as_ref().map(|object| &object.record)
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the acquisition that the store held at `version`.
    pub fn holding_at(&self, version: u64) -> Option<&Holding> {
        holding_at(&self.history, version)
    }

    /// Returns `true` if `identity` held the lease at `version`, now or before a restore.
    pub fn ever_held(&self, version: u64, identity: &str) -> bool {
        self.undone
            .iter()
            .chain([&self.history])
            .filter_map(|history| holding_at(history, version))
            .any(|holding| holding.holder.as_deref() == Some(identity))
    }

    // ---- watches ----

    /// Returns the number of changes up to `version`, or `None` if they have been forgotten.
    pub fn changes_until(&self, version: u64) -> Option<usize> {
        changes_until(&self.changes, self.compacted, version)
    }

    /// Returns the number of changes that a server has seen if it lags behind by `lag`.
    pub fn changes_seen(&self, lag: Nanos) -> usize {
        self.changes.partition_point(|change| change.at + lag <= self.now)
    }

    /// Returns `true` if the store has had this record at this version.
    ///
    /// Changes that a restore has undone count only if they were made at or after `since`.
    pub fn has_had(&self, observed: &VersionedRecord, since: Nanos) -> bool {
        let undone = self.undone_changes.iter().filter(|change| change.at >= since);
        self.changes.iter().chain(undone).any(|change| {
            change.version == observed.version
                && change.object.as_ref().is_some_and(|object| object.record == observed.record)
        })
    }

    /// Returns the time since which the record at `version` had not changed.
    pub fn unchanged_since(&self, version: u64) -> Option<Nanos> {
        let record = |change: &Change| change.object.as_ref().map(|object| object.record.clone());
        let (last, earlier) = self.changes[..self.changes_until(version)?].split_last()?;
        let same = earlier.iter().rev().take_while(|change| record(change) == record(last)).last();
        Some(same.unwrap_or(last).at)
    }

    /// Returns `true` if a request for `identity` was beside a record of `identity`, at `version` or later.
    pub fn has_asked(&self, identity: &str, version: u64) -> bool {
        self.changes.iter().chain(&self.undone_changes).filter(|change| change.version >= version).any(|change| {
            change.object.as_ref().is_some_and(|object| {
                object.record.holder() == Some(identity) && object.notes.step_down.as_deref() == Some(identity)
            })
        })
    }

    /// Returns `true` if a record after `version` named another holder than `identity`.
    pub fn has_named_another(&self, identity: &str, version: u64) -> bool {
        let later = self.history.iter().rev().take_while(|holding| holding.since > version);
        later.filter_map(|holding| holding.holder.as_deref()).any(|holder| holder != identity)
    }

    /// Returns the object after the first `changes` changes, or `None` if none existed.
    pub fn object_after(&self, changes: usize) -> Option<&VersionedRecord> {
        object_after(&self.changes, changes)
    }

    /// Returns the history that a server continues to show if it is not restarted.
    pub fn former(&self) -> Former {
        Former { changes: self.changes.clone(), compacted: self.compacted, since: self.now }
    }

    /// Forgets all changes up to now.
    pub fn compact(&mut self) {
        self.compacted = self.version;
    }

    // ---- backup and restore ----

    pub fn back_up(&mut self) {
        self.backups.push(Backup {
            version: self.version,
            object: self.object.clone(),
            changes: self.changes.len(),
            holdings: self.history.len(),
        });
    }

    /// Restores a random older state.
    ///
    /// The store will use the versions after that state again.
    pub fn restore(&mut self, random: &mut fastrand::Rng) {
        if self.backups.is_empty() {
            return;
        }
        let index = random.usize(..self.backups.len());
        self.backups.truncate(index + 1);
        let Backup { version, object, changes, holdings } = &self.backups[index];
        self.version = *version;
        self.object = object.clone();
        self.undone_changes.extend(self.changes.drain(*changes..));
        self.compacted = self.compacted.min(*version);
        self.undone.push(self.history.clone());
        self.history.truncate(*holdings);
    }

    // ---- writing ----

    fn create(&mut self, record: LeaderElectionRecord, notes: RecordNotes) -> VersionedRecord {
        self.uids += 1;
        let uid = Some(format!("uid-{}", self.uids));
        self.put(LeaderElectionRecord { uid, ..record }, notes)
    }

    fn put(&mut self, record: LeaderElectionRecord, mut notes: RecordNotes) -> VersionedRecord {
        self.version += 1;
        // Stores bind these notes to a term.
        if record.holder().is_none() {
            notes.term = TermNotes::default();
        }
        let mut observed = VersionedRecord::new(record, self.version, StoreData::none());
        *observed.notes = notes;
        self.object = Some(observed.clone());
        self.changes.push(Change { version: self.version, at: self.now, object: self.object.clone() });
        self.note();
        observed
    }

    fn note(&mut self) {
        let record = self.record();
        let uid = record.and_then(|record| record.uid.as_deref());
        let holder = record.and_then(LeaderElectionRecord::holder);
        let acquired = record.and_then(|record| record.acquire_time.as_ref()).map(|time| time.as_str());
        let stands = self.history.last().is_some_and(|last| {
            last.uid.as_deref() == uid && last.holder.as_deref() == holder && last.acquired.as_deref() == acquired
        });
        if !stands {
            let (uid, holder, acquired) = (uid.map(Into::into), holder.map(Into::into), acquired.map(Into::into));
            self.history.push(Holding { since: self.version, uid, holder, acquired });
        }
    }
}

impl Former {
    pub fn changes_until(&self, version: u64) -> Option<usize> {
        changes_until(&self.changes, self.compacted, version)
    }

    pub fn object(&self) -> Option<&VersionedRecord> {
        object_after(&self.changes, self.changes.len())
    }
}

fn changes_until(changes: &[Change], compacted: u64, version: u64) -> Option<usize> {
    (version >= compacted).then(|| changes.partition_point(|change| change.version <= version))
}

fn object_after(changes: &[Change], count: usize) -> Option<&VersionedRecord> {
    changes[..count].last().and_then(|change| change.object.as_ref())
}

impl Change {
    pub fn event(&self) -> election::Change {
        match &self.object {
            Some(observed) => election::Change::Written(observed.clone()),
            None => election::Change::Deleted { version: self.version },
        }
    }
}

fn holding_at(history: &[Holding], version: u64) -> Option<&Holding> {
    let after = history.partition_point(|holding| holding.since <= version);
    after.checked_sub(1).map(|index| &history[index])
}

/// Returns an error if two records do not show the write between them.
///
/// Each write must change `renewTime` or `acquireTime`. Each new `acquireTime` must add one to `leaseTransitions`.
fn must_move(before: &LeaderElectionRecord, after: &LeaderElectionRecord) -> Result<(), Violation> {
    if before.renew_time == after.renew_time && before.acquire_time == after.acquire_time {
        return Err(format!("a write left renewTime standing still: {after:?}").into());
    }
    let steps = after.lease_transitions.unwrap_or(0) - before.lease_transitions.unwrap_or(0);
    if steps != i32::from(before.acquire_time != after.acquire_time) {
        return Err(format!("leaseTransitions went from {before:?} to {after:?}").into());
    }
    Ok(())
}
