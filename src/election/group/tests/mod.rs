//! Tests of the rules of `docs/internals/GROUPS.md` on virtual time.

use std::time::{Duration, SystemTime};

use super::*;
use crate::election::stop_reason::StopReason;
use crate::store::StoreErrorKind;
use crate::store::record::{LeaderElectionRecord, MicroTime};
use world::{DRAIN, LEASE, RETRY, STEP, World, started};

mod members;
mod restores;
mod world;

#[test]
fn shards_are_shared_and_stay() {
    let mut world = started(3, 64);
    let moves = |world: &World| world.nodes.iter().map(|node| node.wanted).sum::<usize>();
    let before = (moves(&world), world.nodes.iter().map(|node| node.writes).sum::<usize>());
    world.run(LEASE * 3);
    let after = (moves(&world), world.nodes.iter().map(|node| node.writes).sum::<usize>());
    assert_eq!(after, before, "no shard moves, and shards need no renewals");
    assert_eq!(before.1, 128, "each shard is created and taken by one member");
}

#[test]
fn new_member_gets_its_share_an_eighth_at_a_time() {
    let mut world = started(3, 64);
    world.add(64);
    world.run(RETRY);
    world.assert_shared(&[0, 1, 2, 3]);
    assert_eq!(world.nodes.iter().map(|node| node.wanted).sum::<usize>(), 16);
}

#[test]
fn leaving_member_frees_its_shards_with_one_write() {
    let mut world = started(3, 9);
    let writes = world.nodes[0].writes;
    let now = world.now;
    world.nodes[0].group.leave(now);
    world.run(STEP * 5);
    world.assert_shared(&[1, 2]);
    assert_eq!(world.nodes[0].writes, writes);
}

#[test]
fn shards_of_a_crashed_member_move_after_its_slot_expires() {
    let mut world = started(3, 9);
    world.nodes[0].is_dead = true;
    let lost = world.nodes[0].owned.keys().copied().collect::<Vec<_>>();
    world.run(LEASE - RETRY);
    assert!(lost.iter().all(|shard| world.owners(*shard).iter().all(|node| *node == 0)));
    world.run(RETRY * 2);
    world.assert_shared(&[1, 2]);
}

#[test]
fn member_without_a_current_watch_loses_its_shards() {
    let mut world = started(2, 4);
    // The view does not end at the moment of a renewal.
    world.settings(0).lease_duration = LEASE * 9 / 10;
    world.nodes[0].is_deaf = true;
    world.run(STEP);
    let valid_until = world.nodes[0].group.valid_until();
    // The view is valid for two thirds of a lease duration after each renewal.
    assert!((LEASE * 3 / 5 - RETRY..=LEASE * 3 / 5).contains(&valid_until.since(world.now)));
    world.run(valid_until.since(world.now) - STEP);
    assert_eq!(world.nodes[0].owned.len(), 2);
    world.run(STEP * 2);
    assert!(world.nodes[0].ended.iter().all(|(_, reason)| *reason == OwnershipEnd::WatchLost));
    assert_eq!(world.nodes[0].owned.len(), 0);
}

/// The answer to a renewal may come before its event.
#[test]
fn event_of_a_known_renewal_extends_the_view() {
    let mut world = started(1, 1);
    world.nodes[0].is_deaf = true;
    world.run(RETRY * 2);
    let key = GroupKey::Slot(world.nodes[0].slot.unwrap());
    let (now, seen, group) = (world.now, world.records[&key].clone(), &mut world.nodes[0].group);
    let valid_until = group.valid_until();
    group.watched(now, key, seen.version, Some(seen));
    assert!(group.valid_until() > valid_until);
    world.run(RETRY * 20);
    assert!(world.nodes[0].group.own_writes.len() <= 16, "the memory of a long term is limited");
}

#[test]
fn member_without_a_watch_empties_the_shards_that_it_has_lost() {
    let mut world = started(2, 4);
    let keys: Vec<_> = world.nodes[0].owned.keys().map(|shard| GroupKey::Shard(*shard)).collect();
    let holders =
        |world: &World| keys.iter().map(|key| world.records[key].record.holder_identity.clone()).collect::<Vec<_>>();
    let before = holders(&world);
    world.nodes[0].is_deaf = true;
    world.nodes[0].group.watch_ended();
    world.run(LEASE * 2 / 3 + RETRY);
    assert_eq!(world.nodes[0].ended.len(), 2);
    assert!(holders(&world).iter().zip(&before).all(|(now, before)| now != before));
}

#[test]
fn member_that_has_lost_its_shards_is_not_idle() {
    let mut world = started(2, 4);
    world.nodes[0].is_deaf = true;
    world.run(LEASE * 2 / 3 + STEP * 2);
    assert_eq!(world.nodes[0].owned.len(), 0);
    world.nodes[0].is_deaf = false;
    world.open(0);
    world.run(RETRY / 2);
    world.assert_shared(&[0, 1]);
}

#[test]
fn deleted_shard_has_a_new_owner_one_lease_duration_later() {
    let mut world = started(2, 4);
    world.nodes[0].is_deaf = true;
    let shard = *world.nodes[0].owned.keys().next().unwrap();
    world.delete(GroupKey::Shard(shard));
    world.run(LEASE - RETRY);
    assert!(world.owners(shard).is_empty());
    world.run(RETRY * 4);
    assert_eq!(world.owners(shard), [1]);
}

#[test]
fn deleted_slot_has_no_second_owner_of_its_shards() {
    for is_deaf in [false, true] {
        let mut world = started(2, 4);
        let slot = world.nodes[0].slot.unwrap();
        world.nodes[0].is_deaf = is_deaf;
        world.delete(GroupKey::Slot(slot));
        world.run(LEASE * 2);
        world.assert_shared(if is_deaf { &[1] } else { &[0, 1] });
    }
}

#[test]
fn new_listings_do_not_extend_the_wait_after_a_deletion() {
    let mut world = started(2, 4);
    let slot = world.nodes[0].slot.unwrap();
    world.nodes[0].is_dead = true;
    world.delete(GroupKey::Slot(slot));
    for _ in 0..9 {
        world.run(RETRY);
        world.open(1);
    }
    world.assert_shared(&[1]);
}

#[test]
fn foreign_record_is_left_alone_and_reported() {
    let mut world = started(2, 4);
    world.edit(GroupKey::Shard(3), |record| record.holder_identity = Some("pod-9".into()));
    let before = world.records[&GroupKey::Shard(3)].version;
    world.run(LEASE * 2);
    assert_eq!(world.records[&GroupKey::Shard(3)].version, before);
    assert_eq!((world.owners(3), world.owners(2).len()), (vec![], 1));
    assert!(world.nodes.iter().all(|node| node.group.fault(3).is_some()));
    world.edit(GroupKey::Shard(3), |record| record.holder_identity = Some(String::new()));
    world.run(RETRY * 2);
    world.assert_shared(&[0, 1]);
}

#[test]
fn member_that_takes_nothing_is_passed_over() {
    let mut world = started(2, 4);
    world.add(4);
    world.run(LEASE);
    world.nodes[1].failure = Some(|| StoreError::new(StoreErrorKind::Timeout, "stuck"));
    world.nodes[0].is_dead = true;
    world.run(LEASE + RETRY * 4);
    let others: usize = world.nodes[1..].iter().map(|node| node.owned.len()).sum();
    assert_eq!(others, 4, "the third member takes every shard of the first member");
    assert!(world.nodes[2].idle.is_empty(), "one idle time is normal");
    world.run(LEASE + RETRY);
    let slot = world.nodes[1].slot.unwrap();
    assert_eq!(world.nodes[2].idle, [slot]);
    world.nodes[1].failure = None;
    world.run(LEASE * 4);
    world.assert_shared(&[1, 2]);
    assert_eq!(world.nodes[2].group.slots[slot].idle, None, "the next idle time is short again");
}

#[test]
fn restored_store_has_no_second_owner() {
    let mut world = started(2, 4);
    let backup = (world.records.clone(), world.version);
    world.add(4);
    world.run(LEASE);
    world.assert_shared(&[0, 1, 2]);
    (world.records, _) = backup;
    (0..3).for_each(|node| world.open(node));
    world.run(LEASE * 3);
    world.assert_shared(&[0, 1, 2]);
}

#[test]
fn seventeenth_process_is_a_spare_until_a_slot_is_free() {
    let mut world = started(8, 8);
    world.add(8);
    world.run(RETRY);
    assert_eq!(world.nodes[8].slot, None);
    world.nodes[2].is_dead = true;
    world.run(LEASE + RETRY * 2);
    assert!(world.nodes[8].slot.is_some());
    world.assert_shared(&[0, 1, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn edits_of_a_record_move_nothing() {
    let mut world = started(2, 4);
    let shard = *world.nodes[0].owned.keys().next().unwrap();
    for _ in 0..20 {
        world.edit(GroupKey::Shard(shard), |_| {});
        world.run(STEP * 3);
    }
    world.assert_shared(&[0, 1]);
    assert!(world.nodes[0].ended.is_empty());
}

#[test]
fn response_that_overtakes_a_listing_is_not_undone() {
    let mut world = started(1, 1);
    let key = GroupKey::Shard(0);
    let listing = world.records.clone();
    let sent_at = world.now;
    world.nodes[0].is_deaf = true;
    world.now = world.now + STEP;
    // The worker returns by itself, and the response to the release overtakes the listing.
    world.nodes[0].owned.clear();
    let now = world.now;
    world.nodes[0].group.returned(now, 0);
    assert!(world.drive(0));
    assert_eq!(world.records[&key].record.holder(), None);
    let group = &mut world.nodes[0].group;
    group.watch_opened(now, sent_at);
    for (key, seen) in listing {
        group.watched(now, key, seen.version, Some(seen));
    }
    group.listed(now);
    world.drive(0);
    assert!(world.nodes[0].owned.is_empty() && world.nodes[0].group.owner(0).is_none());
}

#[test]
fn ownership_that_expired_before_the_return_is_lost() {
    let mut world = started(1, 1);
    // The process was paused.
    world.now = world.now + LEASE;
    let now = world.now;
    let group = &mut world.nodes[0].group;
    group.returned(now, 0);
    let effects: Vec<_> = std::iter::from_fn(|| group.effect()).collect();
    let ends = effects.iter().filter_map(|effect| match effect {
        GroupEffect::Ended(shard, reason) => Some((*shard, *reason)),
        _ => None,
    });
    assert_eq!(ends.collect::<Vec<_>>(), [(0, OwnershipEnd::TermEnded)], "{effects:?}");
}

#[test]
fn ownership_waits_for_a_read_after_an_old_listing() {
    let mut world = started(1, 1);
    let (key, wall) = (GroupKey::Shard(0), world.wall());
    world.edit(key, |record| record.holder_identity = Some(String::new()));
    world.drive(0);
    world.nodes[0].is_deaf = true;
    let Step::Send(GroupRequest { id, operation: GroupOperation::Update(base, record), .. }) =
        world.nodes[0].group.next(wall)
    else {
        panic!("the member takes the shard")
    };
    let (listing, sent_at) = (world.records.clone(), world.now);
    world.now = world.now + STEP;
    let (now, wall, response) = (world.now, world.wall(), world.written(key, base.version, &record));
    let group = &mut world.nodes[0].group;
    group.on_response(now, id, response);
    group.watch_opened(now, sent_at);
    listing.into_iter().for_each(|(key, seen)| group.watched(now, key, seen.version, Some(seen)));
    group.listed(now);
    // The listing may be old, or the store was restored. A read decides.
    let step = group.next(wall);
    assert!(matches!(step, Step::Send(GroupRequest { operation: GroupOperation::Get(()), .. })), "{step:?}");
    assert!(std::iter::from_fn(|| group.effect()).all(|effect| !matches!(effect, GroupEffect::Started(..))));
}

#[test]
fn another_record_with_a_known_version_is_learned() {
    let mut world = started(2, 1);
    let key = GroupKey::Shard(0);
    let mut seen = world.records[&key].clone();
    seen.record.holder_identity = Some(String::new());
    world.records.insert(key, seen);
    (0..2).for_each(|node| world.open(node));
    assert!(world.nodes.iter().all(|node| node.group.owner(0).is_none()));
}

#[test]
fn record_of_a_restored_store_starts_no_ownership_at_once() {
    let mut world = started(1, 2);
    let backup = world.records.clone();
    world.add(2);
    world.run(LEASE);
    world.assert_shared(&[0, 1]);
    world.nodes[1].is_deaf = true;
    world.records = backup;
    world.open(0);
    world.run(LEASE * 2);
}

#[test]
fn stamp_is_the_time_and_differs_from_the_record() {
    let mut world = started(1, 1);
    let base = world.records[&GroupKey::Shard(0)].clone();
    let group = &mut world.nodes[0].group;
    group.last_stamp -= 1;
    let at = |seconds| Now { local: world.now, wall: SystemTime::UNIX_EPOCH + Duration::from_secs(seconds) };
    assert_ne!(Some(group.stamp(at(0), &base)), base.record.renew_time);
    assert_eq!(group.stamp(at(1 << 30), &base), MicroTime::from(at(1 << 30).wall));
}

#[test]
fn response_of_an_earlier_watch_is_ignored() {
    let mut world = started(1, 1);
    world.nodes[0].owned.clear();
    let now = world.now + STEP;
    world.nodes[0].group.returned(now, 0);
    let wall = world.wall();
    let Step::Send(GroupRequest { id, .. }) = world.nodes[0].group.next(wall) else { panic!("no release") };
    let seen = world.records[&GroupKey::Shard(0)].clone();
    world.nodes[0].is_deaf = true;
    world.delete(GroupKey::Shard(0));
    world.open(0);
    world.nodes[0].group.on_response(now, id, Ok(Some(seen)));
    assert_eq!(world.nodes[0].group.owner(0), None);
}

#[test]
fn restored_shard_is_not_taken_for_a_lease_duration() {
    let mut world = started(1, 1);
    let shard = GroupKey::Shard(0);
    let backup = world.records[&shard].clone();
    world.run(RETRY);
    world.edit(shard, |record| record.holder_identity = Some(String::new()));
    world.run(RETRY);
    world.records.insert(shard, VersionedRecord { version: backup.version - 1, ..backup });
    world.records.get_mut(&shard).unwrap().record.holder_identity = Some(String::new());
    world.now = world.now + STEP;
    world.open(0);
    world.run(LEASE - RETRY);
    assert_eq!(world.records[&shard].record.holder(), None, "another member may still work");
    assert!(world.owners(0).is_empty());
    world.run(RETRY * 3);
    world.assert_shared(&[0]);
}

#[test]
fn surplus_moves_an_eighth_at_a_time() {
    let mut world = started(1, 32);
    world.nodes[0].stubborn.extend(0..32);
    world.add(32);
    world.run(RETRY);
    assert_eq!(world.nodes[0].wanted, 4);
}

#[test]
fn changed_shard_is_not_taken_before_its_worker_returns() {
    let mut world = started(1, 1);
    world.nodes[0].stubborn.insert(0);
    world.edit(GroupKey::Shard(0), |record| record.holder_identity = Some(String::new()));
    world.run(RETRY);
    assert!(world.nodes[0].owned.is_empty());
}

#[test]
fn shard_is_not_taken_before_the_listing_ends() {
    let mut world = started(1, 1);
    let now = world.now;
    world.nodes[0].group.watch_opened(now, now);
    world.edit(GroupKey::Shard(0), |record| record.holder_identity = Some(String::new()));
    while world.drive(0) {}
    assert!(world.owners(0).is_empty());
}

#[test]
fn recreated_slot_ends_a_term_one_lease_duration_later() {
    for is_deletion_seen in [true, false] {
        let mut world = started(2, 2);
        let key = GroupKey::Slot(world.nodes[0].slot.unwrap());
        let shard = *world.nodes[0].owned.keys().next().unwrap();
        world.nodes[0].is_dead = true;
        // The last renewal of the deleted term does not count.
        world.run(RETRY * 4);
        world.nodes[1].is_deaf = !is_deletion_seen;
        world.delete(key);
        let acquire_time = Some(MicroTime::from_unix_micros(7));
        // The duration of the new term does not count for the deleted term.
        let lease_duration_seconds = Some(if is_deletion_seen { 1 } else { 60 });
        let holder_identity = Some("node-9".into());
        let record =
            LeaderElectionRecord { holder_identity, acquire_time, lease_duration_seconds, ..Default::default() };
        world.store(key, 0, &record);
        if !is_deletion_seen {
            world.nodes[1].is_deaf = false;
            world.open(1);
        }
        world.run(LEASE - RETRY);
        assert!(world.owners(shard).is_empty(), "{is_deletion_seen}");
    }
}

#[test]
fn late_event_changes_nothing() {
    let mut world = started(2, 2);
    let key = GroupKey::Shard(0);
    let late = world.records[&key].clone();
    world.edit(key, |record| record.lease_transitions = Some(7));
    world.run(STEP);
    let now = world.now;
    let group = &mut world.nodes[0].group;
    group.watched(now, key, late.version, Some(late));
    assert!(group.effect().is_none() && group.is_listed());
    world.run(STEP);
    world.assert_shared(&[0, 1]);
}

#[test]
fn slot_deleted_unseen_keeps_its_shards_for_a_lease_duration() {
    let mut world = started(1, 1);
    world.add(1);
    world.nodes[1].is_deaf = true;
    world.run(RETRY);
    // The first member gets a new slot that the second member never sees.
    let slot = GroupKey::Slot(5);
    let name = TermName { slot: 5, acquire_time: "t".into(), uid: "unseen".into() };
    let now = world.now;
    let mut shard = world.records[&GroupKey::Shard(0)].clone();
    shard.record.holder_identity = Some(name.to_holder("unseen"));
    shard.record.acquire_time = Some(MicroTime::from_text("t"));
    shard.version += 100;
    let group = &mut world.nodes[1].group;
    group.watched(now, GroupKey::Shard(0), shard.version, Some(shard));
    let row = &group.shards[0];
    assert_eq!(group.slots[5].over_at(&name, row.row.since, LEASE), Some(now + LEASE));
    assert!(!world.records.contains_key(&slot));
    assert_eq!(group.free_from(0), Some(now + LEASE));
}

#[test]
fn member_takes_nothing_at_once_after_a_restore_of_its_slot() {
    // The elector reports a restore to a time before the slot existed as a deletion.
    for reason in [StopReason::StoreRestored, StopReason::Deleted] {
        let mut world = started(1, 1);
        world.end_term(0, reason.clone());
        world.run(LEASE / 2);
        assert!(world.nodes[0].group.own_slot().is_some() && world.nodes[0].owned.is_empty(), "{reason:?}");
        world.run(LEASE);
        world.assert_shared(&[0]);
    }
}

#[test]
fn listing_with_an_older_own_slot_is_a_restore() {
    for is_absent in [false, true] {
        let mut world = started(1, 1);
        let mut backup = world.records.clone();
        if is_absent {
            backup.remove(&GroupKey::Slot(world.nodes[0].slot.unwrap()));
        }
        // Only the elector knows the newest version of the slot.
        world.nodes[0].is_deaf = true;
        world.run(RETRY * 2);
        assert!(world.nodes[0].group.view.settled_at < world.now);
        world.records = backup;
        world.open(0);
        assert!(world.nodes[0].group.view.settled_at > world.now, "{is_absent}");
    }
}

/// Renewals on the restored store use versions that the watch has already reported.
#[test]
fn renewals_after_a_restore_prove_no_silent_watch() {
    // After one lost renewal, the next renewal gets the same version.
    for (has_ended, lost) in [(false, 1), (false, 4), (true, 4)] {
        let mut world = started(1, 1);
        let (backup, version) = (world.records.clone(), world.version);
        world.run(RETRY * lost);
        world.assert_shared(&[0]);
        (world.records, world.version, world.nodes[0].is_deaf) = (backup, version, true);
        if has_ended {
            world.nodes[0].group.watch_ended();
        }
        let valid_until = world.nodes[0].group.valid_until();
        world.run(RETRY * 3);
        assert_eq!(world.nodes[0].group.valid_until(), valid_until, "{has_ended}");
        assert!(!world.nodes[0].group.view.is_open, "{has_ended}");
    }
}

#[test]
fn shards_that_all_workers_drop_are_owned_again_soon() {
    let mut world = started(2, 8);
    for node in &mut world.nodes {
        for (shard, _) in std::mem::take(&mut node.owned) {
            node.group.returned(world.now, shard);
        }
    }
    world.run(RETRY * 3);
    assert!((0..8).all(|shard| world.owners(shard).len() == 1));
}

#[test]
fn hung_worker_does_not_stop_the_other_moves() {
    let mut world = started(1, 8);
    world.nodes[0].stubborn.extend(0..8);
    world.add(8);
    world.run(DRAIN + LEASE + RETRY);
    assert_eq!(world.nodes[1].owned.len(), 1);
    world.nodes[0].stubborn.clear();
    world.run(DRAIN + RETRY);
    world.assert_shared(&[0, 1]);
}

#[test]
fn late_listing_does_not_revive_ownership() {
    let mut world = started(1, 1);
    world.now = world.nodes[0].group.valid_until();
    world.open(0);
    while world.drive(0) {}
    assert!(matches!(world.nodes[0].ended[..], [(0, OwnershipEnd::WatchLost)]));
}

#[test]
fn process_that_joins_again_campaigns_again() {
    let mut world = World::new(1, 1);
    let (now, wall) = (world.now, world.wall());
    let group = &mut world.nodes[0].group;
    for _ in 0..2 {
        let _ = group.next(wall);
        assert!(std::iter::from_fn(|| group.effect()).any(|effect| matches!(effect, GroupEffect::Campaign(_))));
        group.leave(now);
        group.join();
    }
}

#[test]
fn process_campaigns_for_another_slot_after_an_unreadable_slot() {
    let mut world = World::new(1, 1);
    let (now, wall) = (world.now, world.wall());
    let group = &mut world.nodes[0].group;
    let slots: Vec<_> = (0..2)
        .map(|_| {
            let _ = group.next(wall);
            let Some(GroupEffect::Campaign(slot)) = group.effect() else { panic!("no campaign") };
            group.not_joined(now, slot..slot + 1, LEASE * 4);
            slot
        })
        .collect();
    assert_ne!(slots[0], slots[1]);
}

#[test]
fn unreadable_slot_keeps_its_shards_and_is_reported() {
    let mut world = started(2, 2);
    let (slot, shard) = (world.nodes[1].slot.unwrap(), *world.nodes[1].owned.keys().next().unwrap());
    world.damaged = Some(GroupKey::Slot(slot));
    world.nodes[1].is_dead = true;
    world.run(LEASE * 3);
    assert_eq!(world.nodes[0].damaged, [GroupKey::Slot(slot)]);
    assert_eq!(world.nodes[0].group.fault(shard), Some("unreadable"));
    world.damaged = None;
    world.run(LEASE * 2);
    world.assert_shared(&[0]);
    assert_eq!(world.nodes[0].group.fault(shard), None);
}

#[test]
fn dropped_shard_starts_again_after_a_growing_pause() {
    let mut world = started(1, 1);
    for (pause, is_asked) in [(RETRY, false), (RETRY * 2, false), (RETRY, true)] {
        if is_asked {
            // A worker that returns on request has worked, so the pauses start over.
            let now = world.now;
            world.nodes[0].group.want(now, 0);
            world.run(STEP * 3);
            world.assert_shared(&[0]);
        }
        let now = world.now;
        world.nodes[0].owned.clear();
        world.nodes[0].group.returned(now, 0);
        world.run(pause - STEP);
        assert!(world.nodes[0].owned.is_empty(), "{pause:?}");
        world.run(STEP * 3);
        world.assert_shared(&[0]);
    }
}

/// The answer to a take arrives after the watch was lost.
#[test]
fn late_answer_to_a_take_starts_no_ownership() {
    let mut world = started(1, 1);
    let key = GroupKey::Shard(0);
    world.edit(key, |record| record.holder_identity = Some(String::new()));
    world.drive(0);
    world.nodes[0].is_deaf = true;
    let (wall, valid_until) = (world.wall(), world.nodes[0].group.valid_until());
    let step = world.nodes[0].group.next(wall);
    let Step::Send(GroupRequest { id, operation: GroupOperation::Update(base, record), .. }) = step else {
        panic!("no take: {step:?}")
    };
    let response = world.written(key, base.version, &record);
    world.now = valid_until;
    let now = world.now;
    world.nodes[0].group.on_response(now, id, response);
    while world.drive(0) {}
    assert!(matches!(world.nodes[0].ended[..], [(0, OwnershipEnd::RecordChanged)]), "an ownership began and ended");
}

#[test]
fn end_of_a_slot_ends_the_reported_owner() {
    let mut world = started(1, 1);
    world.add(1);
    let now = world.now;
    world.nodes[1].group.leave(now);
    world.run(STEP);
    assert_eq!(world.nodes[1].owners[&0].as_deref(), Some("node-0"));
    world.nodes[0].group.leave(now);
    world.run(STEP * 3);
    assert_eq!(world.nodes[1].owners[&0], None);
}

#[test]
fn expired_member_is_no_owner_for_an_observer() {
    for has_watch in [true, false] {
        let mut world = started(1, 1);
        world.add(1);
        let now = world.now;
        world.nodes[1].group.leave(now);
        world.nodes[0].is_dead = true;
        if !has_watch {
            world.nodes[1].is_deaf = true;
            world.nodes[1].group.watch_ended();
        }
        world.run(LEASE + RETRY);
        let (node, slot) = (&world.nodes[1], world.nodes[0].slot.unwrap());
        assert_eq!((&node.owners[&0], node.group.member(slot)), (&None, None), "{has_watch}");
    }
}

#[test]
fn slot_that_is_renewed_after_its_expiry_owns_again() {
    let mut world = started(2, 4);
    let (slot, shard) = (GroupKey::Slot(world.nodes[0].slot.unwrap()), *world.nodes[0].owned.keys().next().unwrap());
    world.nodes[0].is_dead = true;
    world.nodes[1].failure = Some(|| StoreError::new(StoreErrorKind::Timeout, "made up"));
    world.run(LEASE + RETRY);
    assert_eq!(world.nodes[1].owners[&shard], None);
    world.edit(slot, |record| record.renew_time = Some(MicroTime::from_unix_micros(7)));
    world.run(STEP);
    assert_eq!(world.nodes[1].owners[&shard].as_deref(), Some("node-0"));
}

#[test]
fn late_renewal_of_an_ended_term_delays_no_owner() {
    let mut world = started(1, 1);
    let (slot, now) = (GroupKey::Slot(world.nodes[0].slot.unwrap()), world.now);
    world.nodes[0].group.leave(now);
    world.run(STEP * 3);
    world.edit(slot, |record| record.holder_identity = Some("node-0".to_owned()));
    world.nodes[0].group.join();
    world.run(RETRY);
    world.assert_shared(&[0]);
}

#[test]
fn conflict_after_a_newer_event_delays_no_write() {
    let mut world = started(1, 1);
    let (key, now, wall) = (GroupKey::Shard(0), world.now, world.wall());
    world.nodes[0].owned.clear();
    world.nodes[0].group.returned(now, 0);
    let Step::Send(GroupRequest { id, .. }) = world.nodes[0].group.next(wall) else { panic!("no release") };
    world.edit(key, |record| record.lease_transitions = Some(7));
    let conflict = Err(StoreError::new(StoreErrorKind::Conflict, "conflict"));
    let group = &mut world.nodes[0].group;
    group.on_response(now, id, conflict);
    let step = group.next(wall);
    let Step::Send(GroupRequest { operation: GroupOperation::Update(base, _), .. }) = step else {
        panic!("no write: {step:?}")
    };
    assert_eq!(base.version, world.records[&key].version);
}

#[test]
fn conflict_does_not_confirm_the_end_of_a_term() {
    let mut world = started(2, 2);
    let slot = world.nodes[0].slot.unwrap();
    world.nodes[0].is_dead = true;
    world.run(LEASE - RETRY);
    let request = loop {
        world.now = world.now + STEP;
        let wall = world.wall();
        let group = &mut world.nodes[1].group;
        match group.next(wall) {
            Step::Send(request) => break request,
            _ => while group.effect().is_some() {},
        }
    };
    assert_eq!(request.key, GroupKey::Slot(slot), "the expired slot is retired");
    let read = world.nodes[1].group.slots[slot].read;
    // The watch reports an older change than the one that caused the conflict.
    world.edit(GroupKey::Slot(slot), |record| record.lease_transitions = Some(7));
    let (now, conflict) = (world.now, StoreError::new(StoreErrorKind::Conflict, "conflict"));
    world.nodes[1].group.on_response(now, request.id, Err(conflict));
    assert_eq!(world.nodes[1].group.slots[slot].read, read);
}
