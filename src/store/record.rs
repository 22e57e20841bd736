//! The record of a lease, its times, and its version in the store.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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
/// use leasehold::LeaderElectionRecord;
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

/// A time in the format of the Kubernetes API: RFC 3339 with six fraction digits and `Z`.
///
/// The type keeps the text of the store. People read the times in a record. The protocol only checks whether a time has
/// changed, so a malformed time cannot cause an error.
///
/// # Examples
///
/// ```
/// use leasehold::MicroTime;
///
/// let time = MicroTime::from_unix_micros(1_000_001);
/// assert_eq!(time.to_string(), "1970-01-01T00:00:01.000001Z");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct MicroTime(Box<str>);

/// One observation of a record in the store, with its version.
///
/// # Examples
///
/// ```
/// use leasehold::{LeaderElectionRecord, VersionedRecord, StoreData};
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
    pub notes: RecordNotes,
    /// Data that the store needs if this observation becomes the base of an update.
    pub data: StoreData,
}

/// A record and the notes beside it, as a [`Store`](crate::Store) writes them.
///
/// # Examples
///
/// ```
/// use leasehold::{LeaderElectionRecord, RecordNotes};
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
    /// A store that [keeps notes](crate::Store::keeps_notes) replaces all earlier notes.
    pub notes: &'a RecordNotes,
}

/// Texts beside a record, which other candidates and operators may read.
///
/// Notes are not part of the record: a changed note does not end a term, and does not restart the wait of a standby.
/// [STORES.md] has the form of notes in each store.
///
/// [STORES.md]: https://docs.rs/crate/leasehold/latest/source/docs/STORES.md
///
/// # Examples
///
/// ```
/// use leasehold::RecordNotes;
///
/// let mut notes = RecordNotes::default();
/// notes.address = Some("10.0.3.7:9000".to_owned());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordNotes {
    /// The address that the holder [advertises](crate::LeaderElectorBuilder::advertise).
    ///
    /// A store writes the address with the record's `acquire_time`, and reads `None` if the record has another
    /// `acquire_time`. An address therefore never belongs to an earlier term.
    pub address: Option<String>,
    /// The identity of the holder that is asked to step down.
    pub step_down: Option<String>,
}

/// Data that a [`Store`](crate::Store) attaches to an observation and needs for an update.
///
/// An example is the observed object, whose labels and fields of other clients an update must keep. Only the store that
/// created the data reads the data.
///
/// # Examples
///
/// ```
/// use leasehold::StoreData;
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
        self.with_notes(RecordNotes::NONE)
    }

    /// Returns a write of this record with notes.
    pub fn with_notes<'a>(&'a self, notes: &'a RecordNotes) -> RecordWrite<'a> {
        RecordWrite { record: self, notes }
    }

    /// Returns the time that a standby waits before a takeover.
    ///
    /// The time is `lease_duration_seconds`, or `otherwise` if the field is absent or not positive.
    pub(crate) fn lease_duration_or(&self, otherwise: Duration) -> Duration {
        match self.lease_duration_seconds.map(u64::try_from) {
            Some(Ok(seconds)) if seconds > 0 => Duration::from_secs(seconds),
            _ => otherwise,
        }
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

impl MicroTime {
    /// The last microsecond that RFC 3339 can express, at the end of the year 9999.
    pub(crate) const LAST: u64 = 253_402_300_799_999_999;

    /// Returns the time `micros` microseconds after the start of 1970, at most the end of 9999.
    pub fn from_unix_micros(micros: u64) -> Self {
        let time = UNIX_EPOCH + Duration::from_micros(micros.min(Self::LAST));
        Self(humantime::format_rfc3339_micros(time).to_string().into())
    }

    /// Creates a time from the text of a store, in any format.
    pub fn from_text(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// Returns the text of the time.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<SystemTime> for MicroTime {
    /// Converts a system time.
    ///
    /// A time before 1970, from a clock that was never set, becomes the start of 1970.
    fn from(time: SystemTime) -> Self {
        Self::from_unix_micros(unix_micros(time))
    }
}

impl fmt::Display for MicroTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for MicroTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl VersionedRecord {
    /// Creates an observation of `record` at `version`, without notes.
    pub fn new(record: LeaderElectionRecord, version: u64, data: StoreData) -> Self {
        Self { record, version, notes: RecordNotes::default(), data }
    }
}

impl RecordNotes {
    /// The notes of a record that has none.
    pub(crate) const NONE: &Self = &Self { address: None, step_down: None };
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

/// Returns the microseconds since the start of 1970, or zero for an earlier time.
pub(crate) fn unix_micros(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(MicroTime::LAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_six_fraction_digits_and_a_z() {
        assert_eq!(MicroTime::from_unix_micros(0).as_str(), "1970-01-01T00:00:00.000000Z");
        assert_eq!(MicroTime::from_unix_micros(1_700_000_000_100_000).as_str(), "2023-11-14T22:13:20.100000Z");
    }

    #[test]
    fn formatting_survives_extreme_clocks() {
        assert_eq!(MicroTime::from(UNIX_EPOCH - Duration::from_secs(9)).as_str(), "1970-01-01T00:00:00.000000Z");
        assert_eq!(MicroTime::from_unix_micros(u64::MAX).as_str(), "9999-12-31T23:59:59.999999Z");
    }

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
