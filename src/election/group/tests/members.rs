//! Members that must pause, whose workers hang, or that leave.

use super::*;
use crate::store::record::StoreData;

/// The longest pause, with all of its jitter.
const PAUSE: Duration = Duration::from_secs(18);

const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn requested_pause_of_an_hour_ends_after_a_lease_duration() {
    let mut world = started(1, 4);
    world.add(4);
    world.nodes[1].retry_after = Some(HOUR);
    let mut owned_after = 0;
    while world.nodes[1].owned.is_empty() {
        world.run(STEP);
        owned_after += 1;
        assert!(STEP * owned_after <= PAUSE + LEASE, "the member takes no shard");
    }
    assert!(world.nodes[1].retry_after.is_none() && STEP * owned_after >= LEASE, "{owned_after}");
}

impl World {
    /// Sends a read of a member that is not answered.
    fn sends_a_read(&mut self, node: usize) {
        let (id, key, is_read, watch, version, sent_at) = (7, GroupKey::Shard(3), true, 1, 0, self.now);
        self.nodes[node].group.in_flight = Some(GroupInFlight { id, key, is_read, watch, version, sent_at });
    }

    /// Answers a read of a member with a pause that the store asks for.
    fn asks_for_pause(&mut self, node: usize, pause: Duration) {
        self.sends_a_read(node);
        self.nodes[node].group.on_response(self.now, 7, Err(failed(StoreErrorKind::Unavailable, pause)));
    }
}

/// Returns a failed response.
fn failed(kind: StoreErrorKind, retry_after: Duration) -> StoreError {
    StoreError::new(kind, "made up").with_retry_after(Some(retry_after).filter(|pause| !pause.is_zero()))
}

#[test]
fn pauses_of_members_differ() {
    let mut world = started(3, 9);
    let mut pauses = [0, 1, 2].map(|node| {
        world.asks_for_pause(node, LEASE);
        world.nodes[node].group.paused_until.since(world.now)
    });
    assert!(pauses.iter().all(|pause| (LEASE..=PAUSE).contains(pause)), "{pauses:?}");
    pauses.sort_unstable();
    assert!(pauses.windows(2).all(|pair| pair[0] < pair[1]), "{pauses:?}");
}

#[test]
fn member_with_a_shard_to_release_pauses_for_half_of_its_term() {
    // The pause begins with the release, or earlier.
    for begins_earlier in [false, true] {
        let mut world = started(1, 4);
        world.add(4);
        if begins_earlier {
            world.asks_for_pause(0, HOUR);
        } else {
            world.nodes[0].retry_after = Some(HOUR);
        }
        let released = |world: &World| (0..4).any(|shard| world.owners(shard) == [1]);
        world.run(RETRY);
        assert!(!released(&world), "a request within the pause");
        // The term is valid for two thirds of a lease duration after each renewal.
        world.run(LEASE / 3);
        assert!(released(&world), "{begins_earlier}");
    }
}

#[test]
fn shortened_pause_has_a_minimum_and_an_end() {
    let millis = Duration::from_millis;
    for (left_then, pause) in [(millis(1), RETRY / 8), (millis(3_000), millis(1_500))] {
        let mut world = started(1, 4);
        world.add(4);
        world.asks_for_pause(0, HOUR);
        world.run(RETRY);
        let left = world.nodes[0].deadline.as_ref().unwrap().remaining(world.now);
        world.now = world.now + (left - left_then);
        world.asks_for_pause(0, HOUR);
        let began_at = world.now;
        for _ in 0..2 {
            let now = world.wall();
            let group = &mut world.nodes[0].group;
            group.next(now);
            assert_eq!(group.paused_until.since(began_at), pause, "{left_then:?}");
            world.now = world.now + millis(1);
        }
    }
}

/// The shard can be emptied only a lease duration after the end of its ownership.
#[test]
fn hung_worker_shortens_no_requested_pause() {
    let mut world = started(1, 4);
    world.nodes[0].stubborn.extend(0..4);
    world.add(4);
    world.run_until(|world| !world.nodes[0].ended.is_empty());
    world.asks_for_pause(0, HOUR);
    let wall = world.wall();
    let group = &mut world.nodes[0].group;
    let paused_until = group.paused_until;
    group.next(wall);
    assert_eq!(group.paused_until, paused_until);
}

#[test]
fn process_campaigns_after_its_hung_workers_have_returned() {
    let mut world = started(2, 8);
    let hung: Vec<_> = world.nodes[0].owned.keys().copied().collect();
    world.nodes[0].stubborn.extend(&hung);
    world.end_term(0, StopReason::Expired);
    world.run(LEASE * 2);
    let wanted = world.nodes[1].wanted;
    world.run(LEASE * 10);
    assert_eq!((world.nodes[0].slot, world.nodes[1].wanted), (None, wanted), "a healthy shard moves");
    assert_eq!(world.nodes[0].blocked, hung);
    world.assert_shared(&[1]);
    for shard in hung {
        assert_eq!(world.nodes[0].slot, None, "a worker hangs");
        world.nodes[0].stubborn.remove(&shard);
        let now = world.now;
        world.nodes[0].group.returned(now, shard);
        world.run(RETRY);
    }
    world.run(RETRY);
    world.assert_shared(&[0, 1]);
}

#[test]
fn group_without_members_waits_for_no_hung_worker() {
    let mut world = started(1, 2);
    for _ in 0..2 {
        world.nodes[0].stubborn.insert(0);
        world.end_term(0, StopReason::Expired);
        world.run(LEASE * 2 - RETRY);
        assert_eq!(world.nodes[0].slot, None);
        world.run(RETRY * 2);
        assert_eq!((world.owners(0), world.owners(1)), (vec![], vec![0]));
        let now = world.now;
        world.nodes[0].stubborn.clear();
        world.nodes[0].group.returned(now, 0);
        world.run_until(|world| world.owners(0) == [0]);
    }
}

#[test]
fn shard_that_its_new_member_does_not_take_moves_last() {
    let mut world = started(2, 8);
    let hung: Vec<_> = world.nodes[0].owned.keys().copied().collect();
    world.nodes[0].stubborn.extend(&hung);
    world.nodes[0].is_deaf = true;
    world.run(LEASE * 2 / 3 + STEP);
    world.nodes[0].is_deaf = false;
    world.open(0);
    world.run(LEASE * 6);
    assert!(hung.iter().all(|shard| world.owners(*shard) == [1]));
    let wanted = world.nodes[1].wanted;
    world.run(LEASE * 10);
    assert_eq!(world.nodes[1].wanted, wanted, "a shard moves again and again");
    world.assert_shared(&[0, 1]);
}

#[test]
fn shards_of_a_leaving_member_go_to_members_that_stay() {
    let mut world = started(3, 9);
    let slow: Vec<_> = world.nodes[..2].iter().map(|node| *node.owned.keys().next().unwrap()).collect();
    world.nodes[0].stubborn.insert(slow[0]);
    // All workers of the second member are slow, so that this member frees no shard.
    let owned: Vec<_> = world.nodes[1].owned.keys().copied().collect();
    world.nodes[1].stubborn.extend(owned);
    let now = world.now;
    world.nodes[1].group.leave(now);
    world.run(STEP * 20);
    let now = world.now;
    world.nodes[0].group.leave(now);
    world.run(RETRY + STEP * 20);
    assert_eq!(world.nodes[2].owned.len(), 5, "the shards do not wait for a slow worker");
    world.run(DRAIN - RETRY * 2);
    assert_eq!((world.nodes[2].owned.len(), world.nodes[2].wanted), (5, 0), "no shard moves to a leaving member");
    world.run(LEASE + RETRY * 2);
    world.assert_shared(&[2]);
    assert!(world.nodes[2].idle.is_empty());
}

#[test]
fn member_that_leaves_alone_frees_its_shards() {
    let mut world = started(1, 4);
    let slow = *world.nodes[0].owned.keys().next().unwrap();
    world.nodes[0].stubborn.insert(slow);
    let now = world.now;
    world.nodes[0].group.leave(now);
    world.run(RETRY * 2);
    world.add(4);
    world.run(RETRY);
    assert_eq!(world.nodes[1].owned.len(), 3);
}

#[test]
fn newcomer_with_another_number_of_shards_ends() {
    let mut world = started(2, 4);
    world.add(6);
    world.run(RETRY * 2);
    assert_eq!((world.nodes[2].other_shards, world.nodes[2].slot), (Some(4), None));
    assert!(!world.records.contains_key(&GroupKey::Shard(5)), "the newcomer has written a shard");
    for node in &world.nodes[..2] {
        assert_eq!((node.other_shards, node.wanted), (None, 0), "a member that has passed notices nothing");
    }
    world.assert_shared(&[0, 1]);
}

#[test]
fn newcomer_with_another_limit_ends() {
    let mut world = started(2, 4);
    world.add(4);
    world.settings(2).max_shards = Some(1);
    world.run(RETRY * 2);
    assert_eq!((world.nodes[2].other_shards, world.nodes[2].slot), (Some(4), None));
    world.assert_shared(&[0, 1]);
}

/// Three of five members own a shard, and a spare takes the shard of a dead owner.
#[test]
fn each_member_owns_at_most_its_limit() {
    let mut world = World::new(5, 3);
    (0..5).for_each(|node| world.settings(node).max_shards = Some(1));
    world.run(LEASE + RETRY * 3);
    let owned = |world: &World| world.nodes.iter().map(|node| node.owned.len()).collect::<Vec<_>>();
    assert_eq!((owned(&world).iter().sum::<usize>(), owned(&world).iter().max()), (3, Some(&1)), "{:?}", owned(&world));
    let dead = owned(&world).iter().position(|owned| *owned == 1).expect("an owner");
    world.nodes[dead].is_dead = true;
    world.nodes[dead].owned.clear();
    let took = world.run_until(|world| world.nodes.iter().map(|node| node.owned.len()).sum::<usize>() == 3);
    assert!(took <= LEASE + RETRY, "{took:?}");
    assert_eq!(owned(&world).iter().max(), Some(&1));
    // With fewer members than shards, a shard has no owner.
    let mut few = World::new(2, 3);
    (0..2).for_each(|node| few.settings(node).max_shards = Some(1));
    few.run(LEASE * 3);
    assert_eq!(owned(&few), [1, 1]);
    assert!(few.nodes.iter().all(|node| node.idle.is_empty()), "no member is called idle");
}

#[test]
fn two_newcomers_with_different_numbers_do_not_both_stay() {
    let mut world = World::new(1, 4);
    world.add(6);
    world.run(LEASE + RETRY * 2);
    assert!(world.nodes.iter().any(|node| node.other_shards.is_some()));
    assert!(world.nodes.iter().filter(|node| node.slot.is_some()).count() <= 1);
}

#[test]
fn newcomer_takes_nothing_before_a_listing_after_its_win() {
    let mut world = World::new(0, 0);
    world.add(6);
    world.add(4);
    // The watch of the first process does not report the slot of the second process.
    world.nodes[0].is_deaf = true;
    world.run(RETRY);
    assert!(world.nodes.iter().all(|node| node.slot.is_some()));
    world.run(STEP * 2);
    assert!(!world.records.contains_key(&GroupKey::Shard(5)));
    world.nodes[0].is_deaf = false;
    world.open(0);
    world.run(RETRY * 2);
    assert!(world.nodes.iter().any(|node| node.other_shards.is_some()));
}

#[test]
fn number_of_a_crashed_member_ends_no_newcomer() {
    let mut world = started(1, 4);
    world.nodes[0].is_dead = true;
    world.add(6);
    world.run(LEASE - RETRY);
    assert!(world.nodes[1].owned.is_empty(), "the member may still run");
    world.run(RETRY * 2 + LEASE);
    assert_eq!((world.nodes[1].other_shards, world.nodes[1].owned.len()), (None, 6));
}

#[test]
fn shard_of_a_hung_worker_moves_a_lease_duration_later() {
    // The ownership ends at the drain timeout, or with a silent watch.
    for is_silent in [false, true] {
        let mut world = started(1 + usize::from(is_silent), 2);
        world.nodes[0].stubborn.extend([0, 1]);
        world.nodes[0].is_deaf = is_silent;
        if !is_silent {
            world.add(2);
        }
        world.run_until(|world| !world.nodes[0].ended.is_empty());
        assert_eq!(world.nodes[0].ended[0].1 == OwnershipEnd::DrainTimeout, !is_silent);
        if is_silent {
            world.nodes[0].is_deaf = false;
            world.open(0);
        }
        let key = GroupKey::Shard(world.nodes[0].ended[0].0);
        let holder = world.records[&key].record.holder_identity.clone();
        let waited = world.run_until(|world| world.records[&key].record.holder_identity != holder);
        assert!((LEASE..LEASE + RETRY).contains(&waited), "{is_silent}: {waited:?}");
    }
}

#[test]
fn leaving_does_not_extend_a_drain() {
    let mut world = started(1, 2);
    world.nodes[0].stubborn.extend([0, 1]);
    world.add(2);
    world.run_until(|world| world.nodes[0].wanted > 0);
    world.run(DRAIN / 2);
    let now = world.now;
    world.nodes[0].group.leave(now);
    let waited = world.run_until(|world| !world.nodes[0].ended.is_empty());
    assert!((DRAIN / 2 - STEP..=DRAIN / 2 + STEP).contains(&waited), "{waited:?}");
}

#[test]
fn slot_of_a_hung_worker_is_kept_for_a_lease_duration() {
    let ends: [fn(&mut World); 3] = [
        |world| world.nodes[0].group.leave(world.now),
        |world| world.nodes[0].group.close(world.now),
        |world| world.end_term(0, StopReason::Requested),
    ];
    for (case, end) in ends.into_iter().enumerate() {
        let mut world = started(2, 4);
        let slot = GroupKey::Slot(world.nodes[0].slot.unwrap());
        let shard = *world.nodes[0].owned.keys().next().unwrap();
        world.nodes[0].stubborn.insert(shard);
        end(&mut world);
        world.run_until(|world| world.nodes[0].ended.iter().any(|(ended, _)| *ended == shard));
        let began_at = world.now;
        while world.owners(shard) != [1] {
            assert!(world.now.since(began_at) < LEASE + RETRY, "{case}");
            // The elector also renews a term that drains.
            let renew_time = Some(MicroTime::from_unix_micros(world.version));
            if world.nodes[0].slot.is_some() {
                world.edit(slot, |record| record.renew_time = renew_time);
            }
            world.run(STEP * 10);
        }
        let waited = world.now.since(began_at);
        assert!(waited >= LEASE, "{case}: {waited:?}");
    }
}

#[test]
fn cut_off_member_is_retired_after_its_own_lease() {
    for own in [LEASE * 3, LEASE, LEASE * 4 / 5] {
        let mut world = World::new(2, 4);
        world.settings(0).lease_duration = own;
        world.run_until(|world| world.nodes.iter().all(|node| node.owned.len() == 2));
        let slot = GroupKey::Slot(world.nodes[0].slot.unwrap());
        let shard = *world.nodes[0].owned.keys().next().unwrap();
        world.nodes[0].is_dead = true;
        let renewed_at = world.nodes[0].renewed_at;
        while world.owners(shard) != [1] {
            assert!(world.now.since(renewed_at) < own + RETRY, "{own:?}");
            // A change of labels is not a renewal.
            world.edit(slot, |_| {});
            world.run(STEP * 10);
        }
        let waited = world.now.since(renewed_at);
        assert!(waited >= own, "{own:?}: {waited:?}");
    }
}

#[test]
fn slot_found_by_a_slow_read_expires_after_the_answer() {
    let mut slot = row::SlotRow::default();
    let record = LeaderElectionRecord {
        holder_identity: Some("node-0".into()),
        lease_duration_seconds: Some(6),
        ..Default::default()
    };
    let (asked_at, now) = (Moment::from_nanos(1), Moment::from_nanos(5_000_000_000));
    let found = VersionedRecord::new(record, 7, StoreData::none());
    slot.row.learn(now, 1, (7, Some(found)), Some(asked_at), None);
    assert_eq!(slot.expires_at(LEASE), Some(now + Duration::from_secs(6)));
}

/// Two processes of an update have one identity.
#[test]
fn member_retires_no_slot_of_a_process_with_its_identity() {
    let mut world = started(1, 2);
    world.add(2);
    world.nodes[1].name = world.nodes[0].name.clone();
    world.settings(1).identity = "node-0".to_owned();
    world.run(LEASE);
    world.assert_shared(&[0, 1]);
    assert!(world.nodes[0].ended.iter().all(|(_, reason)| *reason == OwnershipEnd::Returned));
}

#[test]
fn member_wakes_when_a_shorter_lease_expires() {
    let mut world = World::new(2, 4);
    world.settings(0).lease_duration = LEASE / 3;
    world.settings(1).lease_duration = LEASE * 4;
    world.run_until(|world| world.nodes.iter().all(|node| node.owned.len() == 2));
    world.nodes[0].is_dead = true;
    let (expires_at, wall) = (world.nodes[0].renewed_at + LEASE / 3, world.wall());
    while world.drive(1) {}
    let Step::Wait(until) = world.nodes[1].group.next(wall) else { panic!("a request") };
    assert!(until <= expires_at, "{:?} late", until.since(expires_at));
}

#[test]
fn idle_times_of_a_member_grow_to_a_limit() {
    let mut world = started(1, 1);
    let now = world.now;
    let group = &mut world.nodes[0].group;
    let times = [(); 4].map(|()| {
        group.set_idle(now, 3);
        group.slots[3].idle.unwrap().0.since(now)
    });
    assert_eq!(times, [LEASE, LEASE * 2, LEASE * 4, LEASE * 4]);
}

#[test]
fn failed_requests_keep_their_pauses() {
    let cases: [(fn() -> StoreError, _, _); 6] = [
        (|| failed(StoreErrorKind::Timeout, Duration::ZERO), 29..=31, RETRY),
        (|| failed(StoreErrorKind::Forbidden, Duration::ZERO), 29..=31, RETRY),
        (|| failed(StoreErrorKind::Unavailable, Duration::from_secs(10)), 5..=7, Duration::from_secs(12)),
        (|| failed(StoreErrorKind::Unavailable, HOUR), 4..=5, PAUSE),
        (|| failed(StoreErrorKind::Conflict, Duration::ZERO), 230..=242, RETRY / 8),
        (|| failed(StoreErrorKind::Malformed, Duration::ZERO), 4..=5, LEASE),
    ];
    for (failure, expected, pause) in cases {
        let mut world = started(2, 4);
        world.nodes[1].failure = Some(failure);
        let requests = world.nodes[1].requests;
        let now = world.now;
        // The other member must read the slot before it takes a shard.
        world.nodes[0].group.leave(now);
        world.run(LEASE * 4);
        let requests = world.nodes[1].requests - requests;
        assert!(expected.contains(&requests), "{}: {requests}", failure());
        world.nodes[1].failure = None;
        let waited = world.run_until(|world| (0..4).all(|shard| world.owners(shard) == [1]));
        assert!(waited <= pause + STEP * 10, "{}: {waited:?}", failure());
    }
}

#[test]
fn failed_campaigns_keep_a_retry_period() {
    for (mut world, expected) in [(World::new(1, 1), 30..=31), (started(1, 1), 29..=31)] {
        let node = &mut world.nodes[0];
        node.failure = Some(|| failed(StoreErrorKind::Timeout, Duration::ZERO));
        let (requests, campaigns) = (node.requests, node.campaigns);
        world.end_term(0, StopReason::Expired);
        world.run(LEASE * 4);
        let node = &world.nodes[0];
        let campaigns = node.campaigns - campaigns;
        assert!(expected.contains(&campaigns) && node.requests == requests, "{campaigns}, {}", node.requests);
    }
}

#[test]
fn process_without_a_slot_replaces_a_silent_watch() {
    let mut world = World::new(1, 1);
    world.nodes[0].failure = Some(|| failed(StoreErrorKind::Timeout, Duration::ZERO));
    world.nodes[0].is_deaf = true;
    world.run(LEASE - STEP);
    world.nodes[0].group.heard(world.now);
    world.run(LEASE - STEP);
    assert!(world.nodes[0].group.view.is_open, "the watch has reported contact");
    world.run(STEP * 3);
    assert!(!world.nodes[0].group.view.is_open);
}

#[test]
fn process_that_has_left_sends_nothing() {
    let mut world = started(2, 4);
    let now = world.now;
    world.nodes[0].group.leave(now);
    world.run(STEP * 5);
    let sent = |world: &World| (world.nodes[0].requests, world.nodes[0].campaigns);
    let before = sent(&world);
    // The slot of the other member expires, and nothing retires the slot.
    world.nodes[1].is_dead = true;
    world.run(LEASE * 2);
    assert_eq!(sent(&world), before);
}

#[test]
fn pause_delays_no_release_of_a_slot() {
    let blocks: [fn(&mut World); 2] = [|world| world.asks_for_pause(0, HOUR), |world| world.sends_a_read(0)];
    let ends: [fn(&mut Group, Moment); 2] = [Group::leave, Group::close];
    for (block, end) in blocks.iter().flat_map(|block| ends.map(|end| (block, end))) {
        let mut world = started(2, 4);
        let now = world.now;
        block(&mut world);
        end(&mut world.nodes[0].group, now);
        world.run(STEP * 5);
        world.assert_shared(&[1]);
    }
}
