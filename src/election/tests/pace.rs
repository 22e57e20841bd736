//! The pace of requests, rounds, and what is told.

use super::*;

#[test]
fn a_campaign_polls_every_retry_period_with_jitter() {
    let mut scenario = Scenario::campaigning_on(held_by(OTHER, 3600), 10);
    let mut waits = Vec::new();
    for _ in 0..200 {
        let wait = scenario.wait();
        assert!((secs(2)..=millis(2400)).contains(&wait), "{wait:?}");
        waits.push(wait);
        scenario.advance(wait);
        scenario.found(held_by(OTHER, 3600), 10);
    }
    waits.dedup();
    assert!(waits.len() > 150, "jitter");
}

#[test]
fn a_write_is_not_repeated_in_a_tight_loop_when_the_version_stands_still() {
    let mut scenario = Scenario::campaigning_on(held_by("", 1), 10);
    let began = scenario.now;
    let mut writes = 0;
    while scenario.now.since(began) < secs(60) {
        match scenario.next() {
            Step::Send(Request { id, verb: Verb::Get(look), .. }) => {
                scenario.reads(Read { id, look }, held_by("", 1), 10);
            }
            Step::Send(Request { id, .. }) => {
                writes += 1;
                scenario.fails(id, LockErrorKind::Conflict);
            }
            Step::Wait(until) => scenario.now = until,
            Step::Finished => panic!("not finished"),
        }
    }
    assert!(writes <= 30, "{writes} writes in a minute");
}

#[test]
fn a_store_that_asks_for_a_pause_gets_it() {
    let mut scenario = Scenario::new();
    scenario.election.campaign(false);
    let read = scenario.read();
    let busy = LockError::new(LockErrorKind::Unavailable, "made up").with_retry_after(Some(secs(7)));
    scenario.election.answered(scenario.now, read.id, Answer::Failed(busy.clone()));
    assert_eq!(scenario.wait(), secs(7));

    let (mut scenario, deadline, _) = Scenario::leading();
    scenario.wait_out();
    let renewal = scenario.write();
    let left = deadline.remaining(scenario.now);
    scenario.election.answered(scenario.now, renewal.id, Answer::Failed(busy));
    assert!(scenario.wait() <= left / 2, "but not for so long that the term ends over it");
}

#[test]
fn try_once_reads_writes_at_most_once_and_ends() {
    let mut scenario = Scenario::new();
    scenario.election.campaign(true);
    scenario.found(held_by(OTHER, 15), 10);
    assert!(scenario.wait() > Duration::ZERO);
    assert!(scenario.events().iter().any(|event| matches!(event, Event::RoundOver)));

    let mut scenario = Scenario::new();
    scenario.election.campaign(true);
    scenario.found(held_by("", 1), 10);
    let write = scenario.write();
    scenario.fails(write.id, LockErrorKind::Conflict);
    scenario.read();
    assert!(scenario.events().iter().any(|event| matches!(event, Event::RoundOver)));

    let mut scenario = Scenario::new();
    scenario.election.campaign(true);
    scenario.found_nothing();
    let write = scenario.write();
    scenario.applied(&write, 10);
    scenario.elected();
}

#[test]
fn try_once_reads_afresh_even_when_a_read_is_not_due() {
    let mut scenario = Scenario::new();
    scenario.found(held_by(OTHER, 15), 10);
    assert!(scenario.wait() > Duration::ZERO);
    scenario.election.campaign(true);
    scenario.found(held_by("", 1), 11);
    assert_eq!(scenario.write().base, Some(11));
}

#[test]
fn leaders_are_reported_once_each() {
    let mut scenario = Scenario::new();
    let mut reported = Vec::new();
    for (holder, version) in [(OTHER, 10), (OTHER, 11), ("", 12), ("third", 13), ("third", 13)] {
        scenario.advance(secs(3));
        scenario.found(held_by(holder, version as i32), version);
        reported.extend(scenario.events().into_iter().map(|event| match event {
            Event::Leader(leader) => leader,
            other => panic!("{other:?}"),
        }));
    }
    assert_eq!(reported, [Some(OTHER.to_owned()), None, Some("third".to_owned())]);
}

#[test]
fn a_campaign_takes_the_place_of_one_that_nobody_waits_for() {
    let mut scenario = Scenario::new();
    scenario.election.campaign(true);
    let read = scenario.read();
    scenario.election.campaign(false);
    scenario.reads(read, held_by(OTHER, 15), 10);
    assert!(scenario.wait() > Duration::ZERO);
    assert!(!scenario.events().iter().any(|event| matches!(event, Event::RoundOver)), "the round is no more");
    scenario.advance(secs(15));
    let write = loop {
        match scenario.next() {
            Step::Send(Request { id, verb: Verb::Get(look), .. }) => {
                scenario.reads(Read { id, look }, held_by(OTHER, 15), 10);
            }
            Step::Send(Request { id, verb: Verb::Update(base, record), timeout }) => {
                break Write { id, base: Some(base.version), record, timeout };
            }
            Step::Wait(until) => scenario.now = until,
            other => panic!("{other:?}"),
        }
    };
    scenario.applied(&write, 11);
    scenario.elected();
}

#[test]
fn try_once_is_not_ended_by_a_request_from_before_it() {
    let mut scenario = Scenario::new();
    let before = scenario.read();
    scenario.election.campaign(true);
    scenario.fails(before.id, LockErrorKind::Timeout);
    assert!(!scenario.events().iter().any(|event| matches!(event, Event::RoundOver)), "it has not even looked");
    scenario.found_nothing();
    let write = scenario.write();
    scenario.applied(&write, 10);
    scenario.elected();
}

#[test]
fn try_once_looks_again_when_its_look_was_interrupted() {
    let mut scenario = Scenario::new();
    scenario.election.campaign(true);
    let look = scenario.read();
    scenario.fails(look.id, LockErrorKind::Interrupted);
    assert!(!scenario.events().iter().any(|event| matches!(event, Event::RoundOver)), "nobody has answered");
    scenario.found_nothing();
    let write = scenario.write();
    scenario.applied(&write, 10);
    scenario.elected();
}

#[test]
fn try_once_does_not_wait_for_the_pace_of_earlier_writes() {
    let mut scenario = Scenario::campaigning_on(held_by("", 1), 10);
    let write = scenario.write();
    scenario.fails(write.id, LockErrorKind::Unavailable);
    scenario.election.withdraw();
    scenario.election.campaign(true);
    scenario.found(held_by("", 1), 10);
    let write = scenario.write();
    scenario.applied(&write, 11);
    scenario.elected();
}
