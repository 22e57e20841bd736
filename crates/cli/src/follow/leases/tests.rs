//! Tests in virtual time, on a local clock that the test sets.

use std::time::SystemTime;

use leasehold::store::{MicroTime, StoreData};

use super::EventKind::*;
use super::*;

/// Returns a time at which the wall clock is a minute ahead of the local clock.
fn at(seconds: u64) -> Now {
    let local = Duration::from_secs(seconds);
    Now { local: Moment::default() + local, wall: SystemTime::UNIX_EPOCH + local + Duration::from_secs(60) }
}

/// Returns a record with a holder, as client-go writes the record.
fn held(holder: &str, transitions: i32, renewed: u64) -> LeaderElectionRecord {
    LeaderElectionRecord {
        uid: Some("u".into()),
        holder_identity: Some(holder.into()),
        lease_duration_seconds: Some(15),
        acquire_time: Some(MicroTime::from_text("2026-01-01T00:00:00.000000Z")),
        renew_time: Some(MicroTime::from_unix_micros(renewed)),
        lease_transitions: Some(transitions),
    }
}

fn free() -> LeaderElectionRecord {
    LeaderElectionRecord { holder_identity: Some(String::new()), ..held("", 1, 0) }
}

fn observed((record, version): (LeaderElectionRecord, u64)) -> VersionedRecord {
    VersionedRecord::new(record, version, StoreData::none())
}

impl Update {
    /// Returns the event of a written record.
    pub fn changed(key: &str, observed: VersionedRecord) -> Self {
        let version = Some(observed.version);
        Self::Record { key: key.into(), found: Some(observed), version }
    }

    /// Returns the event of a deletion.
    pub fn deleted(key: &str, version: u64) -> Self {
        Self::Record { key: key.into(), found: None, version: Some(version) }
    }
}

fn changed(record: LeaderElectionRecord, version: u64) -> Update {
    Update::changed("jobs", observed((record, version)))
}

fn read(found: Option<(LeaderElectionRecord, u64)>) -> Update {
    Update::Record { key: "jobs".into(), found: found.map(observed), version: None }
}

fn opened(from_scratch: bool) -> Update {
    Update::Opened { key: None, from_scratch }
}

/// Returns the kind, the previous holder and the holder of each event.
fn said(events: &[LeaseEvent]) -> Vec<(EventKind, Option<&str>, Option<&str>)> {
    events.iter().map(|event| (event.what, event.previous_holder.as_deref(), event.lease.holder())).collect()
}

#[test]
fn terms_renewals_releases_and_deletions_are_reported_once() {
    let mut leases = Leases::new(Which::Named);
    assert!(leases.apply(Update::Opened { key: Some("jobs".into()), from_scratch: true }, at(0)).is_empty());
    let mut tell = |update, seconds| leases.apply(update, at(seconds));
    assert_eq!(said(&tell(read(None), 0)), [(Unheld, None, None)]);
    assert_eq!(said(&tell(changed(held("a", 0, 1), 5), 1)), [(NewLeader, None, Some("a"))]);
    assert_eq!(said(&tell(changed(held("a", 0, 1), 5), 2)), [], "twice");
    let renewed = tell(changed(held("a", 0, 2), 6), 3);
    assert_eq!(said(&renewed), [(Renewed, None, Some("a"))]);
    assert_eq!((renewed[0].lease.renewals, renewed[0].lease.version, renewed[0].at), (1, Some(6), at(3)));
    assert_eq!(said(&tell(changed(held("a", 0, 1), 5), 4)), [], "late");
    assert_eq!(said(&tell(changed(held("b", 1, 3), 7), 5)), [(NewLeader, Some("a"), Some("b"))]);
    assert_eq!(said(&tell(changed(free(), 8), 6)), [(Released, Some("b"), None)]);
    assert_eq!(said(&tell(changed(held("b", 2, 4), 9), 7)), [(NewLeader, None, Some("b"))], "the same one again");
    let deleted = tell(Update::deleted("jobs", 10), 8);
    assert_eq!(said(&deleted), [(Deleted, Some("b"), None)]);
    assert_eq!((deleted[0].lease.version, &deleted[0].lease.record, deleted[0].lease.renewals), (Some(10), &None, 1));
    assert_eq!(said(&tell(Update::deleted("jobs", 10), 8)), []);
    assert_eq!(said(&tell(changed(held("b", 2, 4), 9), 8)), [], "late");
    assert_eq!(said(&tell(changed(held("b", 0, 5), 11), 9)), [(NewLeader, None, Some("b"))]);
}

#[test]
fn changed_address_is_an_event_and_not_a_renewal() {
    let mut leases = Leases::new(Which::Named);
    let mut tell = |record, version, address: Option<&str>, seconds| {
        let mut observed = observed((record, version));
        observed.notes.term.address = address.map(str::to_owned);
        let events = leases.apply(Update::changed("jobs", observed), at(seconds));
        events
            .into_iter()
            .map(|it| (it.what, it.lease.notes.term.address, it.lease.renewals, it.lease.has_expired))
            .collect::<Vec<_>>()
    };
    let is =
        |what, address: Option<&str>, renewals, expired| vec![(what, address.map(str::to_owned), renewals, expired)];
    assert_eq!(tell(held("a", 0, 1), 1, None, 0), is(NewLeader, None, 0, false));
    assert_eq!(tell(held("a", 0, 1), 2, Some("x"), 1), is(NewAddress, Some("x"), 0, false));
    assert_eq!(tell(held("a", 0, 1), 3, Some("x"), 2), [], "another change of the object");
    assert_eq!(tell(held("a", 0, 1), 2, Some("y"), 3), [], "late");
    assert_eq!(tell(held("a", 0, 2), 4, Some("y"), 4), is(NewAddress, Some("y"), 1, false));
    assert_eq!(tell(held("a", 0, 3), 5, Some("y"), 5), is(Renewed, Some("y"), 2, false));
    assert_eq!(tell(held("b", 1, 4), 6, Some("y"), 6), is(NewLeader, Some("y"), 2, false));
    let expired = tell(held("b", 1, 4), 7, None, 21);
    assert_eq!(expired[0].0, Expired);
    assert_eq!(expired[1..], is(NewAddress, None, 2, true), "the record is unchanged");
    assert_eq!(tell(free(), 8, None, 22), is(Released, None, 2, false));
}

#[test]
fn holder_leads_after_an_observed_renewal_until_the_expiry() {
    let mut leases = Leases::new(Which::Named);
    let waits = |holder, ago, left| {
        format!("held by {holder}, renewed {ago} ago by its clock; free in {left} unless it renews")
    };
    // Each row has the second, the update, the leader, and the text about the record a second later.
    for (second, update, leader, standing) in [
        (0, read(None), None, "no record".to_owned()),
        (1, read(Some((held("a", 0, 1), 5))), None, waits("a", "1m1s", "14s")),
        (2, changed(held("a", 0, 1), 6), None, waits("a", "1m2s", "13s")),
        (3, changed(held("a", 0, 2), 7), Some("a"), "a leads".to_owned()),
        (4, changed(held("a", 0, 2), 8), Some("a"), "a leads".to_owned()),
        (5, changed(held("b", 1, 3), 9), None, waits("b", "1m5s", "14s")),
        (6, changed(held("b", 2, 4), 10), Some("b"), "b leads".to_owned()),
        (40, changed(held("b", 2, 4), 11), None, "expired, held by b".to_owned()),
        (41, changed(held("b", 2, 5), 12), Some("b"), "b leads".to_owned()),
        (42, changed(free(), 13), None, "no holder".to_owned()),
        (43, changed(held("b", 3, 6), 14), None, waits("b", "1m43s", "14s")),
        (44, Update::deleted("jobs", 15), None, "no record".to_owned()),
    ] {
        leases.apply(update, at(second));
        let lease = leases.get("jobs").expect("a lease");
        assert_eq!((lease.leader(), lease.standing(at(second + 1))), (leader, standing), "second {second}");
    }
    let ahead = LeaderElectionRecord { renew_time: Some(MicroTime::from_unix_micros(90_000_000)), ..held("a", 0, 1) };
    let bare = LeaderElectionRecord { holder_identity: Some("a".into()), ..LeaderElectionRecord::default() };
    for (record, since, standing) in
        [(ahead, Some(-30.0), waits("a", "0s", "15s")), (bare, None, "held by a".to_owned())]
    {
        leases = Leases::new(Which::Named);
        leases.apply(changed(record, 1), at(0));
        let lease = leases.get("jobs").expect("a lease");
        assert_eq!((lease.seconds_since_renewal(at(0)), lease.standing(at(0))), (since, standing));
    }
}

#[test]
fn shard_has_an_owner_and_neither_leads_nor_expires() {
    let mut leases = Leases::new(Which::Named);
    let shard = |holder: &str| LeaderElectionRecord { lease_duration_seconds: Some(i32::MAX), ..held(holder, 0, 1) };
    for (version, holder, owner, standing) in [(1, "3/u/a/b", Some("a/b"), "owned by a/b"), (2, "", None, "no owner")] {
        leases.apply(changed(shard(holder), version), at(0));
        let lease = leases.get("jobs").expect("a lease");
        assert_eq!((lease.owner(), lease.leader(), &*lease.standing(at(1))), (owner, None, standing));
        assert!(lease.is_shard() && lease.remaining(at(1).local).is_none() && leases.next_expiry().is_none());
    }
}

#[test]
fn lease_expires_once_by_the_local_clock_until_it_changes() {
    let mut leases = Leases::new(Which::All);
    assert_eq!(leases.next_expiry(), None);
    let first = leases.apply(changed(held("a", 0, 1), 5), at(10));
    assert_eq!(first[0].lease.remaining(at(10).local), Some(Duration::from_secs(15)), "whatever its times say");
    // The object has a new version, but its record is unchanged, so the change is not a renewal.
    assert_eq!(said(&leases.apply(changed(held("a", 0, 1), 6), at(20))), []);
    assert_eq!(leases.next_expiry(), Some(at(25).local));
    assert_eq!(said(&leases.expire(at(24))), []);
    let expired = leases.expire(at(29));
    assert_eq!(said(&expired), [(Expired, None, Some("a"))]);
    assert_eq!((expired[0].at, expired[0].lease.remaining(at(29).local)), (at(25), Some(Duration::ZERO)));
    assert_eq!((said(&leases.expire(at(99))), leases.next_expiry()), (vec![], None));
    assert_eq!(said(&leases.apply(changed(held("a", 0, 1), 7), at(99))), []);
    assert_eq!(leases.next_expiry(), None, "the holder is still dead");
    let renewed = leases.apply(changed(held("a", 0, 2), 8), at(100));
    assert_eq!(said(&renewed), [(Renewed, None, Some("a"))]);
    assert!(!renewed[0].lease.has_expired && leases.next_expiry() == Some(at(115).local));
    // The expiry was not polled before the change, so one update returns both events in the order of their times.
    let late = leases.apply(changed(held("b", 1, 3), 9), at(120));
    assert_eq!(said(&late), [(Expired, None, Some("a")), (NewLeader, Some("a"), Some("b"))]);
    assert_eq!((late[0].at, late[1].at), (at(115), at(120)));
    assert_eq!(said(&leases.apply(changed(free(), 10), at(121))), [(Released, Some("b"), None)]);
    assert_eq!(leases.next_expiry(), None);
}

#[test]
fn records_of_others_may_lack_fields() {
    let mut leases = Leases::new(Which::All);
    let record = |renewed| LeaderElectionRecord {
        holder_identity: Some("node-1".into()),
        renew_time: Some(MicroTime::from_text(renewed)),
        ..LeaderElectionRecord::default()
    };
    assert_eq!(said(&leases.apply(changed(record("x"), 1), at(0))), [(NewLeader, None, Some("node-1"))]);
    assert_eq!(said(&leases.apply(changed(record("y"), 2), at(1))), [(Renewed, None, Some("node-1"))]);
    assert_eq!((said(&leases.expire(at(1_000_000))), leases.next_expiry()), (vec![], None), "it does not say when");
    for seconds in [0, -1] {
        let record = LeaderElectionRecord { lease_duration_seconds: Some(seconds), ..record("z") };
        leases.apply(changed(record, 3), at(2));
        assert_eq!(leases.next_expiry(), None);
    }
    let observed = observed((LeaderElectionRecord::default(), 1));
    let other = Update::changed("other", observed);
    assert_eq!(said(&leases.apply(other, at(3))), [(Unheld, None, None)]);
}

#[test]
fn deleted_leases_are_forgotten_after_a_watch_restart_too() {
    let mut leases = Leases::new(Which::All);
    let observed = |key: &str, version| observed((held(key, 0, version), version));
    let written = |key: &str, version| Update::changed(key, observed(key, version));
    leases.apply(opened(true), at(0));
    for key in ["a", "b", "c"] {
        leases.apply(written(key, 1), at(0));
    }
    leases.apply(Update::ToldAll { key: None }, at(0));
    assert_eq!(leases.iter().len(), 3);
    assert_eq!(said(&leases.apply(Update::deleted("a", 2), at(1))), [(Deleted, Some("a"), None)]);
    assert_eq!(leases.iter().len(), 2);
    // A resumed watch delivers only new changes, so an undelivered lease still exists.
    leases.apply(opened(false), at(2));
    assert_eq!(said(&leases.apply(Update::ToldAll { key: None }, at(2))), []);
    leases.apply(opened(true), at(3));
    assert_eq!(said(&leases.apply(written("b", 1), at(3))), [], "it is as it was");
    assert_eq!(leases.iter().len(), 2, "the other may still be told of");
    assert_eq!(said(&leases.apply(Update::ToldAll { key: None }, at(4))), [(Deleted, Some("c"), None)]);
    assert_eq!(leases.iter().map(|(key, _)| key).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn versions_may_restart_with_a_watch_and_with_a_read() {
    let mut leases = Leases::new(Which::Named);
    leases.apply(read(Some((held("a", 0, 1), 100))), at(0));
    assert_eq!(said(&leases.apply(changed(held("b", 1, 2), 7), at(1))), []);
    leases.apply(Update::Opened { key: Some("other".into()), from_scratch: true }, at(1));
    assert_eq!(said(&leases.apply(changed(held("b", 1, 2), 7), at(1))), [], "that is another's watch");
    leases.apply(Update::Opened { key: Some("jobs".into()), from_scratch: true }, at(1));
    assert_eq!(said(&leases.apply(changed(held("b", 1, 2), 7), at(1))), [(NewLeader, Some("a"), Some("b"))]);
    assert_eq!(said(&leases.apply(read(Some((held("c", 2, 3), 3))), at(2))), [(NewLeader, Some("b"), Some("c"))]);
    assert_eq!(said(&leases.apply(read(None), at(3))), [(Deleted, Some("c"), None)]);
    assert_eq!(said(&leases.apply(read(None), at(4))), []);
    leases.apply(Update::Opened { key: Some("jobs".into()), from_scratch: true }, at(5));
    assert_eq!(said(&leases.apply(Update::ToldAll { key: Some("jobs".into()) }, at(5))), []);
}

#[test]
fn an_object_without_a_record_is_no_lease_where_most_have_none() {
    let mut leases = Leases::new(Which::AllRecords);
    let nothing = || LeaderElectionRecord { uid: Some("u".into()), ..LeaderElectionRecord::default() };
    assert_eq!(said(&leases.apply(changed(nothing(), 1), at(0))), []);
    assert_eq!(leases.iter().len(), 0);
    assert_eq!(said(&leases.apply(changed(held("a", 0, 1), 2), at(0))), [(NewLeader, None, Some("a"))]);
    assert_eq!(said(&leases.apply(changed(nothing(), 3), at(0))), [(Deleted, Some("a"), None)]);
    assert_eq!(leases.iter().len(), 0);
}
