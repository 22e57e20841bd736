//! The safety rules 'Open writes' and 'Order'.

use super::*;

#[test]
fn open_writes_a_a_renewal_without_an_answer_is_adopted_with_its_own_time() {
    for outcome in [LockErrorKind::Timeout, LockErrorKind::Conflict, LockErrorKind::Unavailable] {
        let (mut scenario, deadline, _) = Scenario::leading();
        scenario.wait_out();
        let sent_at = scenario.now;
        let applied = scenario.write();
        scenario.advance(secs(1));
        scenario.fails(applied.id, outcome);
        if outcome != LockErrorKind::Conflict {
            scenario.wait_out();
            let second = scenario.write();
            assert_eq!(second.base, Some(10), "the same base: a renewal is retried, not read after");
            scenario.fails(second.id, LockErrorKind::Conflict);
        }
        scenario.found(standing(&applied), 11);
        assert_eq!(scenario.now + deadline.remaining(scenario.now), sent_at + secs(10), "{outcome:?}");
        assert_eq!(scenario.lost(), None);
    }
}

#[test]
fn open_writes_a_an_acquisition_without_an_answer_is_adopted() {
    let mut scenario = Scenario::new();
    scenario.election.campaign(false);
    scenario.found_nothing();
    let sent_at = scenario.now;
    let write = scenario.write();
    scenario.advance(write.timeout);
    scenario.fails(write.id, LockErrorKind::Timeout);
    scenario.found(standing(&write), 23);
    let (deadline, token) = scenario.elected();
    assert_eq!(token, 23, "the version at which we learned of it");
    assert_eq!(scenario.now + deadline.remaining(scenario.now), sent_at + secs(10));
}

#[test]
fn open_writes_b_an_edit_of_metadata_costs_no_term_and_extends_none() {
    let (mut scenario, deadline, record) = Scenario::leading();
    scenario.wait_out();
    let renewal = scenario.write();
    let before = scenario.now + deadline.remaining(scenario.now);
    scenario.fails(renewal.id, LockErrorKind::Conflict);
    scenario.found(record, 11);
    assert_eq!(scenario.now + deadline.remaining(scenario.now), before, "the old sending time stands");
    let retry = scenario.write();
    assert_eq!(retry.base, Some(11), "renewed at once, on the new version");
    scenario.applied(&retry, 12);
    assert_eq!(scenario.lost(), None);
}

#[test]
fn open_writes_b_an_edit_of_metadata_does_not_restart_a_standbys_wait() {
    let mut scenario = Scenario::campaigning_on(held_by(OTHER, 15), 10);
    scenario.advance(secs(14));
    scenario.found(held_by(OTHER, 15), 11);
    assert_eq!(scenario.wait(), secs(1));
    scenario.wait_out();
    assert_eq!(scenario.write().base, Some(11), "against the new version");
}

#[test]
fn open_writes_c_an_acquisition_learned_of_too_late_is_not_adopted_but_taken_over() {
    let mut scenario = Scenario::new();
    scenario.election.campaign(false);
    scenario.found_nothing();
    let late = scenario.write();
    scenario.advance(secs(10));
    scenario.fails(late.id, LockErrorKind::Timeout);
    scenario.found(standing(&late), 11);
    scenario.not_elected();
    let fresh = scenario.write();
    assert_eq!(fresh.base, Some(11), "at once, by a fresh compare-and-swap");
    assert_eq!(fresh.record.lease_transitions, Some(1), "a new term");
    assert_ne!(fresh.record.acquire_time, late.record.acquire_time);
    scenario.applied(&fresh, 12);
    assert_eq!(scenario.elected().1, 12, "with a new token");
}

#[test]
fn open_writes_c_a_withdrawn_acquisition_that_lands_is_released() {
    let mut scenario = Scenario::new();
    scenario.election.campaign(false);
    scenario.found_nothing();
    let write = scenario.write();
    scenario.fails(write.id, LockErrorKind::Timeout);
    scenario.election.withdraw();
    scenario.found(standing(&write), 11);
    scenario.not_elected();
    let release = scenario.write();
    assert_eq!((release.base, release.record.holder()), (Some(11), None));
}

#[test]
fn open_writes_c_a_withdrawn_acquisition_that_is_answered_is_released() {
    let mut scenario = Scenario::new();
    scenario.election.campaign(false);
    scenario.found_nothing();
    let write = scenario.write();
    scenario.election.withdraw();
    scenario.applied(&write, 11);
    scenario.not_elected();
    assert_eq!(scenario.write().record.holder(), None);
}

#[test]
fn open_writes_c_a_renewal_that_lands_after_the_loss_is_left_alone_while_the_guard_stands() {
    let (mut scenario, _, _) = Scenario::leading();
    scenario.wait_out();
    let renewal = scenario.write();
    scenario.advance(secs(8));
    scenario.fails(renewal.id, LockErrorKind::Timeout);
    scenario.found(standing(&renewal), 11);
    assert_eq!(scenario.lost(), Some(StopReason::Expired));
    assert!(scenario.wait() > Duration::ZERO);
    scenario.election.guard_gone(scenario.now);
    scenario.election.campaign(false);
    assert!(scenario.settled(), "before the next term begins");
    let fresh = scenario.write();
    assert_eq!((fresh.base, fresh.record.holder()), (Some(11), Some(ME)), "a new campaign takes it over");
}

#[test]
fn open_writes_d_our_identity_in_a_record_that_we_did_not_write_ends_the_term() {
    let (mut scenario, deadline, record) = Scenario::leading();
    scenario.wait_out();
    let renewal = scenario.write();
    scenario.fails(renewal.id, LockErrorKind::Conflict);
    let twins = LeaderElectionRecord { acquire_time: Some(MicroTime::from_unix_micros(5)), ..record };
    scenario.found(twins.clone(), 11);
    let events = scenario.events();
    assert!(events.iter().any(|event| matches!(event, Event::IdentityConflict)));
    assert!(events.iter().any(|event| matches!(event, Event::Lost(StopReason::IdentityConflict))));
    assert!(!deadline.is_valid(scenario.now));
    scenario.election.guard_gone(scenario.now);
    assert!(scenario.settled(), "not ours to release");
    scenario.election.campaign(false);
    scenario.advance(millis(14_999));
    scenario.found(twins, 11);
    assert_eq!(scenario.wait(), millis(1), "waited for like anybody else");
}

#[test]
fn open_writes_d_reclaiming_takes_a_record_with_our_identity_at_once() {
    let mut scenario = Scenario::with(|config| config.reclaim_own_identity = true);
    scenario.election.campaign(false);
    scenario.found(held_by(ME, 15), 10);
    let write = scenario.write();
    assert_eq!(write.base, Some(10));
    scenario.applied(&write, 11);
    assert_eq!(scenario.elected().1, 11);
}

#[test]
fn open_writes_e_anothers_record_or_a_deletion_ends_the_term_at_once() {
    for (found, reason) in [
        (Some(held_by(OTHER, 15)), StopReason::Superseded { by: Some(OTHER.into()) }),
        (Some(held_by("", 1)), StopReason::Superseded { by: None }),
        (None, StopReason::Deleted),
    ] {
        let (mut scenario, deadline, _) = Scenario::leading();
        scenario.wait_out();
        let renewal = scenario.write();
        scenario.fails(renewal.id, LockErrorKind::Conflict);
        match found {
            Some(record) => scenario.found(record, 11),
            None => scenario.found_nothing(),
        }
        assert_eq!(scenario.lost(), Some(reason));
        assert!(!deadline.is_valid(scenario.now));
    }
}

#[test]
fn open_writes_a_read_at_the_base_closes_nothing() {
    let mut scenario = Scenario::campaigning_on(held_by("", 1), 10);
    let write = scenario.write();
    scenario.fails(write.id, LockErrorKind::Timeout);
    scenario.found(held_by("", 1), 10);
    scenario.wait_out();
    let second = scenario.write();
    assert_eq!(second.record.acquire_time, write.record.acquire_time, "the same attempt");
    scenario.fails(second.id, LockErrorKind::Conflict);
    // The first had only been slow.
    scenario.found(standing(&write), 11);
    assert_eq!(scenario.elected().1, 11);
}

#[test]
fn open_writes_a_later_version_closes_them_and_answers_to_closed_writes_are_ignored() {
    let mut scenario = Scenario::campaigning_on(held_by("", 1), 10);
    let write = scenario.write();
    scenario.fails(write.id, LockErrorKind::Timeout);
    scenario.found(held_by(OTHER, 15), 12);
    scenario.written(&write, standing(&write), 11);
    scenario.written(&write, standing(&write), 13);
    scenario.not_elected();
    assert!(scenario.wait() > Duration::ZERO);
}

#[test]
fn open_writes_do_not_pile_up_without_bound() {
    let mut scenario = Scenario::campaigning_on(held_by("", 1), 10);
    for _ in 0..5_000 {
        match scenario.next() {
            Step::Send(Request { id, verb: Verb::Get(look), .. }) => {
                scenario.reads(Read { id, look }, held_by("", 1), 10);
            }
            Step::Send(Request { id, .. }) => scenario.fails(id, LockErrorKind::Unavailable),
            Step::Wait(until) => scenario.now = until,
            Step::Finished => panic!("not finished"),
        }
    }
    assert_eq!(scenario.election.open.len(), sending::MAX_OPEN_WRITES);
}

#[test]
fn order_what_is_not_above_the_newest_version_is_ignored() {
    let (mut scenario, deadline, _) = Scenario::leading();
    // Two reads were under way when version 10 became known: an older one and a deletion before it.
    let early = Look { newest: 0, absent: false, watched: false };
    scenario.election.answered(scenario.now, 900, Answer::Read(early, Some(observed(held_by(OTHER, 15), 9))));
    scenario.election.answered(scenario.now, 901, Answer::Read(early, None));
    assert_eq!(scenario.lost(), None);
    assert!(deadline.is_valid(scenario.now));
}

#[test]
fn order_only_a_read_sent_after_a_version_was_known_proves_a_restored_store() {
    let (mut scenario, deadline, _) = Scenario::leading();
    scenario.wait_out();
    let renewal = scenario.write();
    scenario.fails(renewal.id, LockErrorKind::Conflict);
    scenario.found(held_by(OTHER, 15), 4);
    assert_eq!(scenario.lost(), Some(StopReason::StoreRestored));
    assert!(!deadline.is_valid(scenario.now));
    scenario.election.guard_gone(scenario.now);
    scenario.election.campaign(false);
    scenario.advance(secs(15));
    assert_eq!(scenario.write().base, Some(4), "started over on what stands now");
}

#[test]
fn order_another_record_at_a_version_that_was_known_proves_a_restored_store() {
    let (mut scenario, deadline, _) = Scenario::leading();
    scenario.wait_out();
    let renewal = scenario.write();
    scenario.fails(renewal.id, LockErrorKind::Conflict);
    // The store went back behind version 10, and has come to it again.
    let another = LeaderElectionRecord { uid: Some("uid-2".into()), ..held_by(OTHER, 15) };
    scenario.found(another, 10);
    assert_eq!(scenario.lost(), Some(StopReason::StoreRestored));
    assert!(!deadline.is_valid(scenario.now));
    scenario.election.guard_gone(scenario.now);
    scenario.election.campaign(false);
    scenario.advance(secs(15));
    assert_eq!(scenario.write().record.uid.as_deref(), Some("uid-2"), "started over on what stands now");
}

#[test]
fn order_a_record_at_a_version_after_which_nothing_was_there_proves_a_restored_store() {
    let mut scenario = Scenario::campaigning_on(held_by(OTHER, 15), 10);
    scenario.wait_out();
    let early = scenario.read();
    scenario.election.answered(scenario.now, early.id, Answer::Read(early.look, None));
    // One that was sent before proves nothing.
    scenario.reads(early, held_by(OTHER, 15), 10);
    let create = scenario.write();
    assert_eq!(create.base, None);
    scenario.fails(create.id, LockErrorKind::AlreadyExists);
    scenario.found(held_by(OTHER, 15), 10);
    scenario.advance(secs(15));
    assert_eq!(scenario.write().base, Some(10), "not created for ever");
}
