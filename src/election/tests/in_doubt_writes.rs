//! The safety rule 'In-doubt writes'.

use super::*;

#[test]
fn in_doubt_a_unanswered_renewal_counts_from_its_own_time() {
    for outcome in [StoreErrorKind::Timeout, StoreErrorKind::Conflict, StoreErrorKind::Unavailable] {
        let (mut scenario, deadline, _) = Scenario::leading();
        scenario.wait_out();
        let sent_at = scenario.now;
        let applied = scenario.write();
        scenario.advance(secs(1));
        scenario.fails(applied.id, outcome);
        if outcome != StoreErrorKind::Conflict {
            let second = scenario.due_write();
            assert_eq!(second.base, Some(10), "the same base: a renewal is retried, not read after");
            scenario.fails(second.id, StoreErrorKind::Conflict);
        }
        scenario.found(standing(&applied), 11);
        assert_eq!(scenario.now + deadline.remaining(scenario.now), sent_at + secs(10), "{outcome:?}");
        assert_eq!(scenario.lost(), None);
    }
}

#[test]
fn in_doubt_a_unanswered_acquisition_is_adopted() {
    let (mut scenario, write) = Scenario::creating();
    let sent_at = scenario.now;
    scenario.advance(write.timeout);
    scenario.fails(write.id, StoreErrorKind::Timeout);
    scenario.found(standing(&write), 23);
    let (deadline, token) = scenario.elected();
    assert_eq!(token, 23, "the version at which we learned of it");
    assert_eq!(scenario.now + deadline.remaining(scenario.now), sent_at + secs(10));
}

#[test]
fn in_doubt_b_metadata_edit_costs_and_extends_no_term() {
    let (mut scenario, deadline, record) = Scenario::leading();
    let renewal = scenario.due_write();
    let before = scenario.now + deadline.remaining(scenario.now);
    scenario.fails(renewal.id, StoreErrorKind::Conflict);
    scenario.found(record, 11);
    assert_eq!(scenario.now + deadline.remaining(scenario.now), before, "the old sending time stands");
    let retry = scenario.write();
    assert_eq!(retry.base, Some(11), "renewed at once, on the new version");
    scenario.applied(&retry, 12);
    assert_eq!(scenario.lost(), None);
}

#[test]
fn in_doubt_b_metadata_edit_does_not_restart_a_standbys_wait() {
    let mut scenario = Scenario::campaigning_on(held_by(OTHER, 15), 10);
    scenario.advance(secs(14));
    scenario.found(held_by(OTHER, 15), 11);
    assert_eq!(scenario.wait(), secs(1));
    scenario.wait_out();
    assert_eq!(scenario.write().base, Some(11), "against the new version");
}

#[test]
fn in_doubt_c_late_acquisition_is_taken_over_not_adopted() {
    let (mut scenario, late) = Scenario::creating();
    scenario.advance(secs(10));
    scenario.fails(late.id, StoreErrorKind::Timeout);
    scenario.found(standing(&late), 11);
    scenario.not_elected();
    let fresh = scenario.write();
    assert_eq!(fresh.base, Some(11), "at once, by a fresh compare-and-swap");
    assert_eq!(fresh.record.lease_transitions, Some(1), "a new term");
    assert_ne!(fresh.record.acquire_time, late.record.acquire_time);
    assert_eq!(scenario.wins_by(&fresh, 12).1, 12, "with a new token");
}

#[test]
fn in_doubt_c_withdrawn_acquisition_that_lands_is_released() {
    for is_answered in [true, false] {
        let (mut scenario, write) = Scenario::creating();
        scenario.withdraw();
        scenario.lands_in_vain(&write, 11, is_answered);
    }
}

#[test]
fn in_doubt_c_renewal_that_lands_after_the_loss_is_left_alone() {
    let (mut scenario, _, _) = Scenario::leading();
    let renewal = scenario.due_write();
    scenario.advance(secs(8));
    scenario.fails(renewal.id, StoreErrorKind::Timeout);
    scenario.found(standing(&renewal), 11);
    assert_eq!(scenario.lost(), Some(StopReason::Expired));
    assert!(scenario.wait() > Duration::ZERO);
    scenario.campaigns_again();
    assert!(scenario.released(), "before the next term begins");
    let fresh = scenario.write();
    assert_eq!((fresh.base, fresh.record.holder()), (Some(11), Some(ME)), "a new campaign takes it over");
}

#[test]
fn in_doubt_d_foreign_record_with_own_identity_ends_the_term() {
    for uid in ["uid-1", "uid-2"] {
        let (mut scenario, deadline, record) = Scenario::leading();
        scenario.due_write_fails(StoreErrorKind::Conflict);
        let acquire_time = Some(MicroTime::from_unix_micros(5));
        let duplicate = LeaderElectionRecord { acquire_time, uid: Some(uid.into()), ..record };
        scenario.found(duplicate.clone(), 11);
        let events = scenario.events();
        assert!(events.iter().any(|event| matches!(event, Effect::IdentityConflict(_))));
        assert!(events.iter().any(|event| matches!(event, Effect::TermEnded(StopReason::IdentityConflict, _))));
        assert!(!deadline.is_valid(scenario.now));
        scenario.guard_dropped();
        assert!(scenario.released(), "not ours to release");
        scenario.campaign(false);
        scenario.advance(millis(14_999));
        scenario.found(duplicate, 11);
        assert_eq!(scenario.wait(), millis(1), "waits as for any candidate");
    }
}

#[test]
fn in_doubt_d_record_from_before_the_start_is_a_predecessors() {
    let mut scenario = Scenario::campaigning_on(held_by(ME, 15), 10);
    let effects = scenario.effects();
    assert!(effects.iter().any(is_predecessor));
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::IdentityConflict(_))), "no process is known to run");
    scenario.advance(secs(14));
    scenario.found(held_by(ME, 15), 10);
    assert_eq!(scenario.wait(), secs(1), "waits as for any candidate");
    assert!(scenario.events().is_empty(), "and reported once");
}

#[test]
fn in_doubt_d_predecessor_that_renews_is_another_process() {
    let mut scenario = Scenario::campaigning_on(held_by(ME, 15), 10);
    scenario.events();
    let mut record = held_by(ME, 15);
    let mut conflicts = 0;
    for version in 11..20 {
        scenario.wait_out();
        record = renewed(&record);
        scenario.found(record.clone(), version);
        conflicts += scenario.events().iter().filter(|event| matches!(event, Effect::IdentityConflict(_))).count();
    }
    assert_eq!(conflicts, 1, "reported once, not with each of its writes");
}

#[test]
fn in_doubt_d_two_reclaiming_processes_take_a_retry_period() {
    let mut scenario = Scenario::campaigning_with(|config| config.reclaim_own_identity = true);
    scenario.found(held_by(ME, 15), 10);
    let mut waits = std::collections::HashSet::new();
    let mut version = 10;
    let mut others = held_by(ME, 15);
    for term in 0..20 {
        let since = scenario.now;
        let write = scenario.next_write(&others, version);
        if term > 0 {
            let waited = scenario.now.since(since);
            assert!((secs(2)..=millis(2_400)).contains(&waited), "term {term}: {waited:?}");
            waits.insert(waited);
        }
        scenario.applied(&write, version + 1);
        scenario.elected();
        // The other process with this identity takes the lease back at once.
        scenario.advance(millis(1));
        version += 2;
        others.renew_time = Some(MicroTime::from_unix_micros(version));
        scenario.hears(others.clone(), version);
        assert_eq!(scenario.lost(), Some(StopReason::IdentityConflict));
        scenario.campaigns_again();
    }
    assert!(waits.len() > 15, "jittered, or the two would meet each time: {waits:?}");
}

#[test]
fn in_doubt_e_foreign_record_or_deletion_ends_the_term_at_once() {
    for (found, reason) in losses() {
        let (mut scenario, deadline, _) = Scenario::leading();
        scenario.due_write_fails(StoreErrorKind::Conflict);
        match found {
            Some(record) => scenario.found(record, 11),
            None => scenario.found_nothing(),
        }
        assert_eq!(scenario.lost(), Some(reason));
        assert!(!deadline.is_valid(scenario.now));
    }
}

#[test]
fn in_doubt_read_at_the_base_version_resolves_nothing() {
    let mut scenario = Scenario::campaigning_on(held_by("", 1), 10);
    let write = scenario.write_fails(StoreErrorKind::Timeout);
    scenario.found(held_by("", 1), 10);
    let second = scenario.next_write(&held_by("", 1), 10);
    assert_eq!(second.record.acquire_time, write.record.acquire_time, "the same attempt");
    scenario.fails(second.id, StoreErrorKind::Conflict);
    // The first write was slow, and the store applies the write now.
    scenario.found(standing(&write), 11);
    assert_eq!(scenario.elected().1, 11);
}

#[test]
fn in_doubt_later_version_resolves_and_late_answers_are_ignored() {
    let mut scenario = Scenario::campaigning_on(held_by("", 1), 10);
    let write = scenario.write_fails(StoreErrorKind::Timeout);
    scenario.found(held_by(OTHER, 15), 12);
    scenario.written(&write, standing(&write), 11);
    scenario.written(&write, standing(&write), 13);
    scenario.not_elected();
    assert!(scenario.wait() > Duration::ZERO);
}

#[test]
fn in_doubt_writes_are_bounded() {
    for is_forgotten in [false, true] {
        let mut scenario = Scenario::campaigning_on(held_by("", 1), 10);
        let mut writes = Vec::new();
        for _ in 0..500 {
            let write = scenario.next_write(&held_by("", 1), 10);
            scenario.fails(write.id, StoreErrorKind::Unavailable);
            writes.push(write);
        }
        let late = &writes[writes.len() - crate::election::claim::MAX_WRITES - usize::from(is_forgotten)];
        scenario.found(standing(late), 11);
        let conflict = scenario.events().iter().any(|event| matches!(event, Effect::IdentityConflict(_)));
        assert_eq!(conflict, is_forgotten);
    }
}

#[test]
fn in_doubt_writes_that_may_win_are_not_dropped_for_another() {
    let mut scenario = Scenario::campaigning_with(|config| {
        config.retry_period = Some(millis(10));
        config.renew_deadline = Some(secs(10));
        config.lease_duration = Some(secs(15));
    });
    scenario.found(held_by("", 1), 10);
    let oldest = scenario.now;
    for _ in 0..crate::election::claim::MAX_WRITES {
        let write = scenario.next_write(&held_by("", 1), 10);
        scenario.fails(write.id, StoreErrorKind::Unavailable);
    }
    scenario.next_write(&held_by("", 1), 10);
    assert_eq!(scenario.now.since(oldest), secs(10), "until the oldest one can no longer win");
}

#[test]
fn in_doubt_writes_of_an_attempt_outlast_absence_not_its_end() {
    // The first create may only be slow, so the second create belongs to the same attempt.
    let (mut scenario, first) = Scenario::creating();
    scenario.fails(first.id, StoreErrorKind::Timeout);
    scenario.found_nothing();
    scenario.advance(secs(3));
    let second = scenario.write();
    assert_eq!(second.record.acquire_time, first.record.acquire_time, "the same attempt");
    // A write of the attempt wins no term if the store applies the write to another object. A deletion ends the
    // attempt.
    let mut scenario = Scenario::campaigning_on(held_by("", 1), 10);
    let first = scenario.write_fails(StoreErrorKind::Timeout);
    let elsewhere = LeaderElectionRecord { uid: Some("uid-2".into()), ..first.record.clone() };
    scenario.found(elsewhere, 11);
    scenario.not_elected();
    let mut scenario = Scenario::campaigning_on(held_by("", 1), 10);
    let first = scenario.write_fails(StoreErrorKind::Conflict);
    scenario.hears_deletion(13);
    let create = scenario.write();
    assert_eq!(create.base, None, "at once, without another read");
    assert_ne!(create.record.acquire_time, first.record.acquire_time, "another attempt");
    // A late event from before the deletion is ignored, even if the event shows an unknown object.
    let unknown = LeaderElectionRecord { uid: Some("uid-1b".into()), ..held_by("third", 15) };
    scenario.hears(unknown, 12);
    scenario.written(&create, made_anew(&create), 14);
    assert_eq!(scenario.elected().1, 14);
}

/// Returns a standby that has found its lease deleted, and the create of the standby.
fn creating_after_a_deletion() -> (Scenario, Write) {
    let mut scenario = Scenario::campaigning_on(held_by(OTHER, 15), 10);
    scenario.wait_out();
    // The holder renewed at version 11, and the lease was deleted at version 12. The election saw neither change.
    scenario.found_nothing();
    let create = scenario.write();
    assert_eq!(create.base, None);
    scenario.events();
    (scenario, create)
}

fn made_anew(create: &Write) -> LeaderElectionRecord {
    LeaderElectionRecord { uid: Some("uid-2".into()), ..create.record.clone() }
}

#[test]
fn in_doubt_create_survives_an_event_from_before_the_absence() {
    let (mut scenario, create) = creating_after_a_deletion();
    // The watch opens on a lagging API server and delivers an old state.
    scenario.watches(renewed(&held_by(OTHER, 15)), 11);
    scenario.written(&create, made_anew(&create), 13);
    assert_eq!(scenario.elected().1, 13);
    scenario.hears_deletion(12);
    scenario.hears(made_anew(&create), 13);
    assert!(scenario.events().is_empty(), "nothing of that is news");
}

#[test]
fn in_doubt_create_survives_an_event_of_an_unknown_object() {
    for answered in [true, false] {
        let (mut scenario, create) = creating_after_a_deletion();
        scenario.watch_opens(true);
        // The event shows an object that another candidate created and that was deleted later.
        let unknown = LeaderElectionRecord { uid: Some("uid-1b".into()), ..held_by("third", 15) };
        scenario.hears(unknown, 13);
        match answered {
            true => scenario.written(&create, made_anew(&create), 15),
            false => {
                scenario.hears_deletion(14);
                scenario.hears(made_anew(&create), 15);
                scenario.fails(create.id, StoreErrorKind::Timeout);
            }
        }
        assert!(!scenario.events().iter().any(|event| matches!(event, Effect::IdentityConflict(_))));
        let fresh = scenario.write();
        assert_eq!(fresh.base, Some(15), "ours, of an attempt that is over: taken over at once");
        scenario.written(&fresh, fresh.record.clone(), 16);
        scenario.elected();
    }
}

#[test]
fn in_doubt_copy_of_a_create_after_a_deletion_is_a_loss() {
    let (mut scenario, create) = creating_after_a_deletion();
    scenario.watches(made_anew(&create), 13);
    let (deadline, _) = scenario.elected();
    scenario.fails(create.id, StoreErrorKind::Timeout);
    // The lease is deleted, and the store then applies a delayed copy of the create.
    let again = LeaderElectionRecord { uid: Some("uid-3".into()), ..create.record.clone() };
    scenario.due_write_fails(StoreErrorKind::Conflict);
    scenario.wait_out();
    scenario.found(again, 15);
    assert_eq!(scenario.lost(), Some(StopReason::Deleted));
    assert!(!deadline.is_valid(scenario.now));
}

#[test]
fn in_doubt_create_overtaken_by_a_read_is_ours_if_it_lands() {
    for outcome in [StoreErrorKind::AlreadyExists, StoreErrorKind::Timeout] {
        let (mut scenario, create) = creating_after_a_deletion();
        scenario.fails(create.id, outcome);
        scenario.found(LeaderElectionRecord { uid: Some("uid-3".into()), ..held_by("third", 15) }, 13);
        scenario.wait_out();
        // The other object was deleted at version 14. The store then applied the slow create, or a delayed copy of the
        // create.
        scenario.found(made_anew(&create), 15);
        assert!(
            !scenario.events().iter().any(|event| matches!(event, Effect::IdentityConflict(_) | Effect::Offer { .. }))
        );
        let fresh = scenario.write();
        assert_eq!((fresh.base, fresh.record.holder()), (Some(15), Some(ME)), "taken over at once, as ours");
        assert_ne!(fresh.record.acquire_time, create.record.acquire_time, "by a term of its own");
    }
}

#[test]
fn in_doubt_copy_of_an_answered_create_is_ours_too() {
    let (mut scenario, create) = creating_after_a_deletion();
    scenario.written(&create, made_anew(&create), 13);
    scenario.elected();
    scenario.guard_dropped();
    let release = scenario.write();
    scenario.written(&release, LeaderElectionRecord { uid: Some("uid-2".into()), ..release.record.clone() }, 14);
    scenario.wait_out();
    scenario.found_nothing();
    scenario.wait_out();
    // The network duplicated the create, and the store has now applied the second copy.
    scenario.found(LeaderElectionRecord { uid: Some("uid-3".into()), ..create.record.clone() }, 16);
    assert!(!scenario.events().iter().any(|event| matches!(event, Effect::IdentityConflict(_))));
    let release = scenario.write();
    assert_eq!((release.base, release.record.holder()), (Some(16), None), "no candidate waits for the expiry");
}

#[test]
fn in_doubt_create_survives_a_read_sent_before_it() {
    let (mut scenario, early) = Scenario::gone_beside_an_early_read();
    let create = scenario.write();
    // The early read found an object that was deleted before the create was sent.
    let unknown = LeaderElectionRecord { uid: Some("uid-1b".into()), ..held_by("third", 15) };
    scenario.reads(early, unknown, 12);
    scenario.written(&create, made_anew(&create), 15);
    assert!(!scenario.events().iter().any(|event| matches!(event, Effect::IdentityConflict(_))));
    assert_eq!(scenario.write().base, Some(15), "ours, and taken over at once");
}

#[test]
fn in_doubt_create_is_awaited_beside_a_read_sent_before_it() {
    let (mut scenario, early) = Scenario::gone_beside_an_early_read();
    scenario.write_fails(StoreErrorKind::Timeout);
    let unknown = LeaderElectionRecord { uid: Some("uid-1b".into()), ..held_by("third", 15) };
    scenario.reads(early, unknown, 12);
    scenario.handle(Input::Close);
    assert!(!matches!(scenario.next(), Step::Finished), "it may land yet");
}

#[test]
fn in_doubt_restored_own_record_extends_no_term() {
    let (mut scenario, create) = creating_after_a_deletion();
    scenario.written(&create, made_anew(&create), 13);
    let (deadline, _) = scenario.elected();
    let renewal = scenario.due_write();
    scenario.written(&renewal, LeaderElectionRecord { uid: Some("uid-2".into()), ..renewal.record.clone() }, 14);
    scenario.due_write_fails(StoreErrorKind::Conflict);
    scenario.found(made_anew(&create), 15);
    assert!(!deadline.is_valid(scenario.now), "what has landed is not adopted a second time");
    assert_eq!(scenario.lost(), Some(StopReason::StoreRestored));
}

#[test]
fn in_doubt_unanswered_create_is_not_awaited_forever() {
    for is_watching in [false, true] {
        let (mut scenario, create) = creating_after_a_deletion();
        if is_watching {
            scenario.watch_opens(true);
        }
        scenario.fails(create.id, StoreErrorKind::Timeout);
        scenario.handle(Input::Close);
        let since = scenario.now;
        let mut reads = 0;
        while let Some(request) = scenario.request_before(since + secs(60)) {
            reads += 1;
            assert!(scenario.answers_read(request, None).is_none());
        }
        assert!(reads > 2 && scenario.now.since(since) <= secs(10), "{reads} reads");
    }
    // A read that is sent a renew deadline after the create shows that the create can no longer win.
    for (waited, is_over) in [(9_999, false), (10_000, true)] {
        let (mut scenario, create) = creating_after_a_deletion();
        scenario.fails(create.id, StoreErrorKind::Timeout);
        scenario.withdraw();
        scenario.advance(millis(waited));
        scenario.found_nothing();
        scenario.handle(Input::Close);
        assert_eq!(matches!(scenario.next(), Step::Finished), is_over, "{waited} ms");
    }
}

#[test]
fn in_doubt_beaten_create_does_not_delay_a_close() {
    let (mut scenario, create) = creating_after_a_deletion();
    scenario.watch_opens(true);
    scenario.fails(create.id, StoreErrorKind::AlreadyExists);
    let winners = LeaderElectionRecord { uid: Some("uid-3".into()), ..held_by("third", 15) };
    scenario.hears(winners.clone(), 13);
    scenario.handle(Input::Close);
    scenario.wait_out();
    scenario.found(winners, 13);
    assert!(matches!(scenario.next(), Step::Finished));
}

#[test]
fn in_doubt_wait_of_a_closed_election_reports_no_conflict() {
    let (mut scenario, _, _) = Scenario::leading();
    for kind in [StoreErrorKind::Timeout, StoreErrorKind::Conflict] {
        scenario.due_write_fails(kind);
    }
    scenario.found_nothing();
    assert_eq!(scenario.lost(), Some(StopReason::Deleted));
    scenario.guard_dropped();
    scenario.handle(Input::Close);
    scenario.wait_out();
    // The process has started another election with the same identity.
    scenario.found(LeaderElectionRecord { uid: Some("uid-2".into()), ..held_by(ME, 15) }, 12);
    assert!(!scenario.events().iter().any(|event| matches!(event, Effect::IdentityConflict(_))));
}

/// After `NotApplied`, the write is no longer in doubt. An equal record is therefore from another process.
#[test]
fn in_doubt_excludes_a_write_known_to_be_unapplied() {
    let (mut scenario, _, _) = Scenario::leading();
    let renewal = scenario.due_write_fails(StoreErrorKind::NotApplied);
    scenario.found(standing(&renewal), 11);
    assert_eq!(scenario.lost(), Some(StopReason::IdentityConflict));

    let (mut scenario, _, _) = Scenario::leading();
    let unanswered = scenario.due_write_fails(StoreErrorKind::Timeout);
    scenario.due_write_fails(StoreErrorKind::NotApplied);
    scenario.found(standing(&unanswered), 11);
    assert_eq!(scenario.lost(), None, "the renewal without an answer is still in doubt");

    let (mut scenario, create) = Scenario::creating();
    scenario.fails(create.id, StoreErrorKind::NotApplied);
    scenario.withdraw();
    scenario.handle(Input::Close);
    assert!(matches!(scenario.next(), Step::Finished), "nothing is left that could land");
}
