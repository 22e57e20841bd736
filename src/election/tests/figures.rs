//! The silence of a watch.

use super::*;

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
