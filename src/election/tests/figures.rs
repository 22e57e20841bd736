//! Tables of durations: attempts, retries, pauses, round trips and the silence of a watch.

use super::round_trip::RoundTrip;
use super::*;

#[test]
fn attempts_and_retries_shrink_with_the_rest_of_a_term() {
    // The remaining milliseconds of a term of 10 s, the timeouts of the first and of a later attempt, and the longest
    // retry delay.
    for (left, first, timeout, retry) in [
        (10_000, 8_000, 5_000, 2_400),
        (8_000, 6_000, 4_000, 2_400),
        (3_000, 1_500, 1_500, 1_500),
        (600, 500, 500, 500),
        (300, 300, 300, 500),
    ] {
        let (mut scenario, ..) = Scenario::leading();
        scenario.advance(secs(10) - millis(left));
        for (attempts, timeout) in [(0, first), (1, timeout)] {
            if let Phase::Leading(term) = &mut scenario.election.phase {
                (term.renew_at, term.attempts) = (scenario.now, attempts);
            }
            assert_eq!(scenario.write().timeout, millis(timeout), "{left} ms left");
        }
        let delay = scenario.election.retry_delay(scenario.now);
        assert!(delay <= millis(retry) && delay >= millis(retry.min(2_000)), "{left} ms left: {delay:?}");
    }
    // The remaining milliseconds of a release timeout of 2 s, the timeout of a request, and the longest retry delay.
    for (left, timeout, retry) in
        [(2_000, 1_750, 500), (1_000, 750, 500), (200, 100, 500), (1, 1, 500), (0, 5_000, 2_400)]
    {
        let (mut scenario, ..) = Scenario::leading();
        scenario.guard_gone();
        scenario.advance(secs(2) - millis(left));
        assert_eq!(scenario.write().timeout, millis(timeout), "{left} ms left of a release");
        let delay = scenario.election.retry_delay(scenario.now);
        assert!(delay <= millis(retry) && delay >= millis(retry.min(2_000)), "{left} ms left of a release: {delay:?}");
    }
}

#[test]
fn pauses_are_kept_if_they_leave_a_reserve_and_never_shortened() {
    // Whether a release waits, the remaining milliseconds, the pause that the store requests, and the pause that is
    // kept.
    for (is_release, left, asked, kept) in [
        (false, 8_000, 6_000, 6_000),
        (false, 8_000, 6_001, 4_000),
        (false, 1_000, 100, 100),
        (true, 2_000, 1_750, 1_750),
        (true, 2_000, 1_751, 1_000),
        (true, 200, 50, 50),
    ] {
        let (mut scenario, ..) = Scenario::leading();
        if is_release {
            scenario.guard_gone();
        }
        scenario.advance(if is_release { secs(2) } else { secs(10) } - millis(left));
        for again in [asked, 0] {
            scenario.election.pause(scenario.now, Some(millis(again)));
            let pause = scenario.election.schedule.paused_until.since(scenario.now);
            assert_eq!(pause, millis(kept), "{asked} of {left} ms, of a release: {is_release}");
        }
    }
}

#[test]
fn round_trips_rise_slowly_and_fall_fast() {
    let mut round_trip = RoundTrip::default();
    // The time of each answer, and the time by which the next answer is expected afterwards, in microseconds.
    for (took, answered_by) in [
        (100_000, 300_000),
        (200_000, 112_500 + 4 * 62_500),
        (100_000, 106_250 + 4 * 50_000),
        (50_000, 50_000 + 4 * 6_250),
        (25_000, 37_500 + 4 * 10_937),
        (10_000, 10_000 + 4 * 1_250),
    ] {
        round_trip.note(Duration::from_micros(took));
        let expected = Duration::from_micros(answered_by);
        let off = round_trip.answered_by().abs_diff(expected);
        assert!(off < Duration::from_micros(4), "{took}: {:?}", round_trip.answered_by());
    }
    assert_eq!(round_trip.answered_anew_by(), millis(30));
}

#[test]
fn silence_is_measured_by_the_gaps_between_changes_of_one_term() {
    let mut scenario = Scenario::campaigning_on(held_by(OTHER, 15), 10);
    scenario.election.watch_opened(scenario.now, true);
    let mut record = held_by(OTHER, 15);
    let again = |record: &LeaderElectionRecord| LeaderElectionRecord {
        acquire_time: Some(MicroTime::from_unix_micros(9)),
        ..renewed(record)
    };
    // The change of the record, the milliseconds since the previous event, and the tolerated silence afterwards.
    type Change = fn(&LeaderElectionRecord) -> LeaderElectionRecord;
    let events: [(Change, u64, u64); 6] = [
        (LeaderElectionRecord::clone, 0, 5_000),
        (renewed, 4_000, 8_000),
        (renewed, 1_000, 8_000),
        (LeaderElectionRecord::clone, 3_000, 8_000),
        (renewed, 3_000, 12_000),
        // The tolerated silence ends before the lease does.
        (renewed, 7_000, 13_500),
    ];
    let mut version = 10;
    for (change, after, silence) in events {
        scenario.advance(millis(after));
        record = change(&record);
        scenario.hears(record.clone(), version);
        let silent_at = scenario.election.silent_at().expect("a held lease");
        assert_eq!(silent_at.since(scenario.now), millis(silence), "version {version}");
        version += 1;
    }
    // A duplicate event does not restart the silence. A new term of the same holder forgets the gaps of the earlier
    // term.
    scenario.advance(secs(2));
    let silent_at = scenario.election.silent_at();
    scenario.hears(record.clone(), version - 1);
    assert_eq!(scenario.election.silent_at(), silent_at);
    scenario.hears(again(&record), version);
    assert_eq!(scenario.election.silent_at(), Some(scenario.now + secs(5)));
    // A resumed watch continues the silence of the previous watch. A read between two watches, or a watch from scratch,
    // restarts the silence.
    scenario.advance(secs(1));
    scenario.election.watch_lost(scenario.now);
    scenario.election.watch_opened(scenario.now, false);
    assert_eq!(scenario.election.silent_at(), Some(scenario.now + secs(4)));
    scenario.election.watch_lost(scenario.now);
    let read = ReadContext { newest: version, absent: false, sent_at: scenario.now };
    let found = StoreResponse::Read(read, Some(observed(again(&record), version)));
    scenario.election.on_response(scenario.now, 900, found);
    scenario.election.watch_opened(scenario.now, false);
    assert_eq!(scenario.election.silent_at(), Some(scenario.now + secs(5)));
    scenario.advance(secs(1));
    scenario.election.watch_opened(scenario.now, true);
    assert_eq!(scenario.election.silent_at(), Some(scenario.now + secs(5)));
}
