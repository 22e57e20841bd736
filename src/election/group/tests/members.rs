//! Members that must pause, whose workers hang, or that leave.

use super::*;

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
    /// Answers a read of a member with a pause that the store asks for.
    fn asks_for_pause(&mut self, node: usize, pause: Duration) {
        let (id, key, is_read, watch, version, sent_at) = (7, GroupKey::Shard(3), true, 1, 0, self.now);
        let group = &mut self.nodes[node].group;
        group.in_flight = Some(GroupInFlight { id, key, is_read, watch, version, sent_at });
        let busy = StoreError::new(StoreErrorKind::Unavailable, "busy").with_retry_after(Some(pause));
        group.on_response(sent_at, id, Err(busy));
    }
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
fn shortened_pause_has_a_minimum_at_the_end_of_a_term() {
    let mut world = started(1, 4);
    world.add(4);
    world.asks_for_pause(0, HOUR);
    world.run(RETRY);
    let left = world.nodes[0].deadline.as_ref().unwrap().remaining(world.now);
    world.now = world.now + (left - Duration::from_millis(1));
    world.asks_for_pause(0, HOUR);
    let now = world.wall();
    let group = &mut world.nodes[0].group;
    group.next(now);
    assert_eq!(group.paused_until.since(now.local), RETRY / 8);
}

#[test]
fn process_campaigns_after_its_hung_workers_have_returned() {
    let mut world = started(2, 8);
    let hung: Vec<_> = world.nodes[0].owned.keys().copied().collect();
    world.nodes[0].stubborn.extend(&hung);
    world.nodes[0].deadline.as_ref().unwrap().end(world.now, StopReason::Expired);
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
    world.nodes[0].stubborn.insert(0);
    world.nodes[0].deadline.as_ref().unwrap().end(world.now, StopReason::Expired);
    world.run(LEASE * 2 - RETRY);
    assert_eq!(world.nodes[0].slot, None);
    world.run(RETRY * 2);
    assert_eq!((world.owners(0), world.owners(1)), (vec![], vec![0]));
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
