//! Tests of the rules 1 to 6.

use super::*;

#[test]
fn rule_1_nothing_there_is_created_and_created_is_elected() {
    let (mut scenario, write) = Scenario::creating();
    assert_eq!(write.base, None);
    assert_eq!(write.record.holder(), Some(ME));
    assert_eq!(write.record.lease_duration_seconds, Some(15));
    assert_eq!(write.record.lease_transitions, Some(0));
    assert_eq!(write.record.uid, None);
    scenario.applied(&write, 10);
    let events = scenario.events();
    let [Effect::NewLeader { leader, .. }, Effect::Offer { deadline, fencing_token: 10, .. }] = &events[..] else {
        panic!("{events:?}")
    };
    assert!(leader.identity == ME && deadline.is_valid(scenario.now));
}

#[test]
fn rule_1_already_exists_reads_again() {
    let (mut scenario, write) = Scenario::creating();
    scenario.fails(write.id, StoreErrorKind::AlreadyExists);
    scenario.not_elected();
    scenario.found(held_by(OTHER, 15), 10);
    assert!(scenario.wait() > Duration::ZERO);
}

#[test]
fn rule_2_other_holder_is_waited_out_by_its_published_duration() {
    let mut scenario = Scenario::campaigning_on(held_by(OTHER, 40), 10);
    let found_at = scenario.now;
    let write = scenario.next_write(&held_by(OTHER, 40), 10);
    assert_eq!(scenario.now.since(found_at), secs(40), "the holder's duration, not our own, and to the instant");
    assert_eq!(write.base, Some(10));
}

#[test]
fn rule_2_holder_without_duration_is_waited_out_by_our_own() {
    for seconds in [None, Some(0), Some(-5)] {
        let record = LeaderElectionRecord { lease_duration_seconds: seconds, ..held_by(OTHER, 1) };
        let mut scenario = Scenario::campaigning_on(record.clone(), 10);
        scenario.advance(millis(14_999));
        scenario.found(record, 10);
        assert_eq!(scenario.wait(), millis(1));
        scenario.advance(millis(1));
        scenario.write();
    }
}

#[test]
fn rule_2_every_change_of_the_record_starts_the_wait_again() {
    let mut scenario = Scenario::campaigning_on(held_by(OTHER, 15), 10);
    scenario.advance(secs(14));
    scenario.found(renewed(&held_by(OTHER, 15)), 11);
    scenario.advance(millis(14_999));
    scenario.found(renewed(&held_by(OTHER, 15)), 11);
    assert_eq!(scenario.wait(), millis(1));
}

#[test]
fn rule_2_take_over_is_one_update_and_a_conflict_reads_again() {
    let mut scenario = Scenario::campaigning_on(held_by(OTHER, 1), 10);
    scenario.advance(secs(1));
    let write = scenario.write();
    assert_eq!(write.base, Some(10));
    scenario.fails(write.id, StoreErrorKind::Conflict);
    scenario.not_elected();
    scenario.found(held_by("third", 15), 11);
    assert!(scenario.wait() > Duration::ZERO, "the new holder is waited for");
}

#[test]
fn rule_3_a_record_without_a_holder_is_taken_over_at_once() {
    for holder in [None, Some(String::new())] {
        let record = LeaderElectionRecord { holder_identity: holder, ..held_by(OTHER, 15) };
        let mut scenario = Scenario::campaigning_on(record, 10);
        let write = scenario.write();
        assert_eq!(write.base, Some(10));
        assert_eq!(write.record.lease_transitions, Some(5));
    }
}

#[test]
fn rule_4_leader_renews_on_its_last_version_without_reading() {
    let (mut scenario, deadline, _) = Scenario::leading();
    let mut version = 10;
    for _ in 0..20 {
        assert_eq!(scenario.wait(), secs(2));
        let write = scenario.due_write();
        assert_eq!(write.base, Some(version));
        version += 3;
        scenario.applied(&write, version);
        assert!(deadline.is_valid(scenario.now));
    }
    assert_eq!(scenario.lost(), None);
}

#[test]
fn rule_5_take_over_adds_a_transition_and_renewal_keeps_it() {
    let mut scenario = Scenario::campaigning_on(held_by(OTHER, 1), 10);
    scenario.advance(secs(1));
    let taken = scenario.write();
    assert_eq!(taken.record.lease_transitions, Some(5));
    assert_ne!(taken.record.acquire_time, held_by(OTHER, 1).acquire_time);
    scenario.applied(&taken, 11);
    let renewal = scenario.due_write();
    assert_eq!(renewal.record.lease_transitions, Some(5));
    assert_eq!(renewal.record.acquire_time, taken.record.acquire_time);
}

#[test]
fn rule_5_transitions_stop_at_the_limit_of_32_bits() {
    for (before, after) in [(i32::MAX, i32::MAX), (-5, 1)] {
        let record = LeaderElectionRecord { lease_transitions: Some(before), ..held_by("", 15) };
        let mut scenario = Scenario::campaigning_on(record, 10);
        assert_eq!(scenario.write().record.lease_transitions, Some(after));
    }
}

#[test]
fn rule_6_release_empties_the_holder_and_keeps_transitions() {
    let (mut scenario, _, record) = Scenario::leading();
    scenario.guard_dropped();
    assert_eq!(scenario.lost(), Some(StopReason::Released));
    let release = scenario.write();
    assert_eq!(release.base, Some(10));
    assert_eq!(release.record.holder(), None);
    assert_eq!(release.record.lease_duration_seconds, Some(1));
    assert_eq!(release.record.lease_transitions, record.lease_transitions);
    let [before, after] = [&record, &release.record].map(|it| it.renew_time.as_ref().unwrap().as_str());
    assert!(after > before, "it moves by a microsecond if no clock does");
    scenario.applied(&release, 11);
    assert!(scenario.released());
    scenario.wait_out();
    scenario.found(standing(&release), 11);
    assert!(!scenario.released(), "once");
}

#[test]
fn rule_6_nothing_is_released_that_is_not_ours() {
    let (mut scenario, ..) = Scenario::leading();
    scenario.due_write_fails(StoreErrorKind::Conflict);
    scenario.found(held_by(OTHER, 15), 11);
    scenario.events();
    scenario.guard_dropped();
    assert!(scenario.released());
    assert!(scenario.wait() > Duration::ZERO);
}

#[test]
fn rule_6_release_overtakes_a_hanging_renewal_and_is_repeated() {
    // The driver may report the drop of the guard before or after the failure of the interrupted renewal.
    for is_reported_first in [true, false] {
        let (mut scenario, ..) = Scenario::leading();
        let hanging = scenario.due_write();
        if is_reported_first {
            scenario.guard_dropped();
        }
        scenario.fails(hanging.id, StoreErrorKind::Interrupted);
        if !is_reported_first {
            scenario.guard_dropped();
        }
        scenario.events();
        let release = scenario.write_fails(StoreErrorKind::Conflict);
        assert_eq!((release.base, release.record.holder()), (Some(10), None), "from the newest version known");
        // The store applied the renewal before the interrupt.
        scenario.found(standing(&hanging), 11);
        assert!(!scenario.released());
        let again = scenario.write_succeeds(12);
        assert_eq!((again.base, again.record.holder()), (Some(11), None));
        assert!(scenario.released());
    }
}

#[test]
fn rule_6_unanswered_release_is_resolved_in_release_timeout() {
    let (mut scenario, ..) = Scenario::leading();
    scenario.guard_dropped();
    let began = scenario.now;
    let release = scenario.write();
    scenario.advance(release.timeout);
    scenario.fails(release.id, StoreErrorKind::Timeout);
    // The store applied the release, although the answer was lost.
    scenario.found(standing(&release), 11);
    assert!(scenario.released());
    assert!(scenario.now.since(began) < secs(2));
}

/// Runs the election with a store that does not answer.
///
/// Returns the time until the election finishes.
fn lingers_for(scenario: &mut Scenario) -> Duration {
    let began = scenario.now;
    while let Some(request) = scenario.request_before(began + secs(3_600)) {
        scenario.fails(request.id, StoreErrorKind::Timeout);
    }
    scenario.now.since(began)
}

/// Returns a closed election whose takeover has no answer, and the takeover.
///
/// The last observed record has no holder, so no release is due.
fn closed_over_a_take_over() -> (Scenario, Write) {
    let mut scenario = Scenario::campaigning_on(held_by("", 1), 10);
    let hanging = scenario.write_fails(StoreErrorKind::Timeout);
    scenario.handle(Input::Close);
    (scenario, hanging)
}

#[test]
fn rule_6_close_waits_for_in_doubt_writes_up_to_renew_deadline() {
    let (mut scenario, ..) = Scenario::leading();
    scenario.due_write_fails(StoreErrorKind::Timeout);
    scenario.handle(Input::Close);
    scenario.guard_dropped();
    assert_eq!(lingers_for(&mut scenario), secs(10));

    let (mut scenario, _) = closed_over_a_take_over();
    assert_eq!(lingers_for(&mut scenario), secs(10));
}

#[test]
fn rule_6_write_that_lands_after_close_is_released() {
    let (mut scenario, hanging) = closed_over_a_take_over();
    scenario.found(held_by("", 1), 10);
    scenario.wait_out();
    scenario.found(standing(&hanging), 11);
    let release = scenario.write();
    assert_eq!((release.base, release.record.holder()), (Some(11), None));
    scenario.applied(&release, 12);
    assert!(matches!(scenario.next(), Step::Finished));
}

#[test]
fn rule_6_close_ends_when_in_doubt_writes_are_resolved() {
    let ends: [fn(&mut Scenario); 3] = [
        |scenario| scenario.found(held_by(OTHER, 15), 11),
        |scenario| scenario.found(held_by(OTHER, 15), 4),
        |scenario| {
            scenario.hears_deletion(11);
        },
    ];
    for (case, end) in ends.into_iter().enumerate() {
        let (mut scenario, _) = closed_over_a_take_over();
        end(&mut scenario);
        assert!(matches!(scenario.next(), Step::Finished), "case {case}");
    }
}

#[test]
fn rule_6_close_without_in_doubt_writes_finishes_at_once() {
    let (mut scenario, ..) = Scenario::leading();
    scenario.handle(Input::Close);
    assert!(matches!(scenario.next(), Step::Wait(_)), "the guard keeps it");
    scenario.guard_dropped();
    scenario.write_succeeds(11);
    assert!(matches!(scenario.next(), Step::Finished));
}

#[test]
fn rule_6_read_interrupted_by_a_release_is_repeated_at_once() {
    let (mut scenario, _, record) = Scenario::leading();
    scenario.due_write_fails(StoreErrorKind::Conflict);
    let hanging = scenario.read();
    scenario.guard_dropped();
    scenario.fails(hanging.id, StoreErrorKind::Interrupted);
    scenario.found(record, 11);
    let release = scenario.write();
    assert_eq!((release.base, release.record.holder()), (Some(11), None));
}
