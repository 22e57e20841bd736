//! Watches that say nothing, or nothing that is news: when that is noticed, and what it says of them.

use super::*;

#[test]
fn silence_is_counted_over_all_watches_that_go_on_where_another_ended() {
    let mut scenario = Scenario::campaigning_on(held_by(OTHER, 15), 10);
    scenario.election.watch_opened(scenario.now, true);
    scenario.hears(held_by(OTHER, 15), 10);
    let since = scenario.now;
    // Each watch ends in good order, and the next one continues at once.
    while scenario.request_before(scenario.now + secs(3)).is_none() {
        scenario.election.watch_lost(scenario.now);
        scenario.advance(millis(5));
        scenario.election.watch_opened(scenario.now, false);
    }
    assert!(scenario.now.since(since) <= secs(6), "a third of the lease: {:?}", scenario.now.since(since));
}

#[test]
fn events_from_before_what_is_known_do_not_keep_a_watch_fresh() {
    let mut scenario = Scenario::campaigning_on(held_by(OTHER, 15), 100);
    scenario.election.watch_opened(scenario.now, true);
    let since = scenario.now;
    let mut record = held_by(OTHER, 15);
    for version in 80..100 {
        // A server that lags behind tells of renewals that have long been known.
        record = renewed(&record);
        scenario.hears(record.clone(), version);
        if let Some(request) = scenario.request_before(scenario.now + secs(2)) {
            assert!(matches!(request.operation, Operation::Get(_)), "{request:?}");
            assert!(scenario.now.since(since) <= secs(5));
            return;
        }
    }
    panic!("nobody has_read");
}

#[test]
fn a_mention_from_before_what_is_known_is_none() {
    let mut scenario = Scenario::new();
    scenario.found(held_by(OTHER, 3_600), 20);
    scenario.election.watch_opened(scenario.now, true);
    scenario.hears(held_by(OTHER, 3_600), 15);
    assert!(scenario.wait() <= secs(1), "it may be gone by now");
    scenario.wait_out();
    scenario.found(held_by(OTHER, 3_600), 20);
    scenario.hears(held_by(OTHER, 3_600), 20);
    assert!(scenario.request_before(scenario.now + secs(600)).is_none(), "the watch has come to what is known");
}

#[test]
fn a_read_makes_up_for_what_a_watch_does_not_mention() {
    let mut scenario = Scenario::new();
    scenario.found(held_by(OTHER, 3_600), 20);
    scenario.election.watch_opened(scenario.now, true);
    scenario.wait_out();
    scenario.found_nothing();
    assert!(scenario.request_before(scenario.now + secs(600)).is_none(), "that it is gone is known");
}

#[test]
fn a_watch_that_has_told_nothing_owes_nothing_of_a_lease_that_is_not_there() {
    let mut scenario = Scenario::new();
    scenario.found_nothing();
    scenario.election.watch_opened(scenario.now, true);
    scenario.election.campaign(true);
    scenario.found_nothing();
    scenario.advance(secs(60));
    scenario.next();
    assert!(!scenario.stale(), "there was nothing to tell");
}

#[test]
fn a_watch_that_goes_on_owes_nothing_that_was_known_before_it() {
    let mut scenario = Scenario::new();
    scenario.found(held_by(OTHER, 15), 20);
    scenario.election.watch_opened(scenario.now, false);
    scenario.wait_out();
    scenario.found(held_by(OTHER, 15), 20);
    scenario.advance(secs(8));
    scenario.next();
    assert!(!scenario.stale(), "it began behind that");
}

#[test]
fn a_leader_asks_about_a_watch_that_lags_behind_its_own_renewals() {
    let (mut scenario, _, created) = Scenario::leading();
    scenario.election.watch_opened(scenario.now, true);
    scenario.hears(created, 10);
    let since = scenario.now;
    let mut before = None;
    for version in 11..30 {
        let request = scenario.request();
        if matches!(request.operation, Operation::Get(_)) {
            assert!(scenario.now.since(since) <= secs(9), "{:?}", scenario.now.since(since));
            return;
        }
        let record = scenario.applied(&Write::of(request), version);
        // The echo of the previous renewal arrives after this renewal.
        if let Some(before) = before.replace(record) {
            scenario.hears(before, version - 1);
        }
    }
    panic!("it never asked");
}
