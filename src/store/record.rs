//! The record of a lease, and its version in the store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use crate::store::micro_time::MicroTime;
pub(crate) use crate::store::micro_time::unix_micros;
use crate::store::notes::RecordNotes;

/// The record of a lease: five fields of a [`LeaseSpec`], and the `uid` of the object.
///
/// Two records are equal if all six fields are equal. Equality is the protocol's definition of an unchanged record. The
/// protocol ignores all other content of the object.
///
/// [`LeaseSpec`]: https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/lease-v1/
///
/// # Examples
///
/// ```
/// use leasehold::store::LeaderElectionRecord;
///
/// let mut record = LeaderElectionRecord::default();
/// assert_eq!(record.holder(), None);
/// record.holder_identity = Some("pod-1".into());
/// assert_eq!(record.holder(), Some("pod-1"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeaderElectionRecord {
    /// The `metadata.uid` of the object.
    ///
    /// The `uid` distinguishes the object from a later object with the same name.
    pub uid: Option<String>,
    /// The identity of the holder. Empty or absent if there is no holder.
    pub holder_identity: Option<String>,
    /// The seconds without a change of the record after which a standby may take over.
    pub lease_duration_seconds: Option<i32>,
    /// The time of the acquisition, by the holder's wall clock.
    pub acquire_time: Option<MicroTime>,
    /// The time of the holder's last write, by the holder's wall clock.
    pub renew_time: Option<MicroTime>,
    /// The number of changes from one holder to another.
    pub lease_transitions: Option<i32>,
}

/// One observation of a record in the store, with its version.
///
/// # Examples
///
/// ```
/// use leasehold::store::{LeaderElectionRecord, StoreData, VersionedRecord};
///
/// let seen = VersionedRecord::new(LeaderElectionRecord::default(), 7, StoreData::none());
/// assert_eq!(seen.version, 7);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct VersionedRecord {
    /// The observed record.
    pub record: LeaderElectionRecord,
    /// The version of the object, which compare-and-swap compares.
    ///
    /// The version grows with every write and is at most [`i64::MAX`]. In Kubernetes, the version is
    /// `metadata.resourceVersion`, which the API defines as an ordered integer (KEP-5504).
    pub version: u64,
    /// The notes beside the record. Empty in a store that does not keep notes.
    pub notes: Box<RecordNotes>,
    /// Data that the store needs if this observation becomes the base of an update.
    pub data: StoreData,
}

/// A record and the notes beside it, as a [`Store`](crate::store::Store) writes them.
///
/// # Examples
///
/// ```
/// use leasehold::store::{LeaderElectionRecord, RecordNotes};
///
/// let record = LeaderElectionRecord::default();
/// assert_eq!(*record.as_write().notes, RecordNotes::default());
/// ```
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct RecordWrite<'a> {
    /// The record.
    pub record: &'a LeaderElectionRecord,
    /// The notes beside the record.
    ///
    /// A store that [keeps notes](crate::store::Store::keeps_notes) replaces all earlier notes.
    pub notes: &'a RecordNotes,
}

/// Data that a [`Store`](super::Store) attaches to an observation and needs for an update.
///
/// An example is the observed object, whose labels and fields of other clients an update must keep. Only the store that
/// created the data reads the data.
///
/// # Examples
///
/// ```
/// use leasehold::store::StoreData;
///
/// let data = StoreData::new(String::from("labels"));
/// assert_eq!(data.get::<String>().map(String::as_str), Some("labels"));
/// assert!(StoreData::none().get::<String>().is_none());
/// ```
#[derive(Clone, Default)]
pub struct StoreData(Option<Arc<dyn std::any::Any + Send + Sync>>);

impl LeaderElectionRecord {
    /// Returns the identity of the holder, or `None` if there is no holder.
    pub fn holder(&self) -> Option<&str> {
        self.holder_identity.as_deref().filter(|identity| !identity.is_empty())
    }

    /// Returns a write of this record without notes.
    pub fn as_write(&self) -> RecordWrite<'_> {
        self.with_notes(RecordNotes::none())
    }

    /// Returns a write of this record with notes.
    pub fn with_notes<'a>(&'a self, notes: &'a RecordNotes) -> RecordWrite<'a> {
        RecordWrite { record: self, notes }
    }

    /// Returns the time that a standby waits before a takeover.
    ///
    /// The time is `lease_duration_seconds`, or `otherwise` if the field is absent or not positive.
    pub(crate) fn lease_duration_or(&self, otherwise: Duration) -> Duration {
        self.positive_duration().map_or(otherwise, |seconds| Duration::from_secs(seconds.unsigned_abs().into()))
    }

    /// Returns `lease_duration_seconds` if the field is present and positive.
    pub(crate) fn positive_duration(&self) -> Option<i32> {
        self.lease_duration_seconds.filter(|seconds| *seconds > 0)
    }

    /// Returns `true` if all fields except `uid` are equal.
    pub(crate) fn same_fields(&self, other: &Self) -> bool {
        let Self { uid: _, holder_identity, lease_duration_seconds, acquire_time, renew_time, lease_transitions } =
            self;
        *holder_identity == other.holder_identity
            && *lease_duration_seconds == other.lease_duration_seconds
            && *acquire_time == other.acquire_time
            && *renew_time == other.renew_time
            && *lease_transitions == other.lease_transitions
    }
}

impl RecordWrite<'_> {
    /// Returns the notes that a store then reads beside the record.
    ///
    /// A record without a holder or an `acquire_time` has no term.
    pub(crate) fn stored_notes(&self) -> RecordNotes {
        let has_term = self.record.holder().is_some() && self.record.acquire_time.is_some();
        if has_term { self.notes.clone() } else { self.notes.released() }
    }
}

impl VersionedRecord {
    /// Creates an observation of `record` at `version`, without notes.
    pub fn new(record: LeaderElectionRecord, version: u64, data: StoreData) -> Self {
        Self { record, version, notes: Box::default(), data }
    }
}

impl StoreData {
    /// Creates data with a value for the store.
    pub fn new<T: Send + Sync + 'static>(value: T) -> Self {
        Self(Some(Arc::new(value)))
    }

    /// Creates an empty value.
    pub fn none() -> Self {
        Self(None)
    }

    /// Returns the value if its type is `T`.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.0.as_deref()?.downcast_ref()
    }
}

impl fmt::Debug for StoreData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "StoreData(..)" } else { "StoreData(none)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_the_same_if_all_fields_except_the_uid_are() {
        type Change = fn(&mut LeaderElectionRecord);
        let record = LeaderElectionRecord::default();
        let changes: [(bool, Change); 6] = [
            (true, |it| it.uid = Some("u".into())),
            (false, |it| it.holder_identity = Some("a".into())),
            (false, |it| it.lease_duration_seconds = Some(1)),
            (false, |it| it.acquire_time = Some(MicroTime::from_unix_micros(7))),
            (false, |it| it.renew_time = Some(MicroTime::from_unix_micros(7))),
            (false, |it| it.lease_transitions = Some(1)),
        ];
        for (place, (is_same, change)) in changes.into_iter().enumerate() {
            let mut other = record.clone();
            change(&mut other);
            assert_eq!(record.same_fields(&other), is_same, "change {place}");
        }
    }

    #[test]
    fn a_duration_that_is_absent_or_not_positive_falls_back() {
        let own = Duration::from_secs(15);
        let with = |seconds| LeaderElectionRecord { lease_duration_seconds: seconds, ..Default::default() };
        assert_eq!(with(None).lease_duration_or(own), own);
        assert_eq!(with(Some(0)).lease_duration_or(own), own);
        assert_eq!(with(Some(-3)).lease_duration_or(own), own);
        assert_eq!(with(Some(7)).lease_duration_or(own), Duration::from_secs(7));
    }
}
