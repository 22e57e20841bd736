//! The table of the rule 'Two objects', and the order of the requests of a call.

use super::*;
use LockObject::{Primary, Secondary};

const ME: &str = "me";

/// Returns a record whose times are `term` and `renewal`.
fn record(holder: &str, term: u64, renewal: u64) -> LeaderElectionRecord {
    LeaderElectionRecord {
        uid: None,
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(15),
        acquire_time: Some(MicroTime::from_unix_micros(term)),
        renew_time: Some(MicroTime::from_unix_micros(renewal)),
        lease_transitions: Some(1),
    }
}

fn object(version: u64, record: &LeaderElectionRecord) -> Option<VersionedRecord> {
    let record = LeaderElectionRecord { uid: Some("u".to_owned()), ..record.clone() };
    Some(VersionedRecord::new(record, version, StoreData::none()))
}

fn conflict() -> StoreError {
    StoreError::new(StoreErrorKind::Conflict, "made up")
}

/// A composite, and the two objects as its requests change them.
struct Scenario {
    composite: Composite,
    objects: Objects,
    version: u64,
}

impl Scenario {
    /// Returns a composite that has read these objects.
    fn with(primary: Option<VersionedRecord>, secondary: Option<VersionedRecord>) -> Self {
        let mut scenario = Self { composite: Composite::new(ME, 15), objects: [primary, secondary], version: 10 };
        scenario.read();
        scenario
    }

    /// Returns a composite that has written `record` to both objects.
    fn leading(record: &LeaderElectionRecord) -> Self {
        let mut scenario = Self::with(None, None);
        scenario.write(None, record, &[]).expect("both writes are applied");
        scenario
    }

    fn read(&mut self) -> Option<VersionedRecord> {
        let mut call = CompositeCall::read();
        let answers = self.objects.clone();
        assert_eq!(call.object(), Primary);
        let [primary, secondary] = answers;
        assert!(call.answered(&mut self.composite, Ok(primary)).is_none());
        assert_eq!(call.object(), Secondary);
        call.answered(&mut self.composite, Ok(secondary)).expect("the last answer").expect("an answer")
    }

    /// Replaces an object in the name of another client, or of a late own write.
    fn put(&mut self, object: LockObject, record: &LeaderElectionRecord) {
        self.version += 1;
        self.objects[object as usize] = self::object(self.version, record);
    }

    /// Runs a write of `record`. The numbers in `lost` are the requests that are not applied and fail.
    fn write(
        &mut self,
        base: Option<&VersionedRecord>,
        record: &LeaderElectionRecord,
        lost: &[usize],
    ) -> Result<VersionedRecord, StoreErrorKind> {
        let mut call = self.composite.write(base, record.as_write()).expect("an own record");
        for number in 0.. {
            let object = call.object();
            let standing = &self.objects[object as usize];
            let answer = match call.operation() {
                _ if lost.contains(&number) => Err(StoreError::new(StoreErrorKind::Timeout, "made up")),
                ObjectOperation::Get => Ok(standing.clone()),
                ObjectOperation::Create(..) if standing.is_some() => Err(conflict()),
                ObjectOperation::Update(base, ..) if standing.as_ref().is_none_or(|it| it.version != base.version) => {
                    Err(conflict())
                }
                ObjectOperation::Create(record, _) | ObjectOperation::Update(_, record, _) => {
                    self.put(object, &record);
                    Ok(self.objects[object as usize].clone())
                }
            };
            if let Some(result) = call.answered(&mut self.composite, answer) {
                return result.map(|written| written.expect("a record")).map_err(|error| error.kind());
            }
        }
        unreachable!("the call ends")
    }

    fn holders(&self) -> [Option<&str>; 2] {
        self.objects.each_ref().map(|object| object.as_ref().and_then(|it| it.record.holder()))
    }
}

#[test]
fn row_1_reports_equal_objects_with_the_higher_version() {
    let other = record("other", 1, 1);
    let found = Scenario::with(object(7, &other), object(9, &other)).read().expect("a record");
    assert_eq!((&found.record, found.version), (&other, 9));
    let mine = record(ME, 5, 5);
    let mut scenario = Scenario::leading(&mine);
    let found = scenario.read().expect("a record");
    assert_eq!((&found.record, found.version), (&mine, 12));
}

#[test]
fn row_2_hides_a_half_applied_write_from_its_author() {
    for lost in [0, 1] {
        let first = record(ME, 5, 5);
        let mut scenario = Scenario::leading(&first);
        let base = scenario.read().expect("a record");
        let second = record(ME, 5, 6);
        assert_eq!(scenario.write(Some(&base), &second, &[lost]).unwrap_err(), StoreErrorKind::Timeout);
        let hidden = scenario.read().expect("a record");
        assert_eq!((&hidden.record, hidden.version), (&first, base.version), "request {lost}");
        // The next write begins with the object that the write did not reach.
        let third = record(ME, 5, 7);
        let written = scenario.write(Some(&hidden), &third, &[]).expect("a write over both");
        assert_eq!((&written.record, scenario.holders()), (&third, [Some(ME); 2]));
        assert!(written.version > base.version);
    }
}

#[test]
fn row_2_reports_an_own_write_of_a_former_attempt_as_unchanged() {
    let other = record("other", 1, 1);
    let mut scenario = Scenario::with(object(7, &other), object(8, &other));
    let base = scenario.read().expect("a record");
    let lost = record(ME, 5, 5);
    assert_eq!(scenario.write(Some(&base), &lost, &[0]).unwrap_err(), StoreErrorKind::Timeout);
    // Another candidate renews both objects, so the attempt is over. The late write then lands on both objects.
    let renewed = record("other", 1, 2);
    [Primary, Secondary].into_iter().for_each(|object| scenario.put(object, &renewed));
    let known = scenario.read().expect("a record");
    [Primary, Secondary].into_iter().for_each(|object| scenario.put(object, &lost));
    let found = scenario.read().expect("a record");
    assert_eq!((&found.record, found.version), (&renewed, known.version));
}

#[test]
fn row_3_reports_no_record_if_both_objects_are_absent() {
    assert!(Scenario::with(None, None).read().is_none());
    let mut scenario = Scenario::leading(&record(ME, 5, 5));
    scenario.objects = [None, None];
    assert!(scenario.read().is_none());
}

#[test]
fn row_4_reports_the_holder_and_the_longest_duration() {
    let free = record("", 3, 3);
    let long = LeaderElectionRecord { lease_duration_seconds: Some(60), ..record("late", 2, 2) };
    let unpublished = LeaderElectionRecord { lease_duration_seconds: None, ..record("old", 2, 2) };
    let (old, mine) = (record("old", 1, 1), record(ME, 1, 1));
    // The objects, and the reported holder and duration.
    for (primary, secondary, holder, seconds) in [
        (Some(&old), None, Some("old"), Some(15)),
        (None, Some(&old), Some("old"), Some(15)),
        (Some(&old), Some(&long), Some("old"), Some(60)),
        (Some(&free), Some(&long), Some("late"), Some(60)),
        (Some(&unpublished), Some(&free), Some("old"), Some(15)),
        (Some(&mine), Some(&old), Some("old"), Some(15)),
        (Some(&mine), Some(&free), Some(UNKNOWN_HOLDER), Some(15)),
        (Some(&mine), None, Some(UNKNOWN_HOLDER), Some(15)),
        (Some(&mine), Some(&record(ME, 1, 2)), Some(ME), Some(15)),
        (Some(&free), None, None, None),
    ] {
        let objects = [primary.and_then(|it| object(7, it)), secondary.and_then(|it| object(8, it))];
        let case = format!("{objects:?}");
        let [primary, secondary] = objects;
        let found = Scenario::with(primary, secondary).read().expect("a record");
        assert_eq!((found.record.holder(), found.record.lease_duration_seconds), (holder, seconds), "{case}");
    }
}

#[test]
fn row_4_counts_an_own_object_as_free() {
    let other = record("other", 1, 1);
    let mut scenario = Scenario::leading(&record(ME, 5, 5));
    scenario.objects[0] = None;
    assert_eq!(scenario.read().expect("a record").record.holder(), None, "the primary was deleted");
    scenario.put(Primary, &other);
    assert_eq!(scenario.read().expect("a record").record.holder(), Some("other"));
}

/// client-go restarts with its identity, first on both objects, then on the secondary alone.
#[test]
fn change_of_either_foreign_object_changes_the_record() {
    let stale = record("other", 1, 1);
    let mut scenario = Scenario::with(object(7, &stale), object(8, &stale));
    let mut known = scenario.read().expect("a record");
    for (object, renewal) in [(Secondary, 2), (Secondary, 3), (Primary, 4), (Secondary, 5)] {
        scenario.put(object, &record("other", 1, renewal));
        let found = scenario.read().expect("a record");
        assert!(found.record != known.record && found.version > known.version, "{object:?} {renewal}");
        known = found;
    }
    // An edit of other fields changes the version alone.
    scenario.put(Primary, &record("other", 1, 4));
    let found = scenario.read().expect("a record");
    assert!(found.record == known.record && found.version > known.version);
}

#[test]
fn edit_of_an_own_object_is_a_foreign_change() {
    let mut scenario = Scenario::leading(&record(ME, 5, 5));
    scenario.put(Secondary, &record("operator", 5, 5));
    assert_eq!(scenario.read().expect("a record").record.holder(), Some("operator"));
}

#[test]
fn version_of_a_changed_record_grows_except_after_a_restore() {
    let (old, new) = (record("old", 1, 1), record("new", 2, 2));
    let mut scenario = Scenario::with(object(20, &old), object(15, &old));
    assert_eq!(scenario.read().expect("a record").version, 20);
    scenario.objects[0] = None;
    assert_eq!(scenario.read().expect("a record").version, 21, "a deletion lowers the highest version");
    scenario.objects[0] = object(19, &new);
    assert_eq!(scenario.read().expect("a record").version, 22, "two reads show two moments");
    scenario.objects[1] = object(12, &old);
    assert_eq!(scenario.read().expect("a record").version, 19, "a restored object has a lower version");
}

#[test]
fn write_replaces_own_earlier_writes_and_no_other_record() {
    let first = record(ME, 5, 5);
    let mut scenario = Scenario::leading(&first);
    let base = scenario.read().expect("a record");
    // The write is applied to the primary, but its answer is lost.
    let second = record(ME, 5, 6);
    assert_eq!(scenario.write(Some(&base), &second, &[0]).unwrap_err(), StoreErrorKind::Timeout);
    scenario.put(Primary, &second);
    let third = record(ME, 5, 7);
    scenario.write(Some(&base), &third, &[]).expect("a write over an own write");
    let base = scenario.read().expect("a record");
    scenario.put(Secondary, &record("other", 9, 9));
    assert_eq!(scenario.write(Some(&base), &record(ME, 5, 8), &[]).unwrap_err(), StoreErrorKind::Conflict);
    assert_eq!(scenario.holders(), [Some(ME), Some("other")]);
}

#[test]
fn write_begins_with_the_object_that_failed() {
    let other = record("other", 1, 1);
    let mut scenario = Scenario::with(object(7, &other), object(8, &other));
    let base = scenario.read().expect("a record");
    let order = |scenario: &mut Scenario, base: &VersionedRecord| {
        scenario.composite.clone().write(Some(base), record(ME, 6, 6).as_write()).expect("own").object()
    };
    assert_eq!(order(&mut scenario, &base), Primary);
    assert_eq!(scenario.write(Some(&base), &record(ME, 5, 5), &[1]).unwrap_err(), StoreErrorKind::Timeout);
    assert_eq!(order(&mut scenario, &base), Secondary);
    scenario.put(Secondary, &record("other", 1, 2));
    let base = scenario.read().expect("a record");
    assert_eq!(order(&mut scenario, &base), Primary);
}

#[test]
fn failed_write_is_in_doubt_and_a_foreign_record_is_refused() {
    let other = record("other", 1, 1);
    let mut scenario = Scenario::with(object(7, &other), object(8, &other));
    let base = scenario.read().expect("a record");
    let mut call = scenario.composite.write(Some(&base), record(ME, 5, 5).as_write()).expect("own");
    let not_applied = StoreError::new(StoreErrorKind::NotApplied, "made up");
    assert!(call.answered(&mut scenario.composite, Err(not_applied)).is_none(), "a read follows");
    let result = call.answered(&mut scenario.composite, Ok(object(9, &other))).expect("the last answer");
    assert_eq!(result.map_err(|error| error.kind()).unwrap_err(), StoreErrorKind::Conflict);
    let refused = scenario.composite.write(Some(&base), other.as_write());
    assert_eq!(refused.map(|_| ()).unwrap_err().kind(), StoreErrorKind::Rejected);
}

#[test]
fn each_object_keeps_its_own_notes_of_later_versions() {
    let free = record("", 1, 1);
    let [mut primary, secondary] = [object(7, &free), object(8, &free)];
    primary.as_mut().expect("an object").notes.unknown = Some("{\"later\":1}".into());
    let mut scenario = Scenario::with(primary, secondary);
    let base = scenario.read().expect("a record");
    let mine = record(ME, 5, 5);
    let mut notes = RecordNotes::default();
    notes.term.address = Some("host:1".to_owned());
    let call = scenario.composite.write(Some(&base), mine.with_notes(&notes)).expect("own");
    let ObjectOperation::Update(_, _, written) = call.operation() else { panic!("{call:?}") };
    assert_eq!((written.unknown.as_deref(), written.term.address.as_deref()), (Some("{\"later\":1}"), Some("host:1")));
}
