//! Tables of durations: attempts, retries, pauses, round trips and the silence of a watch.

use super::round_trip::RoundTrip;
use super::*;

#[test]
fn attempts_and_retries_shrink_with_the_rest_of_a_term() {
    // The remaining milliseconds of a term of 10 s, the timeout of the first attempt, and the longest retry delay.
    for (left, timeout, retry) in
        [(8_000, 6_000, 2_400), (3_000, 1_500, 1_500), (1_100, 550, 550), (600, 500, 500), (501, 500, 500)]
    {
        let (mut scenario, ..) = Scenario::leading();
        scenario.advance(secs(10) - millis(left));
        let first = scenario.write_fails(StoreErrorKind::Unavailable);
        assert_eq!(first.timeout, millis(timeout), "{left} ms left");
        let since = scenario.now;
        let second = scenario.due_write();
        let delay = scenario.now.since(since);
        assert!(delay <= millis(retry) && delay >= millis(retry.min(2_000)), "{left} ms left: {delay:?}");
        let left = millis(left) - delay;
        assert_eq!(second.timeout, (left / 2).max(millis(500)).min(left), "a later attempt, {left:?} left");
    }
    // The remaining milliseconds of a release timeout of 2 s, the timeout of a request, and the longest retry delay.
    for (left, timeout, retry) in
        [(2_000, 1_750, 500), (1_000, 750, 500), (600, 350, 500), (200, 100, 500), (1, 1, 500), (0, 5_000, 2_400)]
    {
        let (mut scenario, ..) = Scenario::leading();
        let gone_at = scenario.now;
        scenario.advance(secs(2) - millis(left));
        scenario.handle(Input::GuardGone { at: gone_at });
        let release = scenario.write_fails(StoreErrorKind::Unavailable);
        assert_eq!(release.timeout, millis(timeout), "{left} ms left of a release");
        let read = scenario.read();
        scenario.fails(read.id, StoreErrorKind::Unavailable);
        let delay = scenario.quiet_for();
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
        (true, 2_000, 1_750, 1_750),
        (true, 2_000, 1_751, 1_000),
        (true, 200, 50, 50),
    ] {
        let (mut scenario, ..) = Scenario::leading();
        let gone_at = scenario.now;
        scenario.advance(if is_release { secs(2) } else { secs(10) } - millis(left));
        if is_release {
            scenario.handle(Input::GuardGone { at: gone_at });
        }
        let write = scenario.write();
        for again in [asked, 0] {
            let busy = StoreError::new(StoreErrorKind::Unavailable, "made up");
            let busy = busy.with_retry_after(Some(millis(again)));
            scenario.responds(write.id, StoreResponse::Failed(busy));
        }
        assert_eq!(scenario.quiet_for(), millis(kept), "{asked} of {left} ms, of a release: {is_release}");
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
    scenario.watch_opens(true);
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
        assert_eq!(scenario.wait(), millis(silence), "version {version}");
        version += 1;
    }
    // A duplicate event does not restart the silence. A new term of the same holder forgets the gaps of the earlier
    // term.
    scenario.advance(secs(2));
    scenario.hears(record.clone(), version - 1);
    assert_eq!(scenario.wait(), millis(11_500));
    scenario.hears(again(&record), version);
    assert_eq!(scenario.wait(), secs(5));
    // A resumed watch continues the silence of the previous watch. A read between two watches, or a watch from scratch,
    // restarts the silence.
    scenario.advance(secs(1));
    scenario.watch_ends();
    scenario.watch_opens(false);
    assert_eq!(scenario.wait(), secs(4));
    scenario.watch_ends();
    let read = ReadContext { newest: version, absent: false, sent_at: scenario.now };
    let found = StoreResponse::Read(read, Some(observed(again(&record), version)));
    scenario.responds(900, found);
    scenario.watch_opens(false);
    assert_eq!(scenario.wait(), secs(5));
    scenario.advance(secs(1));
    scenario.watch_opens(true);
    scenario.hears(again(&record), version);
    assert_eq!(scenario.wait(), secs(5));
}
