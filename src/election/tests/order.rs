//! The safety rule 'Order', and stores that were restored.

use super::*;

#[test]
fn order_version_not_above_the_newest_is_ignored() {
    let (mut scenario, deadline, _) = Scenario::leading();
    // Two reads from before version 10 are answered late. One read found an older record, and the other read found no
    // record.
    let early = ReadContext { newest: 0, absent: false, sent_at: scenario.now };
    scenario.responds(900, StoreResponse::Read(early, Some(observed(held_by(OTHER, 15), 9))));
    scenario.responds(901, StoreResponse::Read(early, None));
    assert_eq!(scenario.lost(), None);
    assert!(deadline.is_valid(scenario.now));
}

#[test]
fn order_only_a_read_sent_after_a_version_proves_a_restore() {
    let (mut scenario, deadline, _) = Scenario::leading();
    scenario.due_write_fails(StoreErrorKind::Conflict);
    scenario.found(held_by(OTHER, 15), 4);
    assert_eq!(scenario.lost(), Some(StopReason::StoreRestored));
    assert!(!deadline.is_valid(scenario.now));
    scenario.campaigns_again();
    scenario.advance(secs(15));
    assert_eq!(scenario.write().base, Some(4), "started over on what stands now");
}

#[test]
fn order_other_record_at_a_known_version_proves_a_restore() {
    let (mut scenario, deadline, _) = Scenario::leading();
    scenario.due_write_fails(StoreErrorKind::Conflict);
    // The restored store had a version below 10, and has reached version 10 again with another record.
    let another = LeaderElectionRecord { uid: Some("uid-2".into()), ..held_by(OTHER, 15) };
    scenario.found(another, 10);
    assert_eq!(scenario.lost(), Some(StopReason::StoreRestored));
    assert!(!deadline.is_valid(scenario.now));
    scenario.campaigns_again();
    scenario.advance(secs(15));
    assert_eq!(scenario.write().record.uid.as_deref(), Some("uid-2"), "started over on what stands now");
}

#[test]
fn order_record_at_a_version_seen_absent_proves_a_restore() {
    for uid in ["uid-1", "uid-2"] {
        let mut scenario = Scenario::campaigning_on(held_by(OTHER, 15), 10);
        scenario.wait_out();
        let early = scenario.read();
        scenario.responds(early.id, StoreResponse::Read(early.context, None));
        // A read that was sent before the absence was known proves nothing.
        let record = LeaderElectionRecord { uid: Some(uid.into()), ..held_by(OTHER, 15) };
        scenario.reads(early, record.clone(), 10);
        let create = scenario.write();
        assert_eq!(create.base, None);
        scenario.fails(create.id, StoreErrorKind::AlreadyExists);
        scenario.found(record, 10);
        scenario.advance(secs(15));
        assert_eq!(scenario.write().base, Some(10), "not created forever");
    }
}

#[test]
fn order_object_seen_deleted_and_read_again_proves_a_restore() {
    let mut scenario = Scenario::campaigning_on(held_by(OTHER, 15), 10);
    scenario.wait_out();
    scenario.found_nothing();
    scenario.write_fails(StoreErrorKind::AlreadyExists);
    scenario.found(held_by(OTHER, 15), 20);
    assert!(scenario.stale());
    scenario.advance(secs(15));
    assert_eq!(scenario.write().base, Some(20), "started over on what stands now");
}

#[test]
fn order_a_read_from_another_absence_proves_no_restored_store() {
    let mut scenario = Scenario::campaigning_on(held_by(OTHER, 15), 10);
    scenario.wait_out();
    scenario.found_nothing();
    scenario.write_fails(StoreErrorKind::AlreadyExists);
    let early = scenario.read();
    assert!(early.context.absent);
    scenario.fails(early.id, StoreErrorKind::Timeout);
    // Before the read is answered, the watch delivers the found record, its renewal and its deletion.
    let winners = LeaderElectionRecord { uid: Some("uid-2".into()), ..held_by("third", 15) };
    scenario.watch_opens(true);
    for event in [
        Change::Written(observed(winners.clone(), 12)),
        Change::Written(observed(renewed(&winners), 13)),
        Change::Deleted { version: 14 },
    ] {
        scenario.hears_at(scenario.now, event);
    }
    scenario.events();
    scenario.reads(early, winners, 12);
    assert!(scenario.events().is_empty(), "neither a restored store nor any other news");
    assert_eq!(scenario.write().base, None, "it is still gone");
}

#[test]
fn order_a_late_read_of_an_object_that_is_gone_is_no_news() {
    let (mut scenario, early) = Scenario::gone_beside_an_early_read();
    scenario.events();
    // The holder renewed the record before the deletion, and the late read found the renewed record.
    scenario.reads(early, renewed(&held_by(OTHER, 15)), 11);
    assert!(scenario.events().is_empty());
    assert_eq!(scenario.write().base, None, "it is still gone");
}

#[test]
fn order_own_earlier_write_behind_a_term_proves_a_restore() {
    let (mut scenario, create) = Scenario::creating();
    scenario.watch_opens(true);
    let first = standing(&create);
    // The watch delivers each write, and no write is answered.
    let echo = |scenario: &mut Scenario, write: &Write, version| {
        scenario.hears(standing(write), version);
        scenario.fails(write.id, StoreErrorKind::Timeout);
    };
    echo(&mut scenario, &create, 10);
    scenario.elected();
    scenario.guard_dropped();
    let release = scenario.write();
    echo(&mut scenario, &release, 11);
    scenario.campaign(false);
    let again = scenario.write();
    echo(&mut scenario, &again, 12);
    scenario.elected();
    scenario.due_write_fails(StoreErrorKind::Conflict);
    scenario.wait_out();
    scenario.found(first, 20);
    assert_eq!(scenario.lost(), Some(StopReason::StoreRestored));
}

#[test]
fn order_write_of_a_term_that_was_ended_proves_no_restore() {
    let (mut scenario, deadline, _) = Scenario::leading();
    let renewal = scenario.due_write_fails(StoreErrorKind::Timeout);
    // The event of the renewal arrives after the validity of the renewal has ended.
    deadline.end(scenario.now, StopReason::SteppedDown);
    scenario.advance(secs(11));
    scenario.hears(standing(&renewal), 11);
    assert_eq!(scenario.lost(), Some(StopReason::SteppedDown));
}

/// Returns an observer of a store that was restored from version 1000 to version 500.
fn after_a_restore() -> Scenario {
    let mut scenario = Scenario::observing(held_by("old", 15), 1_000);
    scenario.wait_out();
    scenario.found(held_by("new", 15), 500);
    scenario.events();
    scenario
}

#[test]
fn order_after_a_restore_an_event_only_triggers_a_read() {
    let mut scenario = after_a_restore();
    scenario.advance(secs(3));
    scenario.watch_opens(true);
    let renewed = renewed(&held_by("new", 15));
    scenario.hears(renewed.clone(), 501);
    assert!(
        !scenario
            .events()
            .iter()
            .any(|event| matches!(event, Effect::NewLeader { .. } | Effect::NoLeader { is_expiry: false, .. }))
    );
    scenario.found(renewed.clone(), 501);
    // The read has confirmed the event, so later events are trusted.
    scenario.hears(held_by("third", 15), 502);
    assert_eq!(scenario.leaders(), [info("third", None)]);
}

#[test]
fn order_api_server_older_than_its_restored_store_is_ignored() {
    let mut scenario = after_a_restore();
    scenario.campaign(false);
    let since = scenario.now;
    let (mut opens_at, mut opened, mut reads) = (scenario.now, 0, 0);
    while scenario.now.since(since) < secs(20) {
        if scenario.now >= opens_at {
            // Each new watch delivers the same old event. The pauses between the watches double.
            opens_at = scenario.now + secs(2) * (1 << opened);
            opened += 1;
            scenario.watches(held_by("old", 15), 1_000);
        }
        let Some(request) = scenario.request_before(opens_at) else { continue };
        if let Some(write) = scenario.answers_read(request, Some((&held_by("new", 15), 500))) {
            assert_eq!(write.base, Some(500));
            scenario.applied(&write, 501);
            break;
        }
        reads += 1;
    }
    scenario.elected();
    assert!(opened > 1 && reads < 20, "another server is tried, and no more is read than that and a poll");
}

#[test]
fn order_old_events_do_not_show_that_a_watch_delivers() {
    let mut scenario = Scenario::observing(held_by("old", 15), 1_000);
    scenario.watches(held_by("old", 15), 1_000);
    // The store was restored, and the open watch now delivers events with lower versions.
    let mut record = held_by("new", 15);
    for version in 500..510 {
        scenario.advance(millis(600));
        record = renewed(&record);
        scenario.hears(record.clone(), version);
        if let Step::Send(StoreRequest { id, operation: Operation::Get(context), .. }) = scenario.next() {
            scenario.reads(Read { id, context }, record.clone(), version);
            assert!(scenario.leaders().contains(&info("new", None)));
            return;
        }
    }
    panic!("no read");
}

#[test]
fn order_restored_an_old_event_makes_no_watch_trusted() {
    let mut scenario = after_a_restore();
    scenario.wait_out();
    scenario.found(renewed(&held_by("new", 15)), 510);
    scenario.events();
    // The watch resumes after version 500 on a server that was not restarted. This server delivers events of the old
    // state.
    scenario.watch_opens(false);
    for (record, version) in [(held_by("old", 15), 505), (renewed(&held_by("old", 15)), 600)] {
        scenario.hears(record, version);
    }
    assert!(scenario.events().is_empty());
    scenario.found(renewed(&held_by("new", 15)), 510);
    assert!(scenario.stale());
}

#[test]
fn order_restored_a_leader_keeps_its_term_despite_old_events() {
    let mut scenario = Scenario::observing(held_by("old", 15), 1_000);
    scenario.wait_out();
    scenario.campaign(false);
    scenario.found(held_by("", 1), 500);
    scenario.wins(501);
    for version in 502..505 {
        scenario.due_write_succeeds(version);
    }
    scenario.watch_opens(false);
    for (record, version) in [(held_by("old", 15), 502), (renewed(&held_by("old", 15)), 900)] {
        scenario.hears(record, version);
    }
    assert_eq!(scenario.lost(), None);
}

#[test]
fn order_restored_an_own_write_ties_a_watch_to_the_store() {
    let mut scenario = after_a_restore();
    scenario.campaign(false);
    let write = scenario.next_write(&held_by("new", 15), 500);
    scenario.wins_by(&write, 501);
    scenario.watch_opens(true);
    let renewal = scenario.next_write(&standing(&write), 501);
    // The event of the renewal arrives first. The answer then confirms the event.
    scenario.hears(standing(&renewal), 502);
    scenario.applied(&renewal, 502);
    scenario.hears(held_by(OTHER, 15), 503);
    assert_eq!(scenario.lost(), Some(StopReason::Superseded { by: Some(OTHER.into()) }), "believed at once");
}

#[test]
fn order_restored_a_read_that_confirms_a_watch_ends_polling() {
    let mut scenario = after_a_restore();
    scenario.watch_opens(true);
    let renewed = renewed(&held_by("new", 15));
    scenario.hears(renewed.clone(), 501);
    scenario.found(renewed, 501);
    assert!(scenario.wait() > secs(3), "only its silence is waited for");
}

#[test]
fn order_restored_a_reused_version_confirms_nothing() {
    let other = |version| Change::Written(observed(held_by("old", 15), version));
    // A read contradicts the event.
    let mut scenario = after_a_restore();
    scenario.watch_opens(true);
    scenario.hears_at(scenario.now, other(501));
    scenario.found(renewed(&held_by("new", 15)), 501);
    scenario.hears_at(scenario.now, other(502));
    let events = scenario.events();
    assert!(events.iter().any(|event| matches!(event, Effect::RestartWatch)), "{events:?}");
    assert!(
        !events.iter().any(|event| matches!(event, Effect::NewLeader { leader, .. } if leader.identity == "old")),
        "{events:?}"
    );
    // The answer to an own write contradicts the event.
    let mut scenario = after_a_restore();
    scenario.campaign(false);
    let write = scenario.next_write(&held_by("new", 15), 500);
    scenario.watch_opens(true);
    scenario.hears_at(scenario.now, other(501));
    scenario.applied(&write, 501);
    let events = scenario.events();
    assert!(events.iter().any(|event| matches!(event, Effect::RestartWatch)), "{events:?}");
    assert!(events.iter().any(|event| matches!(event, Effect::Offer { .. })), "{events:?}");
    scenario.hears_at(scenario.now, other(502));
    assert_eq!(scenario.lost(), None);
    // The event contradicts the record that is already known at its version.
    let mut scenario = after_a_restore();
    scenario.watch_opens(true);
    scenario.hears_at(scenario.now, other(500));
    assert!(scenario.stale());
}

#[test]
fn order_after_a_restore_reads_confirm_or_refute_an_event() {
    let told = renewed(&held_by("new", 15));
    // Each case has the send time of the read (after the event or not), the answer, and whether the candidate believes the
    // next event: at once, and after another read that finds the record of the first event. Both are `None` if the watch
    // is restarted.
    for (is_later, found, believes) in [
        (false, Some((501, &told)), Some([false, true])),
        // The record was absent, so the second read proves another restore.
        (false, None, Some([false, false])),
        (true, None, Some([false, false])),
        (true, Some((500, &held_by("new", 15))), None),
        (true, Some((501, &told)), Some([true, true])),
        (true, Some((501, &held_by(OTHER, 15))), None),
        (true, Some((502, &renewed(&told))), Some([false, false])),
    ] {
        for reads_again in [false, true] {
            let mut scenario = after_a_restore();
            scenario.watch_opens(true);
            let early = scenario.now;
            scenario.advance(millis(1));
            scenario.hears(told.clone(), 501);
            let sent_at = if is_later { scenario.now } else { early };
            let context = ReadContext { newest: 500, absent: false, sent_at };
            let answer = found.map(|(version, record)| observed(record.clone(), version));
            scenario.responds(900, StoreResponse::Read(context, answer));
            assert_eq!(scenario.stale(), believes.is_none(), "{is_later} {found:?}");
            let Some(believes) = believes else { continue };
            if reads_again {
                scenario.advance(millis(1));
                let newest = found.map_or(500, |(version, _)| version);
                let context = ReadContext { newest, absent: found.is_none(), sent_at: scenario.now };
                scenario.responds(901, StoreResponse::Read(context, Some(observed(told.clone(), 501))));
            }
            scenario.events();
            scenario.hears(held_by("third", 15), 510);
            let is_believed = scenario.leaders().contains(&info("third", None));
            assert_eq!(is_believed, believes[usize::from(reads_again)], "{is_later} {found:?} {reads_again}");
        }
    }
}

#[test]
fn order_restored_state_common_to_both_lives_confirms_nothing() {
    let mut scenario = after_a_restore();
    scenario.watch_opens(false);
    // Both states contain version 500. An edit of a label may have produced the same version 501 before and after the
    // restore.
    for version in [500, 501] {
        scenario.hears(held_by("new", 15), version);
        if version == 501 {
            scenario.found(held_by("new", 15), version);
        }
    }
    scenario.hears(held_by("old", 15), 502);
    assert!(scenario.events().is_empty());
}

#[test]
fn order_restored_an_old_own_record_is_no_predecessors() {
    let (mut scenario, _, _) = Scenario::leading();
    scenario.due_write_fails(StoreErrorKind::Conflict);
    scenario.found(held_by(ME, 15), 4);
    let effects = scenario.effects();
    let is_conflict = |effect: &Effect| matches!(effect, Effect::IdentityConflict(_)) || is_predecessor(effect);
    assert!(!effects.iter().any(is_conflict), "{effects:?}");
}
