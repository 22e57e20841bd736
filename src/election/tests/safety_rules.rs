//! The safety rules, except those for in-doubt writes.

use super::*;

#[test]
fn validity_counts_from_before_the_write_was_sent() {
    let (mut scenario, write) = Scenario::creating();
    let sent_at = scenario.now;
    scenario.advance(secs(4));
    let (deadline, _) = scenario.wins_by(&write, 10);
    assert_eq!(deadline.remaining(scenario.now), secs(6));

    let renewal_sent_at = scenario.now;
    let renewal = scenario.write();
    scenario.advance(secs(3));
    scenario.applied(&renewal, 11);
    assert_eq!(scenario.now + deadline.remaining(scenario.now), renewal_sent_at + secs(10));
    assert!(renewal_sent_at > sent_at);
}

#[test]
fn loss_is_final_even_if_a_renewal_succeeds_later() {
    for is_seen_by_a_view in [false, true] {
        let (mut scenario, deadline, _) = Scenario::leading();
        let renewal = scenario.due_write();
        scenario.advance(secs(8));
        assert!(!(is_seen_by_a_view && deadline.is_valid(scenario.now)));
        scenario.applied(&renewal, 11);
        assert_eq!(scenario.lost(), Some(StopReason::Expired));
        assert!(!deadline.is_valid(if is_seen_by_a_view { Moment::from_nanos(2) } else { scenario.now }));
    }
}

#[test]
fn loss_is_final_and_nothing_is_written_while_the_guard_exists() {
    let (mut scenario, _, record) = Scenario::leading();
    scenario.advance(secs(10));
    scenario.found(record.clone(), 10);
    assert_eq!(scenario.lost(), Some(StopReason::Expired));
    for _ in 0..20 {
        let request = scenario.request();
        assert!(scenario.answers_read(request, Some((&record, 10))).is_none(), "a write");
    }
    scenario.guard_dropped();
    assert_eq!(scenario.lost(), None, "it was lost before");
    assert_eq!(scenario.write().record.holder(), None, "released when the guard goes, as it is still ours");
}

#[test]
fn loss_is_final_and_a_step_down_renews_until_the_guard_drops() {
    let (mut scenario, deadline, _) = Scenario::leading();
    deadline.end(scenario.now, StopReason::SteppedDown);
    scenario.step_down(None);
    assert_eq!(scenario.lost(), Some(StopReason::SteppedDown));
    for version in 11..20 {
        let renewal = scenario.due_write();
        assert_eq!(renewal.record.holder(), Some(ME));
        scenario.applied(&renewal, version);
        assert!(!deadline.is_valid(scenario.now));
        // Another step-down changes nothing.
        scenario.step_down(None);
    }
    scenario.guard_dropped();
    assert_eq!(scenario.lost(), None);
    assert_eq!(scenario.write().base, Some(19));
}

#[test]
fn loss_is_final_and_an_ended_term_waits_for_its_reason() {
    let (mut scenario, deadline, _) = Scenario::leading();
    deadline.end(scenario.now, StopReason::Released);
    scenario.due_write_succeeds(11);
    assert!(scenario.events().is_empty(), "neither lost nor renewed");
    scenario.guard_dropped();
    assert_eq!(scenario.lost(), Some(StopReason::Released));
}

#[test]
fn loss_is_final_and_has_the_reason_that_was_there_first() {
    // A caller finds the term expired, and drops the guard before the election notices the expiry.
    let (mut scenario, deadline, _) = Scenario::leading();
    scenario.advance(secs(10));
    assert!(!deadline.is_valid(scenario.now));
    scenario.guard_dropped();
    assert_eq!(scenario.lost(), Some(StopReason::Expired));
    // If no caller has noticed the expiry, a step-down or a drop still ends the term as expired.
    for end in [|it: &mut Scenario| it.step_down(None), Scenario::guard_dropped] {
        let (mut scenario, ..) = Scenario::leading();
        scenario.advance(secs(10));
        end(&mut scenario);
        assert_eq!(scenario.lost(), Some(StopReason::Expired));
    }
    // A takeover after the expiry does not change the reason.
    let (mut scenario, ..) = Scenario::leading();
    let renewal = scenario.due_write();
    scenario.advance(secs(8));
    scenario.fails(renewal.id, StoreErrorKind::Conflict);
    scenario.found(held_by(OTHER, 15), 11);
    assert_eq!(scenario.lost(), Some(StopReason::Expired));
}

#[test]
fn update_names_the_uid_and_a_recreated_lease_is_a_loss() {
    let (mut scenario, deadline, _) = Scenario::leading();
    let renewal = scenario.due_write();
    assert_eq!(renewal.record.uid.as_deref(), Some("uid-1"));
    let recreated = LeaderElectionRecord { uid: Some("uid-2".into()), ..renewal.record.clone() };
    scenario.written(&renewal, recreated, 12);
    assert_eq!(scenario.lost(), Some(StopReason::Deleted));
    assert!(!deadline.is_valid(scenario.now));
    scenario.guard_dropped();
    assert_eq!(scenario.write().record.holder(), None, "what our write left behind is cleared away");
}

#[test]
fn renew_time_advances_with_every_write_on_any_wall_clock() {
    let (mut scenario, _, first) = Scenario::leading();
    let mut last = first.renew_time.unwrap();
    for version in 11..20 {
        // The wall clock steps back an hour at each renewal.
        scenario.wall -= secs(3600);
        let renewal = scenario.due_write();
        let stamp = renewal.record.renew_time.clone().unwrap();
        let moved = humantime::parse_rfc3339(stamp.as_str())
            .unwrap()
            .duration_since(humantime::parse_rfc3339(last.as_str()).unwrap())
            .expect("forward");
        assert_eq!(moved, secs(2), "it moves with the local clock, so that whole seconds change too");
        last = stamp;
        scenario.applied(&renewal, version);
    }
}

#[test]
fn renew_time_follows_a_wall_clock_that_is_set_forward() {
    let (mut scenario, ..) = Scenario::leading();
    scenario.wall += secs(86_400);
    scenario.wait_out();
    let stamp = scenario.write().record.renew_time.unwrap();
    assert_eq!(humantime::parse_rfc3339(stamp.as_str()).unwrap(), scenario.wall, "people read it");
}

#[test]
fn renew_time_unchanged_at_the_base_version_is_no_renewal() {
    let (mut scenario, deadline, record) = Scenario::leading();
    let renewal = scenario.due_write();
    let before = deadline.remaining(scenario.now);
    scenario.written(&renewal, record, 10);
    assert_eq!(deadline.remaining(scenario.now), before);
    let again = scenario.due_write_fails(StoreErrorKind::Conflict);
    assert_eq!(again.base, Some(10), "tried again");
    scenario.found(standing(&renewal), 11);
    assert_eq!(scenario.lost(), Some(StopReason::IdentityConflict), "the answered renewal is no longer in doubt");
}

#[test]
fn renew_time_acquire_digits_are_random_for_each_term() {
    let digits = |seed| {
        let mut scenario = Scenario::seeded(seed, |_| {});
        scenario.campaign(false);
        scenario.found_nothing();
        let time = scenario.write().record.acquire_time.unwrap();
        time.as_str()[20..26].to_owned()
    };
    let distinct: std::collections::HashSet<_> = (0..50).map(digits).collect();
    assert!(distinct.len() > 45, "{distinct:?}");
}

#[test]
fn renew_time_acquire_digits_differ_from_the_record() {
    let drawn_on = |record: LeaderElectionRecord| {
        let mut scenario = Scenario::campaigning_on(record, 10);
        scenario.write().record.acquire_time
    };
    let would_be_drawn = drawn_on(held_by("", 1));
    let standing = LeaderElectionRecord { acquire_time: would_be_drawn.clone(), ..held_by("", 1) };
    assert_ne!(drawn_on(standing), would_be_drawn, "the same process may acquire twice within a second");
}

#[test]
fn the_fencing_token_grows_over_deletion_and_re_creation() {
    let (mut scenario, ..) = Scenario::leading();
    scenario.due_write_fails(StoreErrorKind::Conflict);
    scenario.found_nothing();
    scenario.guard_dropped();
    scenario.events();
    scenario.campaign(false);
    let create = scenario.write();
    assert_eq!((create.base, create.record.lease_transitions), (None, Some(0)), "transitions start again");
    let anew = LeaderElectionRecord { uid: Some("uid-2".into()), ..create.record.clone() };
    scenario.written(&create, anew, 17);
    assert_eq!(scenario.elected().1, 17, "the token does not");
}

#[test]
fn one_request_never_eats_the_whole_renew_deadline() {
    let (mut scenario, deadline, _) = Scenario::leading();
    let elected_at = scenario.now;
    let mut tries = 0;
    let reason = loop {
        let step = scenario.next();
        if let Some(reason) = scenario.lost() {
            break reason;
        }
        match step {
            Step::Send(request) => {
                tries += 1;
                assert!(request.timeout <= deadline.remaining(scenario.now));
                scenario.advance(request.timeout);
                scenario.fails(request.id, StoreErrorKind::Timeout);
            }
            Step::Wait(until) => scenario.now = until,
            Step::Finished => panic!("not finished"),
        }
    };
    assert_eq!(reason, StopReason::Expired);
    assert_eq!(scenario.now.since(elected_at), secs(10), "the end is reported on time");
    assert!((3..=20).contains(&tries), "{tries} tries, each hanging until its time-out");
}

#[test]
fn term_of_a_delayed_holder_expires_without_spinning() {
    let (mut scenario, deadline, _) = Scenario::leading();
    // The holder has ended the term, but the election has not received the step-down yet. No renewal succeeds.
    deadline.end(scenario.now, StopReason::SteppedDown);
    let until = scenario.now + secs(10);
    while let Some(request) = scenario.request_before(until) {
        scenario.fails(request.id, StoreErrorKind::Unavailable);
    }
    assert!(
        matches!(scenario.next(), Step::Send(StoreRequest { operation: Operation::Get(_), .. })),
        "it observes, like after any loss"
    );
    assert_eq!(scenario.lost(), Some(StopReason::SteppedDown));
}
