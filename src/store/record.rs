//! What stands in the store: the record that candidates compete for, and the version it stands at.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The record of a lease: the five fields of a [`LeaseSpec`] that elections use, and the object's `uid`.
///
/// Two records are the same when all six are the same; whatever else an object holds is metadata. `Eq` is the whole
/// of the protocol's idea of 'unchanged'.
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
    /// The object's `metadata.uid`: tells an object from another of the same name made after it was deleted.
    pub uid: Option<String>,
    /// Who holds the lease. Empty or absent: nobody.
    pub holder_identity: Option<String>,
    /// How long, in seconds, others wait after a change of the record before they take it over.
    pub lease_duration_seconds: Option<i32>,
    /// When the holder acquired the lease, by the holder's wall clock.
    pub acquire_time: Option<MicroTime>,
    /// When the holder last wrote, by the holder's wall clock.
    pub renew_time: Option<MicroTime>,
    /// How often the lease went from one holder to another.
    pub lease_transitions: Option<i32>,
}

/// A time as the Kubernetes API writes it, RFC 3339 with six fraction digits and `Z`.
///
/// It is kept as the text that stands in the store: times in a record are for people to read, the protocol only ever
/// asks whether they changed, and a text that nobody parses cannot fail to parse.
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

/// A record, the version it stands at, and what else its object holds: one observation of the store.
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
    /// The record.
    pub record: LeaderElectionRecord,
    /// The version of the object: a number that grows with every write to the store, and that compare-and-swap
    /// compares. At most [`i64::MAX`]. For Kubernetes it is `metadata.resourceVersion`, an ordered integer by the API's own
    /// promise (KEP-5504).
    pub version: u64,
    /// What its store wants back when this becomes the base of an update.
    pub data: StoreData,
}

/// What a [`Store`](crate::Store) wants back when an observation becomes the base of an update: the fields and labels
/// that others put on the object, which an update must carry along. Only the store that made it looks inside.
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
    /// Who holds the lease, if anybody does.
    pub fn holder(&self) -> Option<&str> {
        self.holder_identity.as_deref().filter(|identity| !identity.is_empty())
    }

    /// How long others wait after a change of this record: what its holder published, or `otherwise` where that is
    /// absent or not positive.
    pub(crate) fn lease_duration_or(&self, otherwise: Duration) -> Duration {
        match self.lease_duration_seconds.map(u64::try_from) {
            Some(Ok(seconds)) if seconds > 0 => Duration::from_secs(seconds),
            _ => otherwise,
        }
    }

    /// Whether both are the same but for the object they stand in.
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
    /// The last microsecond that RFC 3339 can write, at the end of the year 9999.
    pub(crate) const LAST: u64 = 253_402_300_799_999_999;

    /// The time `micros` microseconds after 1970, at the latest the end of the year 9999.
    pub fn from_unix_micros(micros: u64) -> Self {
        let time = UNIX_EPOCH + Duration::from_micros(micros.min(Self::LAST));
        Self(humantime::format_rfc3339_micros(time).to_string().into())
    }

    /// A time as it was read from a store, whatever its form.
    pub fn from_text(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The text that stands in the store.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<SystemTime> for MicroTime {
    /// A clock that was never set, before 1970, reads as 1970.
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
    /// An observation of `record` at `version`.
    pub fn new(record: LeaderElectionRecord, version: u64, data: StoreData) -> Self {
        Self { record, version, data }
    }
}

impl StoreData {
    /// Carries `value` along.
    pub fn new<T: Send + Sync + 'static>(value: T) -> Self {
        Self(Some(Arc::new(value)))
    }

    /// Nothing to carry along.
    pub fn none() -> Self {
        Self(None)
    }

    /// What is carried along, if it is a `T`.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.0.as_deref()?.downcast_ref()
    }
}

impl fmt::Debug for StoreData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "StoreData(..)" } else { "StoreData(none)" })
    }
}

/// Microseconds since 1970, zero for a clock that was never set.
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
