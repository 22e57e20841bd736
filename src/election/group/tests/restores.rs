//! A store that was restored to lower versions.

use super::*;
use crate::election::deadline::Deadline;
use crate::store::record::StoreData;

/// Returns the record of slot 0 in a term of the first node.
fn won(acquire_time: &str, version: u64) -> VersionedRecord {
    let (uid, holder_identity) = (Some("uid".to_owned()), Some("node-0".to_owned()));
    let acquire_time = Some(MicroTime::from_text(acquire_time));
    let record = LeaderElectionRecord { uid, holder_identity, acquire_time, ..Default::default() };
    VersionedRecord::new(record, version, StoreData::none())
}

#[test]
fn term_after_a_failed_campaign_has_its_own_name() {
    let mut world = World::new(1, 1);
    let (now, deadline) = (world.now, Arc::new(Deadline::new(world.now + LEASE)));
    let group = &mut world.nodes[0].group;
    group.own_slot_observed(now, 0, Some(now), &won("t1", 7));
    group.not_joined(now, 0..1, RETRY);
    // The restored store uses the version again.
    group.own_slot_observed(now, 0, Some(now), &won("t2", 7));
    assert!(group.joined(now, 0, 7, deadline));
    assert_eq!(&*group.member.as_ref().unwrap().name.acquire_time, "t2");
}

#[test]
fn term_without_an_observed_write_is_given_back() {
    let mut world = World::new(1, 1);
    let (now, deadline) = (world.now, Arc::new(Deadline::new(world.now + LEASE)));
    let group = &mut world.nodes[0].group;
    group.own_slot_observed(now, 0, Some(now), &won("t1", 7));
    assert!(!group.joined(now, 0, 8, deadline));
    assert_eq!((group.own_slot(), group.slots[0].campaign_at), (None, now + RETRY));
}

#[test]
fn restore_between_two_campaigns_delays_the_first_take() {
    let mut world = started(1, 2);
    let mut backup = world.records.clone();
    backup.get_mut(&GroupKey::Shard(0)).unwrap().record.holder_identity = Some(String::new());
    world.add(2);
    world.nodes[1].failure = Some(|| StoreError::new(StoreErrorKind::Timeout, "made up"));
    world.run(LEASE);
    world.records = backup;
    world.nodes[0].is_dead = true;
    world.nodes[1].failure = None;
    world.open(1);
    world.run(LEASE - RETRY);
    assert!(world.nodes[1].slot.is_some() && world.nodes[1].owned.is_empty());
    world.run_until(|world| (0..2).all(|shard| world.owners(shard) == [1]));
}

/// The process has no slot, so its watch may be silent for a lease duration.
#[test]
fn wait_after_a_restore_begins_with_its_discovery() {
    let mut world = started(1, 1);
    let slot = world.nodes[0].slot.unwrap();
    world.nodes[0].failure = Some(|| StoreError::new(StoreErrorKind::Timeout, "made up"));
    world.end_term(0, StopReason::Expired);
    for key in [GroupKey::Slot(slot), GroupKey::Shard(0)] {
        world.edit(key, |record| record.holder_identity = Some(String::new()));
    }
    world.run(RETRY);
    // The store loses a campaign's write, and its watch is silent.
    world.nodes[0].is_deaf = true;
    let (now, lost) = (world.now, won("t1", world.version + 50));
    world.nodes[0].group.own_slot_observed(now, slot, Some(now), &lost);
    world.run(LEASE * 2 / 3);
    world.nodes[0].failure = None;
    world.run_until(|world| world.nodes[0].slot.is_some());
    world.nodes[0].is_deaf = false;
    world.open(0);
    world.run(LEASE - RETRY);
    assert!(world.nodes[0].owned.is_empty());
    world.run(RETRY * 2);
    world.assert_shared(&[0]);
}

#[test]
fn listing_of_a_restored_store_is_not_repeated_for_each_record() {
    let mut world = started(1, 8);
    let mut backup = world.records.clone();
    for shard in 0..8 {
        world.edit(GroupKey::Shard(shard), |_| {});
    }
    world.run(STEP);
    backup.values_mut().for_each(|seen| seen.version /= 2);
    world.records = backup;
    let opens = world.nodes[0].opens;
    world.open(0);
    world.run(LEASE / 3);
    assert!(world.nodes[0].opens - opens <= 3);
}

#[test]
fn failed_campaign_teaches_the_version_of_its_write() {
    let mut world = World::new(1, 1);
    let now = world.now;
    world.nodes[0].group.own_slot_observed(now, 0, Some(now), &won("t1", 61));
    world.nodes[0].group.not_joined(now, 0..1, RETRY);
    world.now = now + STEP;
    world.records.insert(GroupKey::Slot(0), won("t1", 50));
    world.open(0);
    assert_eq!(world.nodes[0].group.view.settled_at, world.now + LEASE);
}

#[test]
fn read_below_a_known_version_is_a_restore() {
    let mut world = started(1, 1);
    let (key, backup, now, wall) = (GroupKey::Shard(0), world.records.clone(), world.now, world.wall());
    let node = &mut world.nodes[0];
    (node.is_deaf, node.owned) = (true, Default::default());
    node.group.returned(now, 0);
    let step = node.group.next(wall);
    let Step::Send(GroupRequest { id, operation: GroupOperation::Update(base, record), .. }) = step else {
        panic!("no release: {step:?}")
    };
    let response = world.written(key, base.version, &record);
    world.records = backup;
    world.open(0);
    // The request is older than the watch, so the response teaches only a version.
    world.nodes[0].group.on_response(now, id, response);
    world.now = now + STEP;
    world.nodes[0].failure = Some(|| StoreError::new(StoreErrorKind::Timeout, "made up"));
    while world.drive(0) {}
    world.nodes[0].failure = None;
    world.run(RETRY + STEP * 2);
    let group = &world.nodes[0].group;
    assert!(group.view.settled_at > world.now && !group.is_listed());
}

#[test]
fn read_before_a_restore_confirms_no_take() {
    let mut world = started(2, 2);
    let (slot, now) = (world.nodes[0].slot.unwrap(), world.now);
    let shard = *world.nodes[0].owned.keys().next().unwrap();
    world.nodes[1].group.shards[shard].paused_until = now + LEASE;
    world.nodes[0].group.leave(now);
    world.run(RETRY);
    let (now, group) = (world.now, &mut world.nodes[1].group);
    let read = group.slots[slot].read;
    assert!(read > group.shards[shard].seen_after, "the member has read the slot");
    group.restored(now);
    world.run_until(|world| world.owners(shard) == [1]);
    assert!(world.nodes[1].group.slots[slot].read > read);
}

#[test]
fn renewal_with_a_known_version_is_a_restore() {
    let mut world = started(2, 2);
    let key = GroupKey::Slot(world.nodes[0].slot.unwrap());
    world.records.get_mut(&key).unwrap().record.renew_time = Some(MicroTime::from_unix_micros(7));
    world.open(1);
    assert_eq!(world.nodes[1].group.view.settled_at, world.now + LEASE);
}

#[test]
fn new_listing_starts_no_ownership_with_a_lost_token() {
    let mut world = started(1, 1);
    let token = world.nodes[0].owned[&0];
    world.nodes[0].is_deaf = true;
    world.nodes[0].failure = Some(|| StoreError::new(StoreErrorKind::Timeout, "made up"));
    world.run_until(|world| !world.nodes[0].ended.is_empty());
    world.nodes[0].is_deaf = false;
    world.open(0);
    world.run(STEP * 2);
    assert!(world.nodes[0].owned.is_empty(), "the record has the token of the ended ownership");
    world.nodes[0].failure = None;
    world.run_until(|world| world.owners(0) == [0]);
    assert!(world.nodes[0].owned[&0] > token);
}
