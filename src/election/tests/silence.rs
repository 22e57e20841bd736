//! Watches without events, or with outdated events.

use super::*;

#[test]
fn silence_is_counted_over_resumed_watches() {
    let mut scenario = Scenario::campaigning_on(held_by(OTHER, 15), 10);
    scenario.watches(held_by(OTHER, 15), 10);
    let since = scenario.now;
    // Each watch ends without an error, and the next watch continues at once.
    while scenario.request_before(scenario.now + secs(3)).is_none() {
        scenario.watch_ends();
        scenario.advance(millis(5));
        scenario.watch_opens(false);
    }
    assert!(scenario.now.since(since) <= secs(6), "a third of the lease: {:?}", scenario.now.since(since));
}

#[test]
fn old_events_do_not_keep_a_watch_fresh() {
    let mut scenario = Scenario::campaigning_on(held_by(OTHER, 15), 100);
    scenario.watch_opens(true);
    let since = scenario.now;
    let mut record = held_by(OTHER, 15);
    for version in 80..100 {
        // A lagging server delivers old renewals, whose versions are below the known version.
        record = renewed(&record);
        scenario.hears(record.clone(), version);
        if let Some(request) = scenario.request_before(scenario.now + secs(2)) {
            assert!(matches!(request.operation, Operation::Get(_)), "{request:?}");
            assert!(scenario.now.since(since) <= secs(5));
            return;
        }
    }
    panic!("no read");
}

#[test]
fn mention_of_an_old_version_does_not_count() {
    let mut scenario = Scenario::observing(held_by(OTHER, 3_600), 20);
    scenario.watches(held_by(OTHER, 3_600), 15);
    assert!(scenario.wait() <= secs(1), "it may be gone by now");
    scenario.wait_out();
    scenario.found(held_by(OTHER, 3_600), 20);
    scenario.hears(held_by(OTHER, 3_600), 20);
    assert!(scenario.request_before(scenario.now + secs(600)).is_none(), "the watch has come to what is known");
}

#[test]
fn read_makes_up_for_a_missing_mention() {
    let mut scenario = Scenario::observing(held_by(OTHER, 3_600), 20);
    scenario.watch_opens(true);
    scenario.wait_out();
    scenario.found_nothing();
    assert!(scenario.request_before(scenario.now + secs(600)).is_none(), "that it is gone is known");
}

#[test]
fn quiet_watch_owes_nothing_for_an_absent_lease() {
    let mut scenario = Scenario::new();
    scenario.found_nothing();
    scenario.watch_opens(true);
    scenario.campaign(true);
    scenario.found_nothing();
    scenario.advance(secs(60));
    scenario.next();
    assert!(!scenario.stale(), "there was no change");
}

#[test]
fn a_watch_that_goes_on_owes_nothing_that_was_known_before_it() {
    let mut scenario = Scenario::observing(held_by(OTHER, 15), 20);
    scenario.watch_opens(false);
    scenario.wait_out();
    scenario.found(held_by(OTHER, 15), 20);
    scenario.advance(secs(8));
    scenario.next();
    assert!(!scenario.stale(), "it began behind that");
}

#[test]
fn leader_reads_if_a_watch_lags_behind_its_renewals() {
    let (mut scenario, _, created) = Scenario::leading();
    scenario.watches(created, 10);
    let since = scenario.now;
    let mut before = None;
    for version in 11..30 {
        let request = scenario.request();
        if matches!(request.operation, Operation::Get(_)) {
            assert!(scenario.now.since(since) <= secs(9), "{:?}", scenario.now.since(since));
            return;
        }
        let record = scenario.applied(&Write::of(request), version);
        // The event of the previous renewal arrives after this renewal.
        if let Some(before) = before.replace(record) {
            scenario.hears(before, version - 1);
        }
    }
    panic!("it never asked");
}
