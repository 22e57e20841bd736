//! Watches save requests, and correctness does not depend on watches.

use super::*;

impl Scenario {
    /// Returns a standby with an open watch, and a record of another candidate at version 10.
    fn standing_by() -> Self {
        let mut scenario = Self::campaigning_on(held_by(OTHER, 15), 10);
        scenario.watches(held_by(OTHER, 15), 10);
        scenario.events();
        scenario
    }

    /// Returns a leader with an open watch.
    fn leading_and_watching() -> (Self, Arc<Deadline>, LeaderElectionRecord) {
        let (mut scenario, deadline, record) = Self::leading();
        scenario.watches(record.clone(), 10);
        scenario.events();
        (scenario, deadline, record)
    }
}

#[test]
fn standby_with_renewal_events_sends_no_request() {
    let mut scenario = Scenario::standing_by();
    let mut record = held_by(OTHER, 15);
    for version in 11..200 {
        assert!(scenario.wait() > secs(2), "nothing is due before the next renewal");
        scenario.advance(secs(2));
        record = renewed(&record);
        scenario.hears(record.clone(), version);
    }
}

#[test]
fn expired_lease_is_taken_over_at_expiry_since_receipt() {
    let mut scenario = Scenario::standing_by();
    let received_at = scenario.now + secs(1);
    scenario.advance(secs(3));
    let change = Change::Written(observed(renewed(&held_by(OTHER, 15)), 11));
    // The event was received two seconds before the election handled the event.
    scenario.hears_at(received_at, change);
    let write = scenario.next_write(&renewed(&held_by(OTHER, 15)), 11);
    assert_eq!(write.base, Some(11));
    assert_eq!(scenario.now.since(received_at), secs(15));
}

#[test]
fn the_losers_of_a_herd_resolve_by_the_event() {
    let mut scenario = Scenario::standing_by();
    scenario.hears(held_by("", 1), 11);
    let write = scenario.write_fails(StoreErrorKind::Conflict);
    assert_eq!(write.base, Some(11), "no read before it");
    assert!(scenario.wait() >= secs(2), "no read of its own, unless the event never comes");
    scenario.hears(held_by("winner", 15), 12);
    assert!(scenario.wait() > secs(2));
    assert!(!scenario.stale());
}

/// The watch delivered the conflicting record before the create failed.
#[test]
fn beaten_create_waits_for_no_event_that_came_before() {
    let mut scenario = Scenario::campaigning();
    scenario.watch_opens(true);
    scenario.found_nothing();
    let create = scenario.write();
    scenario.hears(held_by("", 1), 11);
    scenario.fails(create.id, StoreErrorKind::AlreadyExists);
    let write = scenario.write();
    assert_eq!(write.base, Some(11));
    scenario.wins_by(&write, 12);
}

#[test]
fn leader_learns_at_once_of_deletion_edit_or_take_over() {
    for (heard, reason) in losses() {
        let (mut scenario, deadline, _) = Scenario::leading_and_watching();
        scenario.advance(millis(100));
        match heard {
            Some(record) => scenario.hears(record, 11),
            None => scenario.hears_deletion(11),
        }
        assert_eq!(scenario.lost(), Some(reason));
        assert!(!deadline.is_valid(scenario.now));
    }
}

#[test]
fn standby_creates_at_once_after_a_deletion_event() {
    let mut scenario = Scenario::standing_by();
    scenario.hears_deletion(11);
    assert_eq!(scenario.write().base, None);
}

#[test]
fn echo_before_the_answer_is_adopted_with_its_send_time() {
    let (mut scenario, deadline, _) = Scenario::leading_and_watching();
    scenario.wait_out();
    let sent_at = scenario.now;
    let renewal = scenario.write();
    scenario.advance(secs(1));
    scenario.hears(standing(&renewal), 11);
    assert_eq!(scenario.now + deadline.remaining(scenario.now), sent_at + secs(10));
    scenario.advance(secs(1));
    scenario.applied(&renewal, 11);
    assert_eq!(scenario.now + deadline.remaining(scenario.now), sent_at + secs(10), "the answer is no news");
    assert_eq!(scenario.lost(), None);
}

#[test]
fn echo_before_the_answer_to_a_create_costs_no_write() {
    let mut scenario = Scenario::new();
    scenario.watch_opens(true);
    scenario.campaign(false);
    scenario.found_nothing();
    let create = scenario.write();
    scenario.advance(millis(20));
    scenario.hears(standing(&create), 10);
    scenario.elected();
    scenario.applied(&create, 10);
    scenario.advance(millis(1_979));
    assert_eq!(scenario.wait(), millis(1), "a renew interval after the create was sent");
    assert_eq!(scenario.due_write().base, Some(10));
}

#[test]
fn distant_leader_does_not_read_ahead_of_its_watch() {
    let mut scenario = Scenario::campaigning();
    let read = scenario.read();
    scenario.advance(millis(2_400));
    scenario.watch_opens(true);
    scenario.responds(read.id, StoreResponse::Read(read.context, None));
    let create = scenario.write();
    scenario.advance(millis(800));
    scenario.wins_by(&create, 10);
    assert_eq!(scenario.wait(), secs(1), "the time of an event of an own write");
    scenario.hears(standing(&create), 10);
    scenario.advance(millis(1_199));
    assert_eq!(scenario.wait(), millis(1), "a renew interval after the create was sent");
    assert_eq!(scenario.due_write().base, Some(10));
}

#[test]
fn late_echoes_old_events_and_late_deletions_cost_no_term() {
    let (mut scenario, deadline, record) = Scenario::leading_and_watching();
    let renewal = scenario.due_write();
    let current = scenario.applied(&renewal, 15);
    // None of these events is new: own writes at 15 and 10, an earlier holder at 9, and deletions at 8 and 15.
    scenario.hears(current, 15);
    scenario.hears(record, 10);
    scenario.hears(held_by(OTHER, 15), 9);
    scenario.hears_deletion(8);
    scenario.hears_deletion(15);
    assert_eq!(scenario.lost(), None);
    assert!(deadline.is_valid(scenario.now));
}

#[test]
fn an_edit_of_labels_costs_no_term_no_wait_and_no_request() {
    let (mut scenario, deadline, record) = Scenario::leading_and_watching();
    let due = scenario.wait();
    scenario.hears(record, 11);
    assert_eq!(scenario.wait(), due, "the next renewal comes when it would have come");
    assert!(deadline.is_valid(scenario.now));
    scenario.wait_out();
    assert_eq!(scenario.write().base, Some(11));

    let mut scenario = Scenario::standing_by();
    scenario.advance(secs(4));
    scenario.hears(held_by(OTHER, 15), 11);
    scenario.advance(secs(4));
    scenario.hears(held_by(OTHER, 15), 12);
    scenario.advance(millis(6_999));
    scenario.hears(held_by(OTHER, 15), 13);
    assert_eq!(scenario.wait(), millis(1), "counted from the last change of the record");
}

#[test]
fn renewal_failed_by_an_edit_is_followed_by_another_at_once() {
    let (mut scenario, _, record) = Scenario::leading_and_watching();
    let renewal = scenario.due_write();
    // The election handles the event of the edit before the failure of the renewal.
    scenario.hears(record, 11);
    scenario.fails(renewal.id, StoreErrorKind::Conflict);
    assert_eq!(scenario.write().base, Some(11));
}

#[test]
fn a_failed_write_of_a_watcher_is_resolved_by_a_read_at_once() {
    let mut scenario = Scenario::standing_by();
    scenario.hears(held_by("", 1), 11);
    scenario.write_fails(StoreErrorKind::Timeout);
    scenario.read();
    // After a release fails with a conflict, the election also reads at once.
    let (mut scenario, ..) = Scenario::leading_and_watching();
    scenario.guard_dropped();
    scenario.write_fails(StoreErrorKind::Conflict);
    scenario.read();
    assert!(!scenario.released());
    scenario.hears_deletion(11);
    assert!(scenario.released());
}

#[test]
fn lost_watch_is_replaced_by_polling_within_a_retry_period() {
    let mut scenario = Scenario::standing_by();
    scenario.advance(secs(1));
    scenario.watch_ends();
    assert!(scenario.wait() <= secs(2));
    for _ in 0..3 {
        scenario.wait_out();
        scenario.found(held_by(OTHER, 15), 10);
        assert!(scenario.wait() <= millis(2400));
    }
}

#[test]
fn candidates_that_lose_a_watch_together_read_apart() {
    let mut waits = std::collections::HashSet::new();
    for seed in 0..50 {
        let mut scenario = Scenario::seeded(seed, |_| {});
        scenario.found(held_by(OTHER, 15), 10);
        scenario.watches(held_by(OTHER, 15), 10);
        scenario.watch_ends();
        waits.insert(scenario.wait());
    }
    assert!(waits.len() > 40, "{waits:?}");
}

#[test]
fn held_lease_is_read_after_a_third_of_its_duration_in_silence() {
    let mut scenario = Scenario::standing_by();
    assert_eq!(scenario.wait(), secs(5));
    scenario.wait_out();
    scenario.found(held_by(OTHER, 15), 10);
    assert!(!scenario.stale(), "there was no change");
    // The next read follows after another third, even if the holder has crashed.
    assert_eq!(scenario.wait(), secs(5));
}

#[test]
fn watch_that_missed_a_read_result_is_polled_beside_and_dropped() {
    let mut scenario = Scenario::standing_by();
    scenario.wait_out();
    scenario.found(renewed(&held_by(OTHER, 15)), 11);
    assert!(!scenario.stale(), "the event may be on its way");
    assert!(scenario.wait() <= millis(2_400), "but it is not waited for");
    scenario.wait_out();
    scenario.next();
    assert!(scenario.stale());
    // A read that was sent before the watch opened does not make the watch stale.
    let mut scenario = Scenario::campaigning_on(held_by(OTHER, 15), 10);
    scenario.wait_out();
    let read = scenario.read();
    scenario.advance(millis(1));
    scenario.watch_opens(true);
    scenario.reads(read, renewed(&held_by(OTHER, 15)), 11);
    scenario.advance(secs(3));
    scenario.next();
    assert!(!scenario.stale());
}

#[test]
fn watch_that_delivers_late_is_trusted_again() {
    let mut scenario = Scenario::standing_by();
    scenario.wait_out();
    let record = renewed(&held_by(OTHER, 15));
    scenario.found(record.clone(), 12);
    scenario.advance(millis(100));
    scenario.hears(renewed(&record), 11);
    assert!(scenario.wait() <= millis(2_400), "that was before");
    scenario.hears(record, 12);
    assert!(scenario.wait() > secs(6), "the event counts as heard");
    scenario.wait_out();
    assert!(!scenario.stale());
}

#[test]
fn conflict_without_an_event_makes_a_watch_stale() {
    let mut scenario = Scenario::standing_by();
    scenario.hears(held_by("", 1), 11);
    scenario.write_fails(StoreErrorKind::Conflict);
    let mut record = held_by("winner", 15);
    scenario.wait_out();
    scenario.found(record.clone(), 12);
    let began = scenario.now;
    let mut version = 12;
    while !scenario.stale() {
        assert!(scenario.now.since(began) <= secs(3), "a watch without events is trusted");
        match scenario.next() {
            Step::Wait(until) => scenario.now = until,
            Step::Send(StoreRequest { id, operation: Operation::Get(context), .. }) => {
                version += 1;
                record = renewed(&record);
                scenario.reads(Read { id, context }, record.clone(), version);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn deletion_without_an_event_makes_a_watch_stale() {
    let mut scenario = Scenario::standing_by();
    scenario.withdraw();
    scenario.wait_out();
    scenario.found_nothing();
    assert!(scenario.wait() <= millis(2_400));
    scenario.wait_out();
    scenario.next();
    assert!(scenario.stale());
}

#[test]
fn open_but_silent_watch_is_polled_beside() {
    let mut scenario = Scenario::campaigning_on(held_by(OTHER, 15), 10);
    let mut record = held_by(OTHER, 15);
    let (mut version, mut renewed_at) = (10, scenario.now);
    let mut read_at = scenario.now;
    let began = scenario.now;
    scenario.watch_opens(true);
    // A proxy may buffer all events. Every new watch then opens and delivers no event.
    while scenario.now.since(began) < secs(300) {
        if scenario.stale() {
            scenario.watch_opens(true);
        }
        let Some(request) = scenario.request_before(renewed_at + secs(2)) else {
            (record, version, renewed_at) = (renewed(&record), version + 1, scenario.now);
            continue;
        };
        let unseen = scenario.now.since(read_at);
        assert!(unseen <= secs(5), "unseen for {unseen:?}, after {:?}", scenario.now.since(began));
        read_at = scenario.now;
        assert!(scenario.answers_read(request, Some((&record, version))).is_none());
    }
}

#[test]
fn a_gap_is_counted_only_within_one_watch() {
    let mut scenario = Scenario::standing_by();
    let mut record = held_by(OTHER, 15);
    scenario.watch_ends();
    scenario.advance(secs(12));
    scenario.watch_opens(false);
    for version in 11..14 {
        record = renewed(&record);
        scenario.hears(record.clone(), version);
        assert_eq!(scenario.wait(), secs(5), "what was missed meanwhile was no gap of the holder's");
        scenario.advance(secs(2));
    }
}

#[test]
fn a_leader_that_renews_seldom_is_not_found_silent() {
    let (mut scenario, _, record) = Scenario::leading_with(|config| {
        config.lease_duration = Some(secs(15));
        config.renew_deadline = Some(secs(14));
        config.renew_interval = Some(secs(7));
    });
    scenario.watches(record, 10);
    assert_eq!(scenario.wait(), secs(7));
    let renewal = scenario.due_write();
    assert_eq!(renewal.base, Some(10), "a renewal, and no read before it");
}

#[test]
fn expired_lease_does_not_make_its_watch_stale() {
    let mut scenario = Scenario::observing(held_by(OTHER, 15), 10);
    scenario.watches(held_by(OTHER, 15), 10);
    let until = scenario.now + secs(3_600);
    let mut reads = 0;
    while let Some(request) = scenario.request_before(until) {
        assert!(!scenario.stale());
        reads += 1;
        assert!(scenario.answers_read(request, Some((&held_by(OTHER, 15), 10))).is_none());
    }
    assert!(reads <= 3, "{reads} reads of a dead holder's lease in an hour");
}

#[test]
fn unheld_lease_makes_no_watch_stale() {
    let mut scenario = Scenario::observing(held_by("", 1), 10);
    scenario.watch_opens(false);
    scenario.hears(held_by("", 1), 11);
    scenario.advance(secs(3600));
    assert!(matches!(scenario.next(), Step::Wait(_)));
    assert!(!scenario.stale());
}

#[test]
fn deletion_between_watches_is_found_by_a_read() {
    let mut scenario = Scenario::standing_by();
    scenario.watch_ends();
    // The new watch starts from scratch and delivers no event, because the record was deleted.
    scenario.watch_opens(true);
    assert!(scenario.wait() <= millis(2400));
    scenario.wait_out();
    scenario.found_nothing();
    assert_eq!(scenario.write().base, None);
}

#[test]
fn read_sent_before_the_watch_opened_does_not_confirm_it() {
    let mut scenario = Scenario::standing_by();
    scenario.watch_ends();
    scenario.wait_out();
    let read = scenario.read();
    scenario.watch_opens(true);
    scenario.reads(read, held_by(OTHER, 15), 10);
    scenario.wait_out();
    scenario.read();
}

#[test]
fn a_restored_store_makes_the_watch_stale() {
    let mut scenario = Scenario::standing_by();
    scenario.watch_ends();
    scenario.wait_out();
    let read = scenario.read();
    scenario.watch_opens(false);
    scenario.reads(read, held_by(OTHER, 15), 3);
    assert!(scenario.stale(), "it waits for versions that are long to come");
    assert!(scenario.wait() <= millis(2400));
}

#[test]
fn leader_reads_if_a_fresh_watch_does_not_mention_its_lease() {
    let (mut scenario, _, _) = Scenario::leading_with(|config| config.renew_interval = Some(secs(5)));
    // The lease was deleted before the watch started.
    scenario.watch_opens(true);
    assert!(scenario.wait() <= secs(1));
    scenario.wait_out();
    scenario.found_nothing();
    assert_eq!(scenario.lost(), Some(StopReason::Deleted));
}

#[test]
fn refuted_leader_without_an_event_reads_soon() {
    let (mut scenario, deadline, _) = Scenario::leading_and_watching();
    scenario.due_write_fails(StoreErrorKind::Conflict);
    assert!(scenario.wait() <= millis(250));
    scenario.wait_out();
    scenario.found(held_by(OTHER, 15), 11);
    assert!(!deadline.is_valid(scenario.now));
}

#[test]
fn end_of_a_watch_does_not_delay_a_due_read() {
    let (mut scenario, _, _) = Scenario::leading_and_watching();
    scenario.due_write_fails(StoreErrorKind::Conflict);
    let due = scenario.wait();
    for _ in 0..10 {
        scenario.watch_ends();
        assert!(scenario.wait() <= due, "the loss of a watch");
        scenario.watch_opens(true);
        assert!(scenario.wait() <= due, "a watch that begins from scratch");
    }
}

/// The candidate is unfit, so its campaign does not need the record.
#[test]
fn release_beside_a_campaign_is_as_urgent_as_without() {
    let (mut scenario, ..) = Scenario::leading_and_watching();
    scenario.set_fit(false);
    scenario.campaigns_again();
    let Step::Send(release) = scenario.next() else { panic!("expected a release") };
    assert!(release.timeout <= secs(2), "{:?} is longer than the release timeout", release.timeout);
    scenario.fails(release.id, StoreErrorKind::Conflict);
    scenario.read();
}
