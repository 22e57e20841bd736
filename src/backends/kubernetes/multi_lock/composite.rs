//! The record of a lock of two objects, and the requests that read and write the objects.
//!
//! The types have no I/O. The store and the simulation send the requests.

use std::collections::VecDeque;

use crate::store::notes::RecordNotes;
use crate::store::record::{LeaderElectionRecord, MicroTime, RecordWrite, StoreData, VersionedRecord};
use crate::store::{StoreError, StoreErrorKind};

/// The number of own writes that a composite recognizes.
const MAX_WRITES: usize = 64;

/// The reported holder if an object names this candidate, but this candidate does not know the write.
///
/// client-go's `MultiLock` reports this holder if its objects name different holders.
const UNKNOWN_HOLDER: &str = "leaderelection.k8s.io/unknown";

/// An object of the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockObject {
    /// The ConfigMap or the Endpoints object.
    Primary,
    /// The Lease.
    Secondary,
}

/// The objects, indexed by [`LockObject`]. `None` if an object does not exist.
type Objects = [Option<VersionedRecord>; 2];

/// The record that one elector sees in two objects.
///
/// A half-applied write of the elector is hidden from the elector itself: the composite reports the previous record until
/// both objects have the write. Any change by another client changes the reported record.
#[derive(Debug, Clone)]
pub struct Composite {
    identity: String,
    /// The published duration of this elector, for objects that are held without a duration.
    lease_duration_seconds: i32,
    /// The last own writes.
    writes: VecDeque<LeaderElectionRecord>,
    /// The `acquireTime` of the own writes that may become the reported record. `None` after a change by another client.
    attempt: Option<MicroTime>,
    reported: Option<CompositeReport>,
    /// The version of the last report of an existing record.
    version: u64,
    /// The object with which the next write begins.
    first: LockObject,
}

/// The last report, and the objects from which it was made.
#[derive(Debug, Clone)]
struct CompositeReport {
    record: Option<VersionedRecord>,
    objects: Objects,
}

/// A read or a write of both objects, as requests that follow each other.
#[derive(Debug, Clone)]
pub struct CompositeCall {
    /// The record and the notes to write. `None` for a read.
    write: Option<(LeaderElectionRecord, RecordNotes)>,
    objects: Objects,
    /// The object of the next request.
    object: LockObject,
    request: ObjectRequest,
    /// `true` if the next request is the last request, or a repetition for the last object.
    is_second: bool,
}

/// The next request of a call.
#[derive(Debug, Clone)]
enum ObjectRequest {
    Get,
    /// The write over the observed object of the base.
    Write,
    /// The read after a write that failed with this error because of another write.
    GetAfter(StoreError),
    /// The write over an own earlier write.
    WriteOver(VersionedRecord),
}

/// A request to one object.
#[derive(Debug, Clone)]
pub enum ObjectOperation {
    /// Read the object.
    Get,
    /// Create the object with this record and these notes.
    Create(LeaderElectionRecord, RecordNotes),
    /// Replace the observed object by the second record with these notes.
    Update(VersionedRecord, LeaderElectionRecord, RecordNotes),
}

impl LockObject {
    fn other(self) -> Self {
        match self {
            Self::Primary => Self::Secondary,
            Self::Secondary => Self::Primary,
        }
    }
}

impl Composite {
    /// Creates a composite without observations for the elector `identity`.
    pub fn new(identity: &str, lease_duration_seconds: i32) -> Self {
        Self {
            identity: identity.to_owned(),
            lease_duration_seconds,
            writes: VecDeque::new(),
            attempt: None,
            reported: None,
            version: 0,
            first: LockObject::Primary,
        }
    }

    /// Remembers a write of this elector, and returns its requests.
    ///
    /// Returns an error if the write names another holder, or if `base` is not a record of this composite.
    pub fn write(
        &mut self,
        base: Option<&VersionedRecord>,
        write: RecordWrite<'_>,
    ) -> Result<CompositeCall, StoreError> {
        let objects = match base {
            None => Some(&[None, None]),
            Some(base) => base.data.get::<Objects>(),
        };
        let names_another = write.record.holder().is_some_and(|holder| holder != self.identity);
        let Some(objects) = objects.filter(|_| !names_another) else {
            let text = "cannot write two objects: the record belongs to another elector; use one elector for each lock";
            return Err(StoreError::new(StoreErrorKind::Rejected, text));
        };
        if self.writes.len() == MAX_WRITES {
            self.writes.pop_front();
        }
        self.writes.push_back(LeaderElectionRecord { uid: None, ..write.record.clone() });
        self.attempt.clone_from(&write.record.acquire_time);
        Ok(CompositeCall {
            write: Some((write.record.clone(), write.notes.clone())),
            objects: objects.clone(),
            object: self.first,
            request: ObjectRequest::Write,
            is_second: false,
        })
    }

    fn is_own(&self, record: &LeaderElectionRecord) -> bool {
        self.writes.iter().any(|write| write.same_fields(record))
    }

    /// Reports the record that `objects` make: the table of the rule 'Two objects'.
    fn observe(&mut self, objects: Objects) -> Option<VersionedRecord> {
        let is_own = objects.each_ref().map(|it| it.as_ref().is_some_and(|it| self.is_own(&it.record)));
        let before = self.reported.as_ref().map(|report| &report.objects);
        let is_foreign_change = before.is_none_or(|before| {
            (0..2).any(|object| !is_own[object] && is_changed(before[object].as_ref(), objects[object].as_ref()))
        });
        let complete = match &objects {
            [Some(primary), Some(secondary)] if primary.record.same_fields(&secondary.record) => {
                let is_current = self.attempt.is_some() && self.attempt == primary.record.acquire_time;
                (!is_own[0] || is_current).then(|| primary.record.clone())
            }
            _ => None,
        };
        if let (None, false, Some(report)) = (&complete, is_foreign_change, &self.reported) {
            return report.record.clone();
        }
        if is_foreign_change {
            (self.attempt, self.first) = (None, LockObject::Primary);
        }
        let exists = objects.iter().any(Option::is_some);
        let record = exists.then(|| {
            let record = complete.unwrap_or_else(|| self.mixed(&objects, is_own));
            self.version = self.next_version(&objects);
            let notes = notes(&objects, &record);
            let record = LeaderElectionRecord { uid: None, ..record };
            let mut reported = VersionedRecord::new(record, self.version, StoreData::new(objects.clone()));
            *reported.notes = notes;
            reported
        });
        self.reported = Some(CompositeReport { record: record.clone(), objects });
        record
    }

    /// Returns the record of two objects that differ. An own object counts as free.
    fn mixed(&self, objects: &Objects, is_own: [bool; 2]) -> LeaderElectionRecord {
        let foreign = [0, 1].map(|object| objects[object].as_ref().filter(|_| !is_own[object]).map(|it| &it.record));
        let held: Vec<_> = foreign.into_iter().flatten().filter(|record| record.holder().is_some()).collect();
        let others = || held.iter().filter(|record| record.holder() != Some(&*self.identity));
        let holder = match others().next() {
            Some(other) => other.holder().unwrap_or_default(),
            None if held.len() == 2 => &*self.identity,
            None if held.len() == 1 => UNKNOWN_HOLDER,
            None => "",
        };
        let seconds =
            |record: &&LeaderElectionRecord| record.positive_duration().unwrap_or(self.lease_duration_seconds);
        LeaderElectionRecord {
            uid: None,
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: held.iter().map(seconds).max(),
            acquire_time: held.first().and_then(|record| record.acquire_time.clone()),
            // Each change of a foreign object must change the record, so the record has the text of both objects.
            renew_time: Some(MicroTime::from_text(format!("{foreign:?}"))),
            lease_transitions: objects.iter().flatten().filter_map(|it| it.record.lease_transitions).max(),
        }
    }

    /// Returns the version of a report of `objects`.
    ///
    /// A report of changed objects has a higher version than the last report, except after a restore of the store.
    fn next_version(&self, objects: &Objects) -> u64 {
        let newest = objects.iter().flatten().map(|object| object.version).max().unwrap_or(0);
        let Some(CompositeReport { objects: before, .. }) = &self.reported else { return newest };
        let pairs = || before.iter().zip(objects);
        let went_back = pairs().any(|pair| matches!(pair, (Some(old), Some(new)) if new.version < old.version));
        let is_equal = pairs().all(|(old, new)| !is_changed(old.as_ref(), new.as_ref()));
        match newest > self.version || went_back {
            true => newest,
            false if is_equal => self.version,
            // A deletion lowers the highest version, and two reads may show objects of different moments.
            false => self.version + 1,
        }
    }
}

impl CompositeCall {
    /// Returns a read of both objects.
    pub fn read() -> Self {
        Self {
            write: None,
            objects: [None, None],
            object: LockObject::Primary,
            request: ObjectRequest::Get,
            is_second: false,
        }
    }

    /// Returns the object of the next request.
    pub fn object(&self) -> LockObject {
        self.object
    }

    /// Returns the next request.
    pub fn operation(&self) -> ObjectOperation {
        let base = match &self.request {
            ObjectRequest::Get | ObjectRequest::GetAfter(_) => return ObjectOperation::Get,
            ObjectRequest::Write => self.objects[self.object as usize].as_ref(),
            ObjectRequest::WriteOver(own) => Some(own),
        };
        let (record, notes) = self.write.clone().unwrap_or_default();
        match base {
            None => ObjectOperation::Create(record, notes),
            Some(base) => {
                let record = LeaderElectionRecord { uid: base.record.uid.clone(), ..record };
                // An object keeps its own notes of jobs and of later versions.
                let notes = RecordNotes { term: notes.term, step_down: notes.step_down, ..(*base.notes).clone() };
                ObjectOperation::Update(base.clone(), record, notes)
            }
        }
    }

    /// Handles the answer to the request. Returns the result of the call after its last answer.
    pub fn answered(
        &mut self,
        composite: &mut Composite,
        answer: Result<Option<VersionedRecord>, StoreError>,
    ) -> Option<Result<Option<VersionedRecord>, StoreError>> {
        let request = std::mem::replace(&mut self.request, ObjectRequest::Get);
        let Some((record, _)) = &self.write else {
            return match answer {
                Ok(found) => self.next(composite, found, ObjectRequest::Get),
                Err(error) => Some(Err(error)),
            };
        };
        let error = match (request, answer) {
            (ObjectRequest::Write, Err(error)) if error.kind().is_conflict() => {
                self.request = ObjectRequest::GetAfter(error);
                return None;
            }
            (ObjectRequest::GetAfter(error), Ok(Some(found))) => match &found.record {
                applied if applied.same_fields(record) => {
                    return self.next(composite, Some(found), ObjectRequest::Write);
                }
                own if composite.is_own(own) => {
                    self.request = ObjectRequest::WriteOver(found);
                    return None;
                }
                _ => error,
            },
            (ObjectRequest::GetAfter(error), Ok(None)) | (_, Err(error)) => error,
            (_, Ok(written)) => return self.next(composite, written, ObjectRequest::Write),
        };
        composite.first = self.object;
        // The other object may have the write.
        Some(Err(match error.kind() {
            StoreErrorKind::NotApplied => {
                StoreError::new(StoreErrorKind::Conflict, error.to_string()).with_retry_after(error.retry_after())
            }
            _ => error,
        }))
    }

    /// Notes the state of the object, and goes on to the other object.
    fn next(
        &mut self,
        composite: &mut Composite,
        found: Option<VersionedRecord>,
        request: ObjectRequest,
    ) -> Option<Result<Option<VersionedRecord>, StoreError>> {
        self.objects[self.object as usize] = found;
        if self.is_second {
            return Some(Ok(composite.observe(std::mem::take(&mut self.objects))));
        }
        (self.object, self.request, self.is_second) = (self.object.other(), request, true);
        None
    }
}

/// Returns `true` if an object has another version, was created or was deleted.
fn is_changed(before: Option<&VersionedRecord>, now: Option<&VersionedRecord>) -> bool {
    before.map(|it| (it.version, &it.record)) != now.map(|it| (it.version, &it.record))
}

/// Returns the notes of the object that names the reported holder, and the requests of both objects.
fn notes(objects: &Objects, record: &LeaderElectionRecord) -> RecordNotes {
    let names = |object: &&VersionedRecord| {
        object.record.holder() == record.holder() && object.record.acquire_time == record.acquire_time
    };
    let term = objects.iter().flatten().find(names).map(|object| object.notes.term.clone());
    let step_down = objects.iter().flatten().find_map(|object| object.notes.step_down.clone());
    RecordNotes { term: term.unwrap_or_default(), step_down, ..RecordNotes::default() }
}

#[cfg(test)]
mod tests;
