//! Tests of the rule 'Hold back'.

use super::*;

const DELAY: Duration = millis(300);

/// Returns a held-back candidate that has found `record` at version 10.
fn held_back_on(record: LeaderElectionRecord) -> Scenario {
    let mut scenario = Scenario::campaigning_with(|config| config.hold_back = DELAY);
    scenario.found(record, 10);
    scenario
}

/// Returns the time until the candidate writes.
fn write_after(mut scenario: Scenario, record: &LeaderElectionRecord) -> Duration {
    let since = scenario.now;
    scenario.next_write(record, 10);
    scenario.now.since(since)
}

#[test]
fn hold_back_delays_the_takeover_of_a_free_lease() {
    for holder in [None, Some(String::new())] {
        let free = LeaderElectionRecord { holder_identity: holder, ..held_by(OTHER, 15) };
        assert_eq!(write_after(held_back_on(free.clone()), &free), DELAY);
    }
}

#[test]
fn hold_back_starts_when_the_lease_expires() {
    let other = held_by(OTHER, 15);
    assert_eq!(write_after(held_back_on(other.clone()), &other), secs(15) + DELAY);
    // The record of an earlier process is the record of another candidate.
    let predecessor = held_by(ME, 15);
    assert_eq!(write_after(held_back_on(predecessor.clone()), &predecessor), secs(15) + DELAY);
}

#[test]
fn hold_back_starts_when_the_release_is_received() {
    let mut scenario = held_back_on(held_by(OTHER, 15));
    scenario.watch_opens(false);
    scenario.advance(secs(1));
    let received_at = scenario.now;
    scenario.advance(millis(100));
    scenario.hears_at(received_at, Change::Written(observed(held_by("", 1), 11)));
    assert_eq!(scenario.wait(), millis(200));
    // A changed label does not restart the delay.
    scenario.advance(millis(150));
    scenario.hears(held_by("", 1), 12);
    scenario.advance(millis(50));
    assert_eq!(scenario.write().base, Some(12));
}

#[test]
fn hold_back_leaves_the_lease_to_a_faster_candidate() {
    let mut scenario = held_back_on(held_by("", 1));
    scenario.watch_opens(false);
    scenario.advance(millis(299));
    let other = held_by(OTHER, 15);
    scenario.hears(other.clone(), 11);
    let since = scenario.now;
    scenario.next_write(&other, 11);
    assert_eq!(scenario.now.since(since), secs(15) + DELAY);
}

#[test]
fn hold_back_does_not_apply_to_one_round() {
    for (record, wait) in [(held_by("", 1), Duration::ZERO), (held_by(OTHER, 15), secs(15))] {
        let mut scenario = held_back_on(record.clone());
        scenario.withdraw();
        scenario.advance(wait);
        scenario.campaign(true);
        scenario.found(record, 10);
        assert_eq!(scenario.write().base, Some(10));
    }
}

#[test]
fn hold_back_does_not_apply_to_an_absent_lease() {
    let (_, create) = Scenario::creating_with(|config| config.hold_back = DELAY);
    assert_eq!(create.base, None);
}

#[test]
fn hold_back_does_not_apply_to_the_own_record() {
    let (mut scenario, _, _) = Scenario::leading_with(|config| config.hold_back = DELAY);
    scenario.campaigns_again();
    assert_eq!(scenario.write().base, Some(10));
}

#[test]
fn hold_back_does_not_apply_to_a_reclaimed_record() {
    let mut scenario = Scenario::campaigning_with(|config| {
        config.hold_back = DELAY;
        config.reclaim_own_identity = true;
    });
    scenario.found(held_by(ME, 15), 10);
    let write = scenario.write();
    assert_eq!((write.base, scenario.wins_by(&write, 11).1), (Some(10), 11));
}

#[test]
fn hold_back_applies_after_the_own_release() {
    let (mut scenario, _, _) = Scenario::leading_with(|config| config.hold_back = DELAY);
    scenario.guard_dropped();
    scenario.write_succeeds(11);
    scenario.campaign(false);
    assert_eq!(scenario.quiet_for(), DELAY);
}
