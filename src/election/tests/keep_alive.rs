//! Tests of the reads that keep the connection of a standby open.

use super::*;

const IDLE: Duration = secs(65);

/// Returns a candidate with an open watch, whose first read took `took`.
fn candidate(campaigns: bool, took: Duration) -> Scenario {
    let mut scenario = Scenario::new();
    if campaigns {
        scenario.campaign(false);
    }
    let read = scenario.read();
    scenario.advance(took);
    scenario.handle(Input::IdleTimeout(Some(IDLE)));
    scenario.reads(read, held_by(OTHER, 15), 10);
    scenario.watches(held_by(OTHER, 15), 10);
    scenario
}

/// Returns the number of reads in ten minutes, in which the leader renews every 4 s and an answer takes `round_trip`.
fn reads_in_ten_minutes(mut scenario: Scenario, round_trip: Duration) -> usize {
    let (mut record, mut version, mut count) = (held_by(OTHER, 15), 10, 0);
    for _ in 0..150 {
        let renewed_at = scenario.now + secs(4);
        while let Some(request) = scenario.request_before(renewed_at) {
            count += 1;
            scenario.advance(round_trip);
            scenario.handle(Input::IdleTimeout(Some(IDLE)));
            assert!(scenario.answers_read(request, Some((&record, version))).is_none(), "a write");
        }
        (record, version) = (renewed(&record), version + 1);
        scenario.hears(record.clone(), version);
    }
    count
}

#[test]
fn distant_standby_reads_once_in_each_idle_time() {
    assert_eq!(reads_in_ten_minutes(candidate(true, millis(150)), millis(50)), 9);
}

#[test]
fn standby_of_a_near_server_does_not_read() {
    let mut near = candidate(true, millis(150));
    near.handle(Input::IdleTimeout(None));
    assert_eq!(reads_in_ten_minutes(near, millis(50)), 0);
    // The connection opened slowly although the server is near. The first round trip shows the truth.
    assert_eq!(reads_in_ten_minutes(candidate(true, millis(20)), millis(2)), 1);
    assert_eq!(reads_in_ten_minutes(candidate(true, millis(5)), millis(2)), 0);
}

#[test]
fn observer_does_not_keep_its_connection_open() {
    assert_eq!(reads_in_ten_minutes(candidate(false, millis(150)), millis(50)), 0);
}

/// Returns the times of the reads and of the takeover, if the idle time ends `idle` after the last renewal.
///
/// The lease lasts a minute, and the silence of the watch causes a read after 54 s.
fn requests_until_takeover(round_trip: Duration, idle: Duration) -> Vec<Duration> {
    let mut scenario = candidate(true, round_trip * 3);
    scenario.hears(held_by(OTHER, 60), 11);
    scenario.advance(secs(40));
    let record = renewed(&held_by(OTHER, 60));
    scenario.hears(record.clone(), 12);
    let since = scenario.now;
    scenario.handle(Input::IdleTimeout(Some(idle)));
    let mut times = Vec::new();
    loop {
        let request = scenario.request();
        times.push(scenario.now.since(since));
        scenario.advance(round_trip);
        if scenario.answers_read(request, Some((&record, 12))).is_some() {
            return times;
        }
    }
}

#[test]
fn no_read_delays_the_takeover() {
    let [near, far] = [millis(50), secs(2)];
    assert_eq!(requests_until_takeover(near, millis(58_999)), [secs(54), millis(58_999), secs(60)]);
    assert_eq!(requests_until_takeover(near, secs(59)), [secs(54), secs(60)]);
    // A slow answer takes 3 s.
    assert_eq!(requests_until_takeover(far, millis(56_999)), [secs(54), millis(56_999), secs(60)]);
    assert_eq!(requests_until_takeover(far, secs(57)), [secs(54), secs(60)]);
}

#[test]
fn failed_read_is_repeated_at_once_and_after_another_idle_time() {
    let mut scenario = candidate(true, millis(150));
    scenario.hears(renewed(&held_by(OTHER, 3_600)), 11);
    // The connection may be dropped, so the first read is repeated at once on a new connection.
    for quiet in [IDLE, Duration::ZERO, IDLE] {
        let since = scenario.now;
        let id = scenario.request().id;
        assert_eq!(scenario.now.since(since), quiet);
        scenario.fails(id, StoreErrorKind::Timeout);
    }
}
